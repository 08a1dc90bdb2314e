"""On a real broker: the same rows as Kafka's own tool, and what it changes, seen by others."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, ShareConsumer

from tests.cli import run
from tests.cli.run import Result
from tests.support import clients

pytestmark = pytest.mark.broker

Tool = Callable[..., subprocess.CompletedProcess[str]]


class World(NamedTuple):
    """Groups of every kind that one test module shares; nobody changes them."""

    topic: str
    other: str
    empty: str
    static: str
    modern: str
    missing: str

    @property
    def groups(self) -> list[str]:
        return [self.modern, self.empty, self.static]


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Iterator[World]:
    # Long topic names make columns wider than their minimum.
    topic = clients.create_topic(bootstrap, clients.unique("parity-orders-of-customers"), 12)
    other = clients.create_topic(bootstrap, clients.unique("p"), 2)
    for partition in range(12):
        clients.produce(bootstrap, topic, partition, partition=partition)
    names = [clients.unique(kind) for kind in ("empty-é日本", "static", "modern", "missing")]
    found = World(topic, other, *names)
    clients.commit(bootstrap, found.empty, {(topic, p): p // 2 for p in range(11)}, "note")
    clients.commit(bootstrap, found.static, {(other, 0): 0, (topic, 3): 1})
    members: list[Consumer] = [
        clients.join(
            bootstrap,
            found.static,
            [topic],
            **{"group.instance.id": "instance-1", "client.id": "cli-1"},
        ),
        clients.join(bootstrap, found.modern, [topic, other], **{"group.protocol": "consumer"}),
    ]
    yield found
    for member in members:
        member.close()


@pytest.fixture
def kg(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*argv: str) -> Result:
        return run.call(capsys, "--bootstrap-server", bootstrap, *argv)

    return call


@pytest.mark.parametrize("view", ["", "--offsets", "--members", "--state"])
@pytest.mark.parametrize("verbose", ["", "--verbose"])
def test_describe(
    world: World, kg: Callable[..., Result], kafka_tool: Tool, view: str, verbose: str
) -> None:
    argv = ["--describe", *(word for word in (view, verbose) if word)]
    for group in world.groups:
        argv += ["--group", group]
    theirs = kafka_tool(*argv)
    ours = kg(*argv)
    assert ours.status == 0
    assert ours.out == theirs.stdout
    assert ours.err == theirs.stderr


def test_list(world: World, kg: Callable[..., Result], kafka_tool: Tool) -> None:
    """Kafka's order is that of a hash table; other tests make groups meanwhile."""
    for argv in (["--list"], ["--list", "--state", "--type"], ["--list", "--type", "consumer"]):
        theirs = {tuple(line.split()) for line in kafka_tool(*argv).stdout.splitlines()}
        ours = {tuple(line.split()) for line in kg(*argv).out.splitlines()}
        assert any(row[0] == world.modern for row in ours)
        for rows in (ours - theirs, theirs - ours):
            assert not {row for row in rows if row[0] in (*world.groups, "GROUP")}


def test_every_group_at_once_shows_each_as_alone(world: World, kg: Callable[..., Result]) -> None:
    alone = "".join(kg("--describe", "--group", group).out for group in sorted(world.groups))
    chosen = [f"--match={group}" for group in world.groups]
    assert kg("--describe", *chosen).out == alone


def test_json_tells_what_confluent_kafka_knows(
    world: World, bootstrap: str, kg: Callable[..., Result]
) -> None:
    """And the partition that has no commit, though the group reads its topic."""
    *rows, uncommitted = kg("describe", "--group", world.empty, "-o", "json").json["results"]
    known = clients.committed(bootstrap, world.empty)
    assert {(r["topic"], r["partition"]): r["current_offset"] for r in rows} == known
    assert (uncommitted["topic"], uncommitted["partition"]) == (world.topic, 11)
    assert uncommitted["log_end_offset"] == 11
    assert [uncommitted[key] for key in ("current_offset", "lag", "metadata")] == [None] * 3
    for row in rows:
        assert row["log_end_offset"] == row["partition"]
        assert row["lag"] == row["partition"] - row["current_offset"]
        # confluent-kafka commits the C string with its NUL.
        assert row["metadata"].rstrip("\0") == "note"
        assert (row["status"], row["member_id"]) == ("ok", None)


