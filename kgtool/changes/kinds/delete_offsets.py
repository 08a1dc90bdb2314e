"""Deleting committed offsets (KIP-496): per partition, also of groups with members."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.kinds.delete_groups import not_empty
from kgtool.changes.offsets.delete_request import Answer, delete_partitions
from kgtool.changes.offsets.start_offsets import write_start_offsets
from kgtool.changes.offsets.verify import Write
from kgtool.changes.plan import compared, failed, open_rows
from kgtool.changes.snapshot import Check, GroupChange, take_images
from kgtool.client import denied
from kgtool.client.cluster import Cluster, fetch_metadata, find_unsupported
from kgtool.client.ops import READING_SHARE, Operation, gather, grouped, within
from kgtool.errors import KgError, NotDone
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
    Member,
    OffsetDeletion,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol import codes
from kgtool.protocol.api import offset_delete
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.pending import pending_error, pending_partitions
from kgtool.queries.cluster.topics import expand
from kgtool.queries.groups.describe import (
    describe_with_type,
    is_subscribed,
    may_count_others,
    wrong_type,
)
from kgtool.queries.groups.share_and_streams import read_share_groups
from kgtool.queries.log.expiry import GroupExpiry, Question, find_expiries
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed, fetch_committed, fetch_selected, offsets_of
from kgtool.queries.offsets.lag import LogEnds
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.text import listed


class DeleteOffsets(NamedTuple):
    """Deletes the committed offsets of some topics, or partitions, of each group.

    ``specs``: by group; a topic without partitions means all that it has now, also at the time of
    the change. ``force``: also of other protocol types, and where a transaction is pending.
    ``check``: called with each group as just read, and those of its offsets that were asked for;
    returns why it must be left alone. ``asks_broker``: what the broker would refuse, by what is
    known, is sent all the same, as Kafka's tool does; and what has no offset.
    """

    specs: Mapping[str, Sequence[TopicSpec]]
    force: bool = False
    check: Check | None = None
    asks_broker: bool = False

    def weigh(self, group: GroupOffsetDeletions) -> int:
        """Return how many partitions a group has."""
        return len(group.rows)

    def look(
        self, cluster: Cluster, groups: Sequence[str]
    ) -> Operation[list[GroupOffsetDeletions]]:
        """Foresee the deletion.

        The offsets are read first: to distinguish "there was none" (which the broker reports as
        success) from "deleted", and to leave alone what can't be read or is about to be changed
        by a transaction.
        """
        specs = {group: self.specs[group] for group in groups}
        found: list[GroupOffsetDeletions] = []
        if not specs:
            return found
        read = yield from _read_all(cluster, specs, self.force)
        in_log = {} if self.asks_broker else (yield from _read_topics(cluster, read))
        for description, committed, error in read:
            group = description.group
            partitions, missing = expand(cluster, specs[group])
            unknown = [_failed_topic(group, topic, missing[topic]) for topic in sorted(missing)]
            problem = self.check(description, committed) if self.check is not None else None
            problem = problem or _refusal(description, committed, self.force) or error
            if problem is not None or isinstance(committed, KgError):
                assert problem is not None
                found.append(_all_failed(group, partitions, unknown, problem))
                continue
            seen = _Seen(cluster, description, committed, in_log.get(group))
            rows = [self._foresee(seen, at) for at in partitions]
            found.append(GroupOffsetDeletions(group, rows + unknown, None, description))
        return found if self.asks_broker else (yield from _find_negative(cluster, found))

    def _foresee(self, seen: _Seen, at: TopicPartition) -> OffsetDeletion:
        """Return what would be done, or what the broker would answer."""
        old = seen.offset(at)
        row = OffsetDeletion(seen.group, *at, "would-delete", None, old)
        refused = seen.refusal(at, self.force)
        if refused is not None:
            return _failed(seen.description, row, refused)
        outcome: int | KgError = seen.missing(at) or codes.NONE
        if not outcome and seen.is_held(at.topic):
            outcome = codes.GROUP_SUBSCRIBED_TO_TOPIC
        if self.asks_broker:
            return row
        if outcome:
            return _failed(seen.description, row, outcome)
        return row if old is not None else row._replace(status="no-offset")

    def look_again(
        self, cluster: Cluster, plan: Sequence[GroupOffsetDeletions]
    ) -> Operation[list[GroupOffsetDeletions]]:
        """Look at the partitions of the plan; what it has refused stays as it is."""
        named = {g.group: _named(g) for g in plan}
        again = self._replace(specs={**self.specs, **named}, asks_broker=False)
        now = yield from again.look(cluster, [group for group, specs in named.items() if specs])
        by_group = {group.group: group for group in now}
        return [_as_agreed(g, by_group[g.group]) if g.group in by_group else g for g in plan]

    def before(self, cluster: Cluster, going: Sequence[GroupOffsetDeletions]) -> Operation[Before]:
        """Return the images of what is about to be deleted."""
        values = [
            (
                g.description,
                {
                    r.at: r.old
                    for r in open_rows(g)
                    if r.old is not None and r.old.offset is not None
                },
            )
            for g in going
            if g.description is not None
        ]
        images = yield from take_images(cluster, values)
        return Before([GroupChange(image, dict.fromkeys(image.offsets)) for image in images])

    def send(
        self, cluster: Cluster, going: Sequence[GroupOffsetDeletions]
    ) -> Operation[list[GroupOffsetDeletions]]:
        """Delete the offsets of open rows."""
        wanted = {group.group: [row.at for row in open_rows(group)] for group in going}
        had: dict[str, Committed] = {
            g.group: {row.at: row.old for row in open_rows(g) if row.old is not None} for g in going
        }
        writes = {
            g.group: {row.at: Write(row.old, None) for row in open_rows(g)}
            for g in going
            if g.description is not None and g.description.type == "share"
        }
        commits = {group: parts for group, parts in wanted.items() if group not in writes}
        sending = [delete_partitions(cluster, commits, had), write_start_offsets(cluster, writes)]
        answers, outcomes = yield from gather(sending)
        found = {**answers, **outcomes}
        return [_outcome(group, found[group.group]) for group in going]


def ends_of(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Operation[dict[TopicPartition, LogEnds]]:
    """Return the ends of logs for a plan's lags, without using up the time of the change."""
    return (yield from within(log_ends(cluster, partitions, starts=False), 0.3))


