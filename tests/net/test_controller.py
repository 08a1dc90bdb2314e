"""The listener of KRaft controllers, which has no Metadata.

Stands for: an address that speaks Kafka's protocol and is no broker's. Siblings: alone, several,
before a broker, in Kafka's form.
"""

from __future__ import annotations

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import call
from tests.support import clients


@pytest.fixture
def controller(kafka: Sandbox) -> str:
    return f"127.0.0.1:{kafka.nodes[0].controller_port}"


def test_it_is_called_by_its_name(controller: str, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (
        ("list", "-b", controller),
        ("list", "-b", f"{controller},localhost:{controller.rpartition(':')[2]}"),
        ("--list", "--bootstrap-server", controller),
        ("describe", "--all-groups", "-b", controller, "-o", "json"),
    ):
        result = call(capsys, *argv)
        assert (result.status, "controller" in result.err) == (4, True), result


def test_a_broker_beside_it_is_used(
    controller: str, kafka: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group = (clients.unique(name) for name in ("t", "beside"))
    clients.commit(kafka.bootstrap, group, {(clients.create_topic(kafka.bootstrap, topic), 0): 0})
    result = call(capsys, "list", "-b", f"{controller},{kafka.bootstrap}")
    assert (result.status, result.err) == (0, "")
    assert group in result.out
