"""Keeping committed offsets for another retention: what helps for which group, and doing it.

Where an offset's clock runs from its commit (standalone committers, KIP-848 groups, everything on
brokers before 2.1), the same offset is committed again, with its metadata and leader epoch. Where
it runs from when a classic group became Empty, only joining and leaving the group helps
(``kgtool.changes.groups.rejoin``). A group with members takes commits from those only.

There is no compare-and-set for committed offsets. Everything is read again just before the first
write, what has changed since the plan is left alone, and the result is read back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.groups.rejoin import CONSUMER_PROTOCOL, restart_clocks
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.plan import compared, each_open, failed, open_rows
from kgtool.changes.snapshot import GroupChange, take_images
from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError, NotVerified, OutcomeUnknown
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.queries.cluster.pending import pending_error
from kgtool.queries.groups.describe import describe_with_type, without_expiry
from kgtool.queries.log.expiry import Expiries, Expiry, GroupExpiry, Question, find_expiries
from kgtool.queries.offsets.fetch import Committed, fetch_committed, offsets_of
from kgtool.retention import rules as r

WOULD_KEEP, KEPT, NOT_NEEDED = "would-keep", "kept", "not-needed"
COMMIT, JOIN = "commit", "join"

Clock = Callable[[], int]


class KeepRow(NamedTuple):
    """One committed offset; times in ms since the epoch, None: never or unknown (see ``rule``).

    ``status``: ``would-keep``, ``kept``, ``not-needed`` (it is not going to expire, or not before
    a new commit would), ``failed``, ``changed-meanwhile``, ``unknown``, ``skipped`` (others failed,
    and all or nothing was asked for). ``how`` it is kept: ``commit`` or ``join``. ``clock``: the
    time from which the broker counts, before and after; ``first_ms``: before kgtool first kept it.
    """

    group: str
    topic: str
    partition: int
    value: CommittedOffset
    rule: str | None
    old_expires_at_ms: int | None
    new_expires_at_ms: int | None
    how: str | None
    status: str
    error: ItemError | None = None
    clock: tuple[int | None, int | None] = (None, None)
    first_ms: int | None = None

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def noted(self) -> dict[str, Any] | None:
        """What its journal notes: from which time it counted before (``journal.kept``)."""
        if self.status != KEPT or None in self.clock:
            return None
        noted = {"offset": self.value.offset, "clock_ms": self.clock[1]}
        if self.first_ms is None:
            return {**noted, "first_ms": self.clock[0]}
        return {**noted, "first_ms": self.first_ms, "is_first": True}

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status == WOULD_KEEP


class GroupKeep(NamedTuple):
    """One group: its rows, or the error that concerns all of it."""

    description: GroupDescription
    rows: list[KeepRow]
    error: ItemError | None = None

    @property
    def group(self) -> str:
        """The group's name."""
        return self.description.group


class Keep:
    """Restarts the clock of committed offsets, and reads in the log what that brought.

    :param now: the clock, in ms since the epoch.
    :param join: join and leave groups where nothing else helps.
    """

    def __init__(self, now: Clock, *, join: bool = False) -> None:
        self._now = now
        self._join = join
        self.expiries = Expiries({}, [])
        """Of the wave that was looked at last."""

    def weigh(self, group: GroupKeep) -> int:
        """Return how many offsets a group has."""
        return len(group.rows)

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupKeep]]:
        """Plan for every committed offset whether, and how, it can be kept."""
        now_ms = self._now()
        both = gather([describe_with_type(cluster, groups), fetch_committed(cluster, groups)])
        # A coordinator that doesn't answer must leave time for the next steps of others.
        described, committed = yield from within(both, READING_SHARE)
        questions = [Question.of(d, committed[d.group]) for d in described if d.error is None]
        self.expiries = yield from find_expiries(cluster, questions, now_ms)
        found = []
        for description in described:
            group, values = description.group, committed[description.group]
            error, rows = description.error, []
            if error is None and description.type == "share":
                error = without_expiry(group)
            elif error is None and isinstance(values, KgError):
                error = ItemError.of(values, Target(group=group))
            elif error is None:
                expiry = self.expiries.groups[group]
                rows = [
                    _plan_row(description, partition, value, expiry, now_ms, self._join)
                    for partition, value in offsets_of(values).items()
                ]
            found.append(GroupKeep(description, rows, error))
        return found

    def look_again(self, cluster: Cluster, plan: Sequence[GroupKeep]) -> Operation[list[GroupKeep]]:
        """Compare groups and offsets with the plan."""
        names = [group.group for group in plan if open_rows(group)]
        both = gather([describe_with_type(cluster, names), fetch_committed(cluster, names)])
        described, committed = yield from within(both, READING_SHARE)
        there = {d.group: d for d in described}
        return [
            _checked(g, there[g.group], committed[g.group]) if open_rows(g) else g for g in plan
        ]

    def before(self, cluster: Cluster, going: Sequence[GroupKeep]) -> Operation[Before]:
        """Return images of all that is about to be written; the offsets stay the same."""
        values = [(g.description, {row.at: row.value for row in open_rows(g)}) for g in going]
        images = yield from take_images(cluster, values)
        same = [{p: o.committed for p, o in image.offsets.items()} for image in images]
        return Before(list(map(GroupChange, images, same)))

    def send(self, cluster: Cluster, going: Sequence[GroupKeep]) -> Operation[list[GroupKeep]]:
        """Commit the offsets again, or join and leave."""
        errors = yield from _write(cluster, going)
        return (yield from _read_back(cluster, going, errors, self._now))


