"""Offsets that are gone, with the values that they had: from the log of their groups.

What stood before a tombstone is what the coordinator had then: the fold of
``kgtool.retention.history`` tells, so a pending transaction is no commit, and an aborted one never
was. The log is the living cluster's, or files of it (an export, or a broker's folder).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic, find_coordinators
from kgtool.client.ops import Operation, grouped
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.queries.cluster.broker_configs import TOPIC as TOPIC_RESOURCE
from kgtool.queries.cluster.broker_configs import configs_of
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.expiry import USUAL_RETENTION_MS, denied_log
from kgtool.queries.log.removals import OTHERS, Elsewhere, GroupRecords
from kgtool.queries.log.scan import scan
from kgtool.records.batch import batches, read_records
from kgtool.records.types import GROUP_TYPES, OFFSET_TYPES
from kgtool.retention.doubts import INTERVAL_MS
from kgtool.retention.history import Entry, History
from kgtool.retention.rules import RULE_ORPHAN, RULES_4_1, RuleSet
from kgtool.retention.writes import Removal
from kgtool.retention.written_by import Written, likely_rules

_CONFIGS = ("segment.ms", "segment.bytes", "min.cleanable.dirty.ratio", "delete.retention.ms")
"""Of ``__consumer_offsets``: what may already be compacted."""
_TOMBSTONES = {*OFFSET_TYPES, *GROUP_TYPES}
_FEW = 20_000


class GoneOffset(NamedTuple):
    """One offset: the OffsetCommitValue that it had (None: compacted away), and how it went.

    ``removed_at_ms`` None: it has no tombstone, the coordinator just does not know its group (rule
    ``orphan``), or it was still there at the time asked for.
    """

    value: Any
    removed_at_ms: int | None = None
    cause: str | None = None
    rule: str | None = None


class GoneGroup(NamedTuple):
    """A group in its log. ``seen``: the log has records of it; ``first``: offset and time (ms) of
    the first record of its log partition; None: the partition is empty."""

    partition: int
    seen: bool
    offsets: Mapping[TopicPartition, GoneOffset]
    first: tuple[int, int] | None

    @property
    def lost(self) -> int:
        """How many tombstones have no value in the log any more."""
        return sum(one.value is None for one in self.offsets.values())


def find_gone(
    whole: GroupRecords,
    before: Sequence[Entry] | None,
    rules: RuleSet,
    retention_ms: int,
    interval_ms: int = INTERVAL_MS,
    *,
    begin: int = 0,
    elsewhere: Sequence[Removal] | None = None,
) -> dict[str, dict[TopicPartition, GoneOffset]]:
    """Return by group the offsets that are gone; with ``before``, those that stood at its end.

    :param whole: the records of one log partition, which begins at the offset ``begin``.
    :param before: those of them that were written up to a moment.

    :param elsewhere: as for ``GroupRecords.removals``.
    """
    entries = whole.entries()
    removed = whole.removals(rules, retention_ms, interval_ms, begin=begin, elsewhere=elsewhere)
    removals = [row for row in removed if row.topic is not None]
    history = History(rules, retention_ms)
    for entry in entries if before is None else before:
        history.feed(entry)
    found: dict[str, dict[TopicPartition, GoneOffset]] = {}
    if before is None:
        for row in removals:
            _add_removal(found.setdefault(row.group, {}), row)
        for live in history.live():
            if live.verdict.rule == RULE_ORPHAN:
                own = found.setdefault(live.key.group, {})
                own[TopicPartition(*live.key[1:])] = GoneOffset(
                    live.stored.value, rule=live.verdict.rule
                )
        return found
    past = len(before)
    last = before[-1].offset if past else -1
    later: dict[tuple[str, TopicPartition], Removal] = {}
    for row in removals:
        if row.log_offset > last:
            later.setdefault((row.group, _place(row)), row)
    for live in history.live():
        if live.verdict.rule != RULE_ORPHAN:
            at = TopicPartition(*live.key[1:])
            gone = later.get((live.key.group, at))
            found.setdefault(live.key.group, {})[at] = GoneOffset(
                live.stored.value,
                *(() if gone is None else (gone.removed_at_ms, gone.cause, gone.rule)),
            )
    return found


def _add_removal(own: dict[TopicPartition, GoneOffset], row: Removal) -> None:
    at = _place(row)
    if row.stored is not None:
        own[at] = GoneOffset(row.stored.value, row.removed_at_ms, row.cause, row.rule)
    elif row.cause is None:  # else it was pending only
        own.setdefault(at, GoneOffset(None, row.removed_at_ms, row.cause, row.rule))


def _place(row: Removal) -> TopicPartition:
    return TopicPartition(str(row.topic), row.partition or 0)


class Readers:
    """Reads some log partitions for the groups in them."""

    def __init__(self, at_ms: int | None, others: int = 0) -> None:
        self._at_ms, self._others = at_ms, others
        self._all: dict[int, tuple[list[str], GroupRecords, GroupRecords | None]] = {}

    def add(self, number: int, groups: Sequence[str]) -> Callable[[bytes], None]:
        """Add a log partition with these groups; return what takes its batches."""
        whole = GroupRecords(groups, number, others=self._others)
        part = None if self._at_ms is None else GroupRecords(groups, number, self._at_ms)
        self._all[number] = (list(groups), whole, part)

        def feed(data: bytes) -> None:
            whole.feed(data)
            if part is not None:
                part.feed(data)

        return feed

    def end(self, number: int) -> int:
        """Return the offset after the last batch read; -1: there is none."""
        return self._all[number][1].end

    def went_back(self, number: int) -> int | None:
        """Return the offset of the last batch that came after a later one."""
        return self._all[number][1].went_back

    def dense_end(self, number: int) -> int | None:
        """Return the offset after the last batch, if no record is missing since offset 0."""
        return self._all[number][1].dense_end

    def kinds(self, number: int) -> list[Written]:
        """Return the kinds of records that were read."""
        return self._all[number][1].kinds

    def result(
        self,
        number: int,
        broker: BrokerRules,
        begin: int,
        elsewhere: Sequence[Removal] | None = None,
    ) -> dict[str, GoneGroup]:
        """Return what is gone of each group of a log partition."""
        groups, whole, part = self._all[number]
        before = None if part is None else part.entries()
        gone = find_gone(whole, before, *_judge(broker), begin=begin, elsewhere=elsewhere)
        return {
            name: GoneGroup(number, name in whole.seen, gone.get(name, {}), whole.first)
            for name in groups
        }


def _judge(broker: BrokerRules) -> tuple[RuleSet, int, int]:
    """The broker's rules, retention and interval, or the usual ones (ms)."""
    retention_ms = broker.retention_ms or USUAL_RETENTION_MS
    return broker.rules, retention_ms, broker.interval_ms or INTERVAL_MS


