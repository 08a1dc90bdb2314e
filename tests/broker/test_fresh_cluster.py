"""A cluster in which no group has committed anything yet."""

from __future__ import annotations

import json
from pathlib import Path

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import kgtool


def test_it_has_nothing_to_export_and_then_an_empty_log(tmp_path: Path) -> None:
    with Sandbox.start("fresh", root=tmp_path) as cluster:
        at = ("-b", cluster.bootstrap)
        out = tmp_path / "out"
        refused = kgtool("export", "--out", str(out), *at)
        assert (refused.status, refused.out) == (1, "")  # not 2: nothing is wrong with the line
        assert "has no topic __consumer_offsets" in refused.err
        assert kgtool("coordinator", "first", *at).status == 0  # its coordinator makes the topic
        done = kgtool("export", "--out", str(out), "--format", "parquet", "-o", "json", *at)
        assert (done.status, done.err) == (0, "")
        assert done.json["results"][0]["bytes"] == 0
        assert json.loads((out / "cluster.json").read_text())["complete"]
        assert list((out / "parquet").iterdir()) == []
        assert not (out / "segments").exists()
        for source in ([str(out), "--engine", "local"], at):
            found = kgtool("analyze", *source, "-o", "json")
            assert found.status == 0, found.err
            assert found.json["results"][0]["live_groups"] == 0
