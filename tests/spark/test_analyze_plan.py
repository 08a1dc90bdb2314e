"""``analyze --plan``: the plan that ``cleanup plan`` makes, from a log; and it can be applied."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place

from kgtool.sandbox.cluster import Sandbox
from tests.changes import world
from tests.cli.run import Result
from tests.support import clients

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def items(path: Path, prefix: str) -> dict[str, dict[str, Any]]:
    plan = json.loads(path.read_text())
    return {item["group"]: item for item in plan["items"] if item["group"].startswith(prefix)}


def test_it_agrees_with_the_cluster_and_can_be_applied(
    analyze: Callable[..., Result], kafka: Sandbox, tmp_path: Path
) -> None:
    address, prefix = kafka.bootstrap, clients.unique("aplan")
    topic, ghost = (clients.create_topic(address, clients.unique("aplan"), 1) for _ in range(2))
    clients.produce(address, topic, 9)
    dead, used, living = (f"{prefix}-{name}" for name in ("dead", "used", "living"))
    for group in (dead, used):
        clients.commit(address, group, {(topic, 0): 4})
    member = clients.join(address, living, [topic])
    try:
        offsets = [Place(topic, 0, 1), Place(ghost, 0, 0)]
        member.commit(offsets=offsets, asynchronous=False)

        def run(*argv: object) -> world.Run:
            words = ["--bootstrap-server", address, *map(str, argv)]
            return world.kgtool(tmp_path / "journal", *words)

        export, plan = tmp_path / "export", tmp_path / "plan.json"
        assert run("export", "--out", export).status == 0
        made = analyze(export, "--plan", plan)
        assert made.status == 0, made.err
        found = items(plan, prefix)
        assert {group: item["action"] for group, item in found.items()} == {
            dead: "delete-group",
            used: "delete-group",
            living: "delete-offsets",
        }
        for criteria in (("--state", "Empty"), ("--unsubscribed",)):
            other = tmp_path / "other.json"
            argv = ("cleanup", "plan", "--match", f"{prefix}-*", *criteria, "--out", other)
            assert run(*argv, "--overwrite").status == 0
            for group, item in items(other, prefix).items():
                for key in ("action", "type", "state", "lag", "last_commit_ms", "expires_at_ms"):
                    assert found[group][key] == item[key], (group, key)
                for one, same in zip(found[group]["offsets"], item["offsets"], strict=True):
                    for key in ("topic", "partition", "offset", "topic_id", "lag", "problem"):
                        assert one[key] == same[key], (group, key)
        # Only what is about this test's groups; one of them is used since, with the same offset.
        whole = json.loads(plan.read_text())
        whole["items"] = list(found.values())
        plan.write_text(json.dumps(whole))
        clients.commit(address, used, {(topic, 0): 4})
        done = run("cleanup", "apply", plan, "--yes", "-o", "json")
    finally:
        member.close()
    assert {row["group"]: row["status"] for row in done.rows} == {
        dead: "deleted",
        used: "skipped",
        living: "deleted",
    }
    assert {g for g in clients.group_ids(address) if g.startswith(prefix)} == {used, living}
    refused = analyze(export, "--plan", plan)
    assert (refused.status, "--overwrite" in refused.err) == (2, True)
    assert analyze(export, "--idle", "1d").status == 2
    nobody = json.loads(plan.read_text())
    nobody["cluster_id"] = None
    plan.write_text(json.dumps(nobody))
    unnamed = run("cleanup", "apply", plan, "--yes")
    assert (unnamed.status, "which cluster it is about" in unnamed.err) == (2, True)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_count_as_use(
    analyze: Callable[..., Result], kafka: Sandbox, tmp_path: Path, protocol: str
) -> None:
    """A group whose consumer came and went without a commit is not idle."""
    address, prefix = kafka.bootstrap, clients.unique("aidle")
    topic = clients.create_topic(address, prefix, 1)
    dead, visited = f"{prefix}-dead", f"{prefix}-visited"
    for group in (dead, visited):
        clients.commit(address, group, {(topic, 0): 0})
    time.sleep(3)
    at_ms = time.time_ns() // 1_000_000
    clients.join(address, visited, [topic], group_protocol=protocol).close()
    export, plan = tmp_path / "export", tmp_path / "plan.json"
    done = world.kgtool(
        tmp_path / "journal", "export", "--out", str(export), "--bootstrap-server", address
    )
    assert done.status == 0, done.err
    taken_ms = json.loads((export / "cluster.json").read_text())["taken_at_ms"]
    idle_s = (taken_ms - at_ms) // 1000 + 1  # however long that took
    done = analyze(export, "--plan", plan, "--idle", f"{idle_s}s")
    assert done.status == 0, done.err
    assert set(items(plan, prefix)) == {dead}
