"""What keys change: a plan that is shown, agreed to, and carried out by the driver of all changes.

The plan is looked at again under the locks, so what was shown is what is done; policy, protection
and journal are the driver's. The bottom line is the command that does the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.cleanup.criteria import Criteria
from kgtool.changes.cleanup.plan import make_plan
from kgtool.changes.cleanup.plan_file import write
from kgtool.changes.driver import Driver, Kind
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.journal import history
from kgtool.changes.journal.change import Change, Timer
from kgtool.changes.journal.folder import default_folder
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.kinds.keep import Keep
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.plan import ChangePlan
from kgtool.changes.policy import Guard, Origin
from kgtool.changes.reset.targets import ResetRequest, Strategy
from kgtool.changes.restore import from_journal
from kgtool.changes.restore.decide import RestorePolicy
from kgtool.changes.row_lines import row_lines
from kgtool.clock import now_ms, token
from kgtool.errors import UsageError
from kgtool.model import TopicSpec, has_failed
from kgtool.text import counted, escape
from kgtool.top.poll import Poller

WAY_BACK = {
    "delete": "u restores the groups with their offsets; protocol type, epochs and expiry clocks "
    "do not come back.",
    "delete-offsets": "u restores them as long as the group has no members.",
    "reset-offsets": "u restores the offsets of now.",
    "keep": "The offsets stay what they are; only their expiry clocks restart.",
    "undo": "kgtool undo redoes it, by the id that is shown then.",
}
Say = Callable[[str], None]


class Act(NamedTuple):
    """A change that a key asks for."""

    title: str
    words: tuple[str, ...]
    """The command line that does the same, without kgtool and connection."""
    kind: Kind[Any]
    groups: Sequence[str]
    undoes: history.JournalEntry | None = None
    is_known: bool = True
    """Whether all of what is undone is known; else its journal stays open."""


def deletion(groups: Sequence[str], _text: str, say: Say) -> Act:
    """Delete groups with all their offsets."""
    kind = DeleteGroups(groups, hidden=HiddenOffsets(groups, say, refuse=True))
    return Act(f"Delete {counted(len(groups), 'group')}", ("delete", *groups), kind, groups)


def offset_deletion(groups: Sequence[str], text: str, _say: Say) -> Act:
    """Delete offsets of topics, ``orders:0,1 audit``.

    :raises UsageError: that is not what the text says.
    """
    specs = [TopicSpec.parse(word) for word in text.split()]
    if not specs:
        raise UsageError("Name topics: orders, or orders:0,1.")
    options = [f"--topic={spec}" for spec in specs]
    title = f"Delete offsets of {' '.join(map(str, specs))} in {counted(len(groups), 'group')}"
    words = ("delete-offsets", *(f"--group={group}" for group in groups), *options)
    return Act(title, words, DeleteOffsets(dict.fromkeys(groups, specs)), groups)


def reset(groups: Sequence[str], text: str, _say: Say) -> Act:
    """Reset all offsets of groups: earliest, latest, +N, -N, an offset, or a time.

    :raises UsageError: the text is none of these.
    """
    strategy = Strategy.parse(text, now_ms())
    request = ResetRequest(tuple(groups), strategy, None)
    value = text if strategy.kind == "to-datetime" else strategy.number
    option = f"--{strategy.kind}" + ("" if text in ("earliest", "latest") else f"={value}")
    words = ("reset-offsets", *(f"--group={group}" for group in groups), "--all-topics", option)
    title = f"Reset {counted(len(groups), 'group')} to {escape(text)}"
    return Act(title, (*words, "--execute"), ResetOffsets(request), groups)


def keeping(groups: Sequence[str], _text: str, _say: Say) -> Act:
    """Keep the offsets of groups for another retention."""
    return Act(f"Keep {counted(len(groups), 'group')}", ("keep", *groups), Keep(now_ms), groups)


def undoing(journal_id: str, cluster_id: str | None, say: Say) -> Act:
    """Undo a change.

    :raises KgError: it can't be undone.
    """
    entry = history.find(_journals(), journal_id)
    from_journal.check(entry, cluster_id)
    warnings, lost = from_journal.not_covered(entry.file)
    for warning in [*warnings, *([lost.message] if lost else [])]:
        say(warning)
    kind = RestoreOffsets(RestorePolicy(exact=True), from_journal.desired_groups(entry.file))
    title = f"Undo {entry.id}: {entry.command}"
    return Act(title, ("undo", entry.id), kind, kind.groups, entry, lost is None)


def _journals() -> Path:
    return default_folder(os.environ, Path.home())


class Preview:
    """A plan that is on the screen: ``look``, then ``apply`` it once; ``close`` it in the end.

    :param note: called with what has to be said beside the rows.
    """

    def __init__(self, poller: Poller, act: Act, note: Say) -> None:
        self.act = act
        self.journal_id: str | None = None
        self.is_whole = False
        """Whether everything was changed that was planned."""
        self._poller, self._note = poller, note
        self._plan: ChangePlan[Any] = ChangePlan()
        with poller.exclusive() as session:
            self._driver = Driver(session, act.kind)
            guard = Guard(session, self._origin())
            self.policy = next((one.path for one in guard.rules.policies if one.reason), None)
            """Where it stands that each change needs a reason."""
            self.key = None if guard.is_confirmed() else guard.key

    def look(self) -> None:
        """Plan the change.

        :raises KgError: the cluster can't be looked at.
        """
        with self._poller.exclusive() as session, session.loop.long_work():
            self._driver.look(self._plan, self.act.groups)

    def close(self) -> None:
        """Forget the plan."""
        self._plan.__exit__()
        if isinstance(self.act.kind, RestoreOffsets):
            self.act.kind.__exit__()

    @property
    def count(self) -> int:
        """How many groups would be changed."""
        return len(self._plan.groups)

    def lines(self) -> Iterator[str]:
        """Return what would be done, and what is refused and why."""
        found: list[Any] = []
        self._plan.report(found.extend)
        return row_lines(found)

    def apply(
        self, confirm: str | None, reason: str | None, progress: Callable[[int], None]
    ) -> list[str]:
        """Make the change; return what became of it.

        :param confirm: the id of a protected cluster; ``reason``: why, where a policy asks for it.
        :param progress: called with the number of groups that are done.
        :raises KgError: nothing was changed, or the rest of it was not.
        """
        done: list[Any] = []

        def report(wave: list[Any]) -> None:
            done.extend(wave)
            progress(len(done))

        timer = Timer(now_ms, time.monotonic, time.sleep, token)
        with self._poller.exclusive() as session, session.loop.long_work():
            origin = self._origin(confirm, reason)
            say, know = self._note, partial(setattr, self, "journal_id")
            with Change(session, origin, _journals(), timer, say=say, recorded=know) as change:
                self._driver.apply(change, self._plan, report)
        self.is_whole = self.act.is_known and not any(map(has_failed, done))
        if self.act.undoes is not None and self.is_whole:
            from_journal.mark_undone(self.act.undoes, self.journal_id, now_ms(), self._note)
        return list(row_lines(done))

    def _origin(self, confirm: str | None = None, reason: str | None = None) -> Origin:
        undoes = self.act.undoes.id if self.act.undoes else None
        return Origin(self.act.words[0], ("top", *self.act.words), reason, undoes, confirm)


def write_plan(poller: Poller, groups: Sequence[str], words: str) -> list[str]:
    """Write a cleanup plan of groups into the current folder; return what to say.

    :raises KgError: it can't be made.
    """
    kinds, selection = poller.kinds(groups), {"groups": groups}
    with poller.exclusive() as session, session.loop.long_work():
        made = session.run(
            make_plan(session.cluster, groups, kinds, Criteria(), selection, now_ms(), token())
        )
    plan = made.plan._replace(errors=(*made.missing, *made.failed))
    said = [f"{item.group}: {', '.join(item.why)}" for item in plan.items]
    said += [f"{one.group} is left out: {one.why}" for one in plan.left_out]
    said += [error.message for error in plan.errors]
    said = [escape(line) for line in (*filter(None, (made.skew, *made.obstacles)), *said)]
    if not plan.items:
        return [*said, "None of them can go, so there is no plan: groups with members stay."]
    path = Path(f"kgtool-cleanup-{now_ms()}.json")
    write(plan, path)
    return [*said, "", f"Wrote {path}.", f"$ {words} cleanup apply {path}"]
