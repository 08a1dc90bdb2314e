"""``--rates``: held to what was produced and committed, and when; a transaction's commits too."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.cli.run import start
from tests.support import clients

QUIET_S = 4.0
"""Between what lies before the time that is asked for, and what lies in it."""


class Story:
    """Offsets that moved, after a while of quiet."""

    def __init__(self, cluster: Sandbox) -> None:
        self.at, self.group = cluster.bootstrap, clients.unique("moving")
        self.topic = clients.create_topic(self.at, clients.unique("rates"), 4)
        self.middle_s = 0.0

    def produce(self, counts: dict[int, int]) -> None:
        for partition, count in counts.items():
            clients.produce(self.at, self.topic, count, partition=partition)

    def commit(self, offsets: dict[int, int]) -> None:
        clients.commit(self.at, self.group, {(self.topic, p): o for p, o in offsets.items()})

    def in_transaction(self, partition: int, offset: int, *, commits: bool) -> None:
        producer = Producer(
            {"bootstrap.servers": self.at, "transactional.id": clients.unique("rates")}
        )
        reader = Consumer({"bootstrap.servers": self.at, "group.id": self.group})
        producer.init_transactions(30)
        producer.begin_transaction()
        place = [TopicPartition(self.topic, partition, offset)]
        producer.send_offsets_to_transaction(place, reader.consumer_group_metadata(), 30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
        reader.close()

    def be_quiet(self) -> None:
        time.sleep(QUIET_S / 2)
        self.middle_s = time.time()
        time.sleep(QUIET_S / 2)

    @property
    def over_ms(self) -> int:
        """From now back into the quiet."""
        return int((time.time() - self.middle_s) * 1000)


def by_partition(found: Any) -> dict[int, dict[str, Any]]:
    assert found.status == 0, found
    return {row["partition"]: row for row in found.json["results"]}


def test_in_out_eta_and_stuck(cluster: Sandbox, kgtool: Kgtool) -> None:
    story = Story(cluster)
    story.produce({0: 100, 1: 10, 2: 10, 3: 10})
    before_ms = time.time() * 1000
    story.commit({0: 0, 1: 4, 2: 10, 3: 2})
    after_ms = time.time() * 1000
    story.be_quiet()
    for offset in (10, 25, 40):
        story.commit({0: offset, 1: 4})  # 1 is committed again and again, as consumers do
    story.commit({0: 30})  # a reset back; nothing was read twice yet
    story.commit({0: 50})
    story.in_transaction(3, 8, commits=True)
    story.in_transaction(3, 9, commits=False)
    story.produce({0: 10, 2: 5})
    over_ms = story.over_ms
    found = kgtool("describe", story.group, "--rates", "--over", f"{over_ms}ms", "-o", "json")
    rows, per_ms = by_partition(found), 1000 / over_ms
    expected = {0: (10, 60), 1: (0, 0), 2: (5, 0), 3: (0, 6)}
    for partition, (produced, consumed) in expected.items():
        row = rows[partition]
        assert row["in_per_s"] == pytest.approx(produced * per_ms, abs=0.001), partition
        assert row["out_per_s"] == pytest.approx(consumed * per_ms, abs=0.001), partition
    assert [rows[p]["lag"] for p in range(4)] == [60, 6, 5, 2]
    assert rows[0]["eta_ms"] == pytest.approx(60 / 50 * over_ms, abs=50)
    assert (rows[1]["eta_ms"], rows[2]["eta_ms"]) == (None, None)
    since = [rows[p]["stuck_since_ms"] for p in range(4)]
    # What is left in 2 came within that time.
    assert (since[0], since[2], since[3]) == (None, None, None)
    assert before_ms - 1 <= since[1] <= after_ms + 1

    (group,) = kgtool(
        "lag", story.group, "--by", "group", "--rates", "--over", f"{story.over_ms}ms", "-o", "json"
    ).json["results"]
    assert (group["stuck_since_ms"], group["eta_ms"], group["lag"]) == (since[1], None, 73)
    per_s = 1000 / story.over_ms
    assert group["in_per_s"] == pytest.approx(15 * per_s, rel=0.3)
    assert group["out_per_s"] == pytest.approx(66 * per_s, rel=0.3)
    table = kgtool("lag", story.group, "--rates", "--over", f"{story.over_ms}ms")
    head, *lines = table.out.strip().splitlines()
    assert {"IN/S", "OUT/S", "ETA", "STUCK-SINCE"} <= set(head.split())
    assert sum(" stuck " in line for line in lines) == 1


def test_stuck_from_the_first_record_that_was_left(cluster: Sandbox, kgtool: Kgtool) -> None:
    """It had read everything; what came an age later is what it is stuck at."""
    story = Story(cluster)
    story.produce({0: 5})
    story.commit({0: 5})
    time.sleep(2)
    before_ms = time.time() * 1000
    story.produce({0: 5})
    after_ms = time.time() * 1000
    time.sleep(2.5)
    found = kgtool("lag", story.group, "--rates", "--over", "2s", "-o", "json")
    assert before_ms - 1 <= by_partition(found)[0]["stuck_since_ms"] <= after_ms + 1


def test_the_watch_has_rates_at_its_first_look(cluster: Sandbox) -> None:
    """Of the last half minute, which the second look continues."""
    story = Story(cluster)
    story.produce({0: 60})
    story.commit({0: 0})
    time.sleep(1)
    story.commit({0: 30})
    story.in_transaction(1, 0, commits=True)  # known, and nothing moved
    words = ("describe", story.group, "--watch", "2s", "-o", "ndjson")
    with start(*words, "--bootstrap-server", story.at) as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(8)]
        process.terminate()
    first, second = ({row["partition"]: row for row in part} for part in (rows[:4], rows[4:]))
    assert first[0]["in_per_s"] == pytest.approx(60 / 30, abs=0.01)
    # What the first commit of a new group has passed is not known: it counts from there.
    assert first[0]["out_per_s"] > 30 / 30
    assert first[0]["eta_ms"] is not None
    assert second[0]["in_per_s"] == pytest.approx(60 / 30, rel=0.2)
    assert first[2]["out_per_s"] is None  # without a commit


def test_words_that_do_not_go_together(kgtool: Kgtool) -> None:
    for words in (
        ["--rates", "--by", "topic"],
        ["--rates", "--totals"],
        ["--over", "5m"],
        ["--rates", "--over", "0s"],
        ["--rates", "--over", "soon"],
        ["--rates", "--members"],
    ):
        refused = kgtool("describe", "g", *words)
        assert refused.status == 2, words
        assert "Traceback" not in refused.err
