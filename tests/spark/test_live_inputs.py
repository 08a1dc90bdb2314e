"""A real broker's own log: compressed by it, compacted by it, and read from it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.readers import cluster
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.config import Settings, parse_bootstrap
from kgtool.queries.log import fetch
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result
from tests.support import clients
from tests.support.tables import Make, dicts

pytestmark = [pytest.mark.spark, pytest.mark.broker]
CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
LOG = "__consumer_offsets"

Committed = dict[tuple[str, str, int], int]


def batches(folder: Path) -> list[tuple[int, int, int]]:
    """(codec, records, last offset delta) of every batch, by the fixed places of its header."""
    found = []
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at + 61 <= len(data):
            length = int.from_bytes(data[at + 8 : at + 12], "big")
            if length <= 0:
                break
            codec = data[at + 22] & 7
            delta = int.from_bytes(data[at + 23 : at + 27], "big")
            count = int.from_bytes(data[at + 57 : at + 61], "big")
            found.append((codec, count, delta))
            at += 12 + length
    return found


class World:
    """A broker that rewrites its log as often as it may, and the groups on it."""

    def __init__(self, kafka: Sandbox) -> None:
        self.kafka = kafka
        self.groups: list[str] = []
        self.topic = clients.create_topic(kafka.bootstrap, "t", 4)

    @property
    def folder(self) -> Path:
        (found,) = self.kafka.folder.rglob(f"{LOG}-0")
        return found

    def use_codec(self, codec: int) -> None:
        """Restart the broker with another offsets.topic.compression.codec."""
        # A node's server.properties is written anew from this whenever it starts.
        self.kafka.state.config["offsets.topic.compression.codec"] = str(codec)
        self.kafka.restart(self.kafka.nodes[0].id)
        ready.wait_for_coordinators(self.kafka.state)

    def commit(self, group: str, *offsets: int) -> None:
        """Every offset for four partitions, except the last one: for two."""
        self.groups.append(group)
        for offset in offsets:
            some = range(2 if offset == offsets[-1] > offsets[0] else 4)
            options = {(self.topic, p): offset + p for p in some}
            # Something that is worth compressing.
            clients.commit(self.kafka.bootstrap, group, options, metadata="m" * 60)

    def committed(self) -> Committed:
        """As confluent-kafka sees it, group by group."""
        return {
            (group, topic, partition): offset
            for group in set(self.groups)
            for (topic, partition), offset in clients.committed(self.kafka.bootstrap, group).items()
        }

    def compact(self) -> None:
        """Let the cleaner rewrite the log: gaps, tombstones and markers gone."""
        clients.set_topic_config(
            self.kafka.bootstrap,
            LOG,
            cleanup_policy="compact",
            segment_ms="100",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
            max_compaction_lag_ms="100",
        )
        number = 0

        def is_compacted() -> bool:
            nonlocal number
            number += 1  # a segment is only closed by the next record
            self.commit("ticker", number)
            found = batches(self.folder)
            # Of the commits for four partitions those for the last two stay.
            return sum(count < delta + 1 for _, count, delta in found) >= len(CODECS)

        clients.wait_for(is_compacted, "compaction", timeout=120)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = {
        "offsets.topic.num.partitions": "1",
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "500",
        "offsets.topic.compression.codec": "1",
    }
    root = tmp_path_factory.mktemp("rewritten")
    with Sandbox.start("rewritten", config=config, root=root) as kafka:
        ready.wait_for_coordinators(kafka.state)
        made = World(kafka)
        for codec, name in CODECS.items():
            if codec > 1:
                made.use_codec(codec)
            made.commit(f"stays-{name}", 10, 20, 30)
            made.commit(f"goes-{name}", 5)
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
            admin.delete_consumer_groups([f"goes-{name}"])[f"goes-{name}"].result(30)
        yield made


def live(engine: Make, path: Path) -> tuple[Committed, list[dict[str, Any]]]:
    inputs = find_inputs([str(path)])
    analysis = Analysis(
        engine(), inputs.files, broker_settings.settings_from(None, "4.1", None, None)
    )
    rows = dicts(analysis, "live")
    quality = dicts(analysis, "quality")
    found = {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows}
    assert len(found) == len(rows)
    return found, quality


def test_batches_that_the_broker_compressed_and_later_compacted(spark: Any, world: World) -> None:
    # Both engines in one test: the broker's log is rewritten, and then the broker is gone.
    engines: tuple[Make, ...] = (LocalEngine, lambda: SparkEngine(spark))
    written = batches(world.folder)
    assert {codec for codec, _, _ in written} >= set(CODECS)
    expected = world.committed()
    assert len(expected) == 16
    # The broker's data folder as it is: other topics, indexes and checkpoints beside the log.
    for engine in engines:
        found, quality = live(engine, world.folder.parent)
        assert found == expected
        assert [row["problems"] for row in quality] == [[]] * len(quality)
        assert sum(row["records"] for row in quality) == sum(count for _, count, _ in written)

    world.compact()
    now = world.committed()
    folder = world.folder.parent
    world.kafka.stop(keep_data=True)  # the cleaner replaces files under the reader's hands
    for engine in engines:
        found, quality = live(engine, folder)
        assert {key: found[key] for key in expected} == expected
        assert found.keys() == now.keys()
        assert [row["problems"] for row in quality if row["damaged"]] == []
        # What confluent-kafka can't see any more is gone from the log as well.
        assert not any(key[0].startswith("goes-") for key in found)


def test_a_living_cluster_is_read_by_the_workers(
    analyze: Callable[..., Result], kafka: Sandbox
) -> None:
    topic = clients.create_topic(kafka.bootstrap, clients.unique("analyzed"), 2)
    groups = [clients.unique(f"analyzed{n}") for n in range(12)]
    for at, group in enumerate(groups):
        clients.commit(kafka.bootstrap, group, {(topic, 0): at, (topic, 1): at + 100})
    member = clients.join(kafka.bootstrap, groups[0], [topic], group_protocol="consumer")
    result = analyze("--bootstrap-server", kafka.bootstrap, "--table", "live", "-o", "json")
    member.close()
    assert result.status == 0, result.err
    assert "assumed" not in result.err  # the broker says its rules and retention
    document = result.json
    assert document["cluster_id"] == kafka.cluster_id
    rows = [row for row in document["results"] if row["group"] in groups]
    expected = {
        (group, topic, p): offset
        for group in groups
        for (_, p), offset in clients.committed(kafka.bootstrap, group).items()
    }
    assert {(r["group"], r["topic"], r["partition"]): r["offset"] for r in rows} == expected
    states = {row["group"]: (row["group_type"], row["group_state"]) for row in rows}
    assert states[groups[0]] == ("consumer", "Stable")
    assert {states[group] for group in groups[1:]} == {("classic", "Empty")}


def test_a_partition_comes_in_pieces(kafka: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = clients.create_topic(kafka.bootstrap, clients.unique("pieces"), 1)
    group = clients.unique("pieces")
    for offset in range(5):
        clients.commit(kafka.bootstrap, group, {(topic, 0): offset})
    settings = Settings(parse_bootstrap(kafka.bootstrap))
    files = cluster.find_cluster(settings, now_ms=0).files
    # The longest: this group's has five batches at least.
    longest = max(files, key=lambda file: file.size - file.base_offset)
    row = {"partition": longest.partition, "start": longest.base_offset, "end": longest.size}
    whole = list(cluster.cluster_parts(row, settings))
    monkeypatch.setattr(cluster, "PIECE_BYTES", 1)
    monkeypatch.setattr(fetch, "PARTITION_BYTES", 1)
    pieces = list(cluster.cluster_parts(row, settings))
    assert len(pieces) > len(whole)
    assert b"".join(piece.data for piece in pieces) == b"".join(piece.data for piece in whole)


def test_a_cluster_that_is_not_there(analyze: Callable[..., Result]) -> None:
    result = analyze("--bootstrap-server", "127.0.0.1:1", "--timeout", "3000")
    assert result.status == 4
    assert "127.0.0.1:1" in result.err and result.err.count("\n") == 1


def test_a_file_that_is_not_there_does_not_hide_the_cluster(
    analyze: Callable[..., Result], kafka: Sandbox, tmp_path: Path
) -> None:
    result = analyze(
        "--bootstrap-server", kafka.bootstrap, tmp_path / "gone", "--table", "quality", "-o", "json"
    )
    assert result.status == 3, result.err
    assert "gone does not exist" in result.err
    paths = [row["path"] for row in result.json["results"]]
    assert paths and all(path.startswith(f"{kafka.bootstrap}/{LOG}-") for path in paths)
