"""A cluster in which no group has committed anything yet."""

from __future__ import annotations

import json
from pathlib import Path

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import kgtool


def make_its_topic(bootstrap: str) -> None:
    """A coordinator that is looked for makes the topic."""
    assert kgtool("coordinator", "first", "-b", bootstrap).status == 0


def assert_no_group_lives(*source: str) -> None:
    found = kgtool("analyze", *source, "-o", "json")
    assert found.status == 0, found.err
    assert found.json["results"][0]["live_groups"] == 0


def test_it_has_nothing_to_export_and_then_an_empty_log(tmp_path: Path) -> None:
    with Sandbox.start("fresh", root=tmp_path) as cluster:
        at = ("-b", cluster.bootstrap)
        out = tmp_path / "out"
        refused = kgtool("export", "--out", str(out), *at)
        assert (refused.status, refused.out) == (1, "")  # not 2: nothing is wrong with the line
        assert "has no topic __consumer_offsets" in refused.err
        make_its_topic(cluster.bootstrap)
        done = kgtool("export", "--out", str(out), "--format", "parquet", "-o", "json", *at)
        assert (done.status, done.err) == (0, "")
        assert done.json["results"][0]["bytes"] == 0
        assert json.loads((out / "cluster.json").read_text())["complete"]
        assert list((out / "parquet").iterdir()) == []
        assert not (out / "segments").exists()
        assert_no_group_lives(str(out), "--engine", "local")


def test_its_empty_log_is_read_by_spark(tmp_path: Path) -> None:
    with Sandbox.start("fresh", root=tmp_path) as cluster:
        make_its_topic(cluster.bootstrap)
        assert_no_group_lives("-b", cluster.bootstrap)
