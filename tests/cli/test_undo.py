"""Changes on a real broker and taking them back, seen by confluent-kafka and Kafka's own tool."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.changes import world
from tests.changes.world import Run, commit, history, kgtool, seen
from tests.support import clients

pytestmark = pytest.mark.broker

Tool = Callable[..., subprocess.CompletedProcess[str]]


class Place:
    """A folder for journals, a topic with 20 records in each of 3 partitions, and two groups."""

    def __init__(self, bootstrap: str, journal: Path) -> None:
        self.bootstrap = bootstrap
        self.journal = journal
        self.topic = clients.create_topic(bootstrap, clients.unique("undo"), 3)
        self.other = clients.create_topic(bootstrap, clients.unique("undo-other"), 1)
        for partition in range(3):
            clients.produce(bootstrap, self.topic, 20, partition=partition)
        clients.produce(bootstrap, self.other, 5)
        self.one, self.two = clients.unique("undo-one"), clients.unique("undo-two")
        commit(bootstrap, self.one, {(self.topic, 0): 3, (self.topic, 1): 4}, "first")
        commit(bootstrap, self.one, {(self.other, 0): 1}, "", None)
        commit(bootstrap, self.two, {(self.topic, 2): 9}, "zweite ä日", 0)

    def run(self, *argv: str, **options: Any) -> Run:
        return kgtool(self.journal, "--bootstrap-server", self.bootstrap, *argv, **options)

    def offsets(self) -> dict[str, Any]:
        return seen(self.bootstrap, self.one, self.two)

    def entry(self, index: int = 0) -> dict[str, Any]:
        return history(self.journal)[index]

    def undo(self, *argv: str, **options: Any) -> Run:
        return self.run("undo", *(argv or ("last",)), "--yes", "-o", "json", **options)


@pytest.fixture
def place(bootstrap: str, tmp_path: Path) -> Place:
    return Place(bootstrap, tmp_path / "journal")


def statuses(run: Run) -> list[tuple[str, int, str]]:
    return [(row["topic"], row["partition"], row["status"]) for row in run.rows]


# ---------------------------------------------------------------------------------------------
# Every command, there and back


def test_delete_offsets_in_kafkas_form(place: Place, kafka_tool: Tool) -> None:
    describe = ("--describe", "--group", place.one)
    before, table = place.offsets(), kafka_tool(*describe).stdout
    argv = ("--delete-offsets", "--group", place.one, "--topic", place.topic)
    done = place.run(*argv, "--reason", "a test")
    assert done.status == 0
    entry = place.entry()
    assert done.err.splitlines()[-1] == (f"Undo: kgtool undo {entry['id']}")
    assert (entry["command"], entry["groups"], entry["changes"], entry["state"]) == (
        "delete-offsets",
        1,
        2,
        "done",
    )
    assert entry["cluster_id"] and isinstance(entry["id"], str)
    assert place.offsets()[place.one] == {(place.other, 0): before[place.one][place.other, 0]}
    undone = place.undo(entry["id"])
    assert undone.status == 0, undone.err
    assert statuses(undone) == [(place.topic, 0, "restored"), (place.topic, 1, "restored")]
    assert place.offsets() == before
    assert kafka_tool(*describe).stdout == table
    assert [row["state"] for row in history(place.journal)] == ["done", "undone"]
    head = json.loads((place.journal / f"{entry['id']}.jsonl").read_text().splitlines()[0])
    assert (head["reason"], head["arguments"][2:]) == ("a test", [*argv, "--reason", "a test"])


def test_delete_brings_the_groups_back(place: Place, kafka_tool: Tool) -> None:
    before = place.offsets()
    done = place.run("delete", "--group", place.one, "--group", place.two, "--yes")
    assert done.status == 0
    assert "Protocol type, epochs and expiry clocks do not come back." in done.err
    assert place.offsets() == {place.one: {}, place.two: {}}
    assert not {place.one, place.two} & clients.group_ids(place.bootstrap)
    assert place.undo().status == 0
    assert place.offsets() == before
    listed = kafka_tool("--list").stdout.splitlines()
    assert {place.one, place.two} <= set(listed)


def test_reset_offsets_and_what_it_made(place: Place) -> None:
    before, made = place.offsets(), clients.unique("undo-made")
    done = place.run(
        "reset-offsets",
        "--group",
        place.one,
        "--group",
        made,
        "--topic",
        place.topic,
        "--to-latest",
        "--create",
        "--execute",
        "--yes",
    )
    assert done.status == 0, done.err
    assert place.offsets()[place.one][place.topic, 2] == (20, "", 0)
    assert len(seen(place.bootstrap, made)[made]) == 3
    undone = place.undo()
    assert undone.status == 0, undone.err
    assert sorted(statuses(undone)) == sorted(
        [
            *[(place.topic, p, "restored") for p in (0, 1)],
            (place.topic, 2, "deleted"),
            *[(place.topic, p, "deleted") for p in range(3)],
        ]
    )
    assert place.offsets() == before
    assert made not in clients.group_ids(place.bootstrap)


def test_kafkas_form_of_delete_and_reset(place: Place) -> None:
    before = place.offsets()
    assert place.run("--delete", "--group", place.two).status == 0
    reset = ("--reset-offsets", "--group", place.one, "--topic", place.topic, "--to-earliest")
    assert place.run(*reset, "--execute").status == 0
    assert [row["command"] for row in history(place.journal)] == ["reset-offsets", "delete"]
    assert place.undo().status == 0
    assert place.undo().status == 0  # one step further back
    assert place.offsets() == before
    nothing = place.undo()
    assert (nothing.status, nothing.json["errors"][0]["message"][:24]) == (
        1,
        "There is nothing to undo",
    )


def test_a_group_without_offsets_is_named(place: Place) -> None:
    place.run("--delete-offsets", "--group", place.two, "--topic", place.topic)
    clients.join(place.bootstrap, place.two, [place.other]).close()
    assert place.run("delete", "--group", place.two, "--yes").status == 0
    undone = place.undo(place.entry()["id"])
    assert (undone.status, undone.rows) == (0, [])
    assert f"these groups had no committed offsets: {place.two}." in undone.err


def test_an_undo_can_be_undone(place: Place) -> None:
    before = place.offsets()
    place.run("--delete-offsets", "--group", place.one, "--topic", place.topic)
    after = place.offsets()
    original = place.entry()["id"]
    assert place.undo(original).status == 0
    assert place.undo(place.entry()["id"]).status == 0
    assert place.offsets() == after
    assert [row["state"] for row in history(place.journal)] == ["done", "undone", "done"]
    assert place.undo(original).status == 0
    assert place.offsets() == before


def test_what_failed_is_not_undone(place: Place) -> None:
    """A living group's subscribed topic is refused; later the group is as it is by itself."""
    member = clients.join(place.bootstrap, place.one, [place.topic])
    try:
        argv = ("--group", place.one, "--topic", place.topic, "--topic", place.other)
        done = place.run("delete-offsets", *argv, "--yes")
        assert done.status == 3
        assert "can be undone only while it is empty" in done.err
        assert place.entry()["changes"] == 1
        undone = place.undo()
        assert undone.status == 1
        (error,) = undone.json["errors"]
        assert (error["code"], error["name"]) == (68, "NON_EMPTY_GROUP")
        assert "Stable" in error["message"] and "rdkafka on /127.0.0.1" in error["hint"]
    finally:
        member.close()
    commit(place.bootstrap, place.one, {(place.topic, 0): 7})
    undone = place.undo()
    assert statuses(undone) == [(place.other, 0, "restored")]
    assert place.offsets()[place.one][place.topic, 0][0] == 7


