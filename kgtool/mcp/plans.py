"""Plans of changes: made by a command that changes nothing, kept in memory, applied once.

Applying one sends exactly what the plan showed: the cleanup plan, the named journal, these
partitions, these offsets.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.errors import ChangedMeanwhile, UsageError
from kgtool.timespec import time_ms

KEPT_S = 15 * 60
MOST = 100
_RULES = "--rules"
_LATER_MS = 2 * 10**12


class Committed(NamedTuple):
    """The committed offsets of a group when its plan was made."""

    group: str = ""
    values: Mapping[tuple[str, int], tuple[Any, ...] | None] = {}
    """Offset, leader epoch and metadata by topic and partition; None: no offset."""

    def only(self, partitions: Iterable[tuple[str, int]]) -> Committed:
        """Return those of some partitions."""
        return self._replace(values={each: self.values.get(each) for each in partitions})

    def check(self, now: Committed) -> None:
        """:raises ChangedMeanwhile: one has been committed or deleted since."""
        for partition, value in self.values.items():
            if now.values.get(partition) != value:
                topic, number = partition
                raise ChangedMeanwhile(
                    f"Nothing was sent: {topic}-{number} has changed since the plan was made",
                    hint="Make a plan again.",
                )


NOTHING = Committed()


class Change(NamedTuple):
    """The words of a command, and the text of the file that it reads, named by its last word.

    ``planned``: the words that were planned: a policy judges those, too.
    """

    words: tuple[str, ...]
    planned: tuple[str, ...]
    text: str | None = None
    option: str = ""

    def command_line(self, file: Path) -> list[str]:
        """Return the command line, with the name of the file that has the text."""
        return [*self.words, *([] if self.text is None else [f"{self.option}{file}"])]


class Plan(NamedTuple):
    """A change to send."""

    command: str
    change: Change
    expires_s: float
    committed: Committed = NOTHING


class Plans:
    """The plans of this server, in memory.

    :param clock: returns the time in seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, Plan] = {}

    def keep(self, command: str, change: Change, committed: Committed = NOTHING) -> str:
        """Keep a plan; return its id."""
        now = self._clock()
        alive = {key: plan for key, plan in self._known.items() if plan.expires_s > now}
        self._known = dict(list(alive.items())[-MOST + 1 :])
        key = secrets.token_hex(8)
        self._known[key] = Plan(command, change, now + KEPT_S, committed)
        return key

    def take(self, key: str) -> Plan:
        """Remove a plan and return it.

        :raises UsageError: there is none with that id, or it has expired.
        """
        plan = self._known.pop(key, None)
        if plan is None or plan.expires_s <= self._clock():
            raise UsageError(
                "There is no such plan: it was applied, is older than 15 minutes, or this server "
                "did not make it. Make it again."
            )
        return plan


def planning_words(name: str, given: Mapping[str, Any], words: list[str], file: Path) -> list[str]:
    """Return the command line that makes a plan without changing anything.

    :raises UsageError: ``undo`` without the id of a change, ``recover`` with a relative time.
    """
    if name in ("cleanup", "retention"):
        return [*with_rules(words, file.parent), f"--out={file}"]
    if name == "undo":
        journal = str(given["journal"])
        if journal == "last" or not journal.replace("-", "").isalnum() or journal[0] == "-":
            raise UsageError("journal takes the id of one change, as history shows it.")
        return ["undo", journal, "--dry-run"]
    at = given.get("at")
    if name == "recover" and at is not None and time_ms(at, 0) != time_ms(at, _LATER_MS):
        raise UsageError("at takes a date or a date and time, not one that moves.")
    return words


def with_rules(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words of a command; rules that are among them are in a file of the folder."""
    rules = [word.partition("=")[2] for word in words if word.startswith(f"{_RULES}=")]
    if not rules:
        return list(words)
    file = folder / "rules.toml"
    file.write_text(rules[0], encoding="utf-8")
    return [*(word for word in words if not word.startswith(f"{_RULES}=")), str(file)]


def build_change(
    name: str,
    given: Mapping[str, Any],
    document: Mapping[str, Any],
    file: Path,
    planned: Sequence[str] = (),
) -> Change | None:
    """Return the change; None: there is nothing to do.

    :param document: the JSON of the command that made the plan.
    :param file: the file that it wrote.
    :param planned: its words.
    """
    words = tuple(planned)
    if name in ("cleanup", "retention"):
        if not file.exists():
            return None
        text = file.read_text(encoding="utf-8")
        return Change((name, "apply"), words, text) if document["results"] else None
    rows = planned_rows(document)
    if not rows:
        return None
    if name == "undo":
        return Change(("undo", str(given["journal"])), words, json.dumps(document), "--agreed=")
    at = [f"--topic={row['topic']}:{row['partition']}" for row in rows]
    if name == "delete-offsets":
        return Change(("delete-offsets", f"--group={given['group']}", *at), words)
    if name == "recover":
        then = [f"--at={given['at']}"] if "at" in given else []
        return Change(("recover", f"--group={given['group']}", *at, *then), words)
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(
        [row["topic"], row["partition"], row["new_offset"]] for row in rows
    )
    group = f"--group={given['group']}"
    change = ("reset-offsets", group, "--execute")
    return Change(change, words, lines.getvalue(), "--from-file=")


def planned_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a dry run that a change would change."""
    return [row for row in document["results"] if str(row["status"]).startswith("would-")]


def committed_offsets(group: str, document: Mapping[str, Any]) -> Committed:
    """Read the JSON of ``describe --offsets``."""
    names = ("current_offset", "leader_epoch", "metadata")
    rows = document.get("results", ())
    return Committed(
        group,
        {(row["topic"], row["partition"]): tuple(row[name] for name in names) for row in rows},
    )


def parse(text: str) -> dict[str, Any]:
    """Return a command's JSON document; an empty one if it wrote none."""
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