class _Seen(NamedTuple):
    """A group as just read."""

    cluster: Cluster
    description: GroupDescription
    committed: Committed
    in_log: GroupExpiry | None
    """Of a group that ``may_count_others``."""

    @property
    def group(self) -> str:
        return self.description.group

    def offset(self, at: TopicPartition) -> CommittedOffset | None:
        """Return the offset of a partition; also of one that a share group has without any yet."""
        if self.description.type != "share":
            return offsets_of(self.committed, [at]).get(at)
        value = self.committed.get(at)
        return value if isinstance(value, CommittedOffset) else None

    def is_held(self, topic: str) -> bool:
        """Whether the broker will refuse; where that is unknown, it decides by itself."""
        if self.in_log is not None:
            return self.in_log.subscribes(topic) is True
        return any(_is_held(member, topic) for member in self.description.members)

    def missing(self, at: TopicPartition) -> KgError | None:
        """Return why there is no such partition; None where there is one."""
        topic = self.cluster.topics[at.topic]
        if at.partition in topic.leaders:
            return None
        return topic.error or broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)

    def refusal(self, at: TopicPartition, force: bool) -> KgError | None:
        """Return why an offset must not be deleted, whatever the broker says."""
        value = self.committed.get(at)
        if isinstance(value, KgError):
            return denied.explain(value, denied.DESCRIBE, topic=at.topic)
        if value is None and (missing := self.missing(at)) is not None:
            return missing
        is_pending = not force and pending_partitions(self.committed, [at])
        return pending_error(self.group) if is_pending else None