# ---------------------------------------------------------------------------------------------
# What speaks against it


def test_a_commit_since_is_shown_and_kept(place: Place) -> None:
    before = place.offsets()
    place.run("--delete-offsets", "--group", place.one, "--topic", place.topic)
    commit(place.bootstrap, place.one, {(place.topic, 0): 11}, "mine")
    undone = place.undo()
    assert undone.status == 3
    assert statuses(undone) == [(place.topic, 0, "failed"), (place.topic, 1, "restored")]
    (error,) = undone.json["errors"]
    assert error["name"] == "CHANGED_MEANWHILE"
    assert "offset 11, leader epoch 0, metadata 'mine" in error["message"]
    assert "offset 3, leader epoch 0, metadata 'first" in error["message"]
    assert place.offsets()[place.one][place.topic, 0] == (11, "mine", 0)
    original = history(place.journal)[1]
    assert original["state"] == "done"
    forced = place.undo(original["id"], "--force")
    assert forced.status == 0
    assert statuses(forced) == [(place.topic, 0, "restored"), (place.topic, 1, "unchanged")]
    assert place.offsets() == before


def test_all_or_nothing(place: Place) -> None:
    place.run("--delete-offsets", "--group", place.one, "--topic", place.topic)
    commit(place.bootstrap, place.one, {(place.topic, 0): 11})
    undone = place.undo("last", "--all-or-nothing")
    assert undone.status == 1
    assert statuses(undone) == [(place.topic, 0, "failed"), (place.topic, 1, "skipped")]
    assert (place.topic, 1) not in place.offsets()[place.one]


