"""backup, restore and diff on a real broker: what confluent-kafka and Kafka's own tool see."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kgtool.changes.restore.backup import BackupWriter, header_of
from kgtool.model import CommittedOffset
from kgtool.model import TopicPartition as Partition
from tests.changes.world import Run, commit, history, kgtool, seen
from tests.queries.conftest import open_session
from tests.support import clients
from tests.support.offsets import first_commits

pytestmark = pytest.mark.broker

Tool = Callable[..., subprocess.CompletedProcess[str]]


class Place:
    """A topic with 20 records in each of 2 partitions, and groups whose names begin alike."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.journal = folder / "journal"
        self.file = str(folder / "backup")
        self.topic = clients.create_topic(bootstrap, clients.unique("backup"), 2)
        for partition in range(2):
            clients.produce(bootstrap, self.topic, 20, partition=partition)
        prefix = clients.unique("backup")
        self.match = f"{prefix}-*"
        self.one, self.two, self.living = (f"{prefix}-{n}" for n in ("one", "two", "living"))
        self.groups = [self.one, self.two, self.living]
        commit(bootstrap, self.one, {(self.topic, 0): 3, (self.topic, 1): 4}, "first")
        commit(bootstrap, self.two, {(self.topic, 1): 9}, "ä")
        commit(bootstrap, self.living, {(self.topic, 0): 6})

    def run(self, *argv: str, **options: Any) -> Run:
        return kgtool(self.journal, *argv, "--bootstrap-server", self.bootstrap, **options)

    def backup(self, *argv: str, out: str | None = None) -> None:
        done = self.run("backup", *(argv or ("--match", self.match)), "--out", out or self.file)
        assert done.status == 0, done.err

    def restore(self, *argv: str) -> Run:
        return self.run("restore", self.file, "--yes", "-o", "json", *argv)

    def diff(self, *argv: str) -> Run:
        return self.run("diff", *(argv or (self.file,)), "-o", "json")

    def offsets(self) -> dict[str, Any]:
        return seen(self.bootstrap, *self.groups)


@pytest.fixture
def place(bootstrap: str, tmp_path: Path) -> Place:
    return Place(bootstrap, tmp_path)


def test_a_pattern_that_matches_nothing_leaves_an_older_backup(place: Place) -> None:
    place.backup()
    before = Path(place.file).read_bytes()
    typo = place.run("backup", f"nothing-{place.match}", "--out", place.file, "--overwrite")
    assert (typo.status, typo.out) == (1, "")
    assert "No group matches 'nothing-" in typo.err
    assert Path(place.file).read_bytes() == before
    none = place.run("backup", "--match", "nothing-*", "--out", place.file, "--overwrite")
    assert (none.status, none.out) == (0, "")
    stays = f"{place.file} stays as it is: there is no group to save.\n"
    assert none.err == f"No group matches.\n{stays}"
    assert Path(place.file).read_bytes() == before
    partly = place.run("backup", "nothing-*", place.one, "--out", place.file, "--overwrite")
    assert partly.status == 3
    assert [line["group"] for line in lines(place.file) if line["kind"] == "group"] == [place.one]


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def kinds(run: Run) -> list[tuple[str, int, str]]:
    return [(row["group"], row["partition"], row["status"]) for row in run.rows]


# ---------------------------------------------------------------------------------------------


def test_what_is_saved(place: Place) -> None:
    member = clients.join(place.bootstrap, place.living, [place.topic], group_protocol="consumer")
    try:
        place.backup()
    finally:
        member.close()
    head, *rest, end = lines(place.file)
    assert (head["kind"], end) == (
        "backup",
        {"kind": "end", "groups": 3, "offsets": 4, "errors": 0},
    )
    groups = {row["group"]: row for row in rest if row["kind"] == "group"}
    assert groups[place.living]["type"] == "consumer"
    assert groups[place.living]["state"] != "Empty"
    offsets = {(row["group"], row["partition"]): row for row in rest if row["kind"] == "offset"}
    for group, found in place.offsets().items():
        for (topic, partition), (offset, metadata, epoch) in found.items():
            row = offsets.pop((group, partition))
            assert (row["topic"], row["offset"], row["leader_epoch"]) == (topic, offset, epoch)
            assert row["metadata"].rstrip("\0") == metadata
            assert (row["log_start_offset"], row["log_end_offset"]) == (0, 20)
    assert offsets == {}
    assert place.diff().status == 0


