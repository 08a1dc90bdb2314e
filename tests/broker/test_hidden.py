"""Offsets of topics that the login may not DESCRIBE: OffsetFetch leaves them out in silence.

The group's own log in ``__consumer_offsets`` has them. They used to be deleted with the group and
were in no journal, so that ``undo`` succeeded without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from tests.broker.test_authorisation import Guarded, guarded, here  # noqa: F401
from tests.cli.pseudo import Terminal
from tests.cli.run import call, command_line, kgtool
from tests.support import clients

LOG = "__consumer_offsets"
WITHOUT_THE_LOG = "undo covers only the offsets that this login may see"


@pytest.fixture
def log(here: Guarded) -> Iterator[Guarded]:  # noqa: F811
    """The same, with READ on the log."""
    here.allow(ResourceType.TOPIC, LOG, "DESCRIBE", "READ")
    yield here
    here.forbid(ResourceType.TOPIC, LOG)


def both(at: Guarded) -> dict[tuple[str, int], int]:
    return {(at.seen, 0): 1, (at.hidden, 0): 2}


def forget(at: Guarded, group: str) -> None:
    """Delete the hidden offset, as the administrator."""
    named = ("--group", group, "--topic", f"{at.hidden}:0", "--yes")
    assert kgtool("delete-offsets", *named, "--bootstrap-server", at.bootstrap).status == 0


def journal(path: Path) -> list[dict[str, Any]]:
    (file,) = (path / "journal").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("argv", [["delete", "--yes"], ["delete", "--dry-run"]])
def test_a_group_with_hidden_offsets_stays(log: Guarded, argv: list[str], tmp_path: Path) -> None:
    mine = log.group("DESCRIBE", "DELETE", "READ")
    result = log.run(*argv, "--group", mine)
    assert result.status == 1, result
    (error,) = result.json["errors"]
    assert (error["name"], error["target"]["topic"]) == ("HIDDEN_OFFSETS", log.hidden)
    assert "1 offset" in error["message"]
    assert f"DESCRIBE on topic {log.hidden}" in error["hint"]
    assert "--force" in error["hint"]
    assert clients.committed(log.bootstrap, mine) == both(log)
    assert not list((tmp_path / "journal").glob("*.jsonl"))


def test_force_says_what_does_not_come_back(log: Guarded, tmp_path: Path) -> None:
    mine = log.group("DESCRIBE", "DELETE", "READ")
    result = log.run("delete", "--group", mine, "--yes", "--force")
    assert result.status == 0, result
    assert f"1 offset of topic {log.hidden} does not come back" in result.err
    assert mine not in clients.group_ids(log.bootstrap)
    undone = log.run("undo", "last", "--yes")
    assert undone.status == 0, undone
    assert f"1 offset of topic {log.hidden} that the login could not see" in undone.err
    assert clients.committed(log.bootstrap, mine) == {(log.seen, 0): 1}


def test_kafka_s_form_deletes_and_says_so(log: Guarded) -> None:
    mine = log.group("DESCRIBE", "DELETE", "READ")
    dry = log.run("--delete", "--group", mine, "--dry-run")
    assert (dry.status, dry.json["results"][0]["status"]) == (0, "would-delete"), dry
    assert f"1 offset of topic {log.hidden} does not come back" in dry.err
    result = log.run("--delete", "--group", mine)
    assert result.status == 0, result
    assert f"1 offset of topic {log.hidden} does not come back" in result.err
    assert mine not in clients.group_ids(log.bootstrap)


def test_what_may_be_seen_is_no_obstacle(log: Guarded) -> None:
    """Offsets that are gone from the hidden topic do not count."""
    mine = log.group("DESCRIBE", "DELETE", "READ")
    forget(log, mine)
    result = log.run("delete", "--group", mine, "--yes")
    assert result.status == 0, result
    assert "may not see" not in result.err
    assert log.run("undo", "last", "--yes").status == 0
    assert clients.committed(log.bootstrap, mine) == {(log.seen, 0): 1}


@pytest.mark.parametrize("form", [["delete", "--yes"], ["--delete"]])
def test_without_the_log_it_says_what_undo_covers(
    here: Guarded,  # noqa: F811
    form: list[str],
    tmp_path: Path,
) -> None:
    mine = here.group("DESCRIBE", "DELETE", "READ")
    result = here.run(*form, "--group", mine)
    assert result.status == 0, result
    assert WITHOUT_THE_LOG in result.err
    assert f"READ on topic {LOG}" in result.err
    (group,) = [line for line in journal(tmp_path) if line["kind"] == "group"]
    assert group["blind"] is True
    assert mine not in clients.group_ids(here.bootstrap)
    undone = here.run("undo", "last", "--yes")
    assert undone.status == 0, undone
    assert f"'{mine}' may have had offsets that the login could not see" in undone.err
    assert clients.committed(here.bootstrap, mine) == {(here.seen, 0): 1}


def test_where_no_authorizer_is_on_nothing_is_said(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    topic = clients.create_topic(bootstrap, clients.unique("t"))
    name = clients.unique("group")
    clients.commit(bootstrap, name, {(topic, 0): 0})
    wire = ("--bootstrap-server", bootstrap, "--debug")
    result = call(capsys, "--delete", "--group", name, *wire)
    assert result.status == 0, result
    assert " DescribeAcls v" in result.err
    assert " Fetch v" not in result.err, "the log is read for nothing"
    assert WITHOUT_THE_LOG not in result.err
    (group,) = [line for line in journal(tmp_path) if line["kind"] == "group"]
    assert "blind" not in group


def plan(at: Guarded, path: Path, *groups: str) -> str:
    named = [word for group in groups for word in ("--group", group)]
    made = at.run("cleanup", "plan", *named, "--out", str(path), "--overwrite")
    assert made.status == 0, made
    return str(path)


def test_cleanup_leaves_hidden_offsets_alone(log: Guarded, tmp_path: Path) -> None:
    mine, other = log.group("DESCRIBE", "DELETE", "READ"), log.group("DESCRIBE", "DELETE", "READ")
    forget(log, other)
    path = plan(log, tmp_path / "plan.json", mine, other)
    for argv, good in ((["--dry-run"], "would-delete"), (["--yes"], "deleted")):
        result = log.run("cleanup", "apply", path, *argv)
        assert result.status == 3, result
        rows = {row["group"]: row for row in result.json["results"]}
        assert (rows[mine]["status"], rows[other]["status"]) == ("failed", good)
        assert rows[mine]["error"]["name"] == "HIDDEN_OFFSETS"
        assert f"DESCRIBE on topic {log.hidden}" in rows[mine]["error"]["hint"]
    assert clients.committed(log.bootstrap, mine) == both(log)
    assert log.run("undo", "last", "--yes").status == 0
    assert clients.committed(log.bootstrap, other) == {(log.seen, 0): 1}


def test_the_python_api_does_the_same(here: Guarded, tmp_path: Path) -> None:  # noqa: F811
    mine, other = here.group("DESCRIBE", "DELETE"), here.group("DESCRIBE", "DELETE")
    with here.admin() as admin:
        with pytest.warns(UserWarning, match=WITHOUT_THE_LOG):
            (row,) = admin.delete_groups([other])
        assert row.status == "deleted"
        here.allow(ResourceType.GROUP, other, "READ")
        with pytest.warns(UserWarning, match=f"'{other}' may have had offsets"):
            assert not admin.undo("last").errors
        assert clients.committed(here.bootstrap, other) == {(here.seen, 0): 1}
        here.allow(ResourceType.TOPIC, LOG, "DESCRIBE", "READ")
        try:
            (row,) = admin.delete_groups([mine])
            assert row.error is not None
            assert (row.status, row.error.name) == ("failed", "HIDDEN_OFFSETS")
            assert clients.committed(here.bootstrap, mine) == both(here)
            with pytest.warns(UserWarning, match=f"1 offset of topic {here.hidden}"):
                (row,) = admin.delete_groups([mine], force=True)
            assert row.status == "deleted"
        finally:
            here.forbid(ResourceType.TOPIC, LOG)


def test_the_question_says_what_undo_covers(here: Guarded) -> None:  # noqa: F811
    mine = here.group("DESCRIBE", "DELETE")
    with Terminal(command_line("delete", "--group", mine, *here.login), columns=300) as terminal:
        said = terminal.read_until(r"\[y/N\]: ")
        assert WITHOUT_THE_LOG in said
        terminal.type("n\n")
        assert terminal.read_all() == 1
    assert clients.committed(here.bootstrap, mine) == both(here)


def test_delete_offsets_of_a_topic_that_may_be_read_but_not_seen(here: Guarded) -> None:  # noqa: F811
    """A denied DESCRIBE with READ allowed: the coordinator would do it, and undo could not."""
    here.allow(ResourceType.TOPIC, here.hidden, "READ")
    here.deny(ResourceType.TOPIC, here.hidden, "DESCRIBE")
    mine = here.group("DESCRIBE", "DELETE")
    result = here.run("delete-offsets", "--group", mine, "--topic", f"{here.hidden}:0", "--yes")
    assert result.status == 1, result
    assert f"DESCRIBE on topic {here.hidden}" in result.json["errors"][0]["hint"]
    assert clients.committed(here.bootstrap, mine) == both(here)