def test_a_topic_can_be_chosen(world: World, kg: Callable[..., Result]) -> None:
    argv = ["describe", "--group", world.empty, "--topic", f"{world.topic}:2,4", "-o", "json"]
    assert [row["partition"] for row in kg(*argv).json["results"]] == [2, 4]


def test_a_missing_group(world: World, kg: Callable[..., Result], kafka_tool: Tool) -> None:
    """Kafka's tool shows nothing then, and says so with status 0 (F1, F3)."""
    said = f"Group {world.missing} not found."
    assert said in kafka_tool("--describe", "--group", world.missing).stdout
    alone = kg("--describe", "--group", world.missing)
    assert alone == (1, "", f"Error: {said}\n")
    both = kg("--describe", "--group", world.missing, "--group", world.empty)
    assert both.status == 3
    assert both.out == kg("--describe", "--group", world.empty).out
    assert said in both.err


def _twins(bootstrap: str, offsets: dict[tuple[str, int], int]) -> tuple[str, str]:
    names = clients.unique("twin"), clients.unique("twin")
    for name in names:
        clients.commit(bootstrap, name, offsets)
    return names


@pytest.mark.parametrize(
    "spec", [["T:0"], ["T:0,10,2"], ["T"], ["T:99"], ["O:1", "T:3", "T:99"], ["O", "T:0,1"]]
)
def test_delete_offsets_does_what_kafka_does(
    world: World, bootstrap: str, kg: Callable[..., Result], kafka_tool: Tool, spec: list[str]
) -> None:
    offsets = {(world.topic, p): 0 for p in range(12)} | {(world.other, 1): 0}
    mine, theirs = _twins(bootstrap, offsets)
    argv = []
    for word in spec:
        topic = word.replace("T", world.topic).replace("O", world.other)
        argv += ["--topic", topic]
    expected = kafka_tool("--delete-offsets", "--group", theirs, *argv)
    result = kg("--delete-offsets", "--group", mine, *argv)
    assert clients.committed(bootstrap, mine) == clients.committed(bootstrap, theirs)
    said = expected.stdout.replace(theirs, mine)
    is_failure = "Error: Encountered" in said
    if is_failure:
        said = said.partition("details.\n")[2]
        assert "Error: Encountered some partition-level error" in result.err
    assert result.out == said
    done = "Successful" in said
    assert result.status == ((3 if done else 1) if is_failure else 0)


def test_delete_offsets_of_a_living_group(
    world: World, bootstrap: str, kg: Callable[..., Result], kafka_tool: Tool
) -> None:
    argv = ["--delete-offsets", "--group", world.static, "--topic", f"{world.topic}:3"]
    theirs = kafka_tool(*argv).stdout
    result = kg(*argv)
    assert result.status == 1
    assert theirs.endswith(result.out)
    assert "GroupSubscribedToTopicException" in result.out
    assert "cli-1" in result.err  # who holds it
    assert clients.committed(bootstrap, world.static)[world.topic, 3] == 1


def test_delete_offsets_of_unknown_topics_and_groups(
    world: World, bootstrap: str, kg: Callable[..., Result], kafka_tool: Tool
) -> None:
    nosuch = clients.unique("nosuch-topic")
    argv = ["--delete-offsets", "--group", world.missing, "--topic", f"{world.topic}:0"]
    theirs, result = kafka_tool(*argv).stdout, kg(*argv)
    assert result.status == 1
    assert theirs.strip().startswith("Error: The group id does not exist.")
    assert result.err.startswith("Error: The group id does not exist.")
    assert theirs.endswith(result.out)
    argv = ["--delete-offsets", "--group", world.empty, "--topic", nosuch]
    theirs, result = kafka_tool(*argv).stdout, kg(*argv)
    assert theirs.startswith("Request succeeded")  # F9
    assert theirs.endswith(result.out)
    assert result.status == 1
    assert "succeeded" not in result.out + result.err