def test_delete_and_restore(place: Place, kafka_tool: Tool) -> None:
    describe = ("--describe", *(word for g in (place.one, place.two) for word in ("--group", g)))
    before, table = place.offsets(), kafka_tool(*describe).stdout
    place.backup()
    place.run("delete", "--match", place.match, "--yes")
    assert place.diff().status == 5
    dry = place.run("restore", place.file, "--dry-run", "-o", "json")
    assert {status for _, _, status in kinds(dry)} == {"would-restore"}
    assert place.offsets() == {group: {} for group in place.groups}
    done = place.restore()
    assert done.status == 0, done.err
    assert "3 groups do not exist and will be created." in done.err
    assert place.offsets() == before
    assert kafka_tool(*describe).stdout == table
    assert place.diff().status == 0
    assert {status for _, _, status in kinds(place.restore())} == {"unchanged"}
    # A restore can be taken back like everything else.
    assert place.run("undo", "last", "--yes").status == 0
    assert place.offsets() == {group: {} for group in place.groups}
    assert not set(place.groups) & clients.group_ids(place.bootstrap)


def test_groups_that_must_exist(place: Place) -> None:
    place.backup()
    place.run("delete", "--group", place.two, "--yes")
    done = place.restore("--no-create")
    assert done.status == 3
    assert [error["code"] for error in done.json["errors"]] == [69]
    assert place.offsets()[place.two] == {}


def test_parts_of_a_file(place: Place) -> None:
    before = place.offsets()
    place.backup()
    place.run("delete", "--match", place.match, "--yes")
    done = place.restore("--group", place.one, "--topic", f"{place.topic}:1", "--group", "nosuch")
    assert done.status == 3
    assert kinds(done) == [(place.one, 1, "restored")]
    assert done.json["errors"][0]["name"] == "NOT_IN_FILE"
    assert place.restore("--match", "*-one", "--match", "*-two", "--exclude", "*two").status == 0
    found = place.offsets()
    assert found == {place.one: before[place.one], place.two: {}, place.living: {}}


def test_other_names(place: Place) -> None:
    new = clients.unique("backup-new")
    other = clients.create_topic(place.bootstrap, clients.unique("backup-other"), 1)
    clients.produce(place.bootstrap, other, 5)
    place.backup()
    names = ("--map-group", f"{place.one}={new}", "--map-topic", f"{place.topic}={other}")
    done = place.restore("--group", place.one, *names)
    assert done.status == 3
    assert kinds(done) == [(new, 0, "restored"), (new, 1, "failed")]
    assert seen(place.bootstrap, new)[new] == {(other, 0): (3, "first", None)}
    (error,) = done.json["errors"]
    assert (error["code"], error["target"]["topic"], error["target"]["partition"]) == (3, other, 1)
    both = place.restore("--map-group", f"{place.one}={place.two}")
    assert (both.status, "appears twice" in both.err) == (2, True)


def test_living_groups_are_named(place: Place) -> None:
    place.backup()
    place.run("delete-offsets", "--group", place.living, "--topic", place.topic, "--yes")
    member = clients.join(place.bootstrap, place.living, [place.topic], group_protocol="consumer")
    try:
        done = place.restore()
        assert done.status == 3
        (error,) = done.json["errors"]
        assert error["target"]["group"] == place.living
        assert "rdkafka on /127.0.0.1" in error["hint"]
        alone = place.restore("--group", place.living)
        assert alone.status == 1
        assert place.restore("--as-member", "--no-verify").status == 0
    finally:
        member.close()


def test_what_does_not_fit_is_refused(place: Place) -> None:
    commit(place.bootstrap, place.one, {(place.topic, 1): 999})
    place.backup()
    commit(place.bootstrap, place.one, {(place.topic, 0): 1, (place.topic, 1): 1})
    admin = clients.admin(place.bootstrap)
    for future in admin.delete_records([TopicPartition(place.topic, 0, 5)]).values():
        future.result(timeout=30)
    done = place.restore("--group", place.one)
    assert done.status == 1
    messages = [error["message"] for error in done.json["errors"]]
    assert "Offset 3 is outside of its log now, which is [5, 20] (then [0, 20])." in messages
    assert "Offset 999 is outside of its log now, which is [0, 20], as it was then." in messages
    assert place.restore("--group", place.one, "--force").status == 0
    assert place.offsets()[place.one][place.topic, 1][0] == 999


