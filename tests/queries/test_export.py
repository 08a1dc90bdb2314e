"""The export of __consumer_offsets from a real Kafka, against what Kafka's own tool reads."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from kgtool.errors import ConfigError
from kgtool.net.session import Session
from kgtool.queries.log.export import ExportDirectory, export
from kgtool.queries.log.fetch import whole_batches
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import ROOT, command_line, kgtool
from tests.support import clients
from tests.support.brokers import CHECK_INTERVAL, KEEP

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def world(kafka: Sandbox) -> list[str]:
    """A few groups, so that there is something to export."""
    topic = clients.create_topic(kafka.bootstrap, clients.unique("export"), 2)
    groups = [clients.unique("export") for _ in range(8)]
    for at, group in enumerate(groups):
        clients.commit(kafka.bootstrap, group, {(topic, 0): at, (topic, 1): at}, metadata="x" * 50)
    return groups


def run(session: Session, path: Path) -> Any:
    return session.run(export(session.cluster, ExportDirectory(path), int(time.time() * 1000)))


def broker_segments(kafka: Sandbox) -> dict[str, bytes]:
    """The bytes that the broker itself has on disk, by partition."""
    found: dict[str, bytes] = {}
    for folder in kafka.folder.rglob("__consumer_offsets-*"):
        found[folder.name] = b"".join(f.read_bytes() for f in sorted(folder.glob("*.log")))
    return found


def exported(path: Path) -> dict[str, bytes]:
    """The bytes of an export, by partition."""
    return {
        folder.name: b"".join(f.read_bytes() for f in sorted(folder.glob("*.log")))
        for folder in (path / "segments").iterdir()
    }


def test_the_bytes_are_the_brokers_own(
    session: Session, kafka: Sandbox, world: list[str], tmp_path: Path
) -> None:
    done = run(session, tmp_path / "out")
    assert done.errors == []
    ours = exported(tmp_path / "out")
    assert sum(map(len, ours.values())) == done.bytes > 0
    theirs = broker_segments(kafka)
    for name, data in ours.items():
        # Other tests may have committed since: what we have is where the broker's log begins.
        assert theirs[name][: len(data)] == data
    everything = b"".join(ours.values())
    assert all(group.encode() in everything for group in world)


def test_the_manifest_says_what_is_needed_to_read_it(
    session: Session, kafka: Sandbox, world: list[str], tmp_path: Path
) -> None:
    run(session, tmp_path / "out")
    manifest = json.loads((tmp_path / "out/cluster.json").read_text())
    assert manifest["complete"] is True
    assert manifest["cluster_id"] == session.cluster_id
    assert manifest["brokers"][0]["version"] == "4.1"  # "at least", as fine as the rules need it
    assert manifest["coordinator"] == "new"
    assert manifest["configs"]["offsets.retention.minutes"] == "10080"
    assert manifest["configs"][CHECK_INTERVAL] == KEEP[CHECK_INTERVAL]
    assert {row["group"] for row in manifest["groups"]} >= set(world)
    topics = {row["name"]: row for row in manifest["topics"]}
    assert len(topics["__consumer_offsets"]["topic_id"]) == 22
    for row in manifest["partitions"]:
        assert row["complete"] is True
        assert row["error"] is None


def test_an_interrupted_export_is_finished(
    session: Session, kafka: Sandbox, world: list[str], tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(session, whole)
    run(session, broken)
    manifest = json.loads((broken / "cluster.json").read_text())
    manifest["complete"] = False
    (broken / "cluster.json").write_text(json.dumps(manifest))
    files = sorted(broken.glob("segments/*/*.log"))
    for file in files[::2]:
        file.write_bytes(file.read_bytes()[:-7])  # in the middle of a batch
    files[1].unlink()
    done = run(session, broken)
    assert done.resumed
    assert done.errors == []
    after, theirs = exported(broken), broker_segments(kafka)
    for partition, data in exported(whole).items():
        # Other tests commit between the runs.
        assert len(after[partition]) >= len(data)
        assert theirs[partition][: len(after[partition])] == after[partition]


def test_it_is_complete_only_once_it_is_on_the_disk(
    session: Session, world: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    real = os.fsync

    def fsync(number: int) -> None:
        synced.add(Path(f"/proc/self/fd/{number}").readlink())
        text = out / "cluster.json"
        if text.exists() and json.loads(text.read_text())["complete"]:
            completed.append(set(synced))
        real(number)

    out = tmp_path / "out"
    completed: list[set[Path]] = []
    monkeypatch.setattr(os, "fsync", fsync)
    assert run(session, out).errors == []
    files = {path for path in out.rglob("*") if path.parent != out}
    assert len(files) > 2
    assert files <= completed[0], "segments and their folders before the manifest says complete"
    assert out in synced


def test_a_finished_export_or_another_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"kgtool_export": 1, "complete": true}')
    with pytest.raises(ConfigError, match="finished export"):
        ExportDirectory(tmp_path)
    (tmp_path / "cluster.json").write_text("holiday pictures")
    with pytest.raises(ConfigError, match="not an export"):
        ExportDirectory(tmp_path)
    with pytest.raises(ConfigError, match="is a file"):
        ExportDirectory(tmp_path / "cluster.json")


def test_another_clusters_export_is_not_mixed_in(session: Session, tmp_path: Path) -> None:
    manifest = {"kgtool_export": 1, "complete": False, "cluster_id": "other", "partitions": []}
    (tmp_path / "cluster.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigError, match="cluster other"):
        run(session, tmp_path)


def test_cut_off_batches_are_left_out(kafka: Sandbox, world: list[str]) -> None:
    data = max(broker_segments(kafka).values(), key=len)
    size, following = whole_batches(data, 2**63 - 1)
    assert size == len(data)
    assert whole_batches(data[:-1], 2**63 - 1)[0] < size
    assert whole_batches(data, following - 1)[1] <= following
    for cut in range(0, 200):
        short, _ = whole_batches(data[:cut], 2**63 - 1)
        assert short <= cut
    assert whole_batches(b"", 5) == (0, -1)


@pytest.mark.parametrize("where", ["at the start", "in cluster.json", "in the segments"])
def test_a_disk_that_takes_no_more_is_named_and_the_same_command_finishes(
    kafka: Sandbox, world: list[str], tmp_path: Path, where: str
) -> None:
    blocks = 1 if where == "in cluster.json" else 0
    if where == "in the segments":
        kgtool("export", "--out", str(tmp_path / "small"), "-b", kafka.bootstrap)
        blocks = (tmp_path / "small" / "cluster.json").stat().st_size // 1024 + 2
        topic = clients.create_topic(kafka.bootstrap, clients.unique("export"), 8)
        offsets = {(topic, partition): 0 for partition in range(8)}
        for _ in range(blocks // 30 + 2):
            clients.commit(kafka.bootstrap, world[0], offsets, metadata="x" * 4000)
    out = tmp_path / "out"
    argv = ["export", "--out", str(out), "-b", kafka.bootstrap]
    full = subprocess.run(
        ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", *command_line(*argv)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr == (
        f"Error: The export {out} can't be written: File too large. "
        "Run the same command to finish it.\n"
    )
    done = kgtool(*argv)
    assert done.status == 0, done.err
    manifest = json.loads((out / "cluster.json").read_text())
    assert manifest["complete"]
    ends = {
        f"__consumer_offsets-{row['partition']}": row["end_offset"]
        for row in manifest["partitions"]
    }
    for name, data in exported(out).items():
        assert whole_batches(data, 1 << 62) == (len(data), ends[name])
