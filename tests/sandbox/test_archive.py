"""The class archive: made once, used after that, and never heard of."""

from __future__ import annotations

import shutil

import pytest

from kgtool.sandbox.cluster import Cluster
from kgtool.sandbox.install import archive

HEADER = "GROUP                     STATE               \n"


@pytest.mark.broker
def test_the_first_start_records_and_tools_stay_quiet(kafka, tmp_path, monkeypatch):
    """In a copy of the jar cache, so that this start is the first."""
    libs = tmp_path / "kgtool" / "kafka" / kafka.version / "libs"
    shutil.copytree(kafka.jars[0].parent, libs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archive.record_flags(kafka.java, kafka.version)
    with Cluster.start("first", version=kafka.version, root=tmp_path / "state") as cluster:
        assert archive.record_flags(kafka.java, kafka.version) == []
        (made,) = libs.parent.glob("classes-*")
        assert made.stat().st_size > 1_000_000
        flags = archive.use_flags(kafka.java, kafka.version)
        assert flags[0] == f"-XX:SharedArchiveFile={made}"
        shown = cluster.run_tool("kafka-consumer-groups", "--list", "--state")
        assert (shown.stdout, shown.stderr) == (HEADER, "")

        made.unlink()  # not written over: the broker has the old one in its memory map
        made.write_bytes(b"damaged")
        shown = cluster.run_tool("kafka-consumer-groups", "--list", "--state")
        assert (shown.returncode, shown.stdout) == (0, HEADER)


def test_a_java_without_a_base_archive_does_without(tmp_path):
    java = tmp_path / "bin" / "java"
    assert archive.use_flags(java, "4.3.1") == archive.record_flags(java, "4.3.1") == []
    archive.publish(java, "4.3.1")