def test_a_topic_that_was_created_anew(place: Place) -> None:
    place.run("--delete", "--group", place.two)
    clients.delete_topics(place.bootstrap, place.topic)
    clients.wait_for(lambda: _create(place), "the topic to be gone")
    for partition in range(3):
        clients.produce(place.bootstrap, place.topic, 20, partition=partition)
    undone = place.undo()
    assert undone.status == 1
    assert undone.json["errors"][0]["name"] == "TOPIC_RECREATED"
    assert place.offsets()[place.two] == {}
    assert place.undo("last", "--force").status == 0
    assert place.offsets()[place.two][place.topic, 2][0] == 9


def _create(place: Place) -> bool:
    try:
        clients.create_topic(place.bootstrap, place.topic, 3)
    except Exception as error:  # noqa: BLE001 - the deletion is still on its way
        assert "exists" in str(error).lower(), error
        return False
    return True


def test_a_topic_that_is_gone(place: Place) -> None:
    place.run("--delete", "--group", place.one)
    clients.delete_topics(place.bootstrap, place.other)
    clients.wait_for(
        lambda: place.other not in clients.admin(place.bootstrap).list_topics(timeout=5).topics,
        "the topic to be gone",
    )
    undone = place.undo()
    assert undone.status == 3
    assert sorted(statuses(undone)) == sorted(
        [(place.other, 0, "failed"), (place.topic, 0, "restored"), (place.topic, 1, "restored")]
    )
    (error,) = undone.json["errors"]
    assert error["code"] == 3 and error["target"]["topic"] == place.other


def test_out_of_range_then_is_put_back_and_said(place: Place) -> None:
    commit(place.bootstrap, place.two, {(place.topic, 2): 999}, "far", 0)
    before = place.offsets()
    place.run("--delete", "--group", place.two)
    foreseen, undone = place.undo("last", "--dry-run"), place.undo()
    assert undone.status == 0
    assert place.offsets() == before
    assert "beyond the end of its log [0, 20], as it was then" in undone.rows[0]["note"]
    for run in (foreseen, undone):
        assert run.err.count("beyond the end of its log [0, 20], as it was then") == 1
        assert "1 group does not exist and will be created." in run.err


