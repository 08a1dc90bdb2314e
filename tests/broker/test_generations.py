"""Every command on every generation of brokers, old ones and new ones.

What is right is said by that version's own kafka-consumer-groups and by confluent-kafka.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result, call
from tests.support import clients
from tests.support.generations import GENERATIONS, World, world
from tests.support.outcomes import Outcome

TABLE = "kgtool on brokers of every generation"


@pytest.fixture(scope="module", params=GENERATIONS, ids=lambda generation: generation.label)
def here(request: pytest.FixtureRequest, warm: Callable[[Sandbox], Sandbox]) -> Iterator[World]:
    with world(request.param) as made:
        warm(made.kafka)
        yield made


@pytest.fixture
def kgtool(
    here: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Runs kgtool on the broker, rows as JSON: ``kgtool("list").json``."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))

    def run(*argv: str) -> Result:
        return call(capsys, *argv, "--bootstrap-server", here.bootstrap, "-o", "json")

    return run


def rows(result: Result, *groups: str) -> list[dict[str, Any]]:
    found = result.json["results"]
    return [row for row in found if row["group"] in groups] if groups else found


def test_list(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "list", here.generation.label) as cell:
        result = kgtool("list")
        assert result.status == 0
        # Other tests use the same broker, and their groups come and go.
        listed = rows(result, *here.groups)
        assert sorted(row["group"] for row in listed) == here.groups
        assert set(here.groups) <= set(here.tool("--list").stdout.splitlines())
        assert set(here.groups) <= clients.group_ids(here.bootstrap)
        found = {row["group"]: (row["type"], row["state"]) for row in listed}
        expected = {here.empty: ("classic", "Empty"), here.living: ("classic", "Stable")}
        if here.modern:
            expected[here.modern] = ("consumer", "Stable")
        assert found == expected
        cell.says("ok")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--state", "Empty"], ["empty"]),
        (["--state", "stable"], ["living", "modern"]),
        (["--state", "Dead"], []),
        (["--type", "classic"], ["empty", "living"]),
        (["--type", "consumer"], ["modern"]),
        (["--type", "consumer", "--state", "Empty"], []),
    ],
)
def test_list_with_filters(
    here: World, kgtool: Any, outcome: Outcome, options: list[str], names: list[str]
) -> None:
    """Brokers before 2.6 and 3.8 list neither states nor types: the filters hold all the same."""
    with outcome(TABLE, f"list {' '.join(options)}", here.generation.label):
        result = kgtool("list", *options)
        assert result.status == 0
        expected = {getattr(here, name) for name in names} - {None}
        assert {row["group"] for row in rows(result, *here.groups)} == expected


def test_describe_offsets(here: World, kgtool: Any, outcome: Outcome) -> None:
    columns = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CLIENT-ID")
    with outcome(TABLE, "describe --offsets", here.generation.label):
        for group in here.groups:
            result = kgtool("describe", "--group", group)
            assert result.status == 0, result
            ours = {
                (row["topic"], row["partition"]): tuple(
                    "-" if row[key] is None else str(row[key])
                    for key in ("current_offset", "log_end_offset", "lag", "client_id")
                )
                for row in rows(result)
            }
            theirs = {
                (row["TOPIC"], int(row["PARTITION"])): tuple(row[column] for column in columns)
                for row in here.described(group)
            }
            assert len(theirs) >= 3
            # Kafka's tool leaves out the partitions beside them that have no commit yet. One offset
            # without members is a choice of one partition, not a topic that is read.
            topics = {topic for topic, _ in theirs} - (
                {here.other} if group == here.empty else set()
            )
            beside = {at: end for at, end in here.ends.items() if at[0] in topics}
            uncommitted = {at: ("-", str(end), "-", "-") for at, end in beside.items()}
            assert ours == {**uncommitted, **theirs}


def test_describe_members(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "describe --members", here.generation.label):
        for group in filter(None, (here.living, here.modern)):
            result = kgtool("describe", "--group", group, "--members")
            assert result.status == 0
            (row,) = rows(result)
            (theirs,) = here.described(group, "--members")
            assert row["consumer_id"] == theirs["CONSUMER-ID"]
            assert row["host"] == theirs["HOST"]
            assert str(row["partitions"]) == theirs["#PARTITIONS"] == "3"
            assert row["current_assignment"] == f"{here.topic}:0,1,2"


def test_describe_state(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "describe --state", here.generation.label):
        for group in here.groups:
            result = kgtool("describe", "--group", group, "--state")
            assert result.status == 0
            (row,) = rows(result)
            printed = here.tool("--describe", "--group", group, "--state").stdout
            for told in (row["state"], row["coordinator"], row["assignment_strategy"] or ""):
                assert told in printed
            assert row["members"] == (0 if group == here.empty else 1)


def test_an_unknown_group_is_an_error_of_its_own(here: World, kgtool: Any) -> None:
    """DescribeGroups before v6 calls it dead, and 3.9 says 35 of KIP-848 (an advertised API)."""
    result = kgtool("describe", "--group", "no-such-group", "--group", here.empty)
    assert result.status == 3
    assert {row["group"] for row in rows(result)} == {here.empty}
    (error,) = result.json["errors"]
    assert (error["code"], error["target"]["group"]) == (69, "no-such-group")


def test_delete_offsets(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("doff")
    clients.commit(here.bootstrap, group, {(here.other, 0): 0, (here.other, 1): 0})
    argv = ["delete-offsets", "--yes", "--group", group, "--topic", f"{here.other}:0,7"]
    with outcome(TABLE, "delete-offsets", here.generation.label) as cell:
        result = kgtool(*argv)
        status = {row["partition"]: row["status"] for row in rows(result)}
        left = set(clients.committed(here.bootstrap, group))
        if here.generation.has_offset_delete:
            assert result.status == 3
            assert status == {0: "deleted", 7: "failed"}
            assert left == {(here.other, 1)}
        else:
            cell.says("refused: needs 2.4")
            assert result.status == 1
            assert set(status.values()) == {"failed"}
            assert "Kafka does since 2.4" in result.err
            assert left == {(here.other, 0), (here.other, 1)}


def test_a_refusal_for_age_comes_before_anything_is_asked(here: World, kgtool: Any) -> None:
    argv = ["delete-offsets", "--dry-run", "--group", here.empty, "--topic", here.topic]
    result = kgtool(*argv)
    if here.generation.has_offset_delete:
        assert result.status == 0
        assert {row["status"] for row in rows(result)} == {"would-delete", "no-offset"}
    else:
        assert result.status == 1
        assert "Kafka does since 2.4" in result.err
    assert clients.committed(here.bootstrap, here.empty) == here.offsets


def test_delete_offsets_of_a_living_group(here: World, kgtool: Any) -> None:
    argv = ["delete-offsets", "--yes", "--group", here.living]
    result = kgtool(*argv, "--topic", f"{here.topic}:0")
    assert result.status == 1
    (error,) = result.json["errors"]
    if here.generation.has_offset_delete:
        assert error["name"] == "GROUP_SUBSCRIBED_TO_TOPIC"
        assert "cli" in error["hint"]
    else:
        assert error["name"] == "UNSUPPORTED"
    assert (here.topic, 0) in clients.committed(here.bootstrap, here.living)


def test_reset_offsets(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("reset")
    clients.commit(here.bootstrap, group, {(here.topic, 0): 1, (here.topic, 1): 1})
    argv = ["reset-offsets", "--group", group, "--topic", here.topic, "--to-offset", "8"]
    with outcome(TABLE, "reset-offsets", here.generation.label):
        result = kgtool(*argv, "--execute", "--yes")
        assert result.status == 0, result
        assert clients.committed(here.bootstrap, group) == {
            (here.topic, 0): 8,
            (here.topic, 1): 7,
            (here.topic, 2): 0,
        }
        theirs = {int(row["PARTITION"]): row["CURRENT-OFFSET"] for row in here.described(group)}
        assert theirs == {0: "8", 1: "7", 2: "0"}


def test_undo(here: World, kgtool: Any, outcome: Outcome, capsys: Any) -> None:
    group = clients.unique("undo")
    before = {(here.topic, 0): 1, (here.topic, 1): 1}
    clients.commit(here.bootstrap, group, before, metadata="noted")
    with outcome(TABLE, "undo", here.generation.label):
        argv = ["--group", group, "--topic", f"{here.topic}:0,1", "--to-latest"]
        assert kgtool("reset-offsets", *argv, "--execute", "--yes").status == 0
        assert clients.committed(here.bootstrap, group) != before
        assert kgtool("undo", "last", "--yes").status == 0
        assert clients.committed(here.bootstrap, group) == before
    with outcome(TABLE, "history", here.generation.label):
        newest, older = rows(call(capsys, "history", "-o", "json"))
        assert (older["command"], older["state"], older["changes"]) == (
            "reset-offsets",
            "undone",
            2,
        )
        assert (newest["command"], newest["state"]) == ("undo", "done")


def test_backup_and_restore(
    here: World, kgtool: Any, outcome: Outcome, tmp_path: Path, capsys: Any
) -> None:
    group, file = clients.unique("backup"), str(tmp_path / "backup.jsonl")
    before = {(here.topic, 0): 3, (here.other, 0): 0}
    clients.commit(here.bootstrap, group, before)
    with outcome(TABLE, "backup, restore", here.generation.label):
        assert kgtool("backup", "--group", group, "--out", file).status == 0
        clients.commit(here.bootstrap, group, {(here.topic, 0): 9})
        with outcome(TABLE, "diff", here.generation.label):
            moved = kgtool("diff", file, "--group", group)
            assert moved.status == 5
            (row,) = [row for row in rows(moved) if row["topic"] == here.topic]
            assert (row["old_offset"], row["new_offset"]) == (3, 9)
        result = kgtool("restore", file, "--yes")
        assert result.status == 0, result
        assert clients.committed(here.bootstrap, group) == before


def test_delete(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("del")
    clients.commit(here.bootstrap, group, {(here.topic, 0): 1})
    with outcome(TABLE, "delete", here.generation.label):
        names = (group, here.living, "no-such-group")
        argv = [word for name in names for word in ("--group", name)]
        result = kgtool("delete", "--yes", *argv)
        assert result.status == 3
        status = {row["group"]: row["status"] for row in rows(result)}
        assert status == {group: "deleted", here.living: "failed", "no-such-group": "failed"}
        assert group not in clients.group_ids(here.bootstrap)
        assert here.living in clients.group_ids(here.bootstrap)


def test_explain(here: World, kgtool: Any, outcome: Outcome) -> None:
    with outcome(TABLE, "explain", here.generation.label):
        for group in here.groups:
            result = kgtool("explain", group)
            assert result.status == 0, result
            (row,) = rows(result)
            is_empty = group == here.empty
            assert row["type"] == ("consumer" if group == here.modern else "classic")
            assert row["state"] == ("Empty" if is_empty else "Stable")
            assert row["actions"]["delete"]["allowed"] is is_empty
            assert row["actions"]["reset-offsets"]["allowed"] is is_empty
            assert [m["subscribed"] for m in row["members"]] == [[here.topic]] * (not is_empty)
            if is_empty:
                held = {(o["topic"], o["partition"]): o["current_offset"] for o in row["offsets"]}
                assert held == here.offsets
                assert {o["rule"] for o in row["offsets"]} == {"commit"}


def test_expiry(here: World, kgtool: Any, outcome: Outcome) -> None:
    """A week from the commit is what every generation does for a group without members' commits."""
    week = 7 * 86_400_000
    with outcome(TABLE, "describe --expiry", here.generation.label):
        result = kgtool("describe", "--group", here.empty, "--expiry")
        assert result.status == 0, result
        committed = [row for row in rows(result) if row["status"] != "no-commit"]
        assert len(committed) == len(here.offsets)
        for row in committed:
            assert row["expires_at_ms"] - row["committed_at_ms"] == week
    with outcome(TABLE, "list --expiring-within", here.generation.label):
        soon = kgtool("list", "--expiring-within", "8d")
        assert soon.status == 5, soon
        found = {row["group"] for row in rows(soon)}
        assert here.empty in found
        left = [row["expiring_offsets"] for row in rows(soon, here.living)]
        # Of the topic that nobody subscribes to; before 2.4 (KIP-496): none.
        assert left == ([1] if here.generation.has_offset_delete else [])


