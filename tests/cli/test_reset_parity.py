"""Resets on a real broker: the same rows as Kafka's own tool, and the same offsets afterwards.

Every comparison is made for empty groups of the three kinds there are: classic, standalone
(``assign()`` only) and KIP-848. Kafka's order of rows is that of a hash table.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgtool.cli.reset.report import NO_EXECUTE
from tests.cli import run
from tests.cli.reset_recorded import errors_and_output
from tests.cli.run import Result
from tests.support import clients

pytestmark = pytest.mark.broker

Tool = Callable[..., subprocess.CompletedProcess[str]]
Kg = Callable[..., Result]
Offsets = dict[tuple[str, int], int]

BASE_MS = 1_700_000_000_000
MINUTE_MS = 60_000


class World(NamedTuple):
    """Topics that all tests share: record k of ``topic`` is of minute k; nobody changes them."""

    bootstrap: str
    topic: str
    other: str
    nothing: str

    def spec(self, text: str) -> str:
        """Write ``T:0`` for partition 0 of the topic, ``O`` for the other, ``N`` for the empty."""
        name = {"T": self.topic, "O": self.other, "N": self.nothing}[text[0]]
        return name + text[1:]

    def offsets(self) -> Offsets:
        """Where groups begin: partition 1 of the other topic has no commit."""
        return {(self.topic, 0): 4, (self.topic, 1): 5, (self.topic, 2): 6, (self.other, 0): 1}


@pytest.fixture(scope="module")
def world(bootstrap: str) -> World:
    forever = {"retention.ms": "-1"}  # the records are from 2023
    topic = clients.create_topic(bootstrap, clients.unique("reset-orders"), 3, config=forever)
    other = clients.create_topic(bootstrap, clients.unique("r"), 2)
    nothing = clients.create_topic(bootstrap, clients.unique("reset-nothing-is-in-here"), 1)
    _produce_minutes(bootstrap, topic, {0: 10, 1: 20, 2: 30})
    for partition, count in ((0, 5), (1, 7)):
        clients.produce(bootstrap, other, count, partition=partition)
    admin = clients.admin(bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(30)
    return World(bootstrap, topic, other, nothing)


def _produce_minutes(bootstrap: str, topic: str, counts: dict[int, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, count in counts.items():
        for number in range(count):
            timestamp = BASE_MS + number * MINUTE_MS
            producer.produce(topic, b"v", partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


def _standalone(world: World, name: str, offsets: Offsets) -> None:
    clients.commit(world.bootstrap, name, offsets, "note")


def _joined(protocol: str) -> Callable[[World, str, Offsets], None]:
    def make(world: World, name: str, offsets: Offsets) -> None:
        member = clients.join(
            world.bootstrap, name, [world.topic, world.other], group_protocol=protocol
        )
        member.commit(
            offsets=[TopicPartition(t, p, o, metadata="note") for (t, p), o in offsets.items()],
            asynchronous=False,
        )
        member.close()

    return make


KINDS = {"standalone": _standalone, "classic": _joined("classic"), "consumer": _joined("consumer")}


def _twins(world: World) -> dict[str, tuple[str, str]]:
    """Two groups of every kind with the same offsets: one for us, one for Kafka's tool."""
    made = {}
    for kind, make in KINDS.items():
        name = clients.unique(kind)
        made[kind] = f"mine-{name}", f"them-{name}"
        for twin in made[kind]:
            make(world, twin, world.offsets())
    return made


@pytest.fixture(scope="module")
def groups(world: World) -> list[str]:
    """A group of every kind, which nobody changes."""
    names = []
    for kind, make in KINDS.items():
        names.append(clients.unique(f"still-{kind}"))
        make(world, names[-1], world.offsets())
    return names


@pytest.fixture
def kg(bootstrap: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> Kg:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))

    def call(*argv: str) -> Result:
        return run.call(capsys, "--bootstrap-server", bootstrap, *argv)

    return call


def _chosen(names: list[str]) -> list[str]:
    return [word for name in names for word in ("--group", name)]


def _same(ours: str, theirs: str) -> None:
    """The same lines, the header and the empty lines where they belong."""
    assert sorted(ours.split("\n")) == sorted(theirs.split("\n"))
    assert ours.split("\n")[:2] == theirs.split("\n")[:2]


