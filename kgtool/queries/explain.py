"""The facts of one group that explain its state and what can be done.

Expiry comes from ``kgtool.queries.log.expiry``, removals from the log's tombstones
(``kgtool.queries.log.removals``), refusals from the changes that would refuse: who asks passes them
in (``kgtool.changes.refusals``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kgtool.client.cluster import Cluster, fetch_topic, find_coordinators
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    ItemError,
    Member,
    Target,
    TopicPartition,
)
from kgtool.protocol import codes
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.cluster.permissions import Operations, Permissions, permissions
from kgtool.queries.doctor.examine import WITHIN_MS, Diagnosis, diagnose
from kgtool.queries.doctor.facts import DoctorOptions
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.groups.describe import describe_with_type, is_subscribed, may_count_others
from kgtool.queries.groups.share_and_streams import read_share_groups
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
from kgtool.retention.doubts import INTERVAL_MS
from kgtool.retention.phases import RulePhases
from kgtool.retention.rules import (
    RULE_SHARE,
    TYPE_CLASSIC,
    TYPE_CONSUMER,
    TYPE_SHARE,
    GroupSnapshot,
)


class TopicUse(NamedTuple):
    """One topic that a group has offsets of, or subscribes to.

    ``subscribed`` is None where it is unknown; ``holders`` are the members that subscribe to it or
    own partitions of it. ``refusal``: why delete-offsets would be refused for it.
    """

    topic: str
    offsets: int
    holders: tuple[Member, ...]
    subscribed: bool | None
    refusal: ItemError | None


class Refusals(NamedTuple):
    """Why changes of a group would be refused; None: they would not."""

    deletion: ItemError | None
    offsets: Mapping[TopicPartition, ItemError | None]
    """Of the deletion of single offsets."""
    reset: ItemError | None


Refuse = Callable[
    [Cluster, GroupDescription, Mapping[TopicPartition, CommittedOffset]], Operation[Refusals]
]
"""Looks what changes of a group with these offsets would be refused."""


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
    """The group's partition of ``__consumer_offsets``."""
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
    findings: list[Finding]
    """What ``doctor`` finds of the group, the worst first."""

    @property
    def exists(self) -> bool:
        """Whether the coordinator knows the group."""
        return self.description.error is None

    @property
    def was_there(self) -> bool:
        """Whether the log still has records of it."""
        return self.past is not None and bool(self.past.removals or self.past.left)


def explain_group(
    cluster: Cluster, group: str, now_ms: int, refuse: Refuse, rules_then: RulePhases = ()
) -> Operation[Explanation]:
    """Collect the facts of a group that exists or has existed.

    :param rules_then: of the brokers that removed what is gone; default: those of today, as far
        back as the records allow.
    """
    reads = gather(
        [
            describe_with_type(cluster, [group]),
            fetch_committed(cluster, [group]),
            find_coordinators(cluster, [group]),
            fetch_topic(cluster, TOPIC),
        ]
    )
    # A coordinator that doesn't answer must leave time for what other brokers know.
    (description,), committed, located, log = yield from within(reads, READING_SHARE)
    (description,), starts = yield from read_share_groups(cluster, [description])
    committed = {**committed, **starts}
    node = located[group]
    exists = description.error is None
    is_share = description.type == TYPE_SHARE
    values, errors = _split(description, committed[group])
    is_read = not errors
    rules = None if isinstance(node, KgError) else (yield from rules_of(cluster, [node]))[node]
    broker = rules if isinstance(rules, BrokerRules) else None
    questions = [Question.of(description, committed[group])] if exists and not is_share else []
    expiries, past, refusals, diagnosis = yield from gather(
        [
            find_expiries(cluster, questions, now_ms),
            _past(cluster, description, broker, now_ms, rules_then),
            refuse(cluster, description, values),
            _diagnose(cluster, description, now_ms),
        ]
    )
    # OffsetFetch leaves out topics that may not be seen; the log has them.
    hidden = {live.key.topic for live in past.left} if isinstance(past, GroupPast) else set()
    names = sorted(hidden.union(_topic_names(description, values)))
    allowed = yield from permissions(cluster, group, [*names, TOPIC])
    errors += [ItemError.of(error, Target(group=group)) for error in allowed.errors]
    if broker is not None and broker.error is not None and isinstance(node, int):
        # That brokers are not Apache Kafka concerns all of them, and is said of expiry too.
        target = Target(broker=node) if broker.is_kafka else Target()
        errors.append(ItemError.of(broker.error, target))
    errors += expiries.errors
    said = {error.name for error in (*errors, description.error) if error is not None}
    said.add("WRONG_GROUP_TYPE")  # the first line says which type it is
    errors += [error for error in diagnosis.errors if error.name not in said]
    if isinstance(past, KgError):
        errors.append(ItemError.of(denied_log(past), Target(topic=TOPIC)))
    expiry: GroupExpiry | None = expiries.groups.get(group)
    snapshot = expiry.snapshot if expiry else None
    return Explanation(
        description,
        offsets_partition(group, len(log.leaders)) if log.leaders else None,
        broker,
        values,
        is_read,
        dict.fromkeys(values, Expiry(rule=RULE_SHARE)) if is_share else _offsets(expiry),
        snapshot,
        _topic_uses(description, values, expiry, refusals.offsets) if exists else [],
        refusals.deletion,
        refusals.reset,
        past if isinstance(past, GroupPast) else None,
        _missing_acls(description, names, allowed, broker),
        list(dict.fromkeys(errors)),
        diagnosis.findings,
    )


