"""``cleanup`` and ``remove-members`` for a user who may do some things only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from kgtool.changes.cleanup.apply import Blind
from tests.broker.test_authorisation import Guarded, guarded, here  # noqa: F401
from tests.cli.pseudo import Terminal
from tests.cli.run import command_line
from tests.support import clients

MINE = ("DESCRIBE", "READ", "DELETE")


def group(at: Guarded, *operations: str) -> str:
    name = at.group(*operations, offsets=False)
    clients.commit(at.bootstrap, name, {(at.seen, 0): 5})
    return name


def make(at: Guarded, path: Path, *argv: str) -> dict[str, Any]:
    made = at.run("cleanup", "plan", *argv, "--out", str(path), "--overwrite")
    assert made.status == 0, made.err
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_without_the_log_nothing_is_guessed(here: Guarded, tmp_path: Path) -> None:  # noqa: F811
    one, other = group(here, *MINE), group(here, "DESCRIBE", "READ")
    names = ("--group", one, "--group", other)
    path = tmp_path / "plan.json"
    idle = here.run("cleanup", "plan", *names, "--idle", "1s", "--out", str(path))
    assert (idle.status, idle.json["results"], path.exists()) == (0, [], False)
    (why,) = re.findall(r"^  2: its last commit is unknown: (.*)$", idle.err, re.MULTILINE)
    assert why.startswith("Not allowed to read __consumer_offsets")
    assert why.endswith((f" ({one}, {other})", f" ({other}, {one})"))
    items = make(here, path, *names, "--no-lag")["items"]
    assert {item["group"] for item in items} == {one, other}
    assert [(i["lag"], i["last_commit_ms"], i["expires_at_ms"]) for i in items] == [
        (0, None, None),
        (0, None, None),
    ]
    for argv in (["--dry-run"], ["--yes"]):
        refused = here.run("cleanup", "apply", str(path), *argv)
        assert refused.status == 1, refused
        assert refused.json["errors"][0]["name"] == "BLIND"
        assert "READ on topic __consumer_offsets" in refused.json["errors"][0]["hint"]
        assert {one, other} <= clients.group_ids(here.bootstrap)
    with here.admin() as admin, pytest.raises(Blind):
        admin.cleanup_apply(path)
    argv = command_line("cleanup", "apply", str(path), "--allow-blind", *here.login)
    with Terminal(argv, columns=300) as terminal:
        asked = terminal.read_until(r"\[y/N\]: ")
        assert "since the plan was made is unknown" in asked
        assert "undo covers only the offsets that this login may see" in asked
        terminal.type("n\n")
        assert terminal.read_all() == 1
    assert {one, other} <= clients.group_ids(here.bootstrap)
    done = here.run("cleanup", "apply", str(path), "--yes", "--allow-blind")
    assert done.status == 3
    found = {row["group"]: row for row in done.json["results"]}
    assert (found[one]["status"], found[other]["status"]) == ("deleted", "failed")
    assert found[other]["error"]["code"] == 30
    assert f"DELETE on group {other}" in found[other]["error"]["hint"]
    assert done.err.count("since the plan was made is unknown") == 1
    left = clients.group_ids(here.bootstrap)
    assert one not in left and other in left


def test_members_that_may_not_be_removed(here: Guarded) -> None:  # noqa: F811
    name = here.group("DESCRIBE", offsets=False)
    member = clients.join(here.bootstrap, name, [here.seen])
    try:
        refused = here.run("remove-members", name, "--all", "--yes")
        assert refused.status == 1
        (row,) = refused.json["results"]
        assert (row["status"], row["error"]["code"]) == ("failed", 30)
        assert f"READ on group {name}" in row["error"]["hint"]
        here.allow(ResourceType.GROUP, name, "READ")
        assert here.run("remove-members", name, "--all", "--yes").status == 0
    finally:
        member.close()


@pytest.mark.parametrize("lacks", ["topic", "group"])
def test_a_group_that_could_not_be_rebuilt_stays(
    here: Guarded,  # noqa: F811
    tmp_path: Path,
    lacks: str,
) -> None:
    """It was deleted, and then the commit of what was to be kept was refused."""
    third = clients.create_topic(here.bootstrap, clients.unique("third"))
    for topic in (here.hidden, third):
        here.allow(ResourceType.TOPIC, topic, "DESCRIBE", *(["READ"] * (lacks == "group")))
    mine = here.group("DESCRIBE", "DELETE", *(["READ"] * (lacks == "topic")))
    clients.commit(here.bootstrap, mine, {(third, 0): 0})
    before = clients.committed(here.bootstrap, mine)
    path = tmp_path / "plan.json"
    keep = [
        {"topic": here.seen, "partition": 0, "offset": 1},
        {"topic": here.hidden, "partition": 0, "offset": 2},
    ]
    going = [{"topic": third, "partition": 0, "offset": 0}]
    item = {"action": "rebuild-group", "group": mine, "offsets": going, "keep": keep}
    head = make(here, tmp_path / "made.json", "--group", mine)
    path.write_text(json.dumps({**head, "items": [item]}))
    here.allow(ResourceType.TOPIC, "__consumer_offsets", "DESCRIBE", "READ")
    try:
        for argv in (["--dry-run"], ["--yes"], ["--yes"]):
            done = here.run("cleanup", "apply", str(path), *argv)
            assert done.status == 1, done
            (row,) = done.json["results"]
            assert row["status"] == "failed"
            where = f"topic {here.hidden}" if lacks == "topic" else f"group {mine}"
            assert f"READ on {where}" in row["error"]["hint"]
            assert clients.committed(here.bootstrap, mine) == before
        here.allow(ResourceType.TOPIC, here.hidden, "READ")
        here.allow(ResourceType.GROUP, mine, "READ")
        done = here.run("cleanup", "apply", str(path), "--yes")
        assert (done.status, done.json["results"][0]["status"]) == (0, "rebuilt"), done
        del before[third, 0]
        assert clients.committed(here.bootstrap, mine) == before
    finally:
        here.forbid(ResourceType.TOPIC, "__consumer_offsets")
