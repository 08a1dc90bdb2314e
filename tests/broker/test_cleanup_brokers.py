"""``cleanup apply`` while a broker dies, and on a broker of another generation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_cleanup import Scene, load, statuses
from tests.broker.test_many_brokers import Three, settled  # noqa: F401
from tests.changes import world
from tests.support import clients


@pytest.mark.timed  # beside the other tests that need three brokers: no others are started for it
def test_a_broker_dies_in_the_middle(settled: Three, tmp_path: Path) -> None:  # noqa: F811
    """What could not be done is named, and the same command does the rest: once each."""
    here = Scene(settled.bootstrap, tmp_path)
    here.groups = settled.commit(here.prefix, 48)
    before = here.offsets()
    plan = here.plan()
    argv = [
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(plan),
        "--yes",
        "--rate",
        "12",
        "--timeout",
        "20000",
        "-o",
        "ndjson",
    ]
    out = tmp_path / "out"
    with (
        out.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-m", "kgtool.cli", *argv],
            cwd=world.ROOT,
            text=True,
            env=world.environment(here.journal),
            stdout=file,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        clients.wait_for(lambda: len(here.living()) < 48, "the first part")
        settled.cluster.kill(settled.cluster.nodes[1].id)
        _, err = process.communicate(timeout=180)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = {row["group"]: row["status"] for row in rows if row.get("status")}
    assert set(found) == set(here.groups), err
    assert set(found.values()) <= {"deleted", "failed"}
    settled.settle()
    rest = here.apply(plan)
    assert rest.status == 0, rest.err
    again = statuses(rest)
    assert set(again.values()) <= {"deleted", "done-before"}
    assert all(again[g] == "done-before" for g, status in found.items() if status == "deleted")
    assert here.living() == set()
    for entry in here.histories():
        undone = here.run("undo", entry["id"], "--yes", "-o", "json")
        assert undone.status == 0, undone.err
    assert here.offsets() == before


def test_the_old_coordinator(kafka_391: Sandbox, tmp_path: Path) -> None:
    here = Scene(kafka_391.bootstrap, tmp_path, 5)
    before = here.offsets()
    plan = here.plan("--idle", "1ms", "--no-rebuild")
    items = load(plan)["items"]
    assert [item["group"] for item in items] == here.groups
    assert all(item["expires_at_ms"] and item["last_commit_ms"] for item in items)
    clients.commit(here.bootstrap, here.groups[0], {(here.topic, 0): 8})
    done = here.apply(plan)
    assert statuses(done) == {
        here.groups[0]: "skipped",
        **dict.fromkeys(here.groups[1:], "deleted"),
    }
    assert here.undo().status == 0
    assert {g: before[g] for g in here.groups[1:]} == {
        g: here.offsets()[g] for g in here.groups[1:]
    }