def test_keep(here: World, kgtool: Any, outcome: Outcome) -> None:
    group = clients.unique("keep")
    before = {(here.topic, 0): 3, (here.other, 0): 0}
    clients.commit(here.bootstrap, group, before)
    with outcome(TABLE, "keep", here.generation.label):
        result = kgtool("keep", group, "--yes")
        assert result.status == 0, result
        assert {row["status"] for row in rows(result)} == {"kept"}
        assert clients.committed(here.bootstrap, group) == before


def test_coordinator(here: World, kgtool: Any, outcome: Outcome) -> None:
    partitions = int(here.kafka.state.config.get("offsets.topic.num.partitions", 10))
    with outcome(TABLE, "coordinator", here.generation.label):
        result = kgtool("coordinator", *here.groups)
        assert result.status == 0, result
        for row in rows(result):
            assert row["partition"] == java_hash(row["group"]) % partitions
        (row,) = rows(result, here.empty)
        printed = here.tool("--describe", "--group", here.empty, "--state").stdout
        assert f"{row['host']}:{row['port']}" in printed


def java_hash(name: str) -> int:
    """``Utils.abs(String.hashCode())`` of an ASCII name."""
    number = 0
    for character in name:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return 2**32 - number if number >= 2**31 else number


def test_export_and_analyze(
    here: World, kgtool: Any, outcome: Outcome, tmp_path: Path, capsys: Any
) -> None:
    with outcome(TABLE, "export", here.generation.label):
        result = kgtool("export", "--out", str(tmp_path / "export"))
        assert result.status == 0, result
        cluster = json.loads((tmp_path / "export" / "cluster.json").read_text())
        assert [row["version"] for row in cluster["brokers"]] == [EXPORTED[here.generation.label]]
        is_new = here.generation.label in WITH_NEW_COORDINATOR
        assert cluster["coordinator"] == ("new" if is_new else "classic")
    with outcome(TABLE, "analyze", here.generation.label):
        argv = ["analyze", str(tmp_path / "export"), "--engine", "local", "-o", "json"]
        live = {
            (row["topic"], row["partition"]): row["offset"]
            for row in rows(call(capsys, *argv, "--table", "live"), here.empty)
        }
        assert live == here.offsets


