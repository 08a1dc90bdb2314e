"""Facts about brokers: their rules and versions, and the state of ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, ask_metadata, ensure_brokers
from kgtool.client.ops import Operation, call, gather, grouped
from kgtool.errors import KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import describe_groups, metadata
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster import broker_configs
from kgtool.queries.cluster.broker_configs import configs_of
from kgtool.queries.cluster.broker_rules import BrokerRules, offered_by, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.permissions import NOT_SAID, operations_on_cluster
from kgtool.queries.offsets.list_offsets import LogRange, log_ranges
from kgtool.text import DAY_MS

_PROBE_TRIES = 60
"""Names that are tried for each partition, to find one that belongs there."""


class OffsetsTopic(NamedTuple):
    """``__consumer_offsets``: its partitions as Metadata shows them, or why they are unknown.

    ``partitions`` are those of interest, of ``size``. ``loading``: broker id → the partitions that
    it is still loading. ``daily``: how many records each partition got in the last day. No topic is
    no error: nothing was ever committed then.
    """

    partitions: Mapping[int, Any]
    size: int = 0
    error: KgError | None = None
    cleanup_policy: str | None = None
    loading: Mapping[int, Sequence[int]] = {}
    segment_bytes: int | None = None
    daily: Mapping[int, int] = {}


class BrokerFacts(NamedTuple):
    """All brokers of the cluster by id; a KgError for one that does not answer.

    ``sees_all``: whether this login may see every group; None where that is unknown. ``errors``:
    of the other requests.
    """

    rules: Mapping[int, BrokerRules | KgError]
    offered: Mapping[int, Mapping[int, tuple[int, int]] | KgError]
    offsets_topic: OffsetsTopic
    sees_all: bool | None
    errors: Sequence[ItemError] = ()

    @property
    def retention_ms(self) -> int | None:
        """The longest time for which any broker keeps offsets."""
        known = [r.retention_ms for r in self.rules.values() if isinstance(r, BrokerRules)]
        return max((ms for ms in known if ms is not None), default=None)

    @property
    def can_delete_offsets(self) -> bool:
        """Whether every broker knows OffsetDelete (2.4, KIP-496)."""
        known = [r.release for r in self.rules.values() if isinstance(r, BrokerRules)]
        return all(release >= (2, 4) for release in known)


def fetch_broker_facts(
    cluster: Cluster, groups: Iterable[str], now_ms: int, *, everywhere: bool
) -> Operation[BrokerFacts]:
    """Ask every broker once.

    :param groups: those whose partitions of ``__consumer_offsets`` are of interest.
    :param everywhere: all partitions are.
    """
    yield from ensure_brokers(cluster)
    ids = sorted(cluster.brokers)
    errors: list[ItemError] = []
    rules, offered, topic, sees_all = yield from gather(
        [
            rules_of(cluster, ids),
            offered_by(ids),
            _offsets_topic(cluster, groups, now_ms if everywhere else None, errors),
            _sees_all(cluster, errors),
        ]
    )
    return BrokerFacts(rules, offered, topic, sees_all, errors)


def _sees_all(cluster: Cluster, errors: list[ItemError]) -> Operation[bool | None]:
    """Ask whether DESCRIBE on the cluster is allowed: without it ListGroups leaves groups out."""
    bits = yield from operations_on_cluster(cluster)
    if isinstance(bits, KgError):
        errors.append(ItemError.of(bits, Target()))
        return None
    # Without DESCRIBE on the cluster all other bits are 0 too.
    return None if bits == NOT_SAID else bits != 0


def _offsets_topic(
    cluster: Cluster, groups: Iterable[str], now_ms: int | None, errors: list[ItemError]
) -> Operation[OffsetsTopic]:
    """Look at the topic: at all of it as of ``now_ms``, or at the groups' partitions (None)."""
    everywhere = now_ms is not None
    reply = yield from ask_metadata(cluster, [TOPIC])
    if isinstance(reply, KgError):
        errors.append(ItemError.of(reply, Target(topic=TOPIC)))
        return OffsetsTopic({}, 0, reply)
    missing = metadata.Topic(error_code=codes.UNKNOWN_TOPIC_OR_PARTITION)
    topic = next((row for row in reply.topics if row.name == TOPIC), missing)
    if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
        return OffsetsTopic({})
    if topic.error_code and not topic.partitions:
        error = denied.explain(broker_error(topic.error_code), denied.DESCRIBE, topic=TOPIC)
        return OffsetsTopic({}, 0, error)
    rows = {row.partition: row for row in topic.partitions}
    if not rows:
        missing_rows = left_out(metadata.Request, f"the partitions of {TOPIC}")
        errors.append(ItemError.of(missing_rows, Target(topic=TOPIC)))
        return OffsetsTopic({}, 0, missing_rows)
    names = _probes(groups, len(rows), everywhere)
    configs, loading, daily = yield from gather(
        [_topic_configs(errors), _loading(rows, names, errors), _daily(cluster, rows, now_ms)]
    )
    wanted = rows if everywhere else {n: row for n, row in rows.items() if n in names}
    policy, size = configs.get("cleanup.policy"), configs.get("segment.bytes") or ""
    segment = int(size) if size.isdecimal() else None
    return OffsetsTopic(wanted, len(rows), None, policy, loading, segment, daily)


