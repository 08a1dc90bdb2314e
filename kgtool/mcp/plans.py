"""Plans of changes: made by a command that changes nothing, kept in memory, applied once.

What is applied are the rows that the plan showed: a cleanup's own plan file, the journal that was
named, exactly these partitions, exactly these offsets.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.errors import ChangedMeanwhile, UsageError

KEPT_S = 15 * 60
MOST = 100


class Old(NamedTuple):
    """What a group had committed when its plan was made, for changes that don't compare."""

    group: str = ""
    values: Mapping[tuple[str, int], tuple[Any, ...] | None] = {}
    """Offset, epoch and metadata by topic and partition."""

    def only(self, places: Iterable[tuple[str, int]]) -> Old:
        """Return that of some partitions; of one that had nothing, that."""
        return self._replace(values={place: self.values.get(place) for place in places})

    def check(self, now: Old) -> None:
        """:raises ChangedMeanwhile: something has been committed, or is gone, since then."""
        for place, value in self.values.items():
            if now.values.get(place) != value:
                raise ChangedMeanwhile(
                    f"Nothing was sent: {place[0]}-{place[1]} has changed since the plan was made",
                    hint="Make a plan again.",
                )


NOTHING = Old()


class Plan(NamedTuple):
    """What is to be sent: a command, the text of its file if it reads one, and when it ends."""

    command: str
    words: tuple[str, ...]
    text: str | None
    until_s: float
    old: Old = NOTHING


class Plans:
    """The plans of this server; they are gone with it.

    :param clock: tells the time in seconds, and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, Plan] = {}

    def keep(
        self, command: str, words: tuple[str, ...], text: str | None, old: Old = NOTHING
    ) -> str:
        """Keep a plan; return its id."""
        now = self._clock()
        alive = {key: plan for key, plan in self._known.items() if plan.until_s > now}
        self._known = dict(list(alive.items())[-MOST + 1 :])
        key = secrets.token_hex(8)
        self._known[key] = Plan(command, words, text, now + KEPT_S, old)
        return key

    def take(self, key: str) -> Plan:
        """Hand out a plan, once.

        :raises UsageError: there is none of that id any more.
        """
        plan = self._known.pop(key, None)
        if plan is None or plan.until_s <= self._clock():
            raise UsageError(
                "There is no such plan: it was applied, is older than 15 minutes, or this server "
                "did not make it. Make it again."
            )
        return plan


def command_of(
    name: str, given: Mapping[str, Any], words: list[str], file: Path
) -> list[str]:  # fmt: skip
    """Return the command line that makes a plan without changing anything.

    :raises UsageError: ``undo`` is not told which change.
    """
    if name == "cleanup":
        return [*words, f"--out={file}"]
    if name == "undo":
        journal = str(given["journal"])
        if journal == "last" or not journal.replace("-", "").isalnum() or journal[0] == "-":
            raise UsageError("journal takes the id of one change, as history shows it.")
        return ["undo", journal, "--dry-run"]
    return words


def what_to_send(
    name: str, given: Mapping[str, Any], document: Mapping[str, Any], file: Path
) -> tuple[tuple[str, ...], str | None] | None:
    """Return the words of the change, and the text of its file; None: nothing is left to do."""
    if name == "cleanup":
        if not file.exists():
            return None
        text = file.read_text(encoding="utf-8")
        return (("cleanup", "apply", "{file}"), text) if document["results"] else None
    if name == "undo":
        return ("undo", str(given["journal"])), None
    rows = planned(document)
    if not rows:
        return None
    if name == "delete-offsets":
        at = [f"--topic={row['topic']}:{row['partition']}" for row in rows]
        return ("delete-offsets", f"--group={given['group']}", *at), None
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(
        [row["topic"], row["partition"], row["new_offset"]] for row in rows
    )
    group = f"--group={given['group']}"
    return ("reset-offsets", group, "--from-file={file}", "--execute"), lines.getvalue()


def planned(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a dry run that would be changed."""
    return [row for row in document["results"] if str(row["status"]).startswith("would-")]


def committed(group: str, document: Mapping[str, Any]) -> Old:
    """Return what ``describe`` shows of a group's offsets."""
    names = ("current_offset", "leader_epoch", "metadata")
    rows = document.get("results", ())
    return Old(group, {(row["topic"], row["partition"]): tuple(row[name] for name in names)
                       for row in rows})  # fmt: skip


def parse(text: str) -> dict[str, Any]:
    """Return a command's JSON document; an empty one where it wrote none."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