def _read_topics(
    cluster: Cluster, read: Iterable[tuple[GroupDescription, Committed | KgError, ItemError | None]]
) -> Operation[Mapping[str, GroupExpiry]]:
    """Return what the log has of groups whose members do not tell which topics count."""
    doubtful = [Question.of(one, committed) for one, committed, _ in read if may_count_others(one)]
    if not doubtful:
        return {}
    # Times are not asked for: a now of 0 reads the partitions from their beginnings.
    return (yield from find_expiries(cluster, doubtful, 0)).groups


def _find_negative(
    cluster: Cluster, groups: list[GroupOffsetDeletions]
) -> Operation[list[GroupOffsetDeletions]]:
    """Open the rows of offset -1, which brokers keep and no client takes for an offset.

    Only among all offsets of a group does OffsetFetch distinguish it from none.
    """
    bare = [g.group for g in groups if any(row.status == "no-offset" for row in g.rows)]
    if not bare:
        return groups
    stored = yield from within(fetch_committed(cluster, bare), READING_SHARE)

    def found(row: OffsetDeletion) -> OffsetDeletion:
        values = stored.get(row.group)
        value = (
            values.get(row.at) if isinstance(values, dict) and row.partition is not None else None
        )
        if row.status != "no-offset" or not isinstance(value, CommittedOffset) or value.is_pending:
            return row
        return row._replace(status="would-delete", old=value)

    return [group._replace(rows=list(map(found, group.rows))) for group in groups]


def _named(group: GroupOffsetDeletions) -> list[TopicSpec]:
    """Name the partitions of a plan, so that the change asks for no others."""
    known = [(row.topic, row.partition) for row in group.rows if row.partition is not None]
    return [TopicSpec(topic, tuple(numbers)) for topic, numbers in grouped(known).items()]


def _as_agreed(plan: GroupOffsetDeletions, now: GroupOffsetDeletions) -> GroupOffsetDeletions:
    """Return a group as it is now, without what nobody could agree to."""
    known = {row.key: row for row in now.rows}
    rows = [_row_as_agreed(row, known.get(row.key, row)) for row in plan.rows]
    return now._replace(rows=rows)


def _row_as_agreed(plan: OffsetDeletion, now: OffsetDeletion) -> OffsetDeletion:
    if not now.is_open:
        return now
    if plan.error is not None:
        return _failed(None, now, NotDone())
    return compared(now, plan.old, now.old, None)


def _read_all(
    cluster: Cluster, requests: Mapping[str, Sequence[TopicSpec]], force: bool
) -> Operation[list[tuple[GroupDescription, Committed | KgError, ItemError | None]]]:
    """Read groups and their offsets of the topics, and what their coordinators can't do."""
    names = sorted({spec.topic for specs in requests.values() for spec in specs})
    both = gather([describe_with_type(cluster, list(requests)), fetch_metadata(cluster, names)])
    described, _ = yield from within(both, READING_SHARE)
    described, starts = yield from read_share_groups(cluster, described)
    living = [d for d in described if d.group not in starts and _refusal(d, {}, force=True) is None]
    wanted = {d.group: expand(cluster, requests[d.group])[0] for d in living}
    homes = {d.group: d.coordinator.id for d in living if d.coordinator}
    can_delete = find_unsupported(cluster, homes, offset_delete.Request)
    both = gather([fetch_selected(cluster, wanted), can_delete])
    committed, too_old = yield from within(both, READING_SHARE)
    errors = {group: ItemError.of(error, Target(group)) for group, error in too_old.items()}
    if not force:
        able = {group: values for group, values in committed.items() if group not in errors}
        yield from mark_pending(cluster, able)
    committed = {**committed, **starts}
    return [(d, committed.get(d.group, {}), errors.get(d.group)) for d in described]


def _refusal(
    description: GroupDescription, committed: Committed | KgError, force: bool
) -> ItemError | None:
    group, kind, error = description.group, description.protocol_type, description.error
    # A member's topic that may not be seen is no reason: the coordinator knows who subscribes.
    if error is not None and error.code != codes.TOPIC_AUTHORIZATION_FAILED:
        return error
    if description.type == "share" and not description.is_empty:
        return not_empty(description)
    if kind not in ("", "consumer", "share", "streams") and not force:
        hint = "Use the tool that made it, or --force to delete its offsets anyway."
        return wrong_type(group, f"'{kind}'", hint)
    if isinstance(committed, KgError):
        return ItemError.of(committed, Target(group=group))
    return None