def test_another_cluster(place: Place) -> None:
    place.backup()
    path = Path(place.file)
    own = lines(place.file)[0]["cluster_id"]
    topic_id = lines(place.file)[2]["topic_id"]
    text = path.read_text().replace(own, "another").replace(topic_id, "A" * 22)
    path.write_text(text)
    place.run("delete", "--group", place.one, "--yes")
    refused = place.restore()
    assert refused.status == 1
    assert refused.json["errors"][0]["name"] == "OTHER_CLUSTER"
    assert "--other-cluster goes on" in refused.err
    assert place.offsets()[place.one] == {}
    assert place.restore("--other-cluster", "--group", place.one).status == 0
    # Ids of topics are compared on the cluster that they are of.
    path.write_text(text.replace("another", own))
    place.run("delete", "--group", place.one, "--yes")
    again = place.restore("--group", place.one)
    assert again.status == 1
    assert {error["name"] for error in again.json["errors"]} == {"TOPIC_RECREATED"}


def test_differences(place: Place) -> None:
    place.backup()
    commit(place.bootstrap, place.one, {(place.topic, 0): 1, (place.topic, 1): 14}, "first")
    commit(place.bootstrap, place.two, {(place.topic, 0): 2})
    commit(place.bootstrap, place.two, {(place.topic, 1): 9}, "other")
    place.run("delete", "--group", place.living, "--yes")
    fresh = place.match.replace("*", "fresh")
    commit(place.bootstrap, fresh, {(place.topic, 0): 2})
    found = place.diff()
    assert found.status == 5
    expected = sorted(
        [
            (fresh, 0, "new"),
            (place.living, 0, "vanished"),
            (place.one, 0, "went-backwards"),
            (place.one, 1, "moved"),
            (place.two, 0, "new"),
            (place.two, 1, "changed"),
        ]
    )
    assert kinds(found) == expected
    row = next(row for row in found.rows if row["status"] == "went-backwards")
    assert (row["old_offset"], row["new_offset"], row["difference"]) == (3, 1, -2)
    # The same between two files, and between two clusters (which are one here).
    later = str(place.folder / "later")
    place.backup(out=later)
    assert kinds(kgtool(place.journal, "diff", place.file, later, "-o", "json")) == expected
    same = kgtool(place.journal, "diff", later, later)
    assert (same.status, same.out) == (0, "No differences.\n")
    both = ("--cluster-b", place.bootstrap, "--match", place.match)
    assert place.diff(*both).status == 0
    # A file that names its groups says nothing about new ones.
    named = str(place.folder / "named")
    place.backup("--group", place.one, out=named)
    commit(place.bootstrap, clients.unique("backup-else"), {(place.topic, 0): 2})
    assert place.diff(named).rows == []
    only = place.diff(place.file, "--group", place.one)
    assert kinds(only) == [row for row in expected if row[0] == place.one]


def test_a_name_that_neither_side_knows_is_no_equality(place: Place) -> None:
    """A mistyped name was "No differences.", status 0."""
    place.backup()
    for more, status in (((), 1), (("--group", place.one), 3)):
        done = place.run("diff", place.file, "--group", "nosuch", *more)
        assert (done.status, done.out) == (status, ""), done
        assert "Error: Neither " in done.err and "has offsets of group 'nosuch'." in done.err
    none = place.run("diff", place.file, "--match", "nosuch*")
    assert (none.status, "No group matches." in none.err) == (0, True), none


def test_two_contexts(place: Place) -> None:
    env = {"XDG_CONFIG_HOME": str(place.folder / "config")}
    for name in "ab":
        argv = ("context", "add", name, "--bootstrap-server", place.bootstrap)
        assert kgtool(place.journal, *argv, env=env).status == 0
    both = ("diff", "--context", "a", "--context-b", "b", "--match", place.match)
    done = kgtool(place.journal, *both, env=env)
    assert (done.status, done.out) == (0, "No differences.\n"), done.err


def test_a_journal_can_be_compared(place: Place) -> None:
    place.run("--delete", "--group", place.one)
    path = next(place.journal.glob("*.jsonl"))
    assert {row["status"] for row in place.diff(str(path)).rows} == {"vanished"}


