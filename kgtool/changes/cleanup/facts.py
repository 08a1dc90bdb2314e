"""The facts of groups for a cleanup: members, offsets, lags, topics and times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.cleanup.plan_file import DELETE_GROUP, DELETE_OFFSETS, REBUILD_GROUP, PlanItem
from kgtool.client.cluster import Cluster, TopicInfo, fetch_metadata, find_unsupported
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import delete_groups, offset_delete
from kgtool.protocol.wire import id_text
from kgtool.queries.groups.describe import describe_with_type
from kgtool.queries.groups.share_and_streams import read_share_groups
from kgtool.queries.groups.start_offsets import NO_START
from kgtool.queries.log.commit_times import CommitTime, CommitTimes, commit_times, read_log
from kgtool.queries.log.expiry import Expiries, Expiry, Question, find_expiries
from kgtool.queries.log.reader import Stretch, newest_record_ms
from kgtool.queries.offsets.fetch import Committed, fetch_committed, offsets_of
from kgtool.queries.offsets.lag import LogEnds, lag
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.retention.rules import TYPE_SHARE

GONE_TOPIC, GONE_PARTITION, RECREATED, BEYOND_END = (
    "topic-gone",
    "partition-gone",
    "topic-recreated",
    "beyond-end",
)
SLACK_MS = 3_600_000
"""The log is read from so much earlier on than a plan needs: clocks differ, and a record may be a
little older than the commit in it."""


class OffsetFacts(NamedTuple):
    """One committed offset. Times in ms since the epoch.

    ``problem``: why consumers can't resume from it, one of the four above; None where there is
    none, or it is unknown. ``lag`` is 0 where its topic or partition is deleted.
    """

    committed: CommittedOffset
    topic_id: str | None
    lag: int | None
    problem: str | None
    committed_at: CommitTime | None
    expiry: Expiry


class GroupFacts(NamedTuple):
    """One group. ``committed_before_ms`` bounds the commits whose time was not read; ``error``: why
    nothing of it can be judged; ``times_error``: why the times of its commits are unknown;
    ``changed_ms``: when a member last joined or left; None: before ``committed_before_ms``, or
    never. That is all that is known of the use of a share group, whose offsets have no times."""

    description: GroupDescription
    offsets: Mapping[TopicPartition, OffsetFacts]
    committed_before_ms: int | None = None
    error: ItemError | KgError | None = None
    times_error: KgError | None = None
    changed_ms: int | None = None
    unread_starts: bool = False
    """Whether a share group has partitions without a start offset yet."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share group."""
        return self.description.type == TYPE_SHARE


class Survey(NamedTuple):
    """The groups that still exist, and their expiry.

    ``newest_ms``: the time of the log's newest record when the survey began, if it is known.
    """

    groups: list[GroupFacts]
    expiries: Expiries
    newest_ms: int | None = None


TimesOf = Callable[[str, Mapping[TopicPartition, CommittedOffset]], "CommitTimes | KgError"]
"""Returns when the offsets of a group were committed, from an earlier analysis."""


def survey(
    cluster: Cluster,
    groups: Sequence[str],
    kinds: dict[str, str],
    now_ms: int,
    since_ms: int,
    times_of: TimesOf | None = None,
) -> Operation[Survey]:
    """Read the facts of groups, many in each request.

    :param since_ms: how far back times of commits are searched at least.
    :param times_of: provides these times, so that ``__consumer_offsets`` is not read for them.
    """
    newest_ms = yield from within(newest_record_ms(cluster), READING_SHARE)
    asked = describe_with_type(cluster, groups, kinds)
    both = gather([asked, fetch_committed(cluster, groups)])
    # A broker that doesn't answer must leave time for what is read next of the others' groups.
    described, committed = yield from within(both, READING_SHARE)
    described, starts = yield from read_share_groups(cluster, described)
    committed.update(starts)
    living = [d for d in described if not (d.error and d.error.code == codes.GROUP_ID_NOT_FOUND)]
    values = {d.group: offsets_of(committed[d.group]) for d in living}
    partitions = {p for found in values.values() for p in found}
    names = sorted({p.topic for p in partitions})
    if names:
        yield from fetch_metadata(cluster, names)
    there = [p for p in partitions if _missing(cluster.topics[p.topic], p) is None]
    share = {d.group for d in living if d.type == TYPE_SHARE}
    timed = {group: list(found) for group, found in values.items() if found or group in share}
    looks: list[Operation[Any]] = [log_ends(cluster, there, starts=False)]
    if times_of is None:
        looks.append(read_log(cluster, list(timed), since_ms))
    ends, *read = yield from within(gather(looks), READING_SHARE)
    log: dict[str, Stretch | KgError] = read[0] if read else {}
    times: dict[str, CommitTimes | KgError] = dict.fromkeys(values, CommitTimes({}, None))
    if times_of is None:
        times.update(commit_times(log, timed))
    else:
        times.update({g: times_of(g, values[g]) for g in timed if g not in share})
    questions = [
        Question.of(d, committed[d.group]) for d in living if d.error is None and values[d.group]
    ]
    expiries = yield from find_expiries(cluster, questions, now_ms, all_times=False, log=log)
    found = [
        _facts(cluster, d, committed[d.group], values[d.group], times[d.group], ends, expiries)
        for d in living
    ]
    return Survey(found, expiries, newest_ms)