def test_delete(world: World, bootstrap: str, kg: Callable[..., Result], kafka_tool: Tool) -> None:
    first, second = _twins(bootstrap, {(world.topic, 0): 0})
    third, _ = _twins(bootstrap, {(world.topic, 0): 0})
    theirs = kafka_tool("--delete", "--group", third)
    result = kg("--delete", "--group", first)
    assert result.out == theirs.stdout.replace(third, first)
    assert result.status == 0
    mixed = kg("--delete", "--group", second, "--group", world.missing, "--group", world.static)
    assert mixed.status == 3
    assert mixed.out == (f"\nThese consumer groups were deleted successfully: '{second}'\n")
    expected = kafka_tool("--delete", "--group", world.missing, "--group", world.static).stdout
    for line in re.findall(r"\* Group .*", expected):
        assert line in mixed.err
    left = clients.group_ids(bootstrap)
    assert not left & {first, second, third}
    assert world.static in left


def test_dry_runs_change_nothing(world: World, bootstrap: str, kg: Callable[..., Result]) -> None:
    group, _ = _twins(bootstrap, {(world.topic, 0): 0})
    for argv in (
        ["--delete", "--dry-run", "--group", group],
        ["delete", "--dry-run", "--group", group],
        ["--delete-offsets", "--dry-run", "--group", group, "--topic", world.topic],
        ["delete-offsets", "--dry-run", "--group", group, "--topic", world.topic],
    ):
        result = kg(*argv)
        assert result.status == 0
        assert "uccessful." not in result.out
        assert clients.committed(bootstrap, group) == {(world.topic, 0): 0}
    foreseen = kg(
        "--delete-offsets", "--dry-run", "--group", group, "--topic", world.topic, "-o", "json"
    ).json["results"]
    statuses = {row["partition"]: row["status"] for row in foreseen}
    assert statuses == dict.fromkeys(range(1, 12), "no-offset") | {0: "would-delete"}


def test_share_groups_in_the_form_of_kafkas_tool(
    world: World, bootstrap: str, kg: Callable[..., Result]
) -> None:
    """As Kafka's tool: it deletes an empty share group, and finds no offsets of it."""
    group = clients.unique("share")
    member = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    member.subscribe([world.other])

    def listed(state: str) -> bool:
        rows = kg("list", "--match", group, "--state", state, "-o", "json").json["results"]
        return [row["type"] for row in rows] == ["share"]

    def joined() -> bool:
        member.poll(0.2)
        return listed("Stable")

    clients.wait_for(joined, "the share group")
    member.close()
    clients.wait_for(lambda: listed("Empty"), "the share group to be empty")
    assert group not in kg("--list").out
    topic = ("--topic", world.other)
    for argv in (
        ["--delete-offsets", *topic],
        ["--delete-offsets", *topic, "--dry-run"],
        ["--reset-offsets", *topic, "--to-latest", "--execute"],
    ):
        result = kg(*argv, "--group", group)
        assert (result.status, "The group id does not exist" in result.err) == (1, True), argv
        assert f"kgtool reset-offsets {group}" in result.err, argv
    foreseen = kg("delete", "--dry-run", "--group", group)
    assert foreseen.status == 0
    result = kg("--delete", "--group", group)
    assert result.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"
    assert result.status == 0
    assert not listed("Empty")


def test_a_reader_that_leaves_early(world: World, bootstrap: str) -> None:
    argv = [*run.command_line(), "--bootstrap-server", bootstrap, "describe", "--all-groups"]
    command = " ".join(argv) + " 2>/dev/null | head -n 2; echo ${PIPESTATUS[0]}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=run.ROOT, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_old_brokers_say_the_same(kafka_391: object, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap: str = kafka_391.bootstrap  # type: ignore[attr-defined]
    topic = clients.create_topic(bootstrap, clients.unique("old"), 2)
    group, missing = clients.unique("old"), clients.unique("missing")
    clients.commit(bootstrap, group, {(topic, 0): 0})
    line = ["--bootstrap-server", bootstrap, "--describe", "--group", group]
    alone = run.call(capsys, *line)
    assert (alone.status, alone.out.count(topic)) == (0, 1)
    both = run.call(capsys, *line, "--group", missing)
    assert both.status == 3
    assert both.out == alone.out
    assert f"Group {missing} not found." in both.err
