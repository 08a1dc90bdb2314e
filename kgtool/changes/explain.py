"""Everything there is to know of one group, to say why it is as it is and what can be done.

What would be refused is asked of the same operations that would refuse it (dry runs), what expires
of ``kgtool.queries.log.expiry``, what is gone of the log's tombstones
(``kgtool.queries.log.removals``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kgtool.changes.groups.delete import plan_deletions
from kgtool.changes.offsets.delete import plan_offset_deletions
from kgtool.changes.reset.rows import refusal
from kgtool.client.cluster import Cluster, find_coordinators, know_topic
from kgtool.client.ops import READING_SHARE, Operation, gather, grouped, within
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    ItemError,
    Member,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol import codes
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.permissions import Operations, Permissions, permissions
from kgtool.queries.groups.describe import describe_with_type, is_subscribed
from kgtool.queries.log.expiry import (
    SLACK_MS,
    USUAL_RETENTION_MS,
    Expiry,
    GroupExpiry,
    Question,
    denied_log,
    find_expiries,
)
from kgtool.queries.log.removals import GroupPast, group_past
from kgtool.queries.offsets.fetch import Committed, fetch_committed
from kgtool.retention.rules import GroupSnapshot


class TopicUse(NamedTuple):
    """One topic that a group has offsets of, or subscribes to.

    ``subscribed`` is None where it can't be known; ``holders`` are the members that subscribe to
    it or own partitions of it. ``refusal`` says why delete-offsets would be refused for it.
    """

    topic: str
    offsets: int
    holders: tuple[Member, ...]
    subscribed: bool | None
    refusal: ItemError | None


class Missing(NamedTuple):
    """An ACL that this login lacks, and what for."""

    operation: str
    resource_type: str
    resource: str
    purpose: str


class Explanation(NamedTuple):
    """One group. ``past`` is None where the log can't be read, which ``errors`` then explain."""

    description: GroupDescription
    partition: int | None
    """Of ``__consumer_offsets``."""
    broker: BrokerRules | None
    committed: dict[TopicPartition, CommittedOffset]
    is_read: bool
    """Whether ``committed`` is all of them; what is missing is in ``errors`` then."""
    expiries: dict[TopicPartition, Expiry]
    snapshot: GroupSnapshot | None
    topics: list[TopicUse]
    delete_refusal: ItemError | None
    reset_refusal: ItemError | None
    past: GroupPast | None
    missing: list[Missing]
    errors: list[ItemError]

    @property
    def exists(self) -> bool:
        """Whether the coordinator knows the group."""
        return self.description.error is None

    @property
    def was_there(self) -> bool:
        """Whether the log still says something of it."""
        return self.past is not None and bool(self.past.removals or self.past.left)


def explain_group(cluster: Cluster, group: str, now_ms: int) -> Operation[Explanation]:
    """Find out what there is to know of a group that exists or has existed."""
    asked = gather(
        [
            describe_with_type(cluster, [group]),
            fetch_committed(cluster, [group]),
            find_coordinators(cluster, [group]),
            know_topic(cluster, TOPIC),
        ]
    )
    # A coordinator that doesn't answer must leave time for what others can tell.
    (description,), committed, located, home = yield from within(asked, READING_SHARE)
    node = located[group]
    values, errors = _values(description, committed[group])
    questions = [Question.of(description, committed[group])] if description.error is None else []
    broker = yield from _broker(cluster, node)
    expiries, past, (delete_refusal, offset_refusals) = yield from gather(
        [
            find_expiries(cluster, questions, now_ms),
            _past(cluster, description, broker, now_ms),
            _refusals(cluster, description, values),
        ]
    )
    missing, unasked = yield from _missing_acls(cluster, description, values, past, broker)
    expiry: GroupExpiry | None = expiries.groups.get(group)
    snapshot = expiry.snapshot if expiry else None
    exists = description.error is None
    return Explanation(
        description,
        offsets_partition(group, len(home.leaders)) if home.leaders else None,
        broker,
        values,
        not errors,
        expiry.offsets if expiry else {},
        snapshot,
        _uses(description, values, snapshot, offset_refusals) if exists else [],
        delete_refusal,
        refusal(description, can_create=False) or _pending(delete_refusal),
        past if isinstance(past, GroupPast) else None,
        missing,
        _errors([*errors, *unasked, *_unknown(broker, node)], expiries.errors, past),
    )


def _pending(delete_refusal: ItemError | None) -> ItemError | None:
    """Return the refusal of a deletion, if a reset is refused for it too: a transaction."""
    is_pending = delete_refusal is not None and delete_refusal.code == codes.UNSTABLE_OFFSET_COMMIT
    return delete_refusal if is_pending else None


def _unknown(broker: BrokerRules | None, node: int | KgError) -> list[ItemError]:
    """Say why the coordinator's retention and interval are not told."""
    if broker is None or broker.error is None or isinstance(node, KgError):
        return []
    # That brokers are not Apache Kafka concerns all of them, and is said of expiry too.
    return [ItemError.of(broker.error, Target(broker=node) if broker.is_kafka else Target())]


def _errors(
    own: list[ItemError], of_expiry: list[ItemError], past: GroupPast | KgError | None
) -> list[ItemError]:
    found = [*own, *of_expiry]
    if isinstance(past, KgError):
        found.append(ItemError.of(denied_log(past), Target(topic=TOPIC)))
    return list(dict.fromkeys(found))


