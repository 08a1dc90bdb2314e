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
    assert "retention.bytes" not in none.err
    limits = {"retention.ms": "-1", "retention.bytes": "1000000"}
    clients.set_topic_config(cluster.bootstrap, topics["ever"], **limits)
    clients.set_topic_config(cluster.bootstrap, topics["day"], **{"retention.bytes": "1"})
    said = kgtool("lag", group, "--loses-within", "2h")
    names = ", ".join(sorted((topics["ever"], topics["day"])))
    assert f"Note: {names}: retention.bytes may remove records sooner" in said.err


def test_at_risk_is_a_finding(cluster: Sandbox, kgtool: Kgtool) -> None:
    """In the last quarter of the retention, within ``--within``; a problem where nobody reads."""
    group, others = clients.unique("risky"), clients.unique("others")
    old, young, read, ever = (
        clients.create_topic(cluster.bootstrap, clients.unique(name), 2)
        for name in ("old", "young", "read", "ever")
    )
    for topic in (old, young, read):
        clients.set_topic_config(cluster.bootstrap, topic, **{"retention.ms": str(40 * HOUR_MS)})
    clients.set_topic_config(cluster.bootstrap, ever, **{"retention.ms": "-1"})
    now_ms = int(time.time() * 1000)
    first_ms, later_ms = now_ms - 35 * HOUR_MS, now_ms - 29 * HOUR_MS
    for topic, partition, at_ms, records in (
        (old, 0, first_ms - HOUR_MS, 2),
        (old, 0, first_ms, 3),
        (old, 1, now_ms - 33 * HOUR_MS, 4),
        (young, 0, later_ms, 5),
        (read, 0, first_ms, 5),
        (ever, 0, first_ms, 5),
    ):
        clients.produce(cluster.bootstrap, topic, records, partition=partition, timestamp_ms=at_ms)
    offsets = {(old, 0): 2, (old, 1): 1, (young, 0): 0, (read, 0): 5, (ever, 0): 0}
    clients.commit(cluster.bootstrap, group, offsets)
    clients.commit(cluster.bootstrap, others, {(old, 0): 2})
    found = kgtool("doctor", group, others, "--within", "48h", "-o", "json")
    rows = {row["group"]: row for row in found.json["results"] if row["finding"] == "at-risk"}
    assert found.status == 5
    assert rows.keys() == {group, others}
    row = rows[group]
    assert (row["topic"], row["partition"], row["severity"]) == (old, None, "problem")
    assert row["evidence"] == {
        "partitions": [0, 1],
        "records": 6,
        "first_lost_at_ms": first_ms + 40 * HOUR_MS,
        "retention_ms": 40 * HOUR_MS,
        "members": 0,
    }
    assert (
        "6 unread records in 2 partitions (0, 1), kept for 1d 16h: the first in 4h"
        in (row["message"])
    )
    assert row["fix"].startswith(f"kgtool lag --group {group} --topic {old}:0,1 --rates")
    (listed,) = kgtool("explain", group, "-o", "json").json["results"]
    assert [one["finding"] for one in listed["findings"]].count("at-risk") == 1
    assert f"kgtool lag --group {group} --topic {old}:0,1 --rates" in listed["next"]
    soon = kgtool("doctor", group, "--within", "5h30m", "-o", "json").json["results"]
    (row,) = [row for row in soon if row["finding"] == "at-risk"]
    assert row["evidence"]["partitions"] == [0]
    none = kgtool("doctor", group, "--within", "4h", "-o", "json").json["results"]
    assert "at-risk" not in {row["finding"] for row in none}
    member = clients.join(cluster.bootstrap, others, [old])
    try:
        looked = kgtool("doctor", others, "--within", "48h", "-o", "json").json["results"]
    finally:
        member.close()
    assert [row["severity"] for row in looked if row["finding"] == "at-risk"] == ["warning"]


@pytest.mark.parametrize("words", [["--by", "topic"], ["--members"]])
def test_what_it_does_not_go_with(kgtool: Kgtool, words: list[str]) -> None:
    refused = kgtool("describe", "g", "--loses-within", "2h", *words)
    assert refused.status == 2
