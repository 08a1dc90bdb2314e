"""Share, streams and half-migrated groups: each is shown as what it is, by its own numbers."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.ops import call as call_broker
from kgtool.config import settings
from kgtool.net.session import Session
from kgtool.protocol.api import consumer_group_heartbeat as heartbeat
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.cli import run
from tests.cli.run import Result
from tests.support import clients
from tests.support.streams import StreamsMember


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result.err
    found: list[dict[str, Any]] = result.json["results"]
    return found


def by_their_tool(kafka: Sandbox, tool: str, group: str, *argv: str) -> list[dict[str, str]]:
    """The table of Kafka's own tool, row by row."""
    out = kafka.run_tool(tool, "--describe", "--group", group, *argv).stdout
    lines = [line for line in out.splitlines() if line.strip()]
    header = lines[0].replace("COORDINATOR (ID)", "COORDINATOR")
    text = [re.sub(r" +\((\d+)\)", r"(\1)", line) for line in lines[1:]]
    return [
        dict(zip(header.split(), line.split(maxsplit=len(header.split()) - 1), strict=True))
        for line in text
    ]


@contextlib.contextmanager
def watching(bootstrap: str, group: str, *argv: str) -> Iterator[Iterator[str]]:
    """The lines of ``describe --watch``, until it is interrupted."""
    server = ("--bootstrap-server", bootstrap)
    with run.start("describe", *server, "--group", group, "--watch", "0.2", *argv) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)


