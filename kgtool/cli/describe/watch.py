"""``describe --watch SECONDS``: repeats the query, and shows what has changed and how fast.

On a terminal the table is redrawn in place and stays when Ctrl-C or q ends it; keys scroll what
does not fit. Elsewhere one table follows the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

from kgtool import columns as columns_of
from kgtool.cli.app import exits
from kgtool.cli.describe import prometheus, share_and_streams
from kgtool.cli.describe.present import arrange
from kgtool.cli.describe.query import DescribedGroup, query_groups
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
from kgtool.model import GroupOffsets, ItemError, Target, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.cluster.topics import refresh, topic_sizes
from kgtool.queries.offsets.rates import Key, Rate, eta_ms, find_rates, per_s
from kgtool.text import counted, moment
from kgtool.timespec import LONGEST_WAIT_MS

WINDOW_S = 30.0
"""Rates are averages over this time, so that one slow commit is no alarm."""


class Rates:
    """Compares rows with those of up to ``WINDOW_S`` ago."""

    def __init__(self, identity: Sequence[str]) -> None:
        self._identity = identity
        self._history: deque[tuple[float, dict[tuple[Any, ...], Row]]] = deque()

    def add(self, rows: Sequence[Row], at: float | None = None) -> list[dict[str, Any]]:
        """Add the rows of time ``at`` (in s, by default now); return them with their rates.

        ``in_per_s`` and ``out_per_s`` are offsets, ``eta_ms`` is the time until the end of the log
        is reached at these rates; None: unknown, or never.
        """
        at = time.monotonic() if at is None else at
        by_identity = {tuple(row[key] for key in self._identity): row for row in rows}
        while len(self._history) > 1 and at - self._history[0][0] > WINDOW_S:
            self._history.popleft()
        found = [{**row, **self._rates(name, row, at)} for name, row in by_identity.items()]
        self._history.append((at, by_identity))
        return found

    def begin(
        self, rows: Sequence[Row], known: Mapping[Key, Rate], at: float | None = None
    ) -> None:
        """Begin with the known rates of the time before ``at``, as if there had been looks."""
        at = time.monotonic() if at is None else at
        for ago in range(int(WINDOW_S), 0, -5):
            looks: dict[tuple[Any, ...], Row] = {}
            for row in rows if known else ():
                place = TopicPartition(row["topic"], row["partition"])
                rate = known.get((row["group"], place))
                if rate is None or rate.in_per_s is None or rate.out_per_s is None:
                    continue
                looks[tuple(row[key] for key in self._identity)] = {
                    "log_end_offset": row["log_end_offset"] - rate.in_per_s * ago,
                    "current_offset": row["current_offset"] - rate.out_per_s * ago,
                }
            self._history.append((at - ago, looks))

    def _rates(self, name: tuple[Any, ...], row: Row, at: float) -> dict[str, Any]:
        then, old = next(((t, rows[name]) for t, rows in self._history if name in rows), (at, row))
        if at <= then:
            return {"in_per_s": None, "out_per_s": None, "eta_ms": None}
        produced = _per_s(old, row, "log_end_offset", at - then)
        consumed = _per_s(old, row, "current_offset", at - then)
        left_ms = eta_ms(row.get("lag"), produced, consumed)
        return {"in_per_s": produced, "out_per_s": consumed, "eta_ms": left_ms}


def _per_s(old: Row, new: Row, key: str, seconds: float) -> float | None:
    was, now = old.get(key), new.get(key)
    return None if was is None or now is None else per_s(now - was, seconds)


_DELTAS = {"current_offset": "offset", "lag": "lag"}
_NAMES = {
    "member_id": "owner",
    "status": "status",
    "state": "state",
    "members": "members",
    "assignment_strategy": "strategy",
    "coordinator": "coordinator",
    "group_epoch": "epoch",
    "partitions": "partitions",
    "current_assignment": "assignment",
    "lagging": "lagging",
    "topology_epoch": "topology",
}
_CHANGE = CHANGE._replace(spare=RATES[0].spare - 1)
"""Hidden before the rates."""
_LONG = {"owner", "assignment"}
"""Too long for "from -> to"."""
Table = tuple[str, list[Row]]
"""The type of groups that has its own table ("": all others), and rows with their ``change``."""


class QueryResult:
    """The groups of one query; its ``output`` collects the errors."""

    def __init__(self) -> None:
        self.at_ms = now_ms()
        self._notes = StringIO()
        self.output = Output(stdout=StringIO(), stderr=self._notes)
        self.groups: list[DescribedGroup] = []
        self.rows: dict[str, list[Row]] = {}
        """By the type that has its own table: share, streams, or "" for all others."""

    def add(self, group: DescribedGroup) -> None:
        """Add one group."""
        kind = group.description.type
        kind = kind if kind in share_and_streams.KINDS else ""
        self.rows.setdefault(kind, []).extend(group.rows())
        self.groups.append(group)
        self.output.errors += group.errors

    @property
    def notes(self) -> list[str]:
        """What the query says beside its rows."""
        return self._notes.getvalue().splitlines()


class Watch:
    """Repeats a query until it is interrupted."""

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
        self._last: QueryResult | None = None
        has_rates = view.table == "offsets" and view.rates_over_ms is None
        self._rates = Rates(view.identity) if has_rates else None

    def run(self) -> int:
        """Repeat the query until Ctrl-C; return the exit status.

        :raises KgError: the first query failed. Later ones are repeated.
        """
        try:
            with Keys(self._screen is not None) as keys:
                while not self._output.reader_gone and not keys.is_over:
                    began = time.monotonic()
                    self._refresh()
                    self._wait(keys, began + self._seconds)
                    # --timeout is that of one query.
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

    def _refresh(self) -> None:
        try:
            now = self._query()
        except KgError as error:
            if self._last is None:
                raise
            now = self._last
            now.output.errors = [ItemError.of(error, Target())]
        tables = self._compare(now, self._last)
        self._last = now
        if self._output.is_text:
            self._show(now, tables)
        else:
            self._write_rows(now, tables)

    def _query(self) -> QueryResult:
        if self._last is not None:
            self._session.run(refresh(self._session.cluster))
        result, view = QueryResult(), self._view
        missing = query_groups(
            self._session, result.output, self._selection, view, result.add, ordered=True
        )
        if self._rates is not None and self._last is None:
            self._begin(self._rates, result)
        for group in share_and_streams.query(self._session, result.output, missing, view):
            result.add(group)
        if self._rates is not None:
            result.rows[""] = list(self._rates.add(result.rows.get("", ())))
        if view.prometheus is not None:
            errors = len(result.output.errors)
            prometheus.write(view.prometheus, result.groups, result.output.cluster_id, errors)
        return result

    def _begin(self, rates: Rates, result: QueryResult) -> None:
        """Begin with the rates of the last half minute; else the second look tells them."""
        groups = [GroupOffsets(each.description, list(each.records), []) for each in result.groups]
        window_ms = int(WINDOW_S * 1000)
        search = find_rates(
            self._session.cluster, groups, result.at_ms, window_ms, look_s=0, stuck=False
        )
        with suppress(KgError):
            rates.begin(result.rows.get("", ()), self._session.run(search).rows)

    def _compare(self, now: QueryResult, last: QueryResult | None) -> list[Table]:
        """Compare two results, table by table; empty tables are left out."""
        tables: list[Table] = []
        for kind in ("", *share_and_streams.KINDS):
            rows = self._sorted(now.rows.get(kind, ()))
            old = None if last is None else self._arranged(last.rows.get(kind, ()))
            if compared := compare_rows(old, rows, self._view.identity):
                tables.append((kind, compared[: self._view.limit]))
        return tables or [("", [])]

    def _sorted(self, rows: Sequence[Row]) -> list[Row]:
        """Sort as asked; on a screen, which may be small, the largest lag first."""
        arranged = self._arranged(rows)
        has_lag = bool(arranged) and "lag" in arranged[0]
        if self._screen is not None and self._view.sort is None and has_lag:
            arranged.sort(key=lambda row: (row["lag"] is None, -(row["lag"] or 0)))
        return arranged

    def _arranged(self, rows: Sequence[Row]) -> list[Row]:
        by_topic = self._view.by == "topic"
        return arrange(rows, self._view, topic_sizes(self._session.cluster) if by_topic else {})

    def _show(self, now: QueryResult, tables: Sequence[Table]) -> None:
        changed = sum(row["change"] is not None for _, rows in tables for row in rows)
        head = _headline(now, self._seconds, changed)
        drawn = [(self._columns(kind, rows), rows) for kind, rows in tables]
        errors = [sentence(error) for error in now.output.errors]
        if self._view.rates_over_ms is not None:  # where they are of two looks
            errors += now.notes
        if self._screen is not None:
            self._screen.show(head, drawn, errors)
            return
        self._output.text(f"{head}\n" + "\n".join(draw(*table) for table in drawn))
        for error in errors:
            self._output.note(error)
        self._output.flush()

    def _columns(self, kind: str, rows: Sequence[Row]) -> list[Column]:
        has_rates = not kind and self._rates is not None and not self._view.columns
        added = (*RATES, _CHANGE) if has_rates else (CHANGE,)
        return [*self._view.text_columns(rows, kind), *added]

    def _write_rows(self, now: QueryResult, tables: Sequence[Table]) -> None:
        looked_at_ms = now_ms()
        rates = () if self._rates is None or self._view.columns else columns_of.keys(RATES)
        keys = (*self._view.row_keys, *rates, "change")
        self._output.begin(("looked_at_ms", *keys), now.output.cluster_id)
        for kind, rows in tables:
            for row in rows:
                # Types with tables of their own have keys of their own, too.
                is_whole = kind and not self._view.columns
                shown = row if is_whole else {key: row.get(key) for key in keys}
                self._output.row({"looked_at_ms": looked_at_ms, **shown})
        for error in now.output.errors:
            self._output.failed(error)
        self._output.errors.clear()  # they are written; a watch may last for weeks
        self._output.flush()


def _headline(now: QueryResult, seconds: float, changed: int) -> str:
    rows = (row for rows in now.rows.values() for row in rows)
    groups = len({row["group"] for row in rows if row.get("group") is not None})
    what = f"{counted(groups, 'group')} | {changed} changed"
    return f"{moment(now.at_ms)} | every {seconds:g} s | {what}"


def compare_rows(
    before: Sequence[Row] | None, now: Sequence[Row], identity: Sequence[str]
) -> list[Row]:
    """Return the current rows, then those that are gone, each with its ``change``.

    :param before: the rows of the last query; None: this is the first, ``change`` is None.

    >>> compare_rows([{"g": 1, "lag": 5}], [{"g": 1, "lag": 3}, {"g": 2, "lag": 0}], ["g"])
    [{'g': 1, 'lag': 3, 'change': 'lag -2'}, {'g': 2, 'lag': 0, 'change': 'new'}]
    """
    old_rows = {tuple(row[key] for key in identity): row for row in before or ()}
    rows: list[Row] = []
    for row in now:
        old = old_rows.pop(tuple(row[key] for key in identity), None)
        change = "new" if old is None else ", ".join(_changes(old, row))
        rows.append({**row, "change": None if before is None else change or None})
    return rows + [{**row, "change": "gone"} for row in old_rows.values()]


def _changes(old: Row, new: Row) -> list[str]:
    changes = []
    for key in sorted(new, key=lambda key: key != "lag"):  # a narrow screen cuts the rest
        was, now = old.get(key), new[key]
        name = _DELTAS.get(key) or _NAMES.get(key)
        if was == now or name is None:
            continue
        if key in _DELTAS and was is not None and now is not None:
            changes.append(f"{name} {now - was:+d}")
        elif name in _LONG:
            changes.append(f"other {name}")
        else:
            was, now = ("-" if value is None else value for value in (was, now))
            changes.append(f"{name} {was} -> {now}")
    return changes