DRY_RUNS = [
    "--topic T --to-earliest",
    "--topic T:1 --to-latest",
    "--all-topics --to-latest",
    "--all-topics --to-current",
    "--topic T --to-offset 15",
    "--topic T --topic O --to-offset -1",
    "--topic T:0,1 --shift-by 2",
    "--all-topics --shift-by=-100",
    "--topic T:2 --topic O:0 --shift-by 1000",
    "--topic T --to-datetime 2023-11-14T22:18:20.000",
    "--topic T:0,2 --to-datetime 2023-11-14T23:41:00.000+01:00",
    "--topic T --topic N --to-datetime 2035-11-14T22:18:20.000Z",
    "--topic O --by-duration PT1H",
    "--topic O --by-duration PT0.1S",
    "--topic T --by-duration P2DT3H",
    "--topic N --to-latest",
]


@pytest.mark.parametrize("line", DRY_RUNS)
def test_dry_runs(world: World, groups: list[str], kg: Kg, kafka_tool: Tool, line: str) -> None:
    time.sleep(0.2 if "PT0.1S" in line else 0)  # the records are older than that, for both
    argv = ["--reset-offsets", *_chosen(groups), "--dry-run"]
    argv += [world.spec(word) if word[0] in "TON" else word for word in line.split()]
    said, table = errors_and_output(kafka_tool(*argv).stdout)
    assert not [text for text in said if text.startswith("Error")]
    ours = kg(*argv)
    assert ours.status == 0
    _same(ours.out, table)
    assert (len(said) > 0) == ("Falling back to latest known offset." in ours.err)
    for name in groups:
        assert clients.committed(world.bootstrap, name) == world.offsets()


def test_the_default_is_a_dry_run(
    world: World, groups: list[str], kg: Kg, kafka_tool: Tool
) -> None:
    argv = ["--reset-offsets", "--group", groups[0], "--topic", world.topic, "--to-earliest"]
    theirs, ours = kafka_tool(*argv), kg(*argv)
    _same(ours.out, theirs.stdout)
    assert theirs.stderr.strip() == NO_EXECUTE
    assert ours.err.startswith(theirs.stderr)
    assert clients.committed(world.bootstrap, groups[0]) == world.offsets()


EXECUTED = [
    "--topic T --to-earliest",
    "--topic T:1 --topic O:0,1 --to-latest",
    "--all-topics --shift-by 3",
    "--topic T --to-datetime 2023-11-14T22:18:20.000Z",
    "--topic O --to-offset 6",
]


@pytest.mark.parametrize("line", EXECUTED)
def test_what_is_written(world: World, kg: Kg, kafka_tool: Tool, line: str) -> None:
    twins = _twins(world)
    argv = [world.spec(word) if word[0] in "TON" else word for word in line.split()]
    mine = [pair[0] for pair in twins.values()]
    theirs = kafka_tool(
        "--reset-offsets", *_chosen([pair[1] for pair in twins.values()]), *argv, "--execute"
    )
    ours = kg("--reset-offsets", *_chosen(mine), *argv, "--execute")
    assert ours.status == 0
    _same(ours.out, theirs.stdout.replace("them-", "mine-"))
    for my_name, their_name in twins.values():
        offsets = clients.committed(world.bootstrap, my_name)
        assert offsets == clients.committed(world.bootstrap, their_name)
        assert offsets != world.offsets()


def test_metadata_and_leader_epoch_survive(world: World, kg: Kg, kafka_tool: Tool) -> None:
    """F20: Kafka's tool writes empty metadata and no epoch, as its own twin shows."""
    for mine, theirs in _twins(world).values():
        argv = ["--topic", world.topic, "--to-offset", "8", "--execute"]
        assert kg("--reset-offsets", "--group", mine, *argv).status == 0
        kafka_tool("--reset-offsets", "--group", theirs, *argv)
        rows = {}
        for name in (mine, theirs):
            found = kg("describe", "--group", name, "-o", "json").json["results"]
            rows[name] = [row for row in found if row["topic"] == world.topic]
            assert [row["current_offset"] for row in rows[name]] == [8, 8, 8]
        # confluent-kafka commits the C string with its NUL.
        assert {row["metadata"].rstrip("\0") for row in rows[mine]} == {"note"}
        assert {row["leader_epoch"] for row in rows[mine]} == {0}
        assert {(row["metadata"], row["leader_epoch"]) for row in rows[theirs]} == {("", None)}