def test_records_that_are_gone_meanwhile(place: Place) -> None:
    place.run("--delete", "--group", place.two)
    admin = clients.admin(place.bootstrap)
    for future in admin.delete_records([TopicPartition(place.topic, 2, 15)]).values():
        future.result(timeout=30)
    undone = place.undo()
    assert undone.status == 1
    (error,) = undone.json["errors"]
    assert error["name"] == "OUT_OF_RANGE"
    assert (
        "Offset 9 is outside of its log now, which is [15, 20] (then [0, 20])" in error["message"]
    )
    assert place.offsets()[place.two] == {}


def test_another_cluster(place: Place) -> None:
    place.run("--delete", "--group", place.two)
    id = place.entry()["id"]
    path = place.journal / f"{id}.jsonl"
    own = place.entry()["cluster_id"]
    path.write_text(path.read_text().replace(own, "another-cluster"))
    undone = place.undo(id)
    assert undone.status == 1
    assert undone.json["errors"][0]["name"] == "OTHER_CLUSTER"
    assert "another-cluster" in undone.err and own in undone.err
    assert place.offsets()[place.two] == {}
    assert place.undo().status == 1  # nothing of this cluster
    assert place.undo(id, "--force").status == 0


def test_undone_already(place: Place) -> None:
    place.run("--delete", "--group", place.two)
    id = place.entry()["id"]
    assert place.undo(id).status == 0
    again = place.undo(id)
    assert again.status == 1
    assert "was undone already" in again.err


# ---------------------------------------------------------------------------------------------
# Living groups


@pytest.fixture
def member(place: Place) -> Iterator[Callable[..., Consumer]]:
    """Delete a group's offsets, then let it live."""
    opened: list[Consumer] = []

    def start(protocol: str = "classic") -> Consumer:
        place.run("--delete-offsets", "--group", place.two, "--topic", place.topic)
        opened.append(
            clients.join(place.bootstrap, place.two, [place.other], group_protocol=protocol)
        )
        return opened[0]

    yield start
    for consumer in opened:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_waiting_for_the_members_to_leave(
    place: Place, member: Callable[..., Consumer], protocol: str
) -> None:
    before = place.offsets()
    consumer = member(protocol)
    said = f"Waiting until group {place.two} has no members. It has 1 member: "
    argv = ("undo", "last", "--wait-empty", "60s", "--timeout", "4000", "--yes")
    command = [sys.executable, "-m", "kgtool.cli", "--bootstrap-server", place.bootstrap, *argv]
    with subprocess.Popen(
        command,
        cwd=world.ROOT,
        env=world.environment(place.journal),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as waiting:
        assert waiting.stderr is not None
        err = ""
        for line in waiting.stderr:
            err += line
            if said in line:
                time.sleep(5.0)  # longer than --timeout: waiting is no silence
                consumer.close()
        assert waiting.wait(60) == 0, err
    assert said in err
    assert place.offsets()[place.two] == before[place.two]


@pytest.mark.timed
def test_waiting_in_vain(place: Place, member: Callable[..., Consumer]) -> None:
    member()
    began = time.monotonic()
    undone = place.undo("last", "--wait-empty", "2s")
    assert undone.status == 1
    assert 2 <= time.monotonic() - began < 20
    assert undone.json["errors"][0]["code"] == 68
    assert place.offsets()[place.two] == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_in_a_members_name(place: Place, member: Callable[..., Consumer], protocol: str) -> None:
    before = place.offsets()
    # Somebody was there before, so that the generation is not the first one.
    clients.join(place.bootstrap, place.two, [place.other], group_protocol=protocol).close()
    member(protocol)
    assert place.undo().status == 1
    undone = place.undo("last", "--as-member")
    assert undone.status == 0, undone.err
    assert "written in a member's name" in undone.err
    assert place.offsets()[place.two] == before[place.two]


# ---------------------------------------------------------------------------------------------
# Manners


def test_a_dry_run_changes_nothing(place: Place) -> None:
    place.run("--delete", "--group", place.two)
    after = place.offsets()
    shown = place.run("undo", "last", "--dry-run", "-o", "json")
    assert (shown.status, statuses(shown)) == (0, [(place.topic, 2, "would-restore")])
    assert place.offsets() == after
    assert [row["state"] for row in history(place.journal)] == ["done"]
    for argv in (
        ["--delete", "--dry-run"],
        ["delete-offsets", "--dry-run", "--topic", place.topic],
    ):
        place.run(*argv, "--group", place.one)
    assert len(history(place.journal)) == 1


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["undo", "last"], "no terminal to ask on"),
        (["undo", "--yes"], "takes a journal's ID, or last, or --from FILE"),
        (["undo", "last", "--from", "x", "--yes"], "takes a journal's ID, or last, or --from FILE"),
        (["undo", "--from", "/nosuch", "--yes"], "Can't read /nosuch"),
        (["history", "--prune", "soon"], "prune"),
        (["history", "--prune", "90"], "--prune takes a duration"),
    ],
)
def test_usage(tmp_path: Path, argv: list[str], says: str) -> None:
    done = kgtool(tmp_path, *argv)
    assert done.status == 2
    assert says in done.err