def _values(
    description: GroupDescription, committed: Committed | KgError
) -> tuple[dict[TopicPartition, CommittedOffset], list[ItemError]]:
    group = description.group
    if isinstance(committed, KgError):
        known = description.error is not None
        return {}, [] if known else [ItemError.of(committed, Target(group=group))]
    values = {p: v for p, v in sorted(committed.items()) if isinstance(v, CommittedOffset)}
    errors = [
        ItemError.of(value, Target(group, *partition))
        for partition, value in committed.items()
        if isinstance(value, KgError)
    ]
    return values, errors


def _topic_names(description: GroupDescription, values: Iterable[TopicPartition]) -> set[str]:
    names = {partition.topic for partition in values}
    for member in description.members:
        names.update(member.subscribed or ())
        names.update(topic for topic, _ in member.assignment)
    return names


def _broker(cluster: Cluster, node: int | KgError) -> Operation[BrokerRules | None]:
    if isinstance(node, KgError):
        return None
    found = (yield from rules_of(cluster, [node]))[node]
    return found if isinstance(found, BrokerRules) else None


def _refusals(
    cluster: Cluster, description: GroupDescription, values: dict[TopicPartition, CommittedOffset]
) -> Operation[tuple[ItemError | None, dict[TopicPartition, ItemError | None]]]:
    """Ask what deleting the group, and its offsets one by one, would end in; nothing is changed."""
    group = description.group
    if description.error is not None:
        return description.error, {}
    specs = grouped((partition.topic, partition.partition) for partition in values)
    wanted = [TopicSpec(topic, tuple(numbers)) for topic, numbers in specs.items()]
    deletions, offsets = yield from gather(
        [
            plan_deletions(cluster, [group]),
            plan_offset_deletions(cluster, {group: wanted} if wanted else {}),
        ]
    )
    rows = offsets.results[group].rows if wanted else []
    return deletions.rows[0].error, {
        TopicPartition(row.topic, row.partition or 0): row.error for row in rows
    }


def _past(
    cluster: Cluster, description: GroupDescription, broker: BrokerRules | None, now_ms: int
) -> Operation[GroupPast | KgError | None]:
    """Read what went; of a group that is there only what went within the last retention."""
    error = description.error
    if broker is None or (error is not None and error.code != codes.GROUP_ID_NOT_FOUND):
        return None
    retention_ms = broker.retention_ms or USUAL_RETENTION_MS
    begin_ms = None
    if error is None:
        # A removal is explained by the commit before it, which is one retention older.
        back_ms = 2 * (retention_ms + (broker.interval_ms or 0)) + SLACK_MS
        begin_ms = max(now_ms - back_ms, 0)
    found: GroupPast | KgError = yield from group_past(
        cluster, description.group, broker.rules, retention_ms, begin_ms
    )
    return found


def _uses(
    description: GroupDescription,
    values: dict[TopicPartition, CommittedOffset],
    snapshot: GroupSnapshot | None,
    refusals: dict[TopicPartition, ItemError | None],
) -> list[TopicUse]:
    resolved = snapshot.subscribed_topics if snapshot is not None else None
    uses = []
    for topic in sorted(_topic_names(description, values)):
        partitions = [partition for partition in values if partition.topic == topic]
        subscribed = is_subscribed(description.members, topic)
        if subscribed is None and resolved is not None:
            subscribed = topic in resolved  # by a regular expression, as the log has it resolved
        error = next((refusals[p] for p in partitions if refusals.get(p) is not None), None)
        uses.append(
            TopicUse(topic, len(partitions), _holders(description, topic), subscribed, error)
        )
    return uses


def _holders(description: GroupDescription, topic: str) -> tuple[Member, ...]:
    return tuple(
        member
        for member in description.members
        if topic in (member.subscribed or ()) or any(name == topic for name, _ in member.assignment)
    )


def _missing_acls(
    cluster: Cluster, description: GroupDescription, values: Iterable[TopicPartition],
    past: GroupPast | KgError | None, broker: BrokerRules | None,
) -> Operation[tuple[list[Missing], list[ItemError]]]:  # fmt: skip
    # Offsets of topics that may not be seen are left out without a word, but for the log.
    hidden = {live.key.topic for live in past.left} if isinstance(past, GroupPast) else set()
    names = sorted(hidden.union(_topic_names(description, values)))
    allowed = yield from permissions(cluster, description.group, [*names, TOPIC])
    config_error = broker.error if broker is not None else None
    missing = _missing(description.group, names, allowed, description.error is None, config_error)
    return missing, [
        ItemError.of(error, Target(group=description.group)) for error in allowed.errors
    ]


def _missing(
    group: str, names: Iterable[str], allowed: Permissions, exists: bool, config: KgError | None
) -> list[Missing]:
    """List the ACLs that the cluster says are not there; what it doesn't say is not listed."""
    found: list[Missing] = []

    def need(have: Operations | None, operation: str, kind: str, name: str, purpose: str) -> None:
        if have is not None and operation not in have:
            found.append(Missing(operation, kind, name, purpose))

    need(allowed.group, "DESCRIBE", "group", group, "see the group")
    if exists:
        need(allowed.group, "READ", "group", group, "reset-offsets, keep")
        need(allowed.group, "DELETE", "group", group, "delete, delete-offsets")
    for topic in names:
        have = allowed.topics.get(topic)
        need(have, "DESCRIBE", "topic", topic, "see its offsets")
        need(have, "READ", "topic", topic, "reset-offsets, delete-offsets, keep")
    log = allowed.topics.get(TOPIC)
    need(log, "READ", "topic", TOPIC, "when offsets expire, and why they went")
    refused = config is not None and config.code == codes.CLUSTER_AUTHORIZATION_FAILED
    have = frozenset[str]() if refused else allowed.cluster
    need(have, "DESCRIBE_CONFIGS", "cluster", "kafka-cluster", "how long offsets are kept")
    return found