def _plan_row(
    description: GroupDescription,
    partition: TopicPartition,
    value: CommittedOffset,
    expiry: GroupExpiry,
    now_ms: int,
    join: bool,
) -> KeepRow:
    found = expiry.offsets.get(partition, Expiry())
    row = KeepRow(
        description.group,
        *partition,
        value,
        found.rule,
        found.expires_at_ms,
        None,
        None,
        NOT_NEEDED,
    )
    if found.rule is not None and found.expires_at_ms is None:
        return row
    broker = expiry.broker
    retention_ms = broker.retention_ms if broker is not None else None
    row = row._replace(clock=(clock_ms(found, retention_ms), None))
    then_ms = None if retention_ms is None else now_ms + retention_ms
    if then_ms is not None and found.expires_at_ms is not None and found.expires_at_ms > then_ms:
        return row  # it has a retention of its own that is longer than a new commit's
    error, how = find_way(description, expiry, join)
    if how == COMMIT and (found.is_pending or value.is_pending):
        return failed(row, _pending(row.group))
    if error is not None:
        return failed(row, error._replace(target=Target(row.group, *partition)))
    return row._replace(status=WOULD_KEEP, how=how, new_expires_at_ms=then_ms)


def _pending(group: str) -> KgError:
    """Return a refusal: coordinators drop a transaction's commit where there is a newer one."""
    error = pending_error(group)
    error.hint = "Wait until it has ended: its commit restarts the clock."
    return error


def clock_ms(found: Expiry, retention_ms: int | None) -> int | None:
    """Return the time from which the broker counts: of the commit, or when a group became Empty."""
    if found.rule != r.RULE_EMPTY_SINCE:
        return found.committed_at_ms
    known = found.expires_at_ms is not None and retention_ms is not None
    return (found.expires_at_ms or 0) - (retention_ms or 0) if known else None


def find_way(
    description: GroupDescription, expiry: GroupExpiry, join: bool
) -> tuple[ItemError | None, str | None]:
    """Return the refusal, or how the group's offsets are kept."""
    target = Target(group=description.group)
    if not description.is_empty:
        return _has_members(description, target), None
    if not _expires_by_emptiness(description, expiry):
        return None, COMMIT
    if description.protocol_type != CONSUMER_PROTOCOL:
        return ItemError(
            target,
            None,
            "WRONG_GROUP_TYPE",
            f"The clock of group '{description.group}' runs from when it became Empty, and kgtool "
            f"can't join a group of protocol type '{description.protocol_type}'.",
            "Start one of its own members and stop it again.",
        ), None
    if not join:
        return ItemError(
            target,
            None,
            "NEEDS_JOIN",
            f"The clock of group '{description.group}' runs from when it became Empty: committing "
            "its offsets again does not change when they expire.",
            "Give --join to join it and leave it again, which restarts that clock.",
        ), None
    return None, JOIN


