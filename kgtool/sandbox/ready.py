"""Wait until brokers really answer, not only listen."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kgtool.errors import SandboxError
from kgtool.sandbox import broker, processes
from kgtool.sandbox.state import Node, SandboxState

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 90.0


def wait_until(
    condition: Callable[[], object], seconds: float, complaint: str, *, pause: float = 0.02
) -> None:
    """Return once ``condition`` holds; raise SandboxError(``complaint``) after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SandboxError(complaint)
        time.sleep(pause)


def wait_until_ready(state: SandboxState, *, only: int | None = None) -> None:
    """Return once every broker (or ``only`` one) is known to the cluster and lists its groups.

    SandboxError with the errors of a broker's log if it dies, or after TIMEOUT_S.
    """
    deadline = time.monotonic() + TIMEOUT_S
    nodes = [node for node in state.nodes if only in (None, node.id)]
    for node in nodes:
        _wait(state, [node], deadline, partial(_listens, node.port))
    client = admin(state.bootstrap)
    _wait(state, nodes, deadline, partial(_answers, client, {node.id for node in nodes}))


def wait_for_coordinators(state: SandboxState) -> None:
    """Return once groups and transactions can be used.

    The first question for a coordinator creates ``__consumer_offsets``, and it is answered with
    COORDINATOR_NOT_AVAILABLE for a second or two.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # A consumer, not the AdminClient: that one crashes the process when a coordinator says
    # NOT_COORDINATOR (librdkafka, rd_kafka_cgrp_op without a group; seen with 2.16).
    settings = {"bootstrap.servers": state.bootstrap, "group.id": "kgtool-warm-up", "log_level": 0}
    client = Consumer(settings)

    def is_answered() -> bool:
        try:
            client.committed([TopicPartition("__consumer_offsets", 0)], timeout=5.0)
        except KafkaException:
            return False
        return True

    try:
        _wait(state, state.nodes, time.monotonic() + TIMEOUT_S, is_answered)
    finally:
        client.close()


def admin(bootstrap: str) -> AdminClient:
    """A confluent-kafka AdminClient that keeps librdkafka's chatter out of the terminal."""
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _answers(client: AdminClient, node_ids: set[int]) -> bool:
    from confluent_kafka import KafkaException

    try:
        brokers = client.list_topics(timeout=2.0).brokers
        listed = client.list_consumer_groups(request_timeout=2.0).result()
    except KafkaException:
        return False
    return node_ids <= brokers.keys() and not listed.errors


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False


def _wait(
    state: SandboxState, nodes: Sequence[Node], deadline: float, condition: Callable[[], bool]
) -> None:
    """Wait for a condition; SandboxError if one of the nodes dies, or after the deadline."""
    while not condition():
        for node in nodes:
            folder = state.node_dir(node.id)
            problem = ""
            if processes.pid_of(folder) is None:
                problem = "died at its start"
            elif time.monotonic() > deadline:
                problem = "does not answer"
            if problem:
                raise SandboxError(
                    f"broker {node.id} of Kafka {state.version} {problem}; its log says: "
                    f"{broker.log_errors(folder)}"
                )
        time.sleep(0.05)