_NEEDS = (
    (delete_groups.Request, (DELETE_GROUP, REBUILD_GROUP)),
    (offset_delete.Request, (DELETE_OFFSETS,)),
)


def obstacles(
    cluster: Cluster, found: Survey, items: Sequence[PlanItem]
) -> Operation[list[KgError]]:
    """Return which APIs the coordinators lack to apply a plan, each once."""
    known = [(facts.description.group, facts.description.coordinator) for facts in found.groups]
    homes = {group: node.id for group, node in known if node is not None}
    missing: list[KgError] = []
    for api, actions in _NEEDS:
        planned = {
            i.group: homes[i.group] for i in items if i.action in actions and i.group in homes
        }
        missing += list((yield from find_unsupported(cluster, planned, api)).values())[:1]
    return missing


def _facts(
    cluster: Cluster,
    description: GroupDescription,
    committed: Committed | KgError,
    values: Mapping[TopicPartition, CommittedOffset],
    times: CommitTimes | KgError,
    ends: Mapping[TopicPartition, LogEnds],
    expiries: Expiries,
) -> GroupFacts:
    values_read = [committed] if isinstance(committed, KgError) else committed.values()
    unread = next((value for value in values_read if isinstance(value, KgError)), None)
    error = description.error or unread
    known = times if isinstance(times, CommitTimes) else CommitTimes({}, None)
    judged = expiries.groups.get(description.group)
    offsets = {
        partition: _offset(
            cluster,
            partition,
            value,
            known.at.get(partition),
            ends.get(partition),
            (judged.offsets.get(partition) if judged else None) or Expiry(),
        )
        for partition, value in values.items()
    }
    times_error = times if isinstance(times, KgError) else None
    return GroupFacts(
        description,
        offsets,
        known.before_ms,
        error,
        times_error,
        known.changed_ms,
        unread_starts=description.type == TYPE_SHARE and NO_START in values_read,
    )


def _offset(
    cluster: Cluster,
    partition: TopicPartition,
    value: CommittedOffset,
    at: CommitTime | None,
    ends: LogEnds | None,
    expiry: Expiry,
) -> OffsetFacts:
    topic = cluster.topics[partition.topic]
    topic_id = id_text(topic.topic_id)
    problem = _missing(topic, partition)
    if problem is None and ends and isinstance(ends.end, KgError) and _is_unknown(ends.end):
        problem = GONE_PARTITION
    if problem is None and at is not None and at.topic_id and topic_id:
        problem = RECREATED if at.topic_id != topic_id else None
    left = lag(value.offset, ends) if ends else None
    if problem is None and left is not None and left < 0:
        problem = BEYOND_END
    if left is not None:
        left = max(left, 0)
    elif problem in (GONE_TOPIC, GONE_PARTITION):
        left = 0
    return OffsetFacts(value, topic_id, left, problem, at, expiry)


def _missing(topic: TopicInfo, partition: TopicPartition) -> str | None:
    """Return what doesn't exist; None where it does, or that is unknown."""
    if topic.error is not None:
        return GONE_TOPIC if _is_unknown(topic.error) else None
    return None if partition.partition in topic.leaders else GONE_PARTITION


def _is_unknown(error: KgError) -> bool:
    return error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
