"""Before a group is deleted to be rebuilt: may this login commit all that is kept?"""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.cleanup.execute import unwritable
from kgtool.client.cluster import Cluster
from kgtool.errors import ConnectFailed
from kgtool.model import Broker
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_describe, describe_cluster, describe_groups, metadata
from tests.support.script import ALL_VERSIONS, Script, living

READ = 1 << 3


def topics(*names: str, operations: int = READ, error: int = 0) -> list[metadata.Topic]:
    return [
        metadata.Topic(name=name, error_code=error, topic_authorized_operations=operations)
        for name in names
    ]


def look(reply: Any, versions: dict[int, Any] | None = None) -> str | None:
    """Ask about topics a and b; the name of what speaks against it."""

    def answer(_to: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            return reply
        if isinstance(request, describe_cluster.Request):
            return describe_cluster.Response(cluster_authorized_operations=READ)
        if isinstance(request, consumer_group_describe.Request):
            return consumer_group_describe.Response(
                groups=[consumer_group_describe.Group(group_id="g", authorized_operations=READ)]
            )
        row = describe_groups.Group(group_id="g", authorized_operations=READ)
        return describe_groups.Response(groups=[row])

    cluster = Cluster()
    cluster.brokers, cluster.coordinators = {1: Broker(1, "one", 9092)}, {"g": 1}
    script = Script(answer, {**ALL_VERSIONS, **(versions or {})})
    found = script.run(unwritable(cluster, {"g": ["a", "b"]}))
    return found["g"].name if found else None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (metadata.Response(brokers=living(1), topics=topics("a", "b")), None),
        (
            metadata.Response(topics=[*topics("a"), *topics("b", operations=0)]),
            "TOPIC_AUTHORIZATION_FAILED",
        ),
        (
            metadata.Response(topics=[*topics("a"), *topics("b", error=29)]),
            "TOPIC_AUTHORIZATION_FAILED",
        ),
        (metadata.Response(topics=topics("a")), "INCOMPLETE_ANSWER"),
        (metadata.Response(error_code=codes.REBOOTSTRAP_REQUIRED), "REBOOTSTRAP_REQUIRED"),
        (ConnectFailed("nobody"), "UNREACHABLE"),
    ],
    ids=[
        "both",
        "one is not allowed",
        "one is hidden",
        "one is left out",
        "the answer is an error",
        "no answer",
    ],
)
def test_what_is_not_told_is_not_allowed(reply: Any, expected: str | None) -> None:
    """A topic that the answer left out was one that may be written."""
    assert look(reply) == expected


def test_brokers_that_never_tell_decide_themselves() -> None:
    assert look(None, {metadata.Request.KEY: (0, 7)}) is None
