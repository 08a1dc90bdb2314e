"""What recorded runs of Kafka's tool show beyond the behaviours that its own tests assert."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer, ShareConsumer, TopicPartition

from kgtool.sandbox.seeding import group_client
from tests.cli import run
from tests.parity.behaviours import Kg, Offsets, World, behaviour, chosen, every_view, header, lines
from tests.parity.conftest import settle
from tests.support import clients

pytestmark = pytest.mark.broker

NO_MEMBERS = "\nConsumer group '{}' has no active members.\n"
Tool = Callable[..., subprocess.CompletedProcess[str]]
Empty = Callable[[Offsets], str]


@pytest.fixture(scope="module")
def connect(worlds: dict[str, World], parity: object) -> Iterator[str]:
    """A group as a Connect worker has it."""
    group = clients.unique("connect")
    address = parity.cluster.bootstrap  # type: ignore[attr-defined]
    with group_client.connect(address, group, "worker") as socket:
        who = socket.join(group, "connect", "sessioned", b"")
        socket.sync(who, b"")
        yield group


@pytest.fixture(scope="module")
def share(worlds: dict[str, World], parity: object) -> Iterator[str]:
    """A share group with a member."""
    address = parity.cluster.bootstrap  # type: ignore[attr-defined]
    group = clients.unique("share")
    member = ShareConsumer({"bootstrap.servers": address, "group.id": group})
    member.subscribe([worlds["classic"].one])

    def joined() -> bool:
        member.poll(0.2)
        return group in run.kgtool("--bootstrap-server", address, "list").out.split()

    clients.wait_for(joined, "the share group")
    yield group
    member.close()


@every_view
def test_groups_of_other_types(
    connect: str, share: str, kg: Kg, tool: Tool, view: list[str]
) -> None:
    """A Connect worker's group is a classic group, and is shown; Kafka's tool refuses it."""
    result = kg("--describe", "--group", connect, *view)
    assert (result.status, result.err) == (0, "")
    if "--state" in view:
        assert lines(result.out)[1][-2:] == ["Stable", "1"]
    if not view:
        theirs = tool("--describe", "--group", connect).stdout
        assert f"{connect} is not a consumer group (connect)." in theirs
    result = kg("--describe", "--group", share, *view)
    assert (result.status, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    assert f"{share} is not a consumer group" in result.err


def test_groups_of_other_types_are_not_deleted(connect: str, share: str, kg: Kg) -> None:
    result = kg("--delete", *chosen(connect, share))
    assert (result.status, result.out) == (1, "")
    assert f"'{connect}'" in result.err
    assert f"'{share}'" in result.err
    listed = {row[0] for row in lines(kg("list").out)}
    assert {connect, share} <= listed


@behaviour(protocols=("any",))
def test_names_are_taken_as_they_are(kg: Kg, protocol: str) -> None:
    result = kg("--describe", "--group", "a,b")
    assert result == (1, "", "Error: Group a,b not found.\n")
    result = kg("--describe", "--group", "")
    assert (result.status, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    result = kg("--delete", "--group", "")
    assert (result.status, result.out) == (1, "")
    assert "* Group '' could not be deleted due to: " in result.err


@behaviour()
@every_view
def test_a_group_without_members_and_offsets(
    kg: Kg, tool: Tool, empty: Empty, view: list[str], protocol: str
) -> None:
    group = empty({})
    result = kg("--describe", "--group", group, *view)
    assert (result.status, result.err) == (0, NO_MEMBERS.format(group))
    if "--state" not in view:
        assert lines(result.out) == ([header(view)] if "--members" in view else [])


def test_a_first_commit_that_is_pending(address: str, kg: Kg, tool: Tool) -> None:
    topic, group = clients.create_topic(address, clients.unique("t"), 2), clients.unique("pending")
    producer = Producer({"bootstrap.servers": address, "transactional.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(address, group)
    offsets = [TopicPartition(topic, 1, 0)]
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 30)
    try:
        ours, theirs = (call("--describe", "--group", group) for call in (kg, tool))
        assert (ours.status, ours.out) == (theirs.returncode, theirs.stdout)
        pending = f"Note: group {group} has only a pending transaction for {topic}-1.\n"
        assert ours.err == NO_MEMBERS.format(group) + pending
        (row,) = kg("--describe", "--group", group, "-o", "json").json["results"]
        assert (row["partition"], row["status"]) == (1, "pending-transaction")
    finally:
        producer.abort_transaction(30)
        reader.close()


def test_topics_that_do_not_exist_are_failures(address: str, kg: Kg) -> None:
    topic, group = clients.create_topic(address, clients.unique("t"), 2), clients.unique("g")
    clients.commit(address, group, {(topic, 0): 0})
    missing = clients.unique("missing")

    def look(*topics: str) -> tuple[int, int, list[tuple[str, int | None, str]]]:
        chosen = [word for each in topics for word in ("--topic", each)]
        result = kg("describe", group, *chosen, "-o", "json")
        targets = [(e["target"], e["name"]) for e in result.json["errors"]]
        named = [(target["topic"], target["partition"], name) for target, name in targets]
        return result.status, len(result.json["results"]), named

    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert look(missing) == (1, 0, [(missing, None, unknown)])
    assert look(f"{topic}:0,7", missing) == (3, 1, [(topic, 7, unknown), (missing, None, unknown)])
    assert look(f"{topic}:1") == (0, 0, [])  # it is there, and nothing is committed


@behaviour()
def test_deleting_several_groups(
    world: World, address: str, kg: Kg, empty: Empty, protocol: str
) -> None:
    """Named twice counts once; what can't be deleted does not keep the others."""
    groups = sorted(empty({}) for _ in range(2))
    result = kg("--delete", *chosen(*groups, groups[0]))
    assert result.status == 0
    listed = ", ".join(f"'{group}'" for group in groups)
    assert result.out == f"Deletion of requested consumer groups ({listed}) was successful.\n"
    again = empty({})
    result = kg("--delete", *chosen(again, "missing.group", world.stable))
    assert result.status == 3
    assert result.out == f"\nThese consumer groups were deleted successfully: '{again}'\n"
    assert result.err.count("\n* Group '") == 2