def test_without_a_bootstrap_server_it_goes_where_the_change_was_made(place: Place) -> None:
    before = place.offsets()
    place.run("--delete", "--group", place.two)
    assert kgtool(place.journal, "undo", place.entry()["id"][:-3], "--yes").status == 0
    assert place.offsets() == before
    assert kgtool(place.journal, "undo", "last", "--yes").status == 2


def test_a_login_goes_with_the_address_of_the_journal(place: Place, tmp_path: Path) -> None:
    """Kind: an option that is given and not used. Siblings: --timeout, ``--from`` (whose address
    gets no login)."""
    place.run("--delete", "--group", place.two)
    name, config = place.entry()["id"], tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    argv = ("undo", name, "--yes", "--command-config", str(config))
    refused = kgtool(place.journal, *argv)
    assert (refused.status, "without TLS" in refused.err) == (4, True), refused.err
    missing = kgtool(place.journal, "undo", name, "--yes", "--command-config", "/nonexistent")
    assert (missing.status, "/nonexistent" in missing.err) == (2, True)
    argv = ("undo", "--from", str(place.journal / f"{name}.jsonl"), "--yes")
    forged = kgtool(place.journal, *argv, "--command-config", str(config))
    assert (forged.status, "a login goes only to" in forged.err) == (2, True)
    config.write_text("client.id=undo\n")
    argv = ("undo", name, "--yes", "--command-config", str(config), "--timeout", "20s")
    assert kgtool(place.journal, *argv).status == 0


def test_without_options_it_uses_the_context_of_the_change(place: Place, tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    added = kgtool(
        place.journal, "context", "add", "here", "--bootstrap-server", place.bootstrap, env=env
    )
    assert added.status == 0, added.err
    before = place.offsets()
    argv = ("delete", "--group", place.two, "--context", "here", "--yes")
    assert kgtool(place.journal, *argv, env=env).status == 0
    undone = kgtool(place.journal, "undo", place.entry()["id"], "--yes", env=env)
    assert undone.status == 0, undone.err
    assert place.offsets() == before


def test_a_journal_from_elsewhere(place: Place, tmp_path: Path) -> None:
    """A pod's home dies with it; its journal was kept."""
    before = place.offsets()
    place.run("--delete", "--group", place.two)
    path = place.journal / f"{place.entry()['id']}.jsonl"
    saved = tmp_path / "saved.jsonl"
    path.rename(saved)
    place.journal = tmp_path / "other"
    undone = place.undo("--from", str(saved))
    assert undone.status == 0, undone.err
    assert place.offsets() == before
    assert [row["command"] for row in history(place.journal)] == ["undo"]
    again = place.undo("--from", str(saved))
    assert (again.status, "was undone already" in again.err) == (1, True)


def test_history_in_text_and_pruned(place: Place) -> None:
    assert place.run("history").status == 0
    place.run("--delete", "--group", place.two, "--reason", "r1")
    shown = kgtool(place.journal, "history")
    assert shown.status == 0
    assert shown.out.split()[:3] == ["ID", "TIME", "COMMAND"]
    assert "r1" in shown.out and "done" in shown.out
    kept = kgtool(place.journal, "history", "--prune", "1h", "-o", "json")
    assert (kept.status, kept.rows) == (0, [])
    assert len(history(place.journal)) == 1
    would = kgtool(place.journal, "history", "--prune", "0s", "--dry-run", "-o", "json")
    assert len(would.rows) == 1 and len(history(place.journal)) == 1
    gone = kgtool(place.journal, "history", "--prune", "0s", "-o", "json")
    assert gone.rows == would.rows
    assert history(place.journal) == []


# ---------------------------------------------------------------------------------------------
# When things go wrong


def _no_space() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))