def test_export_and_import(world: World, kg: Kg, kafka_tool: Tool, tmp_path: Path) -> None:
    """A file of either tool restores with the other, in both forms."""
    path = tmp_path / "offsets.csv"
    for names in (
        [pair[0] for pair in _twins(world).values()],
        [next(iter(_twins(world).values()))[0]],
    ):
        export = ["--reset-offsets", *_chosen(names), "--all-topics", "--to-current", "--export"]
        theirs = kafka_tool(*export, "--dry-run").stdout
        ours = kg(*export, "--dry-run")
        assert ours.out.endswith("\n\n")
        assert sorted(ours.out.split("\n")) == sorted(theirs.split("\n"))
        for text, importer in ((ours.out, "theirs"), (theirs, "ours")):
            moved = kg(
                "--reset-offsets", *_chosen(names), "--all-topics", "--to-latest", "--execute"
            )
            assert moved.status == 0
            assert clients.committed(world.bootstrap, names[0]) != world.offsets()
            path.write_text(text)
            back = ["--reset-offsets", *_chosen(names), "--from-file", str(path), "--execute"]
            if importer == "ours":
                assert kg(*back).status == 0
            else:
                kafka_tool(*back)
            for name in names:
                assert clients.committed(world.bootstrap, name) == world.offsets()


def test_a_file_of_several_groups_used_for_one(world: World, kg: Kg, tmp_path: Path) -> None:
    (mine, theirs), *_ = _twins(world).values()
    path = tmp_path / "offsets.csv"
    path.write_text(f"{theirs},{world.topic},0,9\n{mine},{world.topic},1,9\n")
    argv = ["--reset-offsets", "--group", mine, "--from-file", str(path), "--execute"]
    assert kg(*argv).status == 0
    assert clients.committed(world.bootstrap, mine) == world.offsets() | {(world.topic, 1): 9}
    assert clients.committed(world.bootstrap, theirs) == world.offsets()


# ---------------------------------------------------------------------------------------------
# What can't be reset


@pytest.fixture(scope="module", params=["classic", "consumer"])
def living(world: World, request: pytest.FixtureRequest) -> Iterator[tuple[str, Consumer]]:
    name = clients.unique(f"living-{request.param}")
    _standalone(world, name, world.offsets())
    member = clients.join(
        world.bootstrap, name, [world.topic], group_protocol=request.param, client_id="cli-7"
    )
    yield name, member
    member.close()


def test_living_groups(
    world: World, groups: list[str], kg: Kg, kafka_tool: Tool, living: tuple[str, Consumer]
) -> None:
    name = living[0]
    argv = ["--reset-offsets", *_chosen([name, groups[0]]), "--topic", f"{world.topic}:0"]
    argv += ["--to-current"]
    said, table = errors_and_output(kafka_tool(*argv, "--execute").stdout)
    ours = kg(*argv, "--execute")
    assert ours.status == 3
    _same(ours.out, table)
    assert len(said) == 1
    assert said[0] in ours.err  # word for word, and then who it is
    assert "It has 1 member: cli-7 on /127.0.0.1." in ours.err
    assert clients.committed(world.bootstrap, name) == world.offsets()


def test_waiting_for_a_group_to_be_empty(
    world: World, kg: Kg, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiting alone takes longer than --timeout; members leave after it was seen to wait."""
    waited_s, left = 0.0, list[Consumer]()

    def sleep(seconds: float) -> None:
        nonlocal waited_s
        time.sleep(seconds)
        waited_s += seconds
        while left and waited_s >= 2.5:
            left.pop().close()

    clock = SimpleNamespace(**{**vars(time), "sleep": sleep})
    monkeypatch.setattr("kgtool.cli.change.journaled.time", clock)
    for protocol in ("classic", "consumer"):
        name = clients.unique(f"leaving-{protocol}")
        _standalone(world, name, world.offsets())
        waited_s = 0.0
        left.append(clients.join(world.bootstrap, name, [world.topic], group_protocol=protocol))
        argv = ["reset-offsets", "--group", name, "--topic", f"{world.topic}:0", "--to-latest"]
        result = kg(*argv, "--execute", "--yes", "--wait-empty", "60s", "--timeout", "2000")
        assert (result.status, left) == (0, []), result.err
        assert f"until group {name} has no members. It has 1 member" in result.err
        assert clients.committed(world.bootstrap, name)[world.topic, 0] == 10


@pytest.mark.timed
def test_what_does_not_exist(world: World, groups: list[str], kg: Kg, kafka_tool: Tool) -> None:
    """Kafka's tool does nothing then, and says so with status 0."""
    name = groups[0]
    argv = ["--reset-offsets", "--group", name, "--to-latest", "--dry-run", "--topic"]
    theirs = kafka_tool(*argv, f"{world.topic}:0,99,98").stdout
    assert f'The partitions "{world.topic}-99,{world.topic}-98" do not exist' in theirs
    began = time.monotonic()
    ours = kg(*argv, f"{world.topic}:0,99,98")
    assert time.monotonic() - began < 5
    assert ours.status == 3
    assert f'Error: The partitions "{world.topic}-98,{world.topic}-99" do not exist' in ours.err
    assert ours.out.split() == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "NEW-OFFSET",
        name,
        world.topic,
        "0",
        "10",
    ]
    nosuch = clients.unique("nosuch")
    theirs = kafka_tool(*argv, nosuch).stdout
    ours = kg(*argv, nosuch)
    assert ours.status == 1
    said = "This server does not host this topic-partition."
    assert said in theirs
    assert said in ours.err
    assert nosuch in ours.err