def _daily(
    cluster: Cluster, rows: Mapping[int, Any], now_ms: int | None
) -> Operation[dict[int, int]]:
    """Count the records of the last day; what can't be told of a partition is left out."""
    if now_ms is None:
        return {}
    led = [TopicPartition(TOPIC, number) for number, row in rows.items() if row.leader_id >= 0]
    found: dict[int, int] = {}
    for at, log in (yield from log_ranges(cluster, led, now_ms - DAY_MS)).items():
        if isinstance(log, LogRange) and log.at_time is not None:
            found[at.partition] = log.end.offset - log.at_time.offset
    return found


def _probes(groups: Iterable[str], count: int, everywhere: bool) -> dict[int, str]:
    """Return the name of a group, real or not, for each partition of interest."""
    found = {offsets_partition(group, count): group for group in groups}
    for number in range(_PROBE_TRIES * count if everywhere else 0):
        name = f"kgtool-doctor-{number}"
        found.setdefault(offsets_partition(name, count), name)
    return found


def _loading(
    rows: Mapping[int, Any], names: Mapping[int, str], errors: list[ItemError]
) -> Operation[dict[int, list[int]]]:
    """Describe one group in each partition: COORDINATOR_LOAD_IN_PROGRESS (14) while it is loaded.

    Brokers don't list the groups of such a partition, so it takes a name, which need not exist.
    """
    leaders = {number: rows[number].leader_id for number in names if number in rows}
    parts = grouped((leader, number) for number, leader in leaders.items() if leader >= 0)
    replies = yield from gather(
        [
            call(leader, describe_groups.Request(groups=[names[n] for n in numbers]))
            for leader, numbers in parts.items()
        ]
    )
    found: dict[int, list[int]] = {}
    for (leader, numbers), reply in zip(parts.items(), replies, strict=True):
        if isinstance(reply, KgError):
            errors.append(ItemError.of(reply, Target(broker=leader)))
            continue
        unusual = {row.error_code for row in reply.groups} - _USUAL
        errors += [ItemError.of(broker_error(code), Target(broker=leader)) for code in unusual]
        loading = {row.group_id for row in reply.groups if row.error_code == _LOADING}
        if loading:
            found[leader] = sorted(n for n in numbers if names[n] in loading)
    return found


_LOADING = codes.COORDINATOR_LOAD_IN_PROGRESS
_USUAL = {
    codes.NONE,
    _LOADING,
    codes.NOT_COORDINATOR,
    codes.GROUP_ID_NOT_FOUND,
    codes.GROUP_AUTHORIZATION_FAILED,
}
"""Answers about a group that may not exist, from the broker that led its partition a moment ago."""


def _topic_configs(errors: list[ItemError]) -> Operation[dict[str, str | None]]:
    found = yield from configs_of(broker_configs.TOPIC, TOPIC, ["cleanup.policy", "segment.bytes"])
    if isinstance(found, KgError):
        errors.append(ItemError.of(found, Target(topic=TOPIC)))
        return {}
    return found
