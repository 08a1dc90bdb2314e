"""When offsets were committed, and of which topic: from ``__consumer_offsets``, which alone knows.

OffsetFetch never tells a commit's time. The records do (OffsetCommitValue: commitTimestamp, and
since v4 topicId), so the groups' own partitions of the log are read, whole where they are small,
else from a given time on: what is not said there was committed before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kgtool.admin.broker_rules import BrokerRules, rules_of
from kgtool.admin.expiry import denied_log
from kgtool.admin.group_log import GroupLog, Scan
from kgtool.admin.images import id_text
from kgtool.admin.partition import offsets_partition
from kgtool.admin.raw_log import Range, copy_partitions
from kgtool.admin.reset_plan import LogRange
from kgtool.admin.reset_positions import log_ranges
from kgtool.client.cluster import Cluster, fetch_metadata, find_coordinators
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.retention import rules as r

TOPIC = "__consumer_offsets"
SMALL_LOG = 500_000
"""A partition of the log with so many records or fewer is read from its beginning."""


class CommitTime(NamedTuple):
    """The last commit of one offset: ms since the epoch, and the topic's id where it is kept."""

    at_ms: int
    topic_id: str | None = None


class CommitTimes(NamedTuple):
    """One group's last commits.

    ``before_ms``: reading began there, so what is not in ``at`` was committed before; None: all
    of the log was read, and what is not in it has no commit any more.
    """

    at: Mapping[TopicPartition, CommitTime]
    before_ms: int | None


def commit_times(
    cluster: Cluster,
    groups: Mapping[str, Collection[TopicPartition]],
    since_ms: int,
    *,
    small: int = SMALL_LOG,
) -> Operation[dict[str, CommitTimes | KgError]]:
    """Return the last commits of groups, or why the log of one can't be read.

    :param since_ms: where reading begins in a partition with more than ``small`` records.
    """
    names = list(groups)
    yield from fetch_metadata(cluster, [TOPIC])
    topic = cluster.topics[TOPIC]
    if topic.error is not None:
        return dict.fromkeys(names, denied_log(topic.error))
    homes: dict[int, list[str]] = {}
    for name in names:
        homes.setdefault(offsets_partition(name, len(topic.leaders)), []).append(name)
    rules = yield from _rules(cluster, names)
    ranges, begins, problems = yield from _ranges(cluster, list(homes), since_ms, small)
    scan = Scan({number: GroupLog(rules, homes[number]) for number in homes})
    outcome = yield from copy_partitions(cluster, ranges, scan)
    found: dict[str, CommitTimes | KgError] = {}
    for number, members in homes.items():
        problem = (
            problems.get(number)
            or scan.problems.get(number)
            or outcome.get(TopicPartition(TOPIC, number))
        )
        for name in members:
            found[name] = (
                denied_log(problem)
                if problem is not None
                else _times(scan.logs[number], name, groups[name], begins[number])
            )
    return found


def _rules(cluster: Cluster, groups: Sequence[str]) -> Operation[r.RuleSet]:
    """Return the rules of the coordinators: how commits of transactions take effect."""
    located = yield from find_coordinators(cluster, groups)
    brokers = {node for node in located.values() if isinstance(node, int)}
    known = yield from rules_of(cluster, brokers)
    return next((b.rules for b in known.values() if isinstance(b, BrokerRules)), r.RULES_4_1)


_Ranges = tuple[dict[TopicPartition, Range], dict[int, "int | None"], dict[int, KgError]]


def _ranges(
    cluster: Cluster, numbers: Sequence[int], since_ms: int, small: int
) -> Operation[_Ranges]:
    """Choose what to read of each partition, and say from when on that is all."""
    partitions = [TopicPartition(TOPIC, number) for number in numbers]
    logs = yield from log_ranges(cluster, partitions, max(since_ms, 0))
    ranges: dict[TopicPartition, Range] = {}
    begins: dict[int, int | None] = {}
    problems: dict[int, KgError] = {}
    for partition, log in logs.items():
        if not isinstance(log, LogRange):
            problems[partition.partition] = log
            continue
        start, end = log.start.offset, log.end.offset
        begin = log.at_time.offset if log.at_time is not None else end
        is_whole = end - start <= small or begin <= start
        ranges[partition] = Range(start if is_whole else begin, end)
        begins[partition.partition] = None if is_whole else since_ms
    return ranges, begins, problems


