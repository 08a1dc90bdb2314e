"""What keys change: a plan that is shown, agreed to, and carried out by the driver of all changes.

The plan is looked at again under the locks, so what was shown is what is done; policy, protection
and journal are the driver's. The bottom line is the command that does the same.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.api.group_admin import GroupAdmin
from kgtool.changes.driver import Driver, Kind, rows_of
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.journal.change import Change, Timer
from kgtool.changes.journal.folder import default_folder
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.kinds.keep import Keep
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.plan import ChangePlan
from kgtool.changes.policy import Guard, Origin
from kgtool.changes.reset.targets import ResetRequest, Strategy
from kgtool.clock import now_ms, token
from kgtool.errors import UsageError
from kgtool.model import CommittedOffset, TopicSpec
from kgtool.text import counted, escape, shell_word
from kgtool.timespec import time_ms
from kgtool.top.poll import Poller

SHOWN = 200
"""Rows of a preview or a report; the rest is counted."""
WAY_BACK = {
    "delete": "u restores the groups with their offsets; protocol type, epochs and expiry clocks "
    "do not come back.",
    "delete-offsets": "u restores them as long as the group has no members.",
    "reset-offsets": "u restores the offsets of now.",
    "keep": "The offsets stay what they are; only their expiry clocks restart.",
}


class Act(NamedTuple):
    """A change that a key asks for."""

    title: str
    words: tuple[str, ...]
    """The command line that does the same, without kgtool and connection."""
    kind: Kind
    groups: Sequence[str]

    @property
    def way_back(self) -> str:
        """What undo brings back."""
        return WAY_BACK[self.words[0]]


def deletion(groups: Sequence[str], warn: Callable[[str], None]) -> Act:
    """Delete groups with all their offsets."""
    kind = DeleteGroups(groups, hidden=HiddenOffsets(groups, warn, refuse=True))
    return Act(f"Delete {counted(len(groups), 'group')}", ("delete", *groups), kind, groups)


def offset_deletion(groups: Sequence[str], text: str) -> Act:
    """Delete offsets of topics, ``orders:0,1 audit``.

    :raises UsageError: that is not what the text says.
    """
    specs = [_spec(word) for word in text.split()]
    if not specs:
        raise UsageError("Name topics: orders, or orders:0,1.")
    options = [f"--topic={spec}" for spec in specs]
    title = f"Delete offsets of {' '.join(map(str, specs))} in {counted(len(groups), 'group')}"
    words = ("delete-offsets", *(f"--group={group}" for group in groups), *options)
    return Act(title, words, DeleteOffsets(dict.fromkeys(groups, specs)), groups)


def reset(groups: Sequence[str], text: str) -> Act:
    """Reset all offsets of groups: earliest, latest, +N, -N, an offset, or a time.

    :raises UsageError: the text is none of these.
    """
    strategy, option = _target(text.strip())
    request = ResetRequest(tuple(groups), strategy, None)
    words = ("reset-offsets", *(f"--group={group}" for group in groups), "--all-topics", option)
    title = f"Reset {counted(len(groups), 'group')} to {escape(text.strip())}"
    return Act(title, (*words, "--execute"), ResetOffsets(request), groups)


def keeping(groups: Sequence[str]) -> Act:
    """Keep the offsets of groups for another retention."""
    return Act(f"Keep {counted(len(groups), 'group')}", ("keep", *groups), Keep(now_ms), groups)


def _spec(word: str) -> TopicSpec:
    found = re.fullmatch(r"([^:]+)(?::(\d{1,9}(?:,\d{1,9})*))?", word, re.ASCII)
    if found is None:
        raise UsageError(f"{word} is not a topic: write orders, or orders:0,1.")
    numbers = None if found[2] is None else tuple(map(int, found[2].split(",")))
    return TopicSpec(found[1], numbers)


def _target(text: str) -> tuple[Strategy, str]:
    if text in ("earliest", "latest"):
        return Strategy(f"to-{text}"), f"--to-{text}"
    if re.fullmatch(r"[+-]\d{1,18}", text, re.ASCII):
        return Strategy("shift-by", int(text)), f"--shift-by={int(text)}"
    if re.fullmatch(r"\d{1,12}", text, re.ASCII):
        return Strategy("to-offset", int(text)), f"--to-offset={text}"
    try:
        at_ms = time_ms(text if text[:3] == "now" or text[:1].isdigit() else "", now_ms())
    except UsageError:
        raise UsageError(
            f"{text or 'Nothing'} is no target: earliest, latest, an offset, +N, -N, "
            "2026-11-25T08:00 or now-2h."
        ) from None
    return Strategy("to-datetime", at_ms), f"--to-datetime={text}"


class Preview:
    """A plan that is on the screen: ``look``, then ``apply`` it once; ``close`` it in the end."""

    def __init__(self, poller: Poller, act: Act, note: Callable[[str], None]) -> None:
        self.act = act
        self.journal_id: str | None = None
        self._poller, self._note = poller, note
        self._plan: ChangePlan[Any] = ChangePlan()
        with poller.exclusive() as session:
            self._driver = Driver(session, act.kind)
            guard = Guard(session, self._origin(None))
            guard.rules  # noqa: B018 - a policy that can't be read is said now
            self.key = None if guard.is_confirmed() else guard.key

    def look(self) -> None:
        """Plan the change.

        :raises KgError: the cluster can't be looked at.
        """
        with self._poller.exclusive():
            self._driver.look(self._plan, self.act.groups)

    def close(self) -> None:
        """Forget the plan."""
        self._plan.__exit__()

    @property
    def count(self) -> int:
        """How many groups would be changed."""
        return len(self._plan.groups)

    def lines(self) -> Iterator[str]:
        """Return what would be done, and what is refused and why."""
        found: list[Any] = []
        self._plan.report(found.extend)
        return _lines(found)

    def apply(self, confirm: str | None) -> list[str]:
        """Make the change; return what became of it.

        :param confirm: the id of a protected cluster.
        :raises KgError: nothing was changed, or the rest of it was not.
        """
        done: list[Any] = []
        timer = Timer(now_ms, time.monotonic, time.sleep, token)
        folder = default_folder(os.environ, Path.home())
        with self._poller.exclusive() as session:
            origin = self._origin(confirm)
            change = Change(session, origin, folder, timer, say=self._note)
            with change:
                self._driver.apply(change, self._plan, done.extend)
            self.journal_id = change.journal_id
        return list(_lines(done))

    def _origin(self, confirm: str | None) -> Origin:
        return Origin(self.act.words[0], ("top", *self.act.words), confirm=confirm)


def _lines(groups: Sequence[Any]) -> Iterator[str]:
    rows = [row for group in groups for row in rows_of(group)]
    # A group may fail as a whole, without a row.
    failed = [group for group in groups if group.error is not None and not rows_of(group)]
    for row in [*failed, *rows][:SHOWN]:
        yield _line(row)
    if len(rows) > SHOWN:
        yield f"… and {len(rows) - SHOWN:,} more"


def _line(row: Any) -> str:
    topic, partition = getattr(row, "topic", None), getattr(row, "partition", None)
    number = "" if partition is None else f":{partition}"
    at = "" if topic is None else f" {escape(topic)}{number}"
    moved = _moved(row.old, row.new) if hasattr(row, "new") else ""
    why = "" if row.error is None else f": {escape(row.error.message)}"
    status = getattr(row, "status", "failed")
    return f"{status:16} {escape(row.group)}{at}{moved}{why}"


def _moved(old: CommittedOffset | None, new: CommittedOffset | None) -> str:
    """Say how an offset moves: what is skipped is never read."""
    was, becomes = (None if one is None else one.offset for one in (old, new))
    shown = ["-" if offset is None else f"{offset:,}" for offset in (was, becomes)]
    by = 0 if was is None or becomes is None else becomes - was
    what = "" if not by else f", skips {by:,}" if by > 0 else f", replays {-by:,}"
    return f" {shown[0]} → {shown[1]}{what}"


def command_line(words: str, act: Act) -> str:
    """Return the command line that does the same."""
    return " ".join([words, *map(shell_word, act.words)])


def write_plan(admin: Callable[[], GroupAdmin], groups: Sequence[str], words: str) -> list[str]:
    """Write a cleanup plan of groups into the current folder; return what to say.

    :raises KgError: it can't be made.
    """
    path = Path(f"kgtool-cleanup-{now_ms()}.json")
    with admin() as connected:
        plan = connected.cleanup_plan(groups)
        said = [f"{escape(item.group)}: {escape(', '.join(item.why))}" for item in plan.items]
        said += [f"{escape(one.group)} is left out: {escape(one.why)}" for one in plan.left_out]
        said += [escape(error.message) for error in plan.errors]
        if not plan.items:
            return [*said, "None of them can go, so there is no plan: groups with members stay."]
        connected.cleanup_plan(groups, path=path)
    return [*said, "", f"Wrote {path}.", f"$ {words} cleanup apply {path}"]


def undo(admin: Callable[[], GroupAdmin], journal_id: str) -> list[str]:
    """Undo a change; return what to say.

    :raises KgError: it can't be undone.
    """
    with admin() as connected:
        undone = connected.undo(journal_id)
    rows = [row for group in undone.groups for row in group.rows]
    said = [_line(row) for row in rows[:SHOWN]]
    failed = [escape(error.message) for error in undone.errors]
    return [*said, *failed, "", f"Restored {counted(len(rows) - len(failed), 'offset')}."]
