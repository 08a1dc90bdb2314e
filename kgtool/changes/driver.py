"""The one way in which a cluster is changed.

A change is a value (``Kind``) that says what is special about it; everything that all changes
promise is here, once, for every door: the commands, Kafka's form, ``GroupAdmin``, ``mcp``::

    look        what is there, what would be done, and what is refused: the plan, for the question
    ----------- the question stands here, outside of all locks
    lock        no other kgtool of this machine changes these groups meanwhile
    look again  what has changed since the plan is left alone, what it refused stays refused
    policy      protection, limits, idleness: by what is about to be sent, not by what was typed
    journal     the state before, on the disk before the first request leaves
    send        in waves that fit into memory; what is in doubt is looked up (``changes.doubt``)
    outcome     each row in the journal and in the report, also where an error ends the run

A door that asks nothing (Kafka's form, ``GroupAdmin``) looks under the locks, and sends what it saw
at once: ``at_once``. With ``all_or_nothing`` everything is planned first, from any door, and all of
it is looked at again before the first request. Once sending has begun, a failure does not take the
rest back: Kafka has no transactions over groups.

Groups with their rows, or rows, are those of ``changes.plan``. Waves follow the number of
offsets that groups turn out to have. A wave is one operation: reading takes shares of the time that
is left (``READING_SHARE``), so that a broker that is down leaves time for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kgtool.changes.journal.change import Change
from kgtool.changes.journal.journal import ConfigChange
from kgtool.changes.plan import (
    ChangePlan,
    DiskList,
    Group,
    GroupT,
    each_open,
    open_rows,
    settle,
    skip,
)
from kgtool.changes.session import Session
from kgtool.changes.snapshot import GroupChange
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.model import InternalTopic, ItemError, Target, has_failed
from kgtool.queries.offsets.fetch import AdaptiveBatches

T = TypeVar("T")
Report = Callable[[list[GroupT]], None]
"""Called with the groups of a wave."""


class Before(NamedTuple):
    """What a wave is about to change, for policy and journal."""

    groups: Sequence[GroupChange] = ()
    members: Sequence[Mapping[str, Any]] = ()
    configs: Sequence[ConfigChange] = ()
    topics: Sequence[InternalTopic] = ()


class Kind(Protocol[GroupT]):
    """A kind of change, with its arguments, and what it says of a group (``changes.plan``).

    All methods but ``weigh`` are operations; only ``send`` changes anything.
    """

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupT]]:
        """Return the groups as they are: open rows would be changed, the others are refused."""

    def look_again(self, cluster: Cluster, plan: Sequence[GroupT]) -> Operation[list[GroupT]]:
        """Return planned groups as they are now; a row that has changed since is not open."""

    def before(self, cluster: Cluster, going: Sequence[GroupT]) -> Operation[Before]:
        """Return what is about to be changed of groups that have open rows."""

    def send(self, cluster: Cluster, going: Sequence[GroupT]) -> Operation[list[GroupT]]:
        """Send the open rows; return the groups with the outcome of each."""

    def weigh(self, group: GroupT) -> int:
        """Return how many offsets a group holds in memory, for the size of the waves."""


def carry_out(
    cluster: Cluster,
    kind: Kind[GroupT],
    seen: Sequence[GroupT],
    before: Callable[[Before], None],
    results: Report[Any] = lambda _rows: None,
) -> Operation[list[GroupT]]:
    """Journal and send the open rows of groups that were just looked at; the rest is left alone.

    :param results: called with the outcomes of what was open.
    """
    going = [group for group in seen if open_rows(group)]
    if not going:
        return list(seen)
    keys = {row_key(row) for row in open_rows(*going)}
    before((yield from kind.before(cluster, going)))
    done = {group.group: group for group in (yield from kind.send(cluster, going))}
    results([row for group in done.values() for row in rows_of(group) if row_key(row) in keys])
    return [done.get(group.group, group) for group in seen]


def apply_part(
    cluster: Cluster,
    kind: Kind[GroupT],
    plan: Sequence[GroupT],
    before: Callable[[Before], None],
    results: Report[Any] = lambda _rows: None,
    *,
    all_or_nothing: bool = False,
) -> Operation[list[GroupT]]:
    """Look again at a part of a plan, and change what is as it was."""
    now = settle((yield from kind.look_again(cluster, plan)), all_or_nothing)
    return (yield from carry_out(cluster, kind, now, before, results))


def look_and_carry_out(
    cluster: Cluster, kind: Kind[GroupT], groups: Sequence[str], before: Callable[[Before], None]
) -> Operation[list[GroupT]]:
    """Look at one wave of groups, and change it: for changes that are a part of another one."""
    if not groups:
        return []
    seen = yield from kind.look(cluster, groups)
    return (yield from carry_out(cluster, kind, seen, before))


def rows_of(group: Group) -> Sequence[Any]:
    """Return a group's rows; a group without parts is its own."""
    rows: Sequence[Any] = getattr(group, "rows", (group,))
    return rows


def row_key(row: Any) -> tuple[Any, ...]:
    """Return what tells a row from the others of a change."""
    names = ("topic", "partition", "name", "member")
    return (row.group, *(getattr(row, name, None) for name in names))


