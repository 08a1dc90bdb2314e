"""An export as Parquet: what Spark's Kafka source gives, and what analyze makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import kgtool
from tests.support import clients

pytestmark = pytest.mark.broker

KAFKAS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture(scope="module")
def world(kafka: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One group with two offsets, one of which is committed again; transactions of all ends."""
    topic = clients.create_topic(kafka.bootstrap, clients.unique("parquet"), 2)
    group = clients.unique("parquet")
    clients.commit(kafka.bootstrap, group, {(topic, 0): 3, (topic, 1): 5}, metadata="here")
    clients.commit(kafka.bootstrap, group, {(topic, 0): 8})
    names = {}
    for end in ("commit", "abort", "open"):
        names[end] = clients.unique(end)
        _transaction(kafka.bootstrap, names[end], topic, end)
    out = tmp_path_factory.mktemp("parquet") / "out"
    options = ["export", "--out", str(out), "--format", "parquet", "-o", "json"]
    done = kgtool(*options, "--bootstrap-server", kafka.bootstrap)
    assert (done.status, done.err) == (0, "")
    return {"topic": topic, "group": group, "out": out, "row": done.json["results"][0], **names}


def _transaction(bootstrap: str, group: str, topic: str, end: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
    producer.init_transactions(20)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 2)], metadata, 20)
    consumer.close()
    if end == "commit":
        producer.commit_transaction(20)
    elif end == "abort":
        producer.abort_transaction(20)
    if end != "open":
        clients.markers_written(bootstrap, group)


def _rows(out: Path) -> list[dict[str, Any]]:
    return [
        row
        for path in sorted((out / "parquet").iterdir())
        for row in parquet.read_table(path).to_pylist()
    ]


def test_the_columns_are_sparks_and_the_decoded_ones(world: dict[str, Any]) -> None:
    assert not (world["out"] / "segments").exists()
    # Spark ignores names with an underscore or a dot before them.
    assert all(path.name[0].isalnum() for path in (world["out"] / "parquet").iterdir())
    rows = _rows(world["out"])
    assert list(rows[0])[:7] == KAFKAS
    mine = [row for row in rows if row["group"] == world["group"] and row["record_type"] == 1]
    told = [
        # librdkafka ends metadata with NUL.
        (row["committed_partition"], row["committed_offset"], row["metadata"].rstrip("\0"))
        for row in mine
    ]
    assert sorted(told) == [(0, 3, "here"), (0, 8, ""), (1, 5, "here")]
    for row in mine:
        assert (row["topic"], row["committed_topic"]) == ("__consumer_offsets", world["topic"])
        assert world["group"].encode() in row["key"]
        assert row["value"] is not None
        assert abs((row["timestamp"] - row["commit_timestamp"]).total_seconds()) < 60
    states = [r for r in rows if r["record_type"] == 2 and r["json"] is not None]
    assert all("protocolType" in json.loads(row["json"]) for row in states)
    assert world["row"]["bytes"] == sum(
        path.stat().st_size for path in (world["out"] / "parquet").iterdir()
    )


def test_only_what_was_committed_of_transactions_is_there(world: dict[str, Any]) -> None:
    groups = {row["group"] for row in _rows(world["out"]) if row["record_type"] == 1}
    assert world["commit"] in groups
    assert not {world["abort"], world["open"]} & groups


def test_analyze_reads_it_as_it_reads_the_segments(
    world: dict[str, Any], kafka: Sandbox, tmp_path: Path
) -> None:
    whole = tmp_path / "segments"
    assert kgtool("export", "--out", str(whole), "-b", kafka.bootstrap).status == 0
    names = {world["group"], world["commit"], world["abort"], world["open"]}
    found = []
    for folder, engine in ((world["out"], "spark"), (world["out"], "local"), (whole, "local")):
        done = kgtool("analyze", str(folder), "--engine", engine, "--table", "live", "-o", "json")
        keys = ("group", "topic", "partition", "offset", "commit_timestamp_ms")
        rows = [row for row in done.json["results"] if row["group"] in names]
        found.append(sorted(tuple(row[key] for key in keys) for row in rows))
    assert found[0] == found[1] == found[2]
    assert [row[3] for row in found[0] if row[0] == world["group"]] == [8, 5]


def test_a_conversion_that_was_interrupted_goes_on(
    world: dict[str, Any], kafka: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert kgtool("export", "--out", str(out), "-b", kafka.bootstrap).status == 0
    (out / "parquet").mkdir()
    (out / "parquet" / "__consumer_offsets-0.tmp").write_bytes(b"half")
    done = kgtool("export", "--out", str(out), "--format", "parquet", "-o", "json", "-b", "none:1")
    assert (done.status, done.json["results"][0]["resumed"]) == (0, True)
    assert {row["group"] for row in _rows(out)} >= {world["group"], world["commit"]}
    assert not list((out / "parquet").glob("*.tmp"))
