"""A change whose answer got lost is looked up before it is sent again, each time."""

from __future__ import annotations

from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.client.lost_replies import SEND_AGAIN, change_by_coordinator
from kgtool.errors import ConnectionLost
from kgtool.model import Broker
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator
from kgtool.protocol.codes import broker_error
from tests.support.script import Script


def test_an_answer_that_is_to_be_asked_for_again_settles_nothing() -> None:
    """Loading, after a lost answer: what the first request did is still not known."""
    lost = ConnectionLost("gone").after_sending()
    replies = [lost, broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS), "done"]
    steps: list[str] = []

    def send(_broker: int, groups: list[str]) -> Any:
        yield from ()
        steps.append("send")
        return dict.fromkeys(groups, replies.pop(0))

    def look(_broker: int, groups: list[str]) -> Any:
        yield from ()
        steps.append("look")
        return dict.fromkeys(groups, SEND_AGAIN)

    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    row = find_coordinator.Coordinator(key="a", node_id=1, host="one", port=9092)
    script = Script(lambda _to, _request: find_coordinator.Response(coordinators=[row]))
    found = script.run(change_by_coordinator(cluster, ["a"], send, look, "it was done"))
    assert found == {"a": "done"}
    assert steps == ["send", "look", "send", "look", "send"]
    assert script.hung_up == [1, 1]