class TestShareGroups:
    @pytest.fixture
    def group(
        self, bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
    ) -> Iterator[tuple[str, str]]:
        """A share group with a member that is done with 4 of 10 records."""
        from confluent_kafka import ShareConsumer

        topic, name = new_topic(), clients.unique("share")
        clients.produce(bootstrap, topic, 4)
        added = ("--add-config", "share.auto.offset.reset=earliest")
        kgtool("configs", "--group", name, "--alter", *added, "--yes")
        member = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "client.id": "sharer",
                "log_level": 0,
            }
        )
        member.subscribe([topic])

        def lag() -> int | None:
            found: int | None
            found = rows(kgtool("describe", "--group", name, "-o", "json"))[0]["lag"]
            return found

        try:
            # Records are acknowledged by the poll that comes after theirs.
            clients.wait_for(lambda: len(member.poll(0.5)) >= 4, "four records")
            clients.wait_for(lambda: member.poll(0.2) is not None and lag() == 0, "no lag")
            clients.produce(bootstrap, topic, 6)
            clients.wait_for(lambda: lag() == 6, "the lag")
            yield name, topic
        finally:
            member.close()

    def test_start_offsets_and_lag(
        self, kafka: Sandbox, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        name, topic = group
        (row,) = rows(kgtool("describe", "--group", name, "-o", "json"))
        assert (row["type"], row["topic"], row["partition"]) == ("share", topic, 0)
        assert row["start_offset"] == row["current_offset"]
        assert (row["lag"], row["log_end_offset"], row["status"]) == (6, 10, "ok")
        (theirs,) = by_their_tool(kafka, "kafka-share-groups", name, "--verbose")
        assert [theirs["START-OFFSET"], theirs["LAG"]] == [str(row["start_offset"]), "6"]
        text = kgtool("describe", "--group", name).out.split()
        assert text[:7] == [
            "GROUP",
            "TOPIC",
            "PARTITION",
            "START-OFFSET",
            "LOG-END-OFFSET",
            "LAG",
            "STATUS",
        ]

    def test_members_and_state(
        self, kafka: Sandbox, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        name, topic = group
        (member,) = rows(kgtool("describe", "--group", name, "--members", "-o", "json"))
        (theirs,) = by_their_tool(kafka, "kafka-share-groups", name, "--members", "--verbose")
        assert [str(member[key]) for key in ("consumer_id", "client_id", "current_epoch")] == [
            theirs["CONSUMER-ID"],
            theirs["CLIENT-ID"],
            theirs["MEMBER-EPOCH"],
        ]
        assert member["current_assignment"] == theirs["ASSIGNMENT"] == f"{topic}:0"
        (state,) = rows(kgtool("describe", "--group", name, "--state", "-o", "json"))
        (theirs,) = by_their_tool(kafka, "kafka-share-groups", name, "--state", "--verbose")
        ours = (state[key] for key in ("state", "group_epoch", "target_assignment_epoch"))
        assert [str(value) for value in ours] == [
            theirs["STATE"],
            theirs["GROUP-EPOCH"],
            theirs["ASSIGNMENT-EPOCH"],
        ]

    def test_watching_it(self, bootstrap: str, group: tuple[str, str], tmp_path: Path) -> None:
        name, topic = group
        path = tmp_path / "share.prom"
        with watching(bootstrap, name, "-o", "ndjson", "--prometheus", str(path)) as lines:
            first = json.loads(next(lines))
            clients.produce(bootstrap, topic, 3)
            changed = next(row for row in map(json.loads, lines) if row["lag"] == 9)
            assert f'group="{name}",topic="{topic}",partition="0"}} 9\n' in path.read_text()
        assert (first["type"], first["lag"], first["change"]) == ("share", 6, None)
        assert changed["change"].startswith("lag +")

    def test_verbs_that_do_not_apply(self, kgtool: Kgtool, group: tuple[str, str]) -> None:
        name, _ = group
        for argv in (["keep", name, "--yes"], ["recover", name, "--yes"]):
            refused = kgtool(*argv)
            assert (refused.status, refused.out) == (1, "")
            assert (
                "its start offsets are not in __consumer_offsets and do not expire" in refused.err
            )
            assert f"kgtool backup --group {name} saves them" in refused.err
        peek = kgtool("peek", name)
        assert (peek.status, "shows its start offsets" in peek.err) == (1, True)
        doctor = kgtool("doctor", "--group", name)
        assert doctor.status == 1
        assert "is a share group, and only consumer groups are examined" in doctor.err
        assert f"kgtool describe --group {name} shows it" in doctor.err
        explained = kgtool("explain", name)
        assert (explained.status, explained.err) == (0, "")
        assert f"Group {name} is a share group" in explained.out
        assert "do not expire: brokers never clean up share groups" in explained.out
        by_type = ["--match", f"{name}*", "--type", "share", "-o", "json"]
        for command in (["delete", "-n"], ["describe"]):
            found = kgtool(*command, *by_type).json["results"]
            assert {row["group"] for row in found} == {name}
        drop_in = kgtool("--describe", "--group", name)
        assert drop_in.status == 1
        assert f"kgtool describe --group {name}" in drop_in.err


def test_a_start_offset_that_was_set(
    kafka: Sandbox, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic, name = new_topic(), clients.unique("share-set")
    clients.produce(kafka.bootstrap, topic, 9)
    body = (
        f'{{"groupId": "{name}", "topics": [{{"topicName": "{topic}", "partitions": '
        '[{"partitionIndex": 0, "startOffset": 2}]}]}'
    )
    from confluent_kafka import ShareConsumer

    member = ShareConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": name, "log_level": 0})
    member.subscribe([topic])
    seen = clients.wait_for(
        lambda: (
            member.poll(0.2) is not None
            and kgtool("describe", "--group", name, "--state", "-o", "json").json["results"]
        ),
        "the group",
    )
    member.close()
    assert seen[0]["type"] == "share"
    clients.wait_for(
        lambda: kgtool("request", "AlterShareGroupOffsets", "--body", body, "--yes").status == 0,
        "the group to be empty",
    )
    (row,) = rows(kgtool("describe", "--group", name, "-o", "json"))
    assert (row["start_offset"], row["lag"], row["log_end_offset"]) == (2, 7, 9)
    empty = kgtool("describe", "--group", name)
    assert f"Share group '{name}' has no active members." in empty.err


class TestStreamsGroups:
    @pytest.fixture
    def group(
        self, bootstrap: str, new_topic: Callable[..., str]
    ) -> Iterator[tuple[str, str, StreamsMember]]:
        """A streams group with one member that reads a topic of two partitions."""
        topic, name = new_topic(partitions=2), clients.unique("streams")
        clients.produce(bootstrap, topic, 5)
        with StreamsMember(bootstrap, name, [topic], topology_epoch=3) as member:
            yield name, topic, member

    def test_tasks_and_topology(
        self, kafka: Sandbox, kgtool: Kgtool, group: tuple[str, str, StreamsMember]
    ) -> None:
        name, _, member = group
        (row,) = rows(kgtool("describe", "--group", name, "--members", "-o", "json"))
        assert (row["consumer_id"], row["client_id"]) == (member.member_id, "streamer")
        assert (row["process_id"], row["topology_epoch"]) == ("process-1", 3)
        assert row["current_assignment"] == row["target_assignment"] == "active 0:0,1"
        (theirs,) = by_their_tool(kafka, "kafka-streams-groups", name, "--members", "--verbose")
        assert [theirs["MEMBER"], theirs["TOPOLOGY-EPOCH"], theirs["MEMBER-EPOCH"]] == [
            row["consumer_id"],
            "3",
            str(row["current_epoch"]),
        ]
        assert "0:[0,1]" in theirs["ASSIGNMENTS"]
        (state,) = rows(kgtool("describe", "--group", name, "--state", "-o", "json"))
        assert (state["type"], state["topology_epoch"], state["subtopologies"]) == ("streams", 3, 1)
        (theirs,) = by_their_tool(kafka, "kafka-streams-groups", name, "--state", "--verbose")
        assert [state["state"], str(state["group_epoch"])] == [
            theirs["STATE"],
            theirs["GROUP-EPOCH"],
        ]
        text = kgtool("describe", "--group", name, "--state", "--verbose").out
        assert "TOPOLOGY-EPOCH" in text

    def test_offsets_of_what_it_reads(
        self, bootstrap: str, kgtool: Kgtool, group: tuple[str, str, StreamsMember]
    ) -> None:
        name, topic, member = group
        body = (
            f'{{"groupId": "{name}", "generationIdOrMemberEpoch": {member.epoch}, '
            f'"memberId": "{member.member_id}", "topics": [{{"name": "{topic}", "partitions": '
            '[{"partitionIndex": 0, "committedOffset": 2}]}]}'
        )
        argv = ("request", "OffsetCommit", "--version", "9", "--body", body, "--yes")
        assert kgtool(*argv).status == 0
        first, second = rows(kgtool("describe", "--group", name, "-o", "json"))
        assert (first["current_offset"], first["log_end_offset"], first["lag"]) == (2, 5, 3)
        assert (first["member_id"], first["subscribed"]) == (member.member_id, True)
        assert (second["current_offset"], second["status"]) == (None, "no-commit")
        expiring = rows(kgtool("describe", "--group", name, "--expiry", "-o", "json"))[0]
        assert (expiring["rule"], expiring["expires_at_ms"]) == ("subscribed", None)
        (total,) = rows(kgtool("describe", "--group", name, "--totals", "-o", "json"))
        assert (total["topic"], total["lag"], total["unknown"]) == (topic, 3, 1)
        lagging = rows(kgtool("describe", "--group", name, "--lagging", "-o", "json"))
        assert [row["partition"] for row in lagging] == [0]

    def test_its_topology(
        self, bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
    ) -> None:
        """Every topic by subtopology, and who has which task; nodes only where they are stored."""
        topic, name = new_topic(partitions=2), clients.unique("counts")
        inner, store = f"{name}-by-key-repartition", f"{name}-counts-changelog"
        named = {"repartitions": (inner,), "changelogs": (store,)}
        with StreamsMember(bootstrap, name, [topic], topology_epoch=4, **named) as member:
            living = rows(kgtool("describe", "--group", name, "--topology", "-o", "json"))
            text = kgtool("describe", name, "--topology").out
            empty = kgtool("describe", name, topic, "--topology", "-o", "json")
        assert [
            (row["subtopology"], row["role"], row["topic"], row["partitions"], row["tasks"])
            for row in living
        ] == [
            ("0", "source", topic, 2, None),
            ("0", "repartition-sink", inner, 2, None),
            ("0", "active", None, None, [0, 1]),
            ("1", "repartition-source", inner, 2, None),
            ("1", "changelog", store, 2, None),
            ("1", "active", None, None, [0, 1]),
        ]
        assert {(row["group"], row["topology_epoch"], row["node"]) for row in living} == {
            (name, 4, None)
        }
        assert {row["member_id"] for row in living if row["tasks"]} == {member.member_id}
        header, *lines = (line.split() for line in text.splitlines() if line)
        assert header == ["GROUP", "SUBTOPOLOGY", "ROLE", "NAME", "PARTITIONS", "TASKS"]
        assert lines[2] == [name, "0", "active", "streamer", "-", "0,1"]
        assert (empty.status, len(empty.json["results"])) == (3, 6)  # no such group: a topic
        left = rows(kgtool("describe", "--group", name, "--topology", "-o", "json"))
        assert [row["topic"] for row in left] == [topic, inner, inner, store]

    def test_only_streams_groups_have_a_topology(
        self, bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
    ) -> None:
        topic, plain = new_topic(), clients.unique("plain")
        clients.commit(bootstrap, plain, {(topic, 0): 0})
        result = kgtool("describe", "--group", plain, "--topology", "-o", "json")
        assert (result.status, result.json["results"]) == (1, [])
        assert [error["name"] for error in result.json["errors"]] == ["WRONG_GROUP_TYPE"]
        assert "is a classic group: only streams groups" in result.json["errors"][0]["message"]
        for other in ("--watch", "--lagging"):
            refused = kgtool("describe", "--group", plain, "--topology", other)
            assert (refused.status, "leave out" in refused.err) == (2, True), other

    def test_a_living_group_is_refused(
        self, kgtool: Kgtool, group: tuple[str, str, StreamsMember]
    ) -> None:
        name, topic, _ = group
        result = kgtool("reset-offsets", "--group", name, "--topic", topic, "--to-earliest")
        assert (result.status, "is inactive" in result.err) == (1, True)
        assert "streamer on " in result.err
        result = kgtool("delete", name, "--yes")
        assert (result.status, "not empty" in result.err) == (1, True)
        assert "Stop its 1 member first: streamer on " in result.err
        assert "remove-members" not in result.err

    def test_an_empty_group_is_changed_as_any_other(
        self,
        bootstrap: str,
        kgtool: Kgtool,
        new_topic: Callable[..., str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Each change, and its way back, as another client reads the offsets (KIP-1071)."""
        monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
        topic, name = new_topic(partitions=2), clients.unique("streams")
        clients.produce(bootstrap, topic, 5)
        with StreamsMember(bootstrap, name, [topic]):
            pass
        had = {(topic, 0): 4, (topic, 1): 0}
        clients.commit(bootstrap, name, had)
        saved = str(tmp_path / "saved.jsonl")
        assert kgtool("backup", "--group", name, "--out", saved).status == 0
        changes = {
            ("reset-offsets", "--group", name, "--all-topics", "--to-latest", "--execute"): {
                (topic, 0): 5,
                (topic, 1): 0,
            },
            ("delete-offsets", "--group", name, "--topic", f"{topic}:0"): {(topic, 1): 0},
            ("delete", name): {},
        }
        for argv, after in changes.items():
            assert kgtool(*argv, "--yes").status == 0, argv
            assert clients.committed(bootstrap, name) == after, argv
            assert kgtool("undo", "last", "--yes").status == 0, argv
            assert clients.committed(bootstrap, name) == had, argv
        clients.commit(bootstrap, name, {(topic, 0): 1})
        assert kgtool("restore", saved, "--yes").status == 0
        assert clients.committed(bootstrap, name) == had


def test_watching_groups_of_two_types(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """Each type keeps its own table; what changes is said of any."""
    topic, plain, streams = new_topic(), clients.unique("plain"), clients.unique("streams")
    clients.commit(bootstrap, plain, {(topic, 0): 0})
    with (
        StreamsMember(bootstrap, streams, [topic], client_id="first-one"),
        watching(bootstrap, plain, "--group", streams, "--state") as lines,
    ):
        look = [next(lines).split() for _ in range(6)]
        assert look[0][1:] == ["|", "every", "0.2", "s", "|", "2", "groups", "|", "0", "changed"]
        assert look[1][:2] == look[4][:2] == ["GROUP", "TYPE"]
        assert (look[1][-1], look[4][-1]) == ("CHANGE", "CHANGE")
        assert (look[2][:2], look[3], look[5][:2]) == ([plain, "Classic"], [], [streams, "Streams"])
        with contextlib.ExitStack() as stack:
            second = StreamsMember(bootstrap, streams, [topic], client_id="second-one")
            stack.push(second)
            second.beat(0)
            assert next(line for line in lines if "members 1 -> 2" in line).startswith(streams)


def test_all_types_and_a_missing_group_together(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic, plain, streams = new_topic(), clients.unique("plain"), clients.unique("streams")
    clients.commit(bootstrap, plain, {(topic, 0): 0})
    with StreamsMember(bootstrap, streams, [topic]):
        groups = ("--group", plain, "--group", streams, "--group", "not-there")
        result = kgtool("describe", *groups, "-o", "json")
        types = {
            row["group"]: row["type"]
            for row in kgtool("list", "--match", "*", "-o", "json").json["results"]
        }
    assert result.status == 3
    assert {row["group"] for row in result.json["results"]} == {plain, streams}
    assert [error["target"]["group"] for error in result.json["errors"]] == ["not-there"]
    assert (types[plain], types[streams]) == ("classic", "streams")


def test_a_group_in_migration_says_who_is_still_classic(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic, name = new_topic(partitions=2), clients.unique("migrating")
    old = clients.join(bootstrap, name, [topic], client_id="old-client")
    new = clients.consumer(bootstrap, name, group_protocol="consumer", client_id="new-client")
    try:
        new.subscribe([topic])

        def both() -> bool:
            old.poll(0.1)
            new.poll(0.1)
            return bool(old.assignment() and new.assignment())

        clients.wait_for(both, "both members")
        result = kgtool("describe", "--group", name, "--members", "--verbose")
    finally:
        new.close()
        old.close()
    assert result.status == 0, result.err
    assert "1 of 2 members still speak the classic protocol: old-client on" in result.err
    assert "new-client" not in result.err.split("classic protocol:")[1]
    header, *lines = (line.split() for line in result.out.splitlines())
    at = header.index("UPGRADED")
    upgraded = {line[3]: line[at] for line in lines}
    assert upgraded == {"old-client": "false", "new-client": "true"}


def test_who_lags_behind_the_target_is_named(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    """Two members by hand; the first one never hears that it is to give up a partition."""
    topic, name = new_topic(partitions=2), clients.unique("behind")
    with Session(settings(bootstrap)) as session:  # type: ignore[arg-type]
        session.connect()

        def beat(member: str, epoch: int, **more: Any) -> Any:
            request = heartbeat.Request(group_id=name, member_id=member, member_epoch=epoch, **more)
            reply = session.run(call_broker(1, request))
            assert reply.error_code == 0, reply
            return reply

        fresh = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        first, second = str(uuid.uuid4()), str(uuid.uuid4())
        epoch = beat(first, 0, **fresh).member_epoch
        deadline = time.monotonic() + 20
        while not kgtool("describe", "--group", name, "-o", "json").json["results"]:
            assert time.monotonic() < deadline
            epoch = beat(first, epoch).member_epoch
            time.sleep(0.2)
        later = beat(second, 0, **fresh).member_epoch

        def said() -> Result | None:
            nonlocal later
            later = beat(second, later, topic_partitions=[]).member_epoch
            found = kgtool("describe", "--group", name, "--state")
            return found if "are behind" in found.err else None

        result = clients.wait_for(said, "a target that is not reached")
        assert re.search(r"of 2 members are behind the target assignment \(epoch \d+\)", result.err)
        for member in (first, second):
            beat(member, -1)
