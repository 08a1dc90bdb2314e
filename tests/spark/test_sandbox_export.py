"""A fresh sandbox, exported: every tombstone that its broker wrote is explained."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.readers.cluster import find_cluster
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.config import Settings
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding.seed import seed
from tests.cli.run import kgtool
from tests.support.tables import dicts

pytestmark = [pytest.mark.spark, pytest.mark.broker]
RETENTION_MS, INTERVAL_MS = 60_000, 5_000
SLACK_MS = 4_000
"""What a check may take on a busy machine, beyond its interval."""
BY_HAND = ("reporting-old", "connect-s3-sink")
"""Groups that are deleted, and one whose offsets are, before anything is due."""
RECORD = re.compile(
    r"^\| offset: \d+ CreateTime: (\d+) keySize: \d+ valueSize: (-?\d+) .*?"
    r'key: \{"type":"(\d+)","data":(\{.*?\})\} payload: '
)
Row = dict[str, Any]


class World(NamedTuple):
    kafka: Sandbox
    seeded_ms: int
    handled_ms: int
    """When the last group was deleted by hand."""


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = {
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": str(INTERVAL_MS),
    }
    root = tmp_path_factory.mktemp("forgetful")
    with Sandbox.start("forgetful", config=config, root=root) as kafka:
        seed(kafka)
        seeded_ms = now_ms()
        for group in BY_HAND:
            done = kgtool(
                "delete", "--bootstrap-server", kafka.bootstrap, "--group", group, "--yes"
            )
            assert done.status == 0, done.err
        handled_ms = now_ms()
        time.sleep((seeded_ms + RETENTION_MS + INTERVAL_MS + SLACK_MS - now_ms()) / 1000)
        yield World(kafka, seeded_ms, handled_ms)


def tombstones(kafka: Sandbox, export: Path) -> Counter[tuple[Any, ...]]:
    """What Kafka's own dump shows of the exported segments: key and time of every null value."""
    found: Counter[tuple[Any, ...]] = Counter()
    files = ",".join(str(path) for path in sorted(export.rglob("*.log")))
    shown = kafka.run_tool("kafka-dump-log", "--offsets-decoder", "--files", files, bootstrap=False)
    assert shown.returncode == 0, shown.stderr
    for line in shown.stdout.splitlines():
        match = RECORD.match(line)
        if match is None or match[2] != "-1" or int(match[3]) not in (0, 1, 2, 3, 11, 17):
            continue
        key = json.loads(match[4])
        group = key.get("group", key.get("groupId"))
        found[group, key.get("topic"), key.get("partition"), int(match[1])] += 1
    return found


def tables(spark: Any, inputs: Any, *names: str, settings: Any = None) -> dict[str, list[Row]]:
    basis = broker_settings.settings_from(inputs.manifest, "auto", None, None)
    assert (basis.retention_ms, basis.check_interval_ms) == (RETENTION_MS, INTERVAL_MS)
    assert basis.assumed == []
    analysis = Analysis(SparkEngine(spark, settings), inputs.files, basis)
    return {name: dicts(analysis, name) for name in names}


def test_every_tombstone_is_explained(spark: Any, world: World, tmp_path: Path) -> None:
    out = tmp_path / "offsets"
    done = kgtool("export", "--bootstrap-server", world.kafka.bootstrap, "--out", str(out))
    assert done.status == 0, done.err
    written = tombstones(world.kafka, out)
    found = tables(spark, find_inputs([str(out)]), "removals", "live", "overdue")
    rows = found["removals"]
    assert (
        Counter(
            (row["group"], row["topic"], row["partition"], row["removed_at_ms"]) for row in rows
        )
        == written
    )
    assert len(written) > 100
    assert [row for row in rows if row["cause"] is None] == []
    by_hand = [row for row in rows if row["group"] in BY_HAND]
    assert {row["group"] for row in by_hand} == set(BY_HAND)
    assert {row["cause"] for row in by_hand} == {"explicit"}
    later = [row for row in rows if row["removed_at_ms"] > world.handled_ms]
    assert {row["cause"] for row in later} == {"expired", "group-empty"}
    for row in later:
        assert 0 <= row["latency_ms"] <= INTERVAL_MS + SLACK_MS, row
    assert found["overdue"] == []
    check_live_cluster(spark, world, found["live"])


def check_live_cluster(spark: Any, world: World, exported: list[Row]) -> None:
    """The cluster itself, read by the workers, says the same of what is there to stay."""
    host, _, port = world.kafka.bootstrap.partition(":")
    settings = Settings(((host, int(port)),))
    inputs = find_cluster(settings, now_ms())
    now = tables(spark, inputs, "live", settings=settings)["live"]

    def lasting(rows: list[Row]) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.items()) for row in rows if row["expires_at_ms"] is None)

    assert lasting(now) == lasting(exported)
    assert len(lasting(now)) > 5
