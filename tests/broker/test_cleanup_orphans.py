"""Offsets of topics that are gone: brokers refuse to delete them, so the group is rebuilt.

A 4.x broker removes the offsets of a topic that is deleted, so what only upgrades and mishaps
leave behind is written into ``__consumer_offsets`` here, and the broker is started again.
"""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.changes import world
from tests.changes.world import Run, seen
from tests.support import clients

LIVE, GONE = "live-topic", "gone-topic"
KILLED = ("killed-1", "killed-2", "killed-3", "killed-4", "killed-5", "killed-6")
GROUPS = ("mixed", *KILLED, "only-gone", "shrunk", "healthy")


def write_offset(bootstrap: str, group: str, topic: str, partition: int, offset: int) -> None:
    """Write an OffsetCommitKey v1 and an OffsetCommitValue v3, as a coordinator does."""
    key = struct.pack(">h", 1) + b"".join(
        struct.pack(">h", len(text)) + text for text in (group.encode(), topic.encode())
    )
    value = struct.pack(">hqih", 3, offset, -1, 0) + struct.pack(">q", time.time_ns() // 1_000_000)
    # Brokers let nobody else write there (KafkaApis, AdminUtils.ADMIN_CLIENT_ID).
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    producer.produce(
        "__consumer_offsets",
        value,
        key + struct.pack(">i", partition),
        partition=offsets_partition(group, 4),
    )
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("orphans")
    config = {"offsets.topic.num.partitions": "4"}
    with Sandbox.start("orphans", version="4.3.1", root=root, config=config) as cluster:
        ready.wait_for_coordinators(cluster.state)
        address = cluster.bootstrap
        clients.create_topic(address, LIVE, 2)
        clients.produce(address, LIVE, 10)
        for group in ("mixed", *KILLED, "healthy"):
            world.commit(address, group, {(LIVE, 0): 3, (LIVE, 1): 0}, "kept", 0)
        clients.commit(address, "shrunk", {(LIVE, 0): 99, (LIVE, 1): 0})
        for group in ("mixed", *KILLED, "only-gone"):
            write_offset(address, group, GONE, 0, 7)
        write_offset(address, "mixed", LIVE, 5, 1)
        cluster.restart(cluster.nodes[0].id)
        ready.wait_for_coordinators(cluster.state)
        yield cluster


class Scene:
    def __init__(self, cluster: Sandbox, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.journal = folder / "journal"

    def run(self, *argv: str) -> Run:
        return world.kgtool(self.journal, "--bootstrap-server", self.cluster.bootstrap, *argv)

    def plan(self, *argv: str) -> dict[str, Any]:
        out = self.folder / "plan.json"
        done = self.run("cleanup", "plan", *argv, "--out", str(out), "--overwrite")
        assert done.status == 0, done.err
        if not out.exists():  # nothing to do: no plan
            return {}
        found: dict[str, Any] = json.loads(out.read_text())
        return {item["group"]: item for item in found["items"]}

    def apply(self) -> Run:
        out = str(self.folder / "plan.json")
        return self.run("cleanup", "apply", out, "--yes", "-o", "json")

    def seen(self) -> dict[str, Any]:
        return seen(self.cluster.bootstrap, *GROUPS)


@pytest.fixture
def scene(broker: Sandbox, tmp_path: Path) -> Scene:
    return Scene(broker, tmp_path)


KEPT = {(LIVE, 0): (3, "kept", 0), (LIVE, 1): (0, "kept", 0)}


def test_brokers_refuse_to_delete_them(scene: Scene) -> None:
    argv = ("--delete-offsets", "--group", "mixed", "--topic", f"{GONE}:0")
    shown = scene.cluster.run_tool("kafka-consumer-groups", *argv)
    assert "UnknownTopicOrPartition" in shown.stdout + shown.stderr
    assert (GONE, 0) in scene.seen()["mixed"]


def test_the_plan_offers_what_works(scene: Scene) -> None:
    items = scene.plan("--orphaned")
    assert {group: item["action"] for group, item in items.items()} == {
        **dict.fromkeys(("mixed", *KILLED), "rebuild-group"),
        "only-gone": "delete-group",
        "shrunk": "delete-offsets",
    }
    mixed = items["mixed"]
    assert [(o["topic"], o["partition"], o["problem"]) for o in mixed["offsets"]] == [
        (GONE, 0, "topic-gone"),
        (LIVE, 5, "partition-gone"),
    ]
    # librdkafka sends the NUL at the end of a C string too.
    assert [(o["topic"], o["offset"], o["metadata"].rstrip("\0")) for o in mixed["keep"]] == [
        (LIVE, 3, "kept"),
        (LIVE, 0, "kept"),
    ]
    (shrunk,) = items["shrunk"]["offsets"]
    assert (shrunk["partition"], shrunk["problem"]) == (0, "beyond-end")
    waiting = scene.plan("--orphaned", "--no-rebuild", "--match", "mixed")["mixed"]
    assert waiting["action"] == "wait" and waiting["expires_at_ms"] is not None
    assert "it expires by itself from 20" in waiting["why"][-1]


# Three fsyncs for the journal, its number and its folder, one for the file of the progress and one
# for what begins: the last look leaves after that, then the request that deletes, then the commit.
STEPS = ("after send/5/2", "after recv/5/2", "after recv/5/3", "after recv/5/2")


@pytest.mark.parametrize(("group", "step"), list(zip(KILLED[:4], STEPS, strict=True)))
def test_killed_between_deletion_and_restoration(scene: Scene, group: str, step: str) -> None:
    """The same command, or undo, brings back what was to be kept."""
    scene.plan("--orphaned", "--match", group)
    out = str(scene.folder / "plan.json")
    argv = ["--bootstrap-server", scene.cluster.bootstrap, "cleanup", "apply", out, "--yes"]
    killed = world.crash(scene.journal, step, argv)
    assert killed.status == -9, (step, killed.err)
    if group == KILLED[3]:
        assert scene.seen()[group] == {}
        undone = scene.run("undo", "last", "--yes", "-o", "json")
        assert (undone.status, len(undone.rows)) == (3, 3), undone.err
    else:
        done = scene.apply()
        assert (done.status, [row["status"] for row in done.rows]) == (0, ["rebuilt"]), done
    assert scene.seen()[group] == KEPT


@pytest.mark.parametrize(("group", "folder"), [("killed-5", "journal"), ("killed-6", "other")])
def test_restored_in_part(scene: Scene, group: str, folder: str) -> None:
    """One kept offset is there again, the other is not: that is not the group of the plan.

    It was taken for unchanged, deleted once more and rebuilt with the one offset.
    """
    scene.plan("--orphaned", "--match", group)
    path = scene.folder / "plan.json"
    # The times alone would tell where the log can be read.
    path.write_text(re.sub(r'"committed_at_ms": \d+', '"committed_at_ms": null', path.read_text()))
    argv = ["--bootstrap-server", scene.cluster.bootstrap, "cleanup", "apply", str(path), "--yes"]
    assert world.crash(scene.journal, STEPS[1], argv).status == -9
    world.commit(scene.cluster.bootstrap, group, {(LIVE, 0): 3}, "kept", 0)
    done = world.kgtool(scene.folder / folder, *argv, "-o", "json")
    (row,) = done.rows
    if folder == "journal":
        assert (done.status, row["status"]) == (0, "rebuilt"), done
        assert scene.seen()[group] == KEPT
    else:  # another machine doesn't know that this plan deleted the group
        assert (done.status, row["status"]) == (1, "skipped"), done
        assert f"no offset on {LIVE}:1" in row["error"]["message"]
        assert scene.seen()[group] == {(LIVE, 0): KEPT[LIVE, 0]}


def test_rebuilt_and_what_comes_back_of_it(scene: Scene) -> None:
    before = scene.seen()
    scene.plan("--orphaned", "--exclude", "killed-*")
    done = scene.apply()
    assert done.status == 0, done.err
    assert {row["group"]: row["status"] for row in done.rows} == {
        "mixed": "rebuilt",
        "only-gone": "deleted",
        "shrunk": "deleted",
    }
    after = scene.seen()
    assert after["mixed"] == KEPT
    assert after["only-gone"] == {}
    assert set(after["shrunk"]) == {(LIVE, 1)}
    assert after["healthy"] == before["healthy"]
    assert scene.plan("--orphaned", "--exclude", "killed-*") == {}
    undone = scene.run("undo", "last", "--yes", "-o", "json")
    # A topic that does not exist takes no offsets: undo says which, and does the rest.
    assert undone.status == 3
    failed = {(row["group"], row["topic"]) for row in undone.rows if row["status"] == "failed"}
    assert failed == {("mixed", GONE), ("mixed", LIVE), ("only-gone", GONE)}
    assert scene.seen()["shrunk"] == before["shrunk"]