CHANGES = [
    ["--delete", "--group", "{one}"],
    ["delete", "--group", "{one}", "--yes"],
    ["--delete-offsets", "--group", "{one}", "--topic", "{topic}"],
    ["--reset-offsets", "--group", "{one}", "--topic", "{topic}", "--to-latest", "--execute"],
]


WITHOUT_AN_UNDO = [["keep", "{one}", "--yes"], ["remove-members", "{two}", "--all", "--yes"]]


@pytest.mark.parametrize("argv", WITHOUT_AN_UNDO, ids=" ".join)
def test_a_disk_that_is_full_in_the_end_is_told_without_an_undo_too(
    place: Place, member: Callable[..., Consumer], argv: list[str]
) -> None:
    """The last line has no room any more: done is done, and the journal is not complete."""
    words = [word.format(one=place.one, two=place.two) for word in argv]

    def run(**options: Any) -> Run:
        if argv[0] == "remove-members":
            member()
        done = place.run(*words, **options)
        assert done.status == 0, done
        assert "kgtool undo" not in done.err
        return done

    assert "is not complete" not in run().err
    newest = max(place.journal.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    size = newest.stat().st_size - 30

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    assert "Warning: the journal" in (err := run(preexec_fn=full).err), err
    assert "is not complete (File too large)" in err


@pytest.mark.parametrize("argv", CHANGES, ids=" ".join)
def test_a_full_disk_refuses_to_start(place: Place, argv: list[str]) -> None:
    before = place.offsets()
    words = [word.format(one=place.one, topic=place.topic) for word in argv]
    done = place.run(*words, preexec_fn=_no_space)
    assert done.status == 1
    assert "can't be written (File too large), so nothing was changed" in done.err
    assert "KGTOOL_JOURNAL_DIR" in done.err
    assert place.offsets() == before
    assert history(place.journal) == []


def test_a_folder_that_can_not_be_is_no_full_disk(place: Place) -> None:
    """Kind: advice that does not fit the reason. Was: "Free some space", with any disk."""
    there = "--bootstrap-server", place.bootstrap
    done = kgtool(Path("/proc/nope"), *there, "--delete", "--group", place.one)
    assert done.status == 1
    assert "(No such file or directory), so nothing was changed" in done.err
    assert "Choose another folder with KGTOOL_JOURNAL_DIR" in done.err
    assert "space" not in done.err
    # What is said before the journal is there says no more than what comes first.
    done = kgtool(Path("/proc/nope"), *there, "delete", place.one, "--yes")
    assert "The current offsets are saved in the journal first: kgtool undo" in done.err


def test_an_undo_on_a_full_disk(place: Place) -> None:
    place.run("--delete", "--group", place.one)
    done = place.undo(preexec_fn=_no_space)
    assert done.status == 1
    assert "so nothing was changed" in done.err
    assert place.offsets()[place.one] == {}


def test_a_home_that_can_not_be_written(place: Place, tmp_path: Path) -> None:
    before = place.offsets()
    (tmp_path / "file").write_text("")
    place.journal = tmp_path / "file" / "journal"
    done = place.run("--delete", "--group", place.one)
    assert done.status == 1
    assert "so nothing was changed" in done.err
    assert place.offsets() == before
    # What changes nothing needs no journal.
    assert place.run("--delete", "--group", place.one, "--dry-run").status == 0
    missing = place.run("--delete", "--group", "nosuch")
    assert missing.status == 1
    assert "journal" not in missing.err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_close_the_journal(place: Place, number: int, status: int) -> None:
    before = place.offsets()
    argv = ["--bootstrap-server", place.bootstrap, "--delete", "--group", place.one]
    done = world.stop(place.journal, number, argv)
    assert done.status == status, done.err
    entry = place.entry()
    assert entry["state"] == "interrupted"
    assert f"Undo: kgtool undo {entry['id']}" in done.err
    lines = (place.journal / f"{entry['id']}.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["state"] == "interrupted"
    assert place.undo(entry["id"]).status == 0
    assert place.offsets() == before


def test_two_at_once(place: Place) -> None:
    """Both want the same offsets: exactly one of them deletes them, and can take it back."""
    before = place.offsets()
    argv = [
        "--bootstrap-server",
        place.bootstrap,
        "--delete-offsets",
        "--group",
        place.one,
        "--topic",
        place.topic,
    ]
    env = world.environment(place.journal)
    command = [sys.executable, "-m", "kgtool.cli", *argv]
    both = [
        subprocess.Popen(
            command,
            env=env,
            cwd=world.ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert sorted(row["changes"] for row in history(place.journal)) == [0, 2]
    (full,) = [row for row in history(place.journal) if row["changes"]]
    assert place.undo(full["id"]).status == 0
    assert place.offsets() == before


def test_a_consumer_that_starts_in_the_middle(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It joins after the look and the journal, before the request: the broker refuses."""
    from kgtool.cli.change.journaled import CommandChange
    from tests.cli import run

    before = place.offsets()
    opened: list[Consumer] = []
    real = CommandChange.before

    def join_after(change: CommandChange, *wave: Any) -> None:
        real(change, *wave)
        opened.append(clients.join(place.bootstrap, place.one, [place.topic]))

    monkeypatch.setattr(CommandChange, "before", join_after)
    monkeypatch.setitem(os.environ, "KGTOOL_JOURNAL_DIR", str(place.journal))
    result = run.call(
        capsys, "--bootstrap-server", place.bootstrap, "--delete", "--group", place.one
    )
    try:
        assert result.status == 1
        assert "GroupNotEmptyException" in result.err
        assert "kgtool undo" not in result.err
        entry = place.entry()
        assert (entry["state"], entry["changes"]) == ("done", 0)
    finally:
        opened[0].close()
    assert place.offsets() == before
    assert "nothing to undo" in place.undo().err
    undone = place.undo(entry["id"])
    assert (undone.status, undone.rows) == (0, [])


def test_reading_a_large_journal_is_no_lack_of_progress(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than --timeout, and no broker is asked in the meantime."""
    from kgtool.changes.restore import from_journal
    from kgtool.cli.app.main import main

    before = place.offsets()
    assert place.run("--delete-offsets", "--group", place.one, "--topic", place.topic).status == 0
    read = from_journal.failed_items

    def slowly(*given: Any) -> Any:
        time.sleep(2.5)
        return read(*given)

    monkeypatch.setattr(from_journal, "failed_items", slowly)
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(place.journal))
    address = ["--bootstrap-server", place.bootstrap]
    assert main(["undo", "last", *address, "--yes", "--timeout", "2000"]) == 0
    assert place.offsets() == before