def _times(
    log: GroupLog, group: str, partitions: Collection[TopicPartition], before_ms: int | None
) -> CommitTimes | KgError:
    at = {}
    for partition in partitions:
        try:
            found = log.commit(group, partition)
        except KgError as error:
            return error
        if found is not None and found.committed is not None:
            at[partition] = CommitTime(
                found.committed.commit_timestamp_ms, id_text(log.topic_id(group, partition))
            )
    return CommitTimes(at, before_ms)


class Watch:
    """Sees what groups commit from a time on: each look reads only what the one before has not.

    :param groups: all groups that will ever be looked at, with the partitions of interest.
    :param since_ms: where the first look begins; a record may be a little older than its commit.
    """

    def __init__(self, groups: Mapping[str, Collection[TopicPartition]], since_ms: int) -> None:
        self._groups = groups
        self._since_ms = since_ms
        self._logs: dict[int, GroupLog] = {}
        self._next: dict[int, int] = {}

    def look(
        self, cluster: Cluster, names: Sequence[str]
    ) -> Operation[dict[str, CommitTimes | KgError]]:
        """Return what some of the groups have committed, or why that can't be read."""
        yield from fetch_metadata(cluster, [TOPIC])
        topic = cluster.topics[TOPIC]
        if topic.error is not None:
            return dict.fromkeys(names, denied_log(topic.error))
        count = len(topic.leaders)
        homes = {name: offsets_partition(name, count) for name in names}
        if not set(homes.values()) <= set(self._logs):
            yield from self._begin(cluster, set(homes.values()) - set(self._logs), count)
        problems = yield from self._read_on(cluster, sorted(set(homes.values())))
        found: dict[str, CommitTimes | KgError] = {}
        for name, number in homes.items():
            problem = problems.get(number)
            found[name] = (
                denied_log(problem)
                if problem is not None
                else _times(self._logs[number], name, self._groups[name], self._since_ms)
            )
        for number in problems:  # the next look begins anew
            self._logs.pop(number, None)
            self._next.pop(number, None)
        return found

    def _begin(self, cluster: Cluster, numbers: Collection[int], count: int) -> Operation[None]:
        rules = yield from _rules(cluster, list(self._groups))
        members: dict[int, list[str]] = {number: [] for number in numbers}
        for name in self._groups:
            number = offsets_partition(name, count)
            if number in members:
                members[number].append(name)
        for number, names in members.items():
            self._logs[number] = GroupLog(rules, names)

    def _read_on(self, cluster: Cluster, numbers: Sequence[int]) -> Operation[dict[int, KgError]]:
        partitions = [TopicPartition(TOPIC, number) for number in numbers]
        found = yield from log_ranges(cluster, partitions, max(self._since_ms, 0))
        problems = {p.partition: log for p, log in found.items() if not isinstance(log, LogRange)}
        ranges = {
            partition: self._range(partition.partition, log)
            for partition, log in found.items()
            if isinstance(log, LogRange)
        }
        scan = Scan(self._logs)
        outcome = yield from copy_partitions(cluster, ranges, scan)
        for partition, part in ranges.items():
            number = partition.partition
            problem = scan.problems.get(number) or outcome[partition]
            if problem is not None:
                problems[number] = problem
            else:
                self._next[number] = max(part.start, part.end)
        return problems

    def _range(self, number: int, log: LogRange) -> Range:
        begin = self._next.get(number)
        if begin is None:
            begin = log.at_time.offset if log.at_time is not None else log.end.offset
        begin = max(begin, log.start.offset)
        return Range(min(begin, log.end.offset), log.end.offset)
