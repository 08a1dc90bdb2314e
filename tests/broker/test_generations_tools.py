"""The rest of the workbench on every generation of brokers: the same table, more rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.broker.test_generations import TABLE, rows
from tests.broker.test_generations import here as here
from tests.broker.test_generations import kgtool as kgtool
from tests.support import clients
from tests.support.generations import World
from tests.support.outcomes import Outcome


def test_peek(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "peek", here.generation.label):
        result = kgtool("peek", here.empty, "--topic", f"{here.topic}:0")
        assert result.status == 0, result
        found = {row["offset"]: row["is_next"] for row in rows(result)}
        assert found == {offset: offset == 4 for offset in range(9)}


def test_request(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "request", here.generation.label):
        result = kgtool(
            "request", "DescribeGroups", "--body", json.dumps({"groups": [here.living]})
        )
        assert result.status == 0, result
        assert here.living in result.out
        assert "Stable" in result.out


def test_doctor(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("beyond")
    clients.commit(here.bootstrap, group, {(here.topic, 0): 10})
    beyond = {(here.topic, 1): 99}
    clients.commit(here.bootstrap, group, beyond)
    with outcome(TABLE, "doctor", here.generation.label):
        result = kgtool("doctor", "--group", group)
        assert result.status == 5, result
        found = {(row["finding"], row["topic"], row["partition"]) for row in rows(result)}
        assert ("beyond-end", here.topic, 1) in found
        assert result.json["errors"] == []


def test_cleanup(here: World, kgtool: Any, outcome: Outcome, tmp_path: Path) -> None:
    done, behind = clients.unique("done"), clients.unique("behind")
    clients.commit(here.bootstrap, done, {(here.topic, 0): 10})
    clients.commit(here.bootstrap, behind, {(here.topic, 0): 3})
    plan = str(tmp_path / "plan.json")
    with outcome(TABLE, "cleanup plan, apply", here.generation.label):
        argv = ["--group", done, "--group", behind, "--no-lag", "--out", plan]
        planned = kgtool("cleanup", "plan", *argv)
        assert planned.status == 0, planned
        assert {row["group"] for row in rows(planned)} == {done}
        applied = kgtool("cleanup", "apply", plan, "--yes")
        assert applied.status == 0, applied
        assert clients.committed(here.bootstrap, done) == {}
        assert clients.committed(here.bootstrap, behind) == {(here.topic, 0): 3}


def test_remove_members(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("stuck")
    is_static = here.generation.has_static_members
    more = {"group_instance_id": "stuck-1"} if is_static else {}
    member = clients.join(here.bootstrap, group, [here.topic], **more)
    try:
        with outcome(TABLE, "remove-members", here.generation.label):
            result = kgtool("remove-members", group, "--all", "--yes")
            assert result.status == 0, result
            (row,) = rows(result)
            assert (row["group"], row["status"]) == (group, "removed")
            assert row["group_instance_id"] == ("stuck-1" if is_static else None)
    finally:
        member.close()


def test_configs(here: World, kgtool: Any, outcome: Outcome) -> None:
    change = ("--alter", "--add-config", "consumer.session.timeout.ms=50000", "--yes")
    with outcome(TABLE, "configs", here.generation.label) as cell:
        for more in ((), change):
            result = kgtool("configs", "--group", here.empty, *more)
            if here.generation.has_group_configs:
                assert result.status == 0, result
            else:
                cell.says("refused: needs 4.0")
                assert result.status == 1, result
                assert "needs Kafka ≥ 4.0" in result.err
        if here.generation.has_group_configs:
            value = {
                row["name"]: row["value"] for row in rows(kgtool("configs", "--group", here.empty))
            }
            assert value["consumer.session.timeout.ms"] == "50000"