@pytest.mark.timed
def test_files_with_unknown_partitions_do_not_hang(
    world: World, groups: list[str], kg: Kg, tmp_path: Path
) -> None:
    """F4: Kafka's tool asks for the metadata some thousand times a second until --timeout."""
    path = tmp_path / "offsets.csv"
    path.write_text(f"{world.topic},99,1\n{world.topic},1,1\n{clients.unique('no')},0,1\n")
    began = time.monotonic()
    ours = kg("--reset-offsets", "--group", groups[0], "--from-file", str(path), "--dry-run")
    assert time.monotonic() - began < 5
    assert ours.status == 3
    assert ours.err.count("do not exist") == 1
    assert ours.out.split()[-2:] == ["1", "1"]


def test_a_new_group(world: World, kg: Kg, kafka_tool: Tool) -> None:
    """Kafka's tool makes it; ours only where --create says so (F10)."""
    name = clients.unique("new")
    mine, theirs = f"mine-{name}", f"them-{name}"  # of one length, which is that of a column
    argv = ["--topic", world.topic, "--to-offset", "7"]
    shown = kafka_tool("--reset-offsets", "--group", theirs, *argv, "--execute").stdout
    refused = kg("--reset-offsets", "--group", mine, *argv, "--execute")
    assert refused.status == 1
    assert f"Group {mine} not found." in refused.err
    assert mine not in clients.group_ids(world.bootstrap)
    for more in ([], ["--dry-run"]):
        ours = kg("--reset-offsets", "--group", mine, "--create", *argv, *more)
        assert ours.status == 0
        _same(ours.out, shown.replace(theirs, mine))
        assert mine not in clients.group_ids(world.bootstrap)
    assert kg("--reset-offsets", "--group", mine, "--create", *argv, "--execute").status == 0
    assert clients.committed(world.bootstrap, mine) == clients.committed(world.bootstrap, theirs)
    nobody = clients.unique("nobody")
    argv = ["--reset-offsets", "--group", nobody, "--all-topics", "--to-current", "--execute"]
    _same(kg(*argv, "--create").out, kafka_tool(*argv).stdout)
    assert nobody not in clients.group_ids(world.bootstrap)


def test_all_topics_and_topic(world: World, kg: Kg, kafka_tool: Tool) -> None:
    """F5: Kafka's tool resets everything then."""
    (mine, theirs), *_ = _twins(world).values()
    argv = ["--all-topics", "--topic", f"{world.topic}:0", "--to-earliest", "--execute"]
    kafka_tool("--reset-offsets", "--group", theirs, *argv)
    assert clients.committed(world.bootstrap, theirs)[world.topic, 2] == 0
    refused = kg("--reset-offsets", "--group", mine, *argv)
    assert refused.status == 2
    assert 'Option "[topic]" can\'t be used with option "[all-topics]"' in refused.err
    assert clients.committed(world.bootstrap, mine) == world.offsets()


def test_to_current_without_a_commit(world: World, kg: Kg, kafka_tool: Tool) -> None:
    """F6: Kafka's tool commits the log end, and skips what nobody has read."""
    (mine, theirs), *_ = _twins(world).values()
    argv = ["--topic", world.other, "--to-current", "--execute"]
    kafka_tool("--reset-offsets", "--group", theirs, *argv)
    assert clients.committed(world.bootstrap, theirs)[world.other, 1] == 7
    assert kg("--reset-offsets", "--group", mine, *argv).status == 0
    assert clients.committed(world.bootstrap, mine) == world.offsets()