def _expires_by_emptiness(description: GroupDescription, expiry: GroupExpiry) -> bool:
    """Whether offsets expire by when the group became Empty (``rules.verdict``)."""
    if description.type != r.TYPE_CLASSIC or not description.protocol_type:
        return False
    if expiry.broker is not None and expiry.broker.rules.fixed_at_commit:
        return False
    snapshot = expiry.snapshot
    return snapshot is None or snapshot.state_since_ms is not None


def _has_members(description: GroupDescription, target: Target) -> ItemError:
    names = sorted({f"{m.client_id} on {m.host}" for m in description.members})[:3]
    who = f" ({', '.join(names)})" if names else ""
    hint = (
        "Let one of them commit these offsets, or run this again once they have left; then every "
        "offset counts from the time of its commit, so be quick."
        if description.type == r.TYPE_CONSUMER
        else "Let one of them commit these offsets, or run this again once they have left."
    )
    return ItemError(
        target,
        None,
        "NON_EMPTY_GROUP",
        f"Group '{description.group}' has members{who}: it takes commits from no one else.",
        hint,
    )


def _checked(group: GroupKeep, now: GroupDescription, values: Committed | KgError) -> GroupKeep:
    error = now.error
    if error is None and isinstance(values, KgError):
        error = ItemError.of(values, Target(group=now.group))
    if error is None and not now.is_empty:
        error = _has_members(now, Target(group=now.group))
    found = values if isinstance(values, dict) else {}
    if error is not None:
        why = error
        return each_open(group, lambda row: failed(row, why._replace(target=Target(*row[:3]))))

    def compare(row: KeepRow) -> KeepRow:
        pending = _pending(row.group) if row.how == COMMIT else None
        return compared(row, row.value, found.get(row.at), pending)

    return each_open(group, compare)


Errors = dict[tuple[str, TopicPartition], "KgError | None"]


def _write(cluster: Cluster, todo: Sequence[GroupKeep]) -> Operation[Errors]:
    commits: dict[str, dict[TopicPartition, Write]] = {}
    joins: dict[str, list[TopicPartition]] = {}
    for group in todo:
        for row in open_rows(group):
            if row.how == COMMIT:
                commits.setdefault(row.group, {})[row.at] = Write(row.value, row.value)
            else:
                joins.setdefault(row.group, []).append(row.at)
    topics = {
        g.description.group: {row.topic for row in g.rows}
        for g in todo
        if g.description.group in joins
    }
    # The log shows what was kept; the value is the same as before.
    writing = write_offsets(cluster, commits, verify=False, refresh=True)
    committed, joined = yield from gather([writing, restart_clocks(cluster, topics)])
    errors: Errors = {(g, p): e for g, parts in committed.items() for p, e in parts.items()}
    errors.update({(g, p): joined[g] for g, parts in joins.items() for p in parts})
    return errors


def _read_back(
    cluster: Cluster, groups: Sequence[GroupKeep], errors: Errors, now: Clock
) -> Operation[list[GroupKeep]]:
    """Judge each row by the coordinator's answer and its log."""
    questions = [
        Question(group.description, {row.at: False for row in rows})
        for group in groups
        if (rows := open_rows(group))
    ]
    found = yield from find_expiries(cluster, questions, now())
    return [
        each_open(group, lambda row: _done(row, errors[row.group, row.at], found.groups[row.group]))
        for group in groups
    ]


def _done(row: KeepRow, error: KgError | None, found: GroupExpiry) -> KeepRow:
    now = found.offsets.get(row.at, Expiry())
    retention_ms = found.broker.retention_ms if found.broker is not None else None
    row = row._replace(clock=(row.clock[0], clock_ms(now, retention_ms)))
    if error is not None and not (isinstance(error, OutcomeUnknown) and now.rule is not None):
        return failed(row, error)._replace(new_expires_at_ms=row.old_expires_at_ms)
    if now.rule is None:  # it can't be read, but the coordinator accepted it
        return row._replace(status=KEPT)
    if now.expires_at_ms is None or now.expires_at_ms > (row.old_expires_at_ms or 0):
        return row._replace(status=KEPT, new_expires_at_ms=now.expires_at_ms)
    unmoved = error or NotVerified(
        "The coordinator accepted it, but the offset expires no later than before.",
        hint="kgtool explain shows what its log says.",
    )
    return failed(row, unmoved)._replace(new_expires_at_ms=now.expires_at_ms)