def _offsets(expiry: GroupExpiry | None) -> dict[TopicPartition, Expiry]:
    return {} if expiry is None else expiry.offsets


def _split(
    description: GroupDescription, committed: Committed | KgError
) -> tuple[dict[TopicPartition, CommittedOffset], list[ItemError]]:
    """Separate a group's offsets from the errors of those that can't be read."""
    group = description.group
    if isinstance(committed, KgError):
        is_said = description.error is not None
        return {}, [] if is_said else [ItemError.of(committed, Target(group=group))]
    values = {p: v for p, v in sorted(committed.items()) if isinstance(v, CommittedOffset)}
    failed = [(p, v) for p, v in committed.items() if isinstance(v, KgError)]
    return values, [ItemError.of(error, Target(group, *p)) for p, error in failed]


def _diagnose(cluster: Cluster, description: GroupDescription, now_ms: int) -> Operation[Diagnosis]:
    """Find what ``doctor`` finds of the group; nothing of one that is gone, or a share group."""
    is_gone = description.error is not None and description.error.code == codes.GROUP_ID_NOT_FOUND
    if is_gone or description.type == TYPE_SHARE:
        return Diagnosis([], 0, 0, False, [])
    group, kind = description.group, description.type
    options = DoctorOptions(now_ms, WITHIN_MS, False, lambda _name: None)
    kinds = {group: kind} if kind in (TYPE_CLASSIC, TYPE_CONSUMER) else {}
    return (yield from diagnose(cluster, [group], kinds, options))


def _topic_names(description: GroupDescription, values: Iterable[TopicPartition]) -> set[str]:
    names = {partition.topic for partition in values}
    for member in description.members:
        names.update(member.subscribed or ())
        if description.type != "streams":  # tasks of subtopologies
            names.update(topic for topic, _ in member.assignment)
    return names


def _past(
    cluster: Cluster,
    description: GroupDescription,
    broker: BrokerRules | None,
    now_ms: int,
    rules_then: RulePhases,
) -> Operation[GroupPast | KgError | None]:
    """Read the removals; those of a group that exists only within the last retention."""
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
        cluster,
        description.group,
        rules_then or broker.rules,
        retention_ms,
        begin_ms,
        broker.interval_ms or INTERVAL_MS,
    )
    return found


def _topic_uses(
    description: GroupDescription,
    values: dict[TopicPartition, CommittedOffset],
    expiry: GroupExpiry | None,
    refusals: Mapping[TopicPartition, ItemError | None],
) -> list[TopicUse]:
    uses = []
    for topic in sorted(_topic_names(description, values)):
        partitions = [partition for partition in values if partition.topic == topic]
        subscribed = is_subscribed(description.members, topic)
        if subscribed is None or may_count_others(description):  # the log has it
            subscribed = expiry.subscribes(topic) if expiry is not None else None
        members = description.members
        holders = [m for m in members if topic in (*(m.subscribed or ()), *dict(m.assignment))]
        error = next(filter(None, map(refusals.get, partitions)), None)
        uses.append(TopicUse(topic, len(partitions), tuple(holders), subscribed, error))
    return uses


def _missing_acls(
    description: GroupDescription,
    topics: Iterable[str],
    allowed: Permissions,
    broker: BrokerRules | None,
) -> list[Missing]:
    """List the ACLs that the cluster says are missing; what it doesn't say is not listed."""
    found: list[Missing] = []
    group = description.group

    def need(have: Operations | None, operation: str, kind: str, name: str, purpose: str) -> None:
        if have is not None and operation not in have:
            found.append(Missing(operation, kind, name, purpose))

    need(allowed.group, "DESCRIBE", "group", group, "see the group")
    if description.error is None:
        need(allowed.group, "READ", "group", group, "reset-offsets, keep")
        need(allowed.group, "DELETE", "group", group, "delete, delete-offsets")
    for topic in topics:
        have = allowed.topics.get(topic)
        need(have, "DESCRIBE", "topic", topic, "see its offsets")
        need(have, "READ", "topic", topic, "reset-offsets, delete-offsets, keep")
    log = allowed.topics.get(TOPIC)
    need(log, "READ", "topic", TOPIC, "when offsets expire, and why they went")
    error = broker.error if broker is not None else None
    refused = error is not None and error.code == codes.CLUSTER_AUTHORIZATION_FAILED
    have = frozenset[str]() if refused else allowed.cluster
    need(have, "DESCRIBE_CONFIGS", "cluster", "kafka-cluster", "how long offsets are kept")
    return found
