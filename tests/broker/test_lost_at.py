"""When unread records are lost: the time of the first one, and the topic's ``retention.ms``."""

from __future__ import annotations

import time

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.support import clients

HOUR_MS = 3_600_000


def test_loses_within(cluster: Sandbox, kgtool: Kgtool) -> None:
    """Held to what was produced and configured; topics that keep their records lose nothing."""
    group = clients.unique("late")
    topics = {}
    before_ms = int(time.time() * 1000)
    for name, config in (
        ("hour", {"retention.ms": str(HOUR_MS)}),
        ("day", {"retention.ms": str(24 * HOUR_MS)}),
        ("ever", {"retention.ms": "-1"}),
        ("compact", {"cleanup.policy": "compact", "retention.ms": str(HOUR_MS)}),
    ):
        topics[name] = clients.create_topic(cluster.bootstrap, clients.unique(name), 1)
        clients.produce(
            cluster.bootstrap, topics[name], 5
        )  # without keys, so before it is compacted
        clients.set_topic_config(cluster.bootstrap, topics[name], **config)
    after_ms = int(time.time() * 1000)
    clients.commit(cluster.bootstrap, group, {(topic, 0): 2 for topic in topics.values()})
    found = kgtool("lag", group, "--loses-within", "2h", "-o", "json")
    assert found.status == 5, found.err
    (row,) = found.json["results"]
    assert (row["topic"], row["readable"]) == (topics["hour"], 3)
    assert before_ms <= row["lost_at_ms"] - HOUR_MS <= after_ms
    every = kgtool("describe", group, "--time-lag", "-o", "json").json["results"]
    lost = {row["topic"]: row["lost_at_ms"] for row in every}
    assert before_ms <= lost[topics["day"]] - 24 * HOUR_MS <= after_ms
    assert lost[topics["ever"]] is None and lost[topics["compact"]] is None
    (group_row,) = kgtool("lag", group, "--by", "group", "--time-lag", "-o", "json").json["results"]
    assert group_row["lost_at_ms"] == lost[topics["hour"]]
    none = kgtool("lag", group, "--loses-within", "1m", "-o", "json")
    assert (none.status, none.json["results"]) == (0, [])


@pytest.mark.parametrize("words", [["--by", "topic"], ["--members"]])
def test_what_it_does_not_go_with(kgtool: Kgtool, words: list[str]) -> None:
    refused = kgtool("describe", "g", "--loses-within", "2h", *words)
    assert refused.status == 2