# ---------------------------------------------------------------------------------------------
# The living cluster


def read_gone(
    cluster: Cluster, groups: Sequence[str], at_ms: int | None = None
) -> Operation[dict[str, GoneGroup | KgError]]:
    """Read the log partitions of groups: what is gone, or what stood at ``at_ms``."""
    topic = yield from fetch_topic(cluster, TOPIC)
    if topic.error is not None:
        return dict.fromkeys(groups, _denied(topic.error))
    homes = {name: offsets_partition(name, len(topic.leaders)) for name in groups}
    located = yield from find_coordinators(cluster, groups)
    brokers = {node for node in located.values() if isinstance(node, int)}
    known = yield from rules_of(cluster, brokers)
    readers, others = Readers(at_ms, OTHERS), Elsewhere(cluster, [*topic.leaders])
    names = grouped((number, name) for name, number in homes.items())
    scanned = yield from scan(cluster, {n: readers.add(n, own) for n, own in names.items()})
    found: dict[str, GoneGroup | KgError] = {}
    for number, own in names.items():
        part = scanned[number]
        if isinstance(part, KgError):
            found.update(dict.fromkeys(own, _denied(part)))
            continue
        broker = known.get(node) if isinstance(node := located[own[0]], int) else None
        if not isinstance(broker, BrokerRules):
            broker = BrokerRules(likely_rules(readers.kinds(number)) or RULES_4_1, (0, 0))
        try:
            result = readers.result(number, broker, part.begin)
            if any(one.cause is None for each in result.values() for one in each.offsets.values()):
                elsewhere = yield from others.read(number, *_judge(broker))
                result = readers.result(number, broker, part.begin, elsewhere)
            found.update(result)
        except KgError as error:
            found.update(dict.fromkeys(own, error))
    return {name: found[name] for name in groups}


def gone_groups(cluster: Cluster, since_ms: int) -> Operation[set[str]]:
    """Return the names of groups whose tombstones the log has, and that are not listed: for shells.

    :param since_ms: where reading begins in a log partition of more than 20,000 records.
    """
    found = yield from removed_groups(cluster, since_ms, lambda _group: True)
    listing = yield from list_groups(cluster)
    return found - {row.group for row in listing.groups}


def removed_groups(
    cluster: Cluster, since_ms: int, wants: Callable[[str], bool]
) -> Operation[set[str]]:
    """Return the names of groups of which the end of the log has tombstones.

    :param since_ms: where reading begins in a log partition of more than 20,000 records.
    """
    topic = yield from fetch_topic(cluster, TOPIC)
    found: set[str] = set()

    def feed(data: bytes) -> None:
        for batch in batches(data):
            for record in () if batch.is_control else read_records(data, batch):
                key = record.key or b""
                if record.value is None and int.from_bytes(key[:2], "big") in _TOMBSTONES:
                    size = int.from_bytes(key[2:4], "big")
                    found.add(key[4 : 4 + size].decode("utf-8", "surrogateescape"))

    yield from scan(cluster, dict.fromkeys(topic.leaders, feed), since_ms, small=_FEW)
    return set(filter(wants, found))


def compaction(cluster: Cluster) -> Operation[dict[str, str | None]]:
    """Return the configs that say what may be compacted already; empty where they are hidden."""
    found = yield from configs_of(TOPIC_RESOURCE, TOPIC, _CONFIGS)
    return {} if isinstance(found, KgError) else found


def _denied(error: KgError) -> KgError:
    return denied_log(error, "which has the offsets that are gone")