EXPORTED = {
    "2.1.1": "2.1",
    "2.4.1": "2.4",
    "2.8.2": "2.8",
    "3.9.1": "3.9",
    "3.9.1-new": "3.9",
    "4.3.1": "4.1",
    "4.4.0": "4.1",
}
"""What ``protocol.release`` makes of the versions that these brokers really offer."""
WITH_NEW_COORDINATOR = ("3.9.1-new", "4.3.1", "4.4.0")


def test_no_version_outside_of_what_a_broker_offers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The oldest broker closes the connection on such a request, and says so in its log."""
    kafka = GENERATIONS[0].broker()
    log = Path(kafka.state.node_dir(1)) / "server.log"
    complaint = "Error getting request for apiKey"
    for argv in (["list", "--state", "Empty"], ["describe", "--all-groups"]):
        assert call(capsys, *argv, "--bootstrap-server", kafka.bootstrap).status == 0
    assert complaint not in log.read_text(errors="replace")
    with socket.create_connection(("127.0.0.1", kafka.nodes[0].port), timeout=10) as peer:
        peer.sendall(struct.pack(">ihhih", 10, 3, 99, 1, -1))  # Metadata v99
        assert peer.recv(1) == b""
    clients.wait_for(lambda: complaint in log.read_text(errors="replace"), "the complaint")


def test_every_release_is_taken_for_kafka(kgtool: Any) -> None:
    found = {row["finding"] for row in kgtool("doctor", "--fail-on", "none").json["results"]}
    assert "not-kafka" not in found
