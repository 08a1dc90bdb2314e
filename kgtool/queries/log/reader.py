"""Reads the partitions of ``__consumer_offsets`` that groups lie in: each stretch once a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster, find_coordinators, know_topic, version_of
from kgtool.client.leaders import by_leader
from kgtool.client.ops import Operation, call
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol.api import list_offsets
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.fetch import Range, copy_partitions
from kgtool.queries.log.scan import GroupLog, Scan
from kgtool.queries.offsets.positions import LogRange, log_ranges
from kgtool.queries.offsets.ranges import offsets_request
from kgtool.retention import rules as r


class Stretch(NamedTuple):
    """What was read of a partition; ``before_ms``: reading began there (None: all of it)."""

    log: GroupLog
    before_ms: int | None


class LogReader:
    """Reads on where it has ended the last time, so a run that looks often reads the log once.

    :param groups: all groups that will ever be asked for.
    :param since_ms: where reading begins; a record may be a little older than its commit. None:
        at the beginning.
    :param small: a partition with so many records or fewer is read from its beginning all the same.
    :param wants: the topics whose offsets are kept; default: all.
    """

    def __init__(
        self,
        groups: Iterable[str],
        since_ms: int | None,
        *,
        small: int = 0,
        wants: Callable[[str], bool] | None = None,
    ) -> None:
        self._groups = list(groups)
        self._since_ms = None if since_ms is None else max(since_ms, 0)
        self._small = small
        self._wants = wants
        self._read: dict[int, Stretch] = {}
        self._next: dict[int, int] = {}

    def read(
        self, cluster: Cluster, names: Sequence[str]
    ) -> Operation[dict[str, Stretch | KgError]]:
        """Return what the log says of some of the groups, or why theirs can't be read."""
        topic = yield from know_topic(cluster, TOPIC)
        if topic.error is not None:
            return dict.fromkeys(names, topic.error)
        count = len(topic.leaders)
        homes = {name: offsets_partition(name, count) for name in names}
        numbers = sorted(set(homes.values()))
        if not set(numbers) <= set(self._read):
            yield from self._begin(cluster, set(numbers) - set(self._read), count)
        problems = yield from self._read_on(cluster, numbers)
        found = {name: problems.get(homes[name]) or self._read[homes[name]] for name in names}
        for number in problems:  # the next look begins again
            self._read.pop(number, None)
            self._next.pop(number, None)
        return found

    def _begin(self, cluster: Cluster, numbers: set[int], count: int) -> Operation[None]:
        rules = yield from _rules(cluster, self._groups)
        members: dict[int, list[str]] = {number: [] for number in numbers}
        for name in self._groups:
            members.get(offsets_partition(name, count), []).append(name)
        for number, names in members.items():
            self._read[number] = Stretch(GroupLog(rules, names, self._wants), self._since_ms)

    def _read_on(self, cluster: Cluster, numbers: Sequence[int]) -> Operation[dict[int, KgError]]:
        partitions = [TopicPartition(TOPIC, number) for number in numbers]
        found = yield from log_ranges(cluster, partitions, self._since_ms)
        problems = {p.partition: log for p, log in found.items() if not isinstance(log, LogRange)}
        ranges = {
            partition: self._range(partition.partition, log)
            for partition, log in found.items()
            if isinstance(log, LogRange)
        }
        scan = Scan({number: stretch.log for number, stretch in self._read.items()})
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
        start, end = log.start.offset, log.end.offset
        begin = self._next.get(number)
        if begin is None:
            begin = start
            if self._since_ms is not None:
                begin = log.at_time.offset if log.at_time is not None else end
            if end - start <= self._small or begin <= start:
                begin = start
                self._read[number] = self._read[number]._replace(before_ms=None)
        return Range(min(max(begin, start), end), end)


def by_log(cluster: Cluster, groups: Sequence[str]) -> Operation[list[str]]:
    """Sort groups by their partition of ``__consumer_offsets``, so that waves of them read each
    partition once or twice, and not once a wave."""
    count = len((yield from know_topic(cluster, TOPIC)).leaders)
    return sorted(groups, key=lambda group: offsets_partition(group, count)) if count else [*groups]


def newest_record_ms(cluster: Cluster) -> Operation[int | None]:
    """Return the time of the newest record of the log: by the brokers' clocks, not by this one's.

    None where no leader tells: without DESCRIBE on the topic, and before Kafka 3.0 (KIP-734).
    """
    topic = yield from know_topic(cluster, TOPIC)
    partitions = [TopicPartition(TOPIC, number) for number in topic.leaders]

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        version = yield from version_of(cluster, broker, list_offsets.Request)
        if isinstance(version, KgError) or version < _MAX_TIMESTAMP_VERSION:
            return dict.fromkeys(parts, -1)
        reply = yield from call(broker, offsets_request(parts, _MAX_TIMESTAMP))
        topics = [] if isinstance(reply, KgError) else reply.topics
        return dict.fromkeys(parts, -1) | {
            TopicPartition(TOPIC, row.partition): row.timestamp
            for topic in topics
            for row in topic.partitions
        }

    found = yield from by_leader(cluster, partitions, work)
    newest = max((at for at in found.values() if isinstance(at, int)), default=-1)
    return newest if newest >= 0 else None


_MAX_TIMESTAMP, _MAX_TIMESTAMP_VERSION = -3, 7


def _rules(cluster: Cluster, groups: Sequence[str]) -> Operation[r.RuleSet]:
    """Return the rules of the coordinators: how commits of transactions take effect."""
    located = yield from find_coordinators(cluster, groups)
    brokers = {node for node in located.values() if isinstance(node, int)}
    known = yield from rules_of(cluster, brokers)
    return next((b.rules for b in known.values() if isinstance(b, BrokerRules)), r.RULES_4_1)
