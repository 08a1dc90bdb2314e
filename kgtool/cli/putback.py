"""What ``undo`` and ``restore`` have in common: plan, show, ask, put back, report.

Groups are worked on in parts, so that a file with ten thousand of them never has to fit into
memory: the first pass only looks, the second one looks again at each part, under a lock, and
changes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.cli import consent, render
from kgtool.cli.escape import escape
from kgtool.cli.journaled import Change
from kgtool.cli.output import Output, sentence
from kgtool.cli.putback_report import HEADERS, LINES, Plan, cells, row_of
from kgtool.errors import ConfigError
from kgtool.safety.putback import GroupWish, Policy, PutGroup, PutRow, decide

if TYPE_CHECKING:
    from kgtool.admin.commit import Identity
    from kgtool.model import GroupDescription, ItemError
    from kgtool.net.session import Session

_GROUPS_AT_ONCE = 250
_OFFSETS_AT_ONCE = 20_000
_STALE_TRIES = 5


class Options(NamedTuple):
    """How to put back. ``verify``: read back what was written."""

    policy: Policy
    dry_run: bool
    yes: bool
    wait_seconds: float = 0.0
    all_or_nothing: bool = False
    verify: bool = True


Source = Callable[[], Iterable[GroupWish]]
"""Gives the wishes, each time from the beginning."""


class PutBack:
    """One ``undo`` or ``restore``, from the first look to the last row."""

    def __init__(
        self, session: Session, output: Output, options: Options, source: Source,
        change: Callable[[], Change],
    ) -> None:  # fmt: skip
        self._session = session
        self._output = output
        self._options = options
        self._source = source
        self._new_change = change
        self._plan = Plan()
        self._wait_until: float | None = None
        self._has_header = False
        self.done = 0
        self.failed = 0
        self.journal_id: str | None = None

    def run(self, question: str) -> None:
        """Do all of it. ``question`` is what is asked; ``{}`` stands for the offsets."""
        for part in self._parts():
            self._wait(part)
            self._plan.add(self._look(part))
        self._plan.show_lost(self._output)
        if self._options.dry_run or not self._plan.count:
            self._only_report()
            return
        self._plan.show(self._output)
        if self._options.all_or_nothing and self._plan.failed:
            self._only_report(skip=True)
            return
        consent.ask(self._session, self._output, question.format(self._plan.words),
                    self._options.yes)  # fmt: skip
        with self._new_change() as change:
            for part in self._parts():
                self._apply(part, change)
        self.journal_id = change.journal_id
        change.say()

    def _parts(self) -> Iterator[list[GroupWish]]:
        part: list[GroupWish] = []
        size = 0
        seen: set[str] = set()
        for wish in self._source():
            if wish.group in seen:
                raise ConfigError(f"Group '{wish.group}' is there twice: it can't have both.")
            seen.add(wish.group)
            part.append(wish)
            size += len(wish.wishes)
            if len(part) >= _GROUPS_AT_ONCE or size >= _OFFSETS_AT_ONCE:
                yield part
                part, size = [], 0
        if part:
            yield part

    # -- looking --------------------------------------------------------------------------

    def _look(self, part: Sequence[GroupWish]) -> list[PutGroup]:
        from kgtool.admin.images import read_groups

        partitions = {wish.group: list(wish.wishes) for wish in part}
        names = list(partitions)
        found = self._session.run(read_groups(self._session.cluster, names, partitions))
        return [decide(wish, found[wish.group], self._options.policy) for wish in part]

    def _wait(self, part: Sequence[GroupWish]) -> None:
        """Wait for members to leave, all groups together no longer than asked for."""
        if not self._options.wait_seconds:
            return
        from kgtool.admin.reset_wait import LOOK_AGAIN_SECONDS, wait_until_empty

        if self._wait_until is None:
            self._wait_until = time.monotonic() + self._options.wait_seconds
        left = [wish.group for wish in part]
        is_said = False
        while True:
            looked = wait_until_empty(self._session.cluster, left, 0.0, time.monotonic)
            busy = self._session.run(looked)
            if not busy or time.monotonic() >= self._wait_until:
                return
            if not is_said:
                self._say_wait(busy)
                is_said = True
            left = [group.group for group in busy]
            # Not in the operation, whose time without an answer is limited.
            time.sleep(LOOK_AGAIN_SECONDS)
            self._session.loop.extend(LOOK_AGAIN_SECONDS)

    def _say_wait(self, busy: list[GroupDescription]) -> None:
        from kgtool.admin.reset_rows import members

        for group in busy[:LINES]:
            said = f"Waiting until group {group.group} has no members. {members(group)}"
            self._output.note(escape(said))

    # -- changing -------------------------------------------------------------------------

    def _apply(self, part: Sequence[GroupWish], change: Change) -> None:
        names = [wish.group for wish in part]
        change.lock(names)
        try:
            groups, identities = self._identified(self._look(part))
            changes = [found for found in map(_change, groups) if found is not None]
            if changes:
                change.before(changes)
                groups = self._put(groups, identities)
                for group in groups:
                    change.results(row for row in group.rows if row.status != "unchanged")
                self._remove_made(part, groups)
        finally:
            change.unlock(names)
        for group in groups:
            self._report(group)

    def _identified(self, groups: Sequence[PutGroup]) -> tuple[list[PutGroup], dict[str, Identity]]:
        """Find a member for each living group that is to be written to."""
        from kgtool.admin.commit import Identity
        from kgtool.admin.standin import stand_ins

        living = [
            group.reading.description
            for group in groups
            if any(row.is_open for row in group.rows) and _has_members(group)
        ]
        if not living:
            return list(groups), {}
        found = self._session.run(stand_ins(self._session.cluster, living))
        identities = {name: who for name, who in found.items() if isinstance(who, Identity)}
        errors = {name: who for name, who in found.items() if not isinstance(who, Identity)}
        return [
            _all_failed(group, errors[group.group]) if group.group in errors else group
            for group in groups
        ], identities

    def _put(self, groups: Sequence[PutGroup], identities: dict[str, Identity]) -> list[PutGroup]:
        from kgtool.admin.put import put_offsets
        from kgtool.admin.standin import fenced, stand_ins_now

        wanted = {
            group.group: {row.at: row.new for row in group.rows if row.is_open}
            for group in groups
            if any(row.is_open for row in group.rows)
        }
        verify = self._options.verify
        outcomes = self._session.run(
            put_offsets(
                self._session.cluster, wanted, identities, had=_committed(groups), verify=verify
            )
        )
        for _ in range(_STALE_TRIES if identities else 0):
            stale = fenced(wanted, outcomes)
            if not stale:
                break
            # The group has rebalanced since it was described: nothing was written.
            again = self._session.run(stand_ins_now(self._session.cluster, list(stale)))
            later = put_offsets(self._session.cluster, stale, again, verify=verify)
            for group, outcome in self._session.run(later).items():
                outcomes[group].update(outcome)
        return [
            group._replace(rows=[_outcome(row, outcomes.get(row.group, {})) for row in group.rows])
            for group in groups
        ]

    def _remove_made(self, part: Sequence[GroupWish], groups: Sequence[PutGroup]) -> None:
        """Remove groups that the change had made, once they have no offsets any more.

        The broker would do that by itself, in its own time; so it does not matter if it fails.
        """
        if not self._options.policy.exact:
            return
        made = {wish.group for wish in part if not wish.then.exists}
        names = [
            group.group
            for group in groups
            if group.group in made
            and not group.error
            and all(row.error is None and row.new is None for row in group.rows)
        ]
        if not names:
            return
        from kgtool.admin.committed import fetch_committed
        from kgtool.admin.group_delete import delete_groups

        left = self._session.run(fetch_committed(self._session.cluster, names))
        self._session.run(
            delete_groups(self._session.cluster, [name for name in names if left[name] == {}])
        )

    # -- saying ---------------------------------------------------------------------------

    def _only_report(self, *, skip: bool = False) -> None:
        """Put out what would be done, without doing it."""
        for part in self._parts():
            for group in self._look(part):
                rows = [row._replace(status="skipped") if skip and row.is_open else row
                        for row in group.rows]  # fmt: skip
                self._report(group._replace(rows=rows))

    def _report(self, group: PutGroup) -> None:
        output = self._output
        if group.error is not None:
            self.failed += len(group.rows)
            output.note(sentence(group.error))
            for row in group.rows:
                output.row(row_of(row))
            output.failed(group.error, row=None if group.rows else {"group": group.group},
                          quiet=True)  # fmt: skip
        else:
            for row in group.rows:
                self._report_row(row)
        if group.rows:
            lines = render.table(HEADERS, [cells(row) for row in group.rows])
            output.text(lines if not self._has_header else lines.partition("\n")[2], end="")
            self._has_header = True

    def _report_row(self, row: PutRow) -> None:
        if row.error is not None:
            self.failed += 1
            self._output.failed(row.error, row=row_of(row))
        else:
            if row.status != "skipped":
                self.done += 1
                self._output.done += 1
            self._output.row(row_of(row))


def _change(group: PutGroup) -> Any:
    """Return what is about to change in a group, for the journal; None if nothing is."""
    from kgtool.admin.images import GroupChange, OffsetImage

    after = {row.at: row.new for row in group.rows if row.is_open}
    if not after:
        return None
    image = group.reading.image
    offsets = {partition: image.offsets.get(partition, OffsetImage(None)) for partition in after}
    return GroupChange(image._replace(offsets=offsets), after)


def _committed(groups: Iterable[PutGroup]) -> dict[str, Any]:
    """Return what groups have now."""
    return {
        group.group: {
            partition: found.committed
            for partition, found in group.reading.image.offsets.items()
            if found.committed is not None
        }
        for group in groups
    }


def _has_members(group: PutGroup) -> bool:
    description = group.reading.description
    return description.error is None and not description.is_empty


def _all_failed(group: PutGroup, error: ItemError) -> PutGroup:
    rows = [row._replace(status="failed", error=error) for row in group.rows]
    return group._replace(rows=rows, error=error)


def _outcome(row: PutRow, outcomes: dict[Any, Any]) -> PutRow:
    if not row.is_open:
        return row
    from kgtool.model import ItemError, Target

    error = outcomes[row.at]
    if error is not None:
        at = Target(row.group, row.topic, row.partition)
        return row._replace(status="failed", error=ItemError.of(error, at))
    return row._replace(status="deleted" if row.new is None else "restored")