@behaviour()
def test_notes_stand_before_their_table(
    address: str, world: World, tool: Tool, protocol: str
) -> None:
    """With ``2>&1``, as scripts have it."""
    argv = ["--bootstrap-server", address, "--describe", *chosen(world.left, world.simple)]
    done = subprocess.run(
        run.command_line(*argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=run.ROOT,
        timeout=60,
        check=True,
    )
    alone = [tool("--describe", "--group", name) for name in sorted((world.left, world.simple))]
    assert done.stdout.count("no active members") == 2
    first, second = (f"{theirs.stderr}{theirs.stdout.split()[0]}" for theirs in alone)
    assert first.split()[:3] == done.stdout.split()[:3]
    assert done.stdout.index(first.split()[2]) < done.stdout.index("GROUP ")
    assert done.stdout.index(second.split()[2]) < done.stdout.rindex("GROUP ")


@behaviour()
def test_a_topic_that_went_away_under_a_member(
    address: str, kg: Kg, filled: Callable[..., str], protocol: str
) -> None:
    """F3, F4: Kafka's tool shows nothing of the group, or hangs until --timeout."""
    gone, kept = filled(4), filled(6)
    group = clients.unique("bereft")
    member = clients.consumer(address, group, **{"group.protocol": protocol})
    member.subscribe([gone, kept])
    settle(address, {group: [member]}, {group: 2})
    try:
        clients.delete_topics(address, gone)
        began = time.monotonic()
        result = kg("--describe", "--group", group, "--timeout", "20000")
        assert time.monotonic() - began < 15
        rows = {row[1]: row[1:6] for row in lines(result.out)[1:]}
        assert rows[kept] == [kept, "0", "-", "6", "-"]
        assert (result.status, result.err) == (0, "")
        # The member may still have it.
        assert rows.get(gone, rows[kept])[2:] in (["-", "-", "-"], ["-", "6", "-"])
    finally:
        member.close()