class Canary:
    """``--canary N``: the first N groups, and the rest only if that went well.

    :param size: None or all of them: there is no canary.
    :param total: how many groups the change has.
    :param go_on: called after the canary with the counts of done and of failed groups.
    """

    def __init__(self, size: int | None, total: int, go_on: Callable[[int, int], bool]) -> None:
        self._left = size if size is not None and size < total else 0
        self._size = self._left
        self._failed = 0
        self._go_on = go_on
        self.is_stopped = False

    def split(self, groups: Iterable[T], counts: Callable[[T], object]) -> Iterator[list[T]]:
        """Split a wave behind the canary's last group, of those that count."""
        part: list[T] = []
        for group in groups:
            part.append(group)
            if self._left and counts(group):
                self._left -= 1
                if not self._left:
                    yield part
                    part = []
        if part:
            yield part

    def count(self, done: Iterable[Group]) -> None:
        """Count finished groups; ask once they are the canary."""
        self._failed += sum(map(has_failed, done))
        if self._size and not self._left:
            size, self._size = self._size, 0
            self.is_stopped = not self._go_on(size, self._failed)


NO_CANARY = Canary(None, 0, lambda _done, _failed: True)


class Driver(Generic[GroupT]):
    """Makes one change; the doors differ in what they show.

    :param session: a connected session.
    :param kind: the change.
    :param at_most: how many groups a wave may have.
    """

    def __init__(
        self,
        session: Session,
        kind: Kind[GroupT],
        *,
        all_or_nothing: bool = False,
        at_most: int | None = None,
    ) -> None:
        self._session = session
        self._kind = kind
        self._all_or_nothing = all_or_nothing
        self._at_most = at_most

    def _waves(self, groups: Sequence[str], canary: Canary | None = None) -> Iterator[list[GroupT]]:
        """Look at groups, wave after wave; a canary, and what is behind it, each by itself."""
        waves = AdaptiveBatches(groups, at_most=self._at_most)
        while names := waves.next():
            for part in canary.split(names, lambda _name: True) if canary is not None else [names]:
                looked = self._session.run(self._kind.look(self._session.cluster, part))
                waves.learn(len(part), sum(map(self._kind.weigh, looked)))
                yield looked

    def look(
        self, plan: ChangePlan[GroupT], groups: Sequence[str], show: Report[GroupT] = lambda _: None
    ) -> None:
        """Plan the change.

        :param show: called with each wave of the plan.
        """
        for wave in self._waves(groups):
            show(plan.add(wave))

    def preview(self, groups: Sequence[str]) -> list[GroupT]:
        """Return what would be done."""
        found: list[GroupT] = []
        with ChangePlan[GroupT](all_or_nothing=self._all_or_nothing) as plan:
            self.look(plan, groups)
            plan.report(found.extend)
        return found

    def apply(
        self,
        change: Change,
        plan: ChangePlan[GroupT],
        report: Report[GroupT],
        canary: Canary = NO_CANARY,
    ) -> None:
        """Make a planned change; ``report`` is called with the outcome of each wave."""
        change.lock(plan.groups)
        change.admit(plan.groups, plan.offsets)
        if self._all_or_nothing and len(plan) > 1 and not self._can_all_be_done(plan, report):
            return
        for wave in plan:
            for part in canary.split(wave, open_rows):
                if canary.is_stopped:
                    report(list(map(not_reached, part)))
                    continue
                going = {row.group for row in open_rows(*part)}
                done = self._send(change, part, report, look_again=True)
                canary.count(group for group in done if group.group in going)

    def _can_all_be_done(self, plan: ChangePlan[GroupT], report: Report[GroupT]) -> bool:
        """Look again at all waves before the first is changed; report all of it if one fails."""
        with DiskList[list[GroupT]]() as seen:
            is_off = False
            for wave in plan:
                now = self._look_again(wave)
                is_off |= any(map(has_failed, now))
                seen.append(now)
            for wave in seen if is_off else ():
                report(skip(wave))
        return not is_off

    def _look_again(self, wave: Sequence[GroupT]) -> list[GroupT]:
        return self._session.run(self._kind.look_again(self._session.cluster, wave))

    def at_once(
        self,
        change: Change,
        groups: Sequence[str],
        report: Report[GroupT],
        canary: Canary = NO_CANARY,
    ) -> None:
        """Look under the locks, and make the change without a question in between."""
        change.lock(groups)
        if self._all_or_nothing:
            with ChangePlan[GroupT](all_or_nothing=True) as plan:
                self.look(plan, groups)
                if plan.is_off or not plan.groups:
                    plan.report(report)
                else:
                    self.apply(change, plan, report, canary)
            return
        change.foresee(lambda: self._size(groups))
        for wave in self._waves(groups, canary):
            if not canary.is_stopped:
                canary.count(self._send(change, wave, report))
            else:
                report(list(map(not_reached, wave)))

    def _size(self, groups: Sequence[str]) -> tuple[Iterable[str], int]:
        with ChangePlan[GroupT]() as plan:
            self.look(plan, groups)
            return plan.groups, plan.offsets

    def _send(
        self,
        change: Change,
        part: Sequence[GroupT],
        report: Report[GroupT],
        *,
        look_again: bool = False,
    ) -> list[GroupT]:
        def before(wave: Before) -> None:
            change.before(*wave)

        what = self._session.cluster, self._kind, part, before, change.results
        is_all = self._all_or_nothing
        sending = apply_part(*what, all_or_nothing=is_all) if look_again else carry_out(*what)
        done = self._session.run(sending)
        report(done)
        return done


NOT_REACHED = "NOT_REACHED"


def untouched(group: str) -> ItemError:
    """Return the error of a group behind a canary that stopped the change."""
    said = "It was not touched: stopped after the canary."
    return ItemError(Target(group=group), None, NOT_REACHED, said)


def not_reached(group: GroupT) -> GroupT:
    """Return a group behind a canary that stopped the change: what was open in it has failed."""
    status, error = "failed" if hasattr(group, "rows") else "not-reached", untouched(group.group)
    return each_open(group, lambda row: row._replace(status=status, error=error))
