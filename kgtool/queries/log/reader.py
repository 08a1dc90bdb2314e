"""Reads the partitions of ``__consumer_offsets`` of groups: each stretch once a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic, find_coordinators, version_of
from kgtool.client.ops import READING_SHARE, Operation, grouped, within
from kgtool.client.routing import by_leader
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol.api import list_offsets, offset_fetch
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.pending import held_open
from kgtool.queries.log.scan import GroupLog, scan
from kgtool.queries.offsets.fetch import STABLE, Committed
from kgtool.queries.offsets.list_offsets import READ_UNCOMMITTED, ask_offsets
from kgtool.retention import rules as r


class Stretch(NamedTuple):
    """What was read of a partition; ``before_ms``: where reading began (None: all of it)."""

    log: GroupLog
    before_ms: int | None


class LogReader:
    """Continues where it has ended the last time, so a run that reads often reads the log once.

    :param groups: all groups that will ever be asked for.
    :param since_ms: where reading begins; a record may be a little older than its commit. None:
        at the beginning.
    :param small: partitions with at most this many records are read from their beginning anyway.
    :param wants: the topics whose offsets are kept; default: all.
    :param make_log: what the log is read into, if it is to keep more than a ``GroupLog``.
    """

    def __init__(
        self,
        groups: Iterable[str],
        since_ms: int | None,
        *,
        small: int = 0,
        wants: Callable[[str], bool] | None = None,
        make_log: Callable[..., GroupLog] = GroupLog,
    ) -> None:
        self._make_log = make_log
        self._groups = list(groups)
        self._since_ms = None if since_ms is None else max(since_ms, 0)
        self._small = small
        self._wants = wants
        self._read: dict[int, Stretch] = {}
        self._next: dict[int, int] = {}

    def read(
        self, cluster: Cluster, names: Sequence[str]
    ) -> Operation[dict[str, Stretch | KgError]]:
        """Return what the log says of some of the groups, or why it can't be read."""
        topic = yield from fetch_topic(cluster, TOPIC)
        if topic.error is not None:
            return dict.fromkeys(names, topic.error)
        count = len(topic.leaders)
        homes = {name: offsets_partition(name, count) for name in names}
        numbers = sorted(set(homes.values()))
        new = set(numbers) - set(self._read)
        if new:
            rules = yield from _rules(cluster, self._groups)
            members: dict[int, list[str]] = {number: [] for number in new}
            for name in self._groups:
                members.get(offsets_partition(name, count), []).append(name)
            for number, group_names in members.items():
                log = self._make_log(rules, group_names, self._wants)
                self._read[number] = Stretch(log, self._since_ms)
        problems = yield from self._read_on(cluster, numbers)
        found = {name: problems.get(homes[name]) or self._read[homes[name]] for name in names}
        for number in problems:  # the next call begins again
            self._read.pop(number, None)
            self._next.pop(number, None)
        return found

    def _read_on(self, cluster: Cluster, numbers: Sequence[int]) -> Operation[dict[int, KgError]]:
        feeds = {number: self._read[number].log.feed for number in numbers}
        found = yield from scan(
            cluster, feeds, self._since_ms, begins=self._next, small=self._small
        )
        problems: dict[int, KgError] = {}
        for number, part in found.items():
            if isinstance(part, KgError):
                problems[number] = part
                continue
            if number not in self._next:
                self._read[number] = self._read[number]._replace(before_ms=part.before_ms)
            self._next[number] = part.end
        return problems


# ---------------------------------------------------------------------------------------------
# Pending transactions according to the log: brokers before 2.5 (KIP-447) don't report them


def pending_in_log(cluster: Cluster, groups: Collection[str]) -> Operation[dict[str, Committed]]:
    """Return the offsets that open transactions are about to change, where coordinators are old.

    Other groups are left out, and so are those whose log can't be read, or whose coordinator is not
    there: who described them has waited for it.
    """
    located = yield from find_coordinators(cluster, list(groups), wait=False)
    nodes = grouped((node, group) for group, node in located.items() if isinstance(node, int))
    names: list[str] = []
    for node, own in sorted(nodes.items()):
        version = yield from version_of(node, offset_fetch.Request)
        if isinstance(version, int) and version < STABLE:
            held = yield from held_open(cluster, node)
            count = len(cluster.topics[TOPIC].leaders)
            names += [g for g in own if not count or offsets_partition(g, count) in held]
    if not names:
        return {}
    try:
        found = yield from within(LogReader(names, None).read(cluster, names), READING_SHARE)
    except KgError:
        return {}
    pending = CommittedOffset(None, None, None, is_pending=True)
    logs = {name: s.log for name, s in found.items() if not isinstance(s, KgError)}
    return {name: dict.fromkeys(log.pending(name), pending) for name, log in logs.items()}


def mark_pending(cluster: Cluster, committed: Mapping[str, Committed | KgError]) -> Operation[None]:
    """Mark the offsets that a transaction is about to change, where OffsetFetch does not."""
    for group, pending in (yield from pending_in_log(cluster, committed)).items():
        values = committed[group]
        for partition in pending:
            value = None if isinstance(values, KgError) else values.get(partition)
            if isinstance(values, dict) and isinstance(value, CommittedOffset):
                values[partition] = value._replace(is_pending=True)


# ---------------------------------------------------------------------------------------------
# The log as a whole


def by_log(cluster: Cluster, groups: Sequence[str]) -> Operation[list[str]]:
    """Sort groups by their partition of ``__consumer_offsets``, so that batches of them read each
    partition once or twice, and not once a batch."""
    count = len((yield from fetch_topic(cluster, TOPIC)).leaders)
    return sorted(groups, key=lambda group: offsets_partition(group, count)) if count else [*groups]


def newest_record_ms(cluster: Cluster) -> Operation[int | None]:
    """Return the time of the newest record of the log: by the brokers' clocks.

    None where no leader answers: without DESCRIBE on the topic, and before Kafka 3.0 (KIP-734).
    """
    topic = yield from fetch_topic(cluster, TOPIC)
    partitions = [TopicPartition(TOPIC, number) for number in topic.leaders]

    def work(broker: int, parts: list[TopicPartition]) -> Operation[dict[TopicPartition, Any]]:
        version = yield from version_of(broker, list_offsets.Request)
        if isinstance(version, KgError) or version < _MAX_TIMESTAMP_VERSION:
            return dict.fromkeys(parts, -1)
        (rows,) = yield from ask_offsets(broker, parts, [(_MAX_TIMESTAMP, READ_UNCOMMITTED)])
        known = {p: row.timestamp for p, row in rows.items() if not isinstance(row, KgError)}
        return dict.fromkeys(parts, -1) | known

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