def test_a_csv_line_without_offset(world: World, kg: Kg, kafka_tool: Tool, tmp_path: Path) -> None:
    """F7: Kafka's tool takes it for 0."""
    (mine, theirs), *_ = _twins(world).values()
    path = tmp_path / "short.csv"
    path.write_text(f"{world.topic},1\n")
    argv = ["--from-file", str(path), "--execute"]
    kafka_tool("--reset-offsets", "--group", theirs, *argv)
    assert clients.committed(world.bootstrap, theirs)[world.topic, 1] == 0
    refused = kg("--reset-offsets", "--group", mine, *argv)
    assert refused.status == 2
    assert "line 1: the offset is missing" in refused.err
    assert clients.committed(world.bootstrap, mine) == world.offsets()


def test_a_pending_transaction(world: World, kg: Kg, bootstrap: str) -> None:
    """F12: Kafka's tool does not see it, and what it writes is overwritten by the commit."""
    for topic_partition, known in ((f"{world.topic}:0", True), (f"{world.other}:1", False)):
        name = clients.unique("txn")
        _standalone(world, name, world.offsets())
        at = world.spec("T" if known else "O"), int(topic_partition[-1])
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": clients.unique("tid")}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        reader = clients.consumer(bootstrap, name)
        metadata = reader.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(*at, 3)], metadata, 30)
        argv = ["--reset-offsets", "--group", name, "--topic", topic_partition, "--to-latest"]
        try:
            refused = kg(*argv, "--execute")
            assert refused.status == 1
            assert "A transaction is about to change this offset" in refused.err
            assert clients.committed(bootstrap, name) == world.offsets()
            assert kg(*argv, "--execute", "--force").status == 0
        finally:
            producer.abort_transaction(30)
            reader.close()
        assert clients.committed(bootstrap, name)[at] == (10 if known else 7)


def test_like_another_group(world: World, kg: Kg, living: tuple[str, Consumer]) -> None:
    """The model may be alive: nothing of it is changed."""
    (mine, _), *_ = _twins(world).values()
    moved = ["--reset-offsets", "--group", mine, "--all-topics", "--to-latest", "--execute"]
    assert kg(*moved).status == 0
    result = kg("reset-offsets", "--group", mine, "--like", living[0], "--execute", "--yes")
    assert result.status == 0
    assert clients.committed(world.bootstrap, mine) == world.offsets()
    new = clients.unique("copy")
    argv = ["--reset-offsets", "--group", new, "--like", living[0], "--topic", world.other]
    assert kg(*argv, "--execute", "--create").status == 0
    assert clients.committed(world.bootstrap, new) == {(world.other, 0): 1}


def test_many_groups_in_a_handful_of_requests(world: World, kg: Kg, bootstrap: str) -> None:
    from kgtool.changes.reset.plan import plan_resets
    from kgtool.changes.reset.targets import ResetRequest, Strategy
    from tests.queries.conftest import open_session
    from tests.support.changing import execute_resets

    names = tuple(clients.unique("many") for _ in range(30))
    for name in names:
        _standalone(world, name, {(world.topic, 2): 3})
    with open_session(bootstrap) as session:
        request = ResetRequest(names, Strategy("shift-by", 4))
        plan = session.run(plan_resets(session.cluster, request))
        assert session.loop.requests_sent < 15
        done = session.run(execute_resets(session.cluster, plan))
        assert session.loop.requests_sent < 15 + len(names) + 10
    assert [row.status for reset in done for row in reset.rows] == ["reset"] * 30
    assert {clients.committed(bootstrap, name)[world.topic, 2] for name in names} == {7}


def test_old_brokers(kafka_391: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bootstrap: str = kafka_391.bootstrap
    topic = clients.create_topic(bootstrap, clients.unique("old"), 2)
    clients.produce(bootstrap, topic, 9)
    name = clients.unique("old")
    clients.commit(bootstrap, name, {(topic, 0): 4}, "note")
    line = ["--bootstrap-server", bootstrap]
    argv = ["--reset-offsets", "--group", name, "--topic", topic, "--to-offset", "5", "--execute"]
    done = run.call(capsys, *line, *argv)
    assert done.status == 0
    assert clients.committed(bootstrap, name) == {(topic, 0): 5, (topic, 1): 0}
    typo = run.call(capsys, *line, *argv[:2], clients.unique("typo"), *argv[3:])
    assert typo.status == 1
    assert "not found" in typo.err
    gone = run.call(capsys, *line, *argv[:3], "--topic", f"{topic}:0,9", *argv[5:])
    assert gone.status == 3
    assert f'The partitions "{topic}-9" do not exist' in gone.err