# ---------------------------------------------------------------------------------------------
# Rows


def _outcome(group: GroupOffsetDeletions, answer: Answer) -> GroupOffsetDeletions:
    """Return the rows of a group after the coordinator's ``answer``."""
    if isinstance(answer, KgError):
        answer = denied.explain(answer, denied.DELETE_OFFSETS, group=group.group)
        if all(row.is_open or row.partition is None for row in group.rows):
            return _all_failed(
                group.group, *_sorted(group), ItemError.of(answer, Target(group.group))
            )
        answer = dict.fromkeys((row.at for row in open_rows(group)), answer)
    rows = [_answered(group, row, answer[row.at]) if row.is_open else row for row in group.rows]
    return group._replace(rows=rows)


def _sorted(group: GroupOffsetDeletions) -> tuple[list[TopicPartition], list[OffsetDeletion]]:
    known = [row.at for row in group.rows if row.partition is not None]
    return known, [row for row in group.rows if row.partition is None]


def _answered(
    group: GroupOffsetDeletions, row: OffsetDeletion, error: KgError | None
) -> OffsetDeletion:
    if error is not None:
        is_held = error.code == codes.GROUP_SUBSCRIBED_TO_TOPIC
        return _failed(group.description, row, error.code if is_held and error.code else error)
    return row._replace(status="deleted" if row.old is not None else "no-offset")


def _all_failed(
    group: str,
    partitions: Iterable[TopicPartition],
    unknown: Iterable[OffsetDeletion],
    error: ItemError,
) -> GroupOffsetDeletions:
    rows = [OffsetDeletion(group, *at, error.status, error) for at in partitions]
    rows += [row._replace(status=error.status, error=error) for row in unknown]
    return GroupOffsetDeletions(group, rows, error)


def _failed(
    description: GroupDescription | None, row: OffsetDeletion, outcome: int | KgError
) -> OffsetDeletion:
    if isinstance(outcome, int):
        is_subscribed = outcome == codes.GROUP_SUBSCRIBED_TO_TOPIC and description is not None
        hint = _holders_hint(description, row.topic) if is_subscribed and description else None
        outcome = broker_error(outcome, hint=hint)
    reason = denied.explain(outcome, denied.DELETE_OFFSETS, topic=row.topic)
    return failed(row, reason)


def _failed_topic(group: str, topic: str, error: KgError) -> OffsetDeletion:
    return failed(OffsetDeletion(group, topic, None, "failed"), error)


# ---------------------------------------------------------------------------------------------
# Members that are subscribed to a topic, so that its offsets can't be deleted


def _is_held(member: Member, topic: str) -> bool:
    """Whether the coordinator will count a member as a subscriber of a topic.

    What a KIP-848 regex stands for is only in the coordinator's memory and log. But it assigns
    every partition of every topic that matches, so a topic without an owner does not match any
    more; until that is so, the coordinator refuses by itself. A classic subscription that can't
    be read counts as one to everything (``ClassicGroup.isSubscribedToTopic``).
    """
    if topic in dict(member.target or ()):
        return True
    subscribed = is_subscribed([member], topic)
    if subscribed is None and member.subscribed is not None:
        return False
    return subscribed is not False


def _holders_hint(description: GroupDescription, topic: str) -> str:
    """Name the members that hold a topic or subscribe to it."""
    holders = [m for m in description.members if _is_held(m, topic)]
    # A static member by the name that its owner gave it: that is what remove-members takes.
    names = sorted(f"{m.client_id} on {m.host}{_static(m)}" for m in holders)
    shown = listed(names, 3, " and {} more")
    stop = "Stop them, or let them subscribe to less, first."
    return f"Subscribed to {topic}: {shown}. {stop}" if names else "Stop the group's members first."


def _static(member: Member) -> str:
    return "" if member.instance_id is None else f" ({member.instance_id})"
