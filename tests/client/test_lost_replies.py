"""A change whose answer got lost is looked up before it is sent again, each time."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.client.cluster import Cluster
from kgtool.client.lost_replies import SEND_AGAIN, change_by_coordinator
from kgtool.errors import ConnectionLost
from kgtool.model import Broker
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator
from kgtool.protocol.codes import broker_error
from tests.support.script import Script

THROTTLED = 89
"""``THROTTLING_QUOTA_EXCEEDED``."""
LOST = ConnectionLost("gone").after_sending()


def run(replies: list[Any], verdicts: list[Any]) -> tuple[Any, list[str], list[int]]:
    """Change one group; return what came of it, the steps, and whose connections were ended."""
    steps: list[str] = []

    def step(name: str, answers: list[Any]) -> Any:
        def taken(_broker: int, groups: list[str]) -> Any:
            yield from ()
            steps.append(name)
            return dict.fromkeys(groups, answers.pop(0))

        return taken

    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    row = find_coordinator.Coordinator(key="a", node_id=1, host="one", port=9092)
    script = Script(lambda _to, _request: find_coordinator.Response(coordinators=[row]))
    send, look = step("send", replies), step("look", verdicts)
    found = script.run(change_by_coordinator(cluster, ["a"], send, look, "it was done"))
    return found["a"], steps, script.hung_up


def test_an_answer_that_is_to_be_asked_for_again_settles_nothing() -> None:
    """Loading, after a lost answer: what the first request did is still not known."""
    loading = broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS)
    found, steps, hung_up = run([LOST, loading, "done"], [SEND_AGAIN, SEND_AGAIN])
    assert found == "done"
    assert steps == ["send", "look", "send", "look", "send"]
    assert hung_up == [1, 1]


@pytest.mark.parametrize(
    ("answer", "looks"), [(THROTTLED, 2), (codes.GROUP_AUTHORIZATION_FAILED, 1)]
)
def test_a_refusal_for_now_says_nothing_of_the_first_request(answer: int, looks: int) -> None:
    """The last look decides there; after a refusal for good it is known that nothing was done."""
    found, steps, _ = run([LOST, broker_error(answer)], [SEND_AGAIN, "was done"])
    assert steps == ["send", "look", "send", "look"][: 2 + looks]
    assert found == "was done" if looks == 2 else found.code == answer


def test_what_the_first_look_answers_is_not_sent() -> None:
    sent: list[str] = []

    def send(_broker: int, groups: list[str]) -> Any:
        yield from ()
        sent.extend(groups)
        return dict.fromkeys(groups, "done")

    def first_look(_broker: int, _groups: list[str]) -> Any:
        yield from ()
        return {"a": "committed meanwhile"}

    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    rows = [find_coordinator.Coordinator(key=k, node_id=1, host="one", port=9092) for k in "ab"]
    script = Script(lambda _to, _request: find_coordinator.Response(coordinators=rows))
    found = script.run(
        change_by_coordinator(cluster, ["a", "b"], send, send, "it was done", first_look)
    )
    assert (found, sent) == ({"a": "committed meanwhile", "b": "done"}, ["b"])
