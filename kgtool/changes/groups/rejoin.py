"""Joining and leaving an Empty classic group, which restarts the clock of its offsets.

For a classic group with a protocol type, brokers from 2.1 on count from when it became Empty
(KIP-211): committing its offsets again does not help. A member that joins and leaves does: the
group's next metadata record has a new currentStateTimestamp.

The member never completes the rebalance: a rebalancing group keeps all its offsets, whereas a
Stable one keeps only those of subscribed topics (KIP-496). It still subscribes to every topic that
has an offset, because brokers 2.4 - 2.8.1 check that even then (KAFKA-13636), and offers every
assignor of Kafka's clients, so that a consumer that starts in the same moment is not refused. All
it leaves behind is the next generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kgtool.client.cluster import Cluster, version_of
from kgtool.client.ops import Operation, call
from kgtool.client.routing import by_coordinator
from kgtool.errors import KgError
from kgtool.protocol.api import join_group, leave_group
from kgtool.protocol.codes import broker_error
from kgtool.records.subscription import encode_topics

CONSUMER_PROTOCOL = "consumer"
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
SESSION_TIMEOUT_MS = 10_000
"""If kgtool dies in between, the coordinator removes the member after that."""

REASON = "kgtool keep --join: starts the clock of the group's emptiness again"
MEMBER_ID_REQUIRED = 79
"""KIP-394: the coordinator assigns the member's id first."""


def restart_clocks(
    cluster: Cluster, groups: Mapping[str, Iterable[str]]
) -> Operation[dict[str, KgError | None]]:
    """Join and leave each group, with its topics; return the errors.

    It takes ``group.initial.rebalance.delay.ms`` (3 s by default) for each group of a coordinator,
    and READ on the group.
    """

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        answers: dict[str, Any] = {}
        for group in ids:  # a join holds up its connection, so there is no gain in doing many
            topics = sorted(groups[group])
            answers[group] = yield from _join_and_leave(cluster, broker, group, topics)
        return answers

    return (yield from by_coordinator(cluster, list(groups), work))


def _join_and_leave(
    cluster: Cluster, broker: int, group: str, topics: list[str]
) -> Operation[KgError | None]:
    version = yield from version_of(broker, leave_group.Request)
    if isinstance(version, KgError):
        return version
    reply = yield from call(broker, _join(group, topics, ""))
    if not isinstance(reply, KgError) and reply.error_code == MEMBER_ID_REQUIRED:
        reply = yield from call(broker, _join(group, topics, reply.member_id))
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    left = yield from call(broker, _leave(group, reply.member_id, version))
    if isinstance(left, KgError):
        return left
    code = left.error_code or next((row.error_code for row in left.members), 0)
    return broker_error(code) if code else None


def _leave(group: str, member_id: str, version: int) -> leave_group.Request:
    if version < 3:
        return leave_group.Request(group_id=group, member_id=member_id)
    member = leave_group.RequestMember(member_id=member_id, reason=REASON)
    return leave_group.Request(group_id=group, members=[member])


def _join(group: str, topics: list[str], member_id: str) -> join_group.Request:
    subscription = encode_topics(topics)
    return join_group.Request(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        protocol_type=CONSUMER_PROTOCOL,
        protocols=[
            join_group.RequestProtocol(name=name, metadata=subscription) for name in ASSIGNORS
        ],
        reason=REASON,
    )
