"""The operations that this login is authorized for (KIP-430).

Without an authorizer brokers answer that everything is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kgtool.client.answers import left_out, refused
from kgtool.client.cluster import Cluster, call_any, find_coordinators, version_of
from kgtool.client.ops import ANY, Call, Operation, gather, pipelined
from kgtool.errors import KgError
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_describe, describe_cluster, describe_groups, metadata

NOT_SAID = -(2**31)
"""The bit field where the broker did not fill it."""

_BITS = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""``org.apache.kafka.common.acl.AclOperation``."""

Operations = frozenset[str]


class Permissions(NamedTuple):
    """Authorized operations, by ACL name; None where they are unknown.

    ``errors``: of brokers that did not answer at all.
    """

    group: Operations | None
    cluster: Operations | None
    topics: dict[str, Operations | None]
    errors: list[KgError]


def permissions(cluster: Cluster, group: str, topics: Sequence[str]) -> Operation[Permissions]:
    """Ask for the operations on a group, its topics and the cluster: one round trip each."""
    errors: list[KgError] = []
    group_part, cluster_part, topic_part = yield from gather(
        [
            _of_group(cluster, group, errors),
            _of_cluster(cluster, errors),
            _of_topics(cluster, topics, errors),
        ]
    )
    return Permissions(group_part, cluster_part, topic_part, errors)


def _operations(bits: int) -> Operations | None:
    if bits == NOT_SAID:
        return None
    return frozenset(name for bit, name in _BITS.items() if bits >> bit & 1)


def _of_group(cluster: Cluster, group: str, errors: list[KgError]) -> Operation[Operations | None]:
    located = yield from find_coordinators(cluster, [group])
    node = located[group]
    if isinstance(node, KgError):
        if node.code == codes.GROUP_AUTHORIZATION_FAILED:
            return frozenset()
        errors.append(node)
        return None
    calls = []
    for request, first_version in (
        (consumer_group_describe.Request(group_ids=[group], include_authorized_operations=True), 0),
        (describe_groups.Request(groups=[group], include_authorized_operations=True), 3),
    ):
        version = yield from version_of(node, request)
        if isinstance(version, int) and version >= first_version:
            calls.append(Call(node, request))
    found = None
    for reply in (yield from pipelined(calls)):
        if isinstance(reply, KgError):
            errors.append(reply)
            continue
        for row in reply.groups:
            if row.error_code == codes.NONE:
                found = _operations(row.authorized_operations) or found
    return found


def _of_cluster(cluster: Cluster, errors: list[KgError]) -> Operation[Operations | None]:
    bits = yield from operations_on_cluster(cluster)
    if isinstance(bits, KgError):
        errors.append(bits)
        return None
    # Without DESCRIBE on the cluster all other bits are 0 too.
    return _operations(bits) or None


def operations_on_cluster(cluster: Cluster) -> Operation[int | KgError]:
    """Return the bit field of the cluster (DescribeCluster), or ``NOT_SAID``."""
    request = describe_cluster.Request(include_cluster_authorized_operations=True)
    version = yield from version_of(ANY, request)
    if isinstance(version, KgError) or version < 0:
        return version if isinstance(version, KgError) else NOT_SAID
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return refused(cluster, ANY, request, reply)
    return int(reply.cluster_authorized_operations)


def _of_topics(
    cluster: Cluster, topics: Sequence[str], errors: list[KgError]
) -> Operation[dict[str, Operations | None]]:
    found: dict[str, Operations | None] = dict.fromkeys(topics)
    version = yield from version_of(ANY, metadata.Request)
    if isinstance(version, KgError):
        errors.append(version)
        return found
    if not topics or version < 8:
        return found
    request = metadata.Request(
        topics=[metadata.RequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    reply: Any = yield from call_any(request)
    if isinstance(reply, KgError) or reply.error_code:
        is_answer = not isinstance(reply, KgError)
        errors.append(refused(cluster, ANY, request, reply) if is_answer else reply)
        return found
    rows = {row.name: row for row in reply.topics}
    for name in topics:
        row = rows.get(name)
        if row is None:
            errors.append(left_out(request, f"topic {name}"))
        elif row.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
            found[name] = frozenset()
        elif row.error_code == codes.NONE:
            found[name] = _operations(row.topic_authorized_operations)
    return found