def test_unknown_groups_are_errors_of_their_own(place: Place) -> None:
    done = place.run("backup", "--group", place.one, "--group", "nosuch", "--out", place.file)
    assert done.status == 3
    assert lines(place.file)[-1] == {"kind": "end", "groups": 1, "offsets": 2, "errors": 1}
    none = place.run("backup", "--group", "nosuch", "--out", f"{place.file}-2")
    assert none.status == 1
    assert not Path(f"{place.file}-2").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["backup", "--all-groups", "--out", "{tmp}"], "is a folder"),
        (["backup", "--all-groups", "--out", "{tmp}/there"], "exists. --overwrite"),
        (["backup", "--all-groups", "--out", "{tmp}/no/b"], "There is no folder"),
        (["backup", "--all-groups", "--out", "-", "-o", "json"], "--output needs too"),
        (["backup", "--out", "{tmp}/b"], "backup takes groups: names"),
        (["restore", "{tmp}/there", "--yes"], "is not a kgtool backup"),
        (["restore", "{tmp}/nosuch", "--yes"], "No such file"),
        (["restore", "{tmp}/there"], "is not a kgtool backup."),
        (["restore", "{tmp}/empty"], "empty is not a kgtool backup: it is empty."),
        (["restore", "{tmp}/whole"], "no terminal to ask on"),
        (["cleanup", "apply", "{tmp}/there"], "it has no kgtool_plan"),
        (["cleanup", "apply", "{tmp}/empty"], "empty is not a kgtool plan: it is empty."),
        (["retention", "apply", "{tmp}/there"], "there is not TOML"),
        (["recover", "g", "--from", "{tmp}/there"], "has no segments of __consumer_offsets"),
        (["undo", "--from", "{tmp}/there"], "is not a kgtool journal."),
        (["undo", "--from", "{tmp}/empty"], "empty is not a kgtool journal: it is empty."),
        (["undo", "a/b"], "is not a journal ID"),
        (["request", "ListGroups", "--body", "@{tmp}/empty"], "empty is not JSON: it is empty."),
        (["diff", "{tmp}/empty"], "empty is not a kgtool backup: it is empty."),
        (["diff", "{tmp}/there"], "is not a kgtool backup"),
        (["diff"], "diff of two clusters takes --group"),
        (["diff", "a", "b", "c"], "two things"),
    ],
)
def test_usage(tmp_path: Path, argv: list[str], says: str) -> None:
    """What is wrong with a file is said before ``--yes`` is asked for."""
    (tmp_path / "there").write_text("hello\n")
    (tmp_path / "empty").touch()
    with BackupWriter(tmp_path / "whole", header_of(None, 0, {})) as writer:
        writer.finish()
    words = [word.format(tmp=tmp_path) for word in argv]
    more = ["--cluster-b", "127.0.0.1:1"] if argv == ["diff"] else []
    done = kgtool(tmp_path, *words, *more, "--bootstrap-server", "127.0.0.1:1")
    assert done.status == 2, done.err
    assert says in done.err


def test_to_stdout(place: Place) -> None:
    done = place.run("backup", "--match", place.match, "--out", "-")
    assert done.status == 0
    assert [json.loads(line)["kind"] for line in done.out.splitlines()].count("group") == 3
    Path(place.file).write_text(done.out)
    assert place.diff().status == 0


def test_no_room_leaves_nothing(place: Place) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

    done = place.run("backup", "--match", place.match, "--out", place.file, preexec_fn=limit)
    assert done.status == 1
    assert "can't be written: File too large" in done.err
    assert list(place.folder.iterdir()) == []


PEAK = """
import resource, sys
from kgtool.cli.app.main import main
status = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(status)
"""


def test_many_groups_need_no_more_memory(place: Place) -> None:
    """300 groups and 3000: the same memory, within what names take; and there and back."""
    prefix = clients.unique("many")
    partition = Partition(place.topic, 0)
    names = [f"{prefix}-{n:04}" for n in range(3000)]
    with open_session(place.bootstrap, 60_000) as session:
        wanted = {
            name: {partition: CommittedOffset(n % 20, 0, f"metadata of {name} " * 8)}
            for n, name in enumerate(names)
        }
        outcomes = session.run(first_commits(session.cluster, wanted))
    assert {error for parts in outcomes.values() for error in parts.values()} == {None}
    few = _peak(place, "backup", "--match", f"{prefix}-00*", "--out", place.file + "-few")
    many = _peak(place, "backup", "--match", f"{prefix}-*", "--out", place.file)
    assert lines(place.file)[-1]["groups"] == 3000
    assert many - few < 8_000  # KiB; the backup itself has more than 1.5 MB
    before = Path(place.file).read_bytes()
    assert place.run("delete", "--match", f"{prefix}-*", "--yes").status == 0
    _peak(place, "restore", place.file, "--yes")
    assert place.diff().status == 0
    place.backup("--match", f"{prefix}-*", out=place.file + "-after")
    assert _body(Path(place.file + "-after").read_bytes()) == _body(before)
    assert place.run("undo", history(place.journal)[0]["id"], "--yes").status == 0


def _peak(place: Place, *argv: str) -> int:
    done = place.run(*argv, command=[sys.executable, "-c", PEAK])
    assert done.status == 0, done.err
    return int(done.out.splitlines()[-1])


def _body(data: bytes) -> list[bytes]:
    """A backup without its first line, which has the time."""
    return [line for line in data.splitlines()[1:] if b'"kind": "group"' not in line]
