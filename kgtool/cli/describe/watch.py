"""``describe --watch SECONDS``: looks again and again, says what has changed and how fast.

On a terminal the table is drawn over the last one, nothing else on the screen is touched, and the
last one stays when Ctrl-C or q ends it; keys move through what does not fit. Elsewhere each look
follows the one before.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from io import StringIO
from typing import Any

from kgtool import columns as columns_of
from kgtool.cli.app import exits
from kgtool.cli.describe import prometheus, share_and_streams
from kgtool.cli.describe.present import arranged
from kgtool.cli.describe.query import Found, look
from kgtool.cli.describe.screen import Keys, Screen
from kgtool.cli.describe.view import View
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import draw
from kgtool.clock import now_ms
from kgtool.columns import Column, Row
from kgtool.columns.groups import CHANGE, RATES
from kgtool.errors import KgError, UsageError
from kgtool.model import ItemError, Target
from kgtool.net.session import Session
from kgtool.queries.cluster.topics import refresh
from kgtool.text import counted
from kgtool.timespec import LONGEST_WAIT_MS

WINDOW_S = 30.0
"""Rates are those of this long ago until now, so that one slow commit is no alarm."""


class Rates:
    """Remembers some looks, and compares the newest with the oldest of them."""

    def __init__(self, identity: Sequence[str]) -> None:
        self._identity = identity
        self._looks: deque[tuple[float, dict[tuple[Any, ...], Row]]] = deque()

    def add(self, rows: Sequence[Row], at: float | None = None) -> list[dict[str, Any]]:
        """Take a look at time ``at`` (in s, by default now); return its rows with their rates.

        ``in_per_s`` and ``out_per_s`` are offsets, ``catch_up_ms`` is how long the reader takes to
        the end of the log at these rates; each is None where it is unknown, or would never be.
        """
        at = time.monotonic() if at is None else at
        known = {tuple(row[key] for key in self._identity): row for row in rows}
        while self._looks and at - self._looks[0][0] > WINDOW_S and len(self._looks) > 1:
            self._looks.popleft()
        found = [{**row, **self._rates(name, row, at)} for name, row in known.items()]
        self._looks.append((at, known))
        return found

    def _rates(self, name: tuple[Any, ...], row: Row, at: float) -> dict[str, Any]:
        then, old = next(((t, rows[name]) for t, rows in self._looks if name in rows), (at, row))
        if at <= then:
            return {"in_per_s": None, "out_per_s": None, "catch_up_ms": None}
        came = _per_s(old, row, "log_end_offset", at - then)
        went = _per_s(old, row, "current_offset", at - then)
        return {"in_per_s": came, "out_per_s": went, "catch_up_ms": _catch_up(row, came, went)}


def _per_s(old: Row, new: Row, key: str, seconds: float) -> float | None:
    was, now = old.get(key), new.get(key)
    return None if was is None or now is None else round((now - was) / seconds, 1)


def _catch_up(row: Row, came: float | None, went: float | None) -> int | None:
    lag = row.get("lag")
    if lag is None or came is None or went is None or (lag > 0 and went <= came):
        return None
    return int(lag / (went - came) * 1000) if lag > 0 else 0


_DELTAS = {"current_offset": "offset", "lag": "lag"}
_NAMED = {
    "member_id": "owner", "status": "status", "state": "state", "members": "members",
    "assignment_strategy": "strategy", "coordinator": "coordinator", "group_epoch": "epoch",
    "partitions": "partitions", "current_assignment": "assignment", "lagging": "lagging",
    "topology_epoch": "topology",
}  # fmt: skip
_CHANGE = CHANGE._replace(spare=RATES[0].spare - 1)
"""Beside rates: they say more where there is no room for both."""
_LONG = {"owner", "assignment"}
"""What is too long to be shown as "from -> to"."""
Part = tuple[str, list[Row]]
"""The type of group, and the rows of its table, each with what has changed (``change``)."""


class Snapshot:
    """What one look found. Its ``output`` is read by nobody but the one that draws it."""

    def __init__(self) -> None:
        self.at = time.localtime()
        self.output = Output(stdout=StringIO(), stderr=StringIO())
        self.rows: dict[str, list[Row]] = {}
        """By the type that has a table of its own: share, streams, or "" for all others."""

    def show(self, found: Found) -> None:
        """Take one group."""
        kind = found.description.type
        self.rows.setdefault(kind if kind in share_and_streams.KINDS else "", []).extend(
            found.rows()
        )
        self.output.errors += found.errors


class Watch:
    """Repeats a look until it is interrupted."""

    def __init__(self, session: Session, output: Output, selection: Selection, view: View) -> None:
        if output.format in ("json", "yaml"):
            raise UsageError(
                f"--watch never ends, so it can't write one {output.format} document: "
                "use -o ndjson or -o csv."
            )
        assert view.watch is not None
        self._session, self._output = session, output
        self._selection, self._view = selection, view
        self._seconds = view.watch
        self._screen = Screen(output) if output.is_terminal else None
        self._before: Snapshot | None = None
        self._rates = Rates(view.identity) if view.table == "offsets" else None

    def run(self) -> int:
        """Look until Ctrl-C; return the exit status.

        :raises KgError: the very first look failed. Later ones are tried again.
        """
        try:
            with Keys(self._screen is not None) as keys:
                while not self._output.reader_gone and not keys.is_over:
                    began = time.monotonic()
                    self._look_once()
                    self._wait(keys, began + self._seconds)
                    # --timeout is for one look, and waiting for the next is what was asked for.
                    self._session.loop.extend(time.monotonic() - began)
            return exits.DONE
        except KeyboardInterrupt:
            if self._screen is not None:
                self._screen.leave()
            self._output.finish()
            return exits.INTERRUPTED

    def _wait(self, keys: Keys, until: float) -> None:
        while (left := until - time.monotonic()) > 0 and not keys.is_over:
            move = keys.next(min(left, LONGEST_WAIT_MS / 1000))
            if move is not None and self._screen is not None:
                self._screen.move(move)

    def _look_once(self) -> None:
        try:
            now = self._take()
        except KgError as error:
            if self._before is None:
                raise
            failure = ItemError.of(error, Target())
            self._before.output.errors = [failure]
            self._show(self._before, self._parts(self._before, self._before))
            return
        self._show(now, self._parts(now, self._before))
        self._before = now

    def _take(self) -> Snapshot:
        if self._before is not None:
            self._session.run(refresh(self._session.cluster))
        taken = Snapshot()
        seen: list[Found] = []

        def show(found: Found) -> None:
            taken.show(found)
            seen.append(found)

        missing = look(self._session, taken.output, self._selection, self._view, show, ordered=True)
        for found in share_and_streams.find(self._session, taken.output, missing, self._view):
            show(found)
        if self._rates is not None:
            taken.rows[""] = list(self._rates.add(taken.rows.get("", ())))
        if self._view.prometheus is not None:
            errors = len(taken.output.errors)
            prometheus.write(self._view.prometheus, seen, taken.output.cluster_id, errors)
        return taken

    def _parts(self, now: Snapshot, before: Snapshot | None) -> list[Part]:
        """Compare two looks, table by table; those that nothing is in are left out."""
        parts: list[Part] = []
        for kind in ("", *share_and_streams.KINDS):
            there = self._arranged(now.rows.get(kind, ()))
            old = None if before is None else arranged(before.rows.get(kind, ()), self._view)
            if rows := compared(old, there, self._view.identity):
                parts.append((kind, rows))
        return parts or [("", [])]

    def _arranged(self, rows: Sequence[Row]) -> list[Row]:
        """Sort as asked; on a screen, which may be small, the largest lag first."""
        there = arranged(rows, self._view)
        if self._screen is not None and self._view.sort is None and there and "lag" in there[0]:
            there.sort(key=lambda row: (row["lag"] is None, -(row["lag"] or 0)))
        return there

    def _show(self, now: Snapshot, parts: Sequence[Part]) -> None:
        if not self._output.is_text:
            self._put_out(now, parts)
            return
        changed = sum(row["change"] is not None for _, rows in parts for row in rows)
        head = _headline(now, self._seconds, changed)
        tables = [(self._columns(*part), part[1]) for part in parts]
        if self._screen is not None:
            errors = [sentence(error) for error in now.output.errors]
            self._screen.show(head, tables, errors)
            return
        self._output.text(f"{head}\n" + "\n".join(draw(*table) for table in tables))
        for error in now.output.errors:
            self._output.note(sentence(error))
        self._output.flush()

    def _columns(self, kind: str, rows: Sequence[Row]) -> list[Column]:
        has_rates = not kind and self._rates is not None and not self._view.columns
        added = (*RATES, _CHANGE) if has_rates else (CHANGE,)
        return [*self._view.text_columns(rows, kind), *added]

    def _put_out(self, now: Snapshot, parts: Sequence[Part]) -> None:
        looked_at_ms = now_ms()
        rates = () if self._rates is None or self._view.columns else columns_of.keys(RATES)
        keys = (*self._view.row_keys, *rates, "change")
        self._output.begin(("looked_at_ms", *keys), now.output.cluster_id)
        for kind, rows in parts:
            for row in rows:
                # Types with tables of their own have keys of their own, too.
                is_whole = kind and not self._view.columns
                shown = row if is_whole else {key: row.get(key) for key in keys}
                self._output.row({"looked_at_ms": looked_at_ms, **shown})
        for error in now.output.errors:
            self._output.failed(error)
        self._output.errors.clear()  # they are said; a watch may go on for weeks
        self._output.flush()


def _headline(now: Snapshot, seconds: float, changed: int) -> str:
    everything = (row for rows in now.rows.values() for row in rows)
    groups = len({row["group"] for row in everything if row.get("group") is not None})
    parts = [
        time.strftime("%Y-%m-%d %H:%M:%S", now.at),
        f"every {seconds:g} s",
        counted(groups, "group"),
        f"{changed} changed",
    ]
    return " | ".join(parts)


def compared(
    before: Sequence[Row] | None, now: Sequence[Row], identity: Sequence[str]
) -> list[Row]:
    """Return the rows of two looks, each with its ``change``; None of all at the first look.

    >>> compared([{"g": 1, "lag": 5}], [{"g": 1, "lag": 3}, {"g": 2, "lag": 0}], ["g"])
    [{'g': 1, 'lag': 3, 'change': 'lag -2'}, {'g': 2, 'lag': 0, 'change': 'new'}]
    """
    known = {tuple(row[key] for key in identity): row for row in before or ()}
    found: list[Row] = []
    for row in now:
        old = known.pop(tuple(row[key] for key in identity), None)
        said = "new" if old is None else ", ".join(_differences(old, row))
        found.append({**row, "change": None if before is None else said or None})
    return found + [{**row, "change": "gone"} for row in known.values()]


def _differences(old: Row, new: Row) -> list[str]:
    said = []
    for key in sorted(new, key=lambda key: key != "lag"):  # a narrow screen cuts the rest
        was, now = old.get(key), new[key]
        if was == now:
            continue
        if key in _DELTAS and was is not None and now is not None:
            said.append(f"{_DELTAS[key]} {now - was:+d}")
        elif key in _DELTAS:
            said.append(f"{_DELTAS[key]} {_word(was)} -> {_word(now)}")
        elif _NAMED.get(key) in _LONG:
            said.append(f"other {_NAMED[key]}")
        elif key in _NAMED:
            said.append(f"{_NAMED[key]} {_word(was)} -> {_word(now)}")
    return said


def _word(value: object) -> str:
    return "-" if value is None else str(value)
