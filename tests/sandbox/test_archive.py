"""The class archive: made once, used after that, and never heard of."""

from __future__ import annotations

import shutil

import pytest

from kgtool.sandbox.cluster import Sandbox

HEADER = "GROUP                     STATE               \n"


@pytest.mark.broker
def test_the_first_start_records_and_tools_stay_quiet(kafka, tmp_path, monkeypatch):
    """In a copy of the jar cache, so that this start is the first."""
    libs = tmp_path / "kgtool" / "kafka" / kafka.version / "libs"
    shutil.copytree(kafka.jars[0].parent, libs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Sandbox.start("first", version=kafka.version, root=tmp_path / "state") as cluster:
        (made,) = libs.parent.glob("classes-*")
        assert made.stat().st_size > 1_000_000
        assert cluster.class_archive.use()[0] == f"-XX:SharedArchiveFile={made}"
        assert cluster.class_archive.record() == []
        shown = cluster.run_tool("kafka-consumer-groups", "--list", "--state")
        assert (shown.stdout, shown.stderr) == (HEADER, "")

        made.unlink()  # not written over: the broker has the old one in its memory map
        damaged = made.with_name(made.name.rpartition("-")[0] + "-7.jsa")
        damaged.write_bytes(b"damaged")
        shown = cluster.run_tool("kafka-consumer-groups", "--list", "--state")
        assert (shown.returncode, shown.stdout) == (0, HEADER)
