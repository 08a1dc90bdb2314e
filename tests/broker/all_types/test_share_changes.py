"""Share groups are changed as the others are, on a real broker; Kafka's own tool is the witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer

from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.cli.run import Result
from tests.support import brokers, clients

LOST_STATE = "share groups lose the delivery state after their start offsets"


@pytest.fixture(scope="session", params=["4.3.1", "4.4.0"])
def kafka(request: pytest.FixtureRequest, warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    name = {"4.3.1": "all-types"}.get(request.param, f"all-types-{request.param}")
    return warm(brokers.shared_broker(request.param, name=name))


class Share:
    """A share group that was at the start of two topics of 10 records, with its members."""

    def __init__(self, kafka: Sandbox, kgtool: Kgtool, topics: list[str]) -> None:
        self.kafka, self.kgtool, self.topics = kafka, kgtool, topics
        self.name = clients.unique("share")
        self.members: list[ShareConsumer] = []
        self.seen: list[tuple[str, int]] = []
        """Topic and offset of what members have read."""
        added = ("--add-config", "share.auto.offset.reset=earliest")
        assert kgtool("configs", "--group", self.name, "--alter", *added, "--yes").status == 0
        self.join()

    def join(self) -> ShareConsumer:
        member = ShareConsumer(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": self.name, "log_level": 0}
        )
        self.members.append(member)
        member.subscribe(self.topics)

        def joined() -> bool:
            self.seen += [(record.topic(), record.offset()) for record in member.poll(0.2)]
            return self.state() == "Stable"

        clients.wait_for(joined, "the member")
        return member

    def state(self) -> str:
        rows = self.kgtool("list", "--match", self.name, "-o", "json").json["results"]
        return str(rows[0]["state"]) if rows else "Dead"

    def leave(self) -> None:
        while self.members:
            self.members.pop().close()
        clients.wait_for(lambda: self.state() in ("Empty", "Dead"), "the group to be empty")

    def starts(self) -> dict[tuple[str, int], int | None]:
        """By Kafka's own tool."""
        out = self.kafka.run_tool("kafka-share-groups", "--describe", "--group", self.name).stdout
        rows = [line.split() for line in out.splitlines() if line.startswith(self.name)]
        return {
            (row[1], int(row[2])): None if row[3] == "-" else int(row[3])
            for row in rows
            if len(row) >= 5
        }


@pytest.fixture
def share(kafka: Sandbox, kgtool: Kgtool, new_topic: Callable[..., str]) -> Iterator[Share]:
    topics = [new_topic(), new_topic()]
    for topic in topics:
        clients.produce(kafka.bootstrap, topic, 10)
    group = Share(kafka, kgtool, topics)

    def has_starts() -> bool:
        group.members[0].poll(0.2)
        rows = kgtool("describe", group.name, "-o", "json").json["results"]
        return [row["start_offset"] for row in rows] == [0, 0]

    clients.wait_for(has_starts, "the start offsets")
    yield group
    group.leave()


def results(result: Result, status: int = 0) -> list[dict[str, Any]]:
    assert result.status == status, result.err
    found: list[dict[str, Any]] = result.json["results"]
    return found


def test_reset_and_undo(kgtool: Kgtool, share: Share) -> None:
    one, two = share.topics
    goal = ("reset-offsets", share.name, "--topic", one, "--to-offset", "4", "--execute", "--yes")
    refused = kgtool(*goal)
    assert refused.status == 1
    assert "but the current state is Stable. It has 1 member: " in refused.err
    share.leave()
    before = share.starts()
    done = kgtool(*goal)
    assert (done.status, LOST_STATE in done.err) == (0, True), done.err
    assert "Start offsets to reset:" in done.err and "ommitted offset" not in done.err
    assert share.starts() == {**before, (one, 0): 4}
    assert kgtool("undo", "last", "--yes").status == 0
    assert share.starts() == before
    assert kgtool(*goal).status == 0
    share.seen = []
    member = share.join()

    def reads() -> bool:
        share.seen += [(record.topic(), record.offset()) for record in member.poll(0.5)]
        return any(topic == one for topic, _ in share.seen)

    clients.wait_for(reads, "records")
    assert min(offset for topic, offset in share.seen if topic == one) == 4
    share.leave()


def test_delete_offsets_by_topic(kgtool: Kgtool, share: Share) -> None:
    one, two = share.topics
    delete = ("delete-offsets", share.name, "--topic", one, "--yes", "-o", "json")
    (row,) = results(kgtool(*delete), status=1)
    assert (row["status"], row["error"]["name"]) == ("failed", "NON_EMPTY_GROUP")
    share.leave()
    (row,) = results(kgtool(*delete))
    assert (row["topic"], row["partition"], row["status"]) == (one, 0, "deleted")
    assert set(share.starts()) == {(two, 0)}
    (row,) = results(kgtool(*delete))
    assert row["status"] == "no-offset"
    undone = kgtool("undo", "last", "--yes")
    assert (undone.status, LOST_STATE in undone.err) == (0, True), undone.err
    assert share.starts() == {(one, 0): 0, (two, 0): 0}


def test_delete(kgtool: Kgtool, share: Share) -> None:
    (row,) = results(kgtool("delete", share.name, "--yes", "-o", "json"), status=1)
    assert row["error"]["name"] == "NON_EMPTY_GROUP"
    share.leave()
    foreseen = kgtool("delete", share.name, "--dry-run")
    assert f"these groups would be deleted: '{share.name}'" in foreseen.out
    assert LOST_STATE in foreseen.err
    done = kgtool("delete", share.name, "--yes")
    assert (done.status, LOST_STATE in done.err) == (0, True)
    assert (share.state(), share.starts()) == ("Dead", {})
    (newest, *_) = results(kgtool("history", "-o", "json"))
    assert (newest["command"], newest["changes"]) == ("delete", 2)
    undone = kgtool("undo", "last", "--yes")
    assert (undone.status, LOST_STATE in undone.err) == (0, True), undone.err
    assert share.starts() == dict.fromkeys([(topic, 0) for topic in share.topics], 0)


def test_backup_diff_and_restore(kgtool: Kgtool, share: Share, tmp_path: Path) -> None:
    one, two = share.topics
    file = str(tmp_path / "backup.jsonl")
    assert kgtool("backup", share.name, "--out", file).status == 0
    refused = kgtool("restore", file, "--group", share.name, "--yes")
    assert refused.status == 0, "all of it is as it was"
    share.leave()
    goal = ("--topic", one, "--to-latest", "--execute", "--yes")
    assert kgtool("reset-offsets", share.name, *goal).status == 0
    assert kgtool("delete-offsets", share.name, "--topic", two, "--yes").status == 0
    moved = kgtool("diff", file, "-o", "json")
    assert [(row["topic"], row["status"]) for row in results(moved, 5)] == sorted(
        [(one, "moved"), (two, "vanished")]
    )
    share.join()
    refused = kgtool("restore", file, "--yes")
    assert refused.status == 1
    assert "brokers set start offsets only while a share group is empty" in refused.err
    share.leave()
    assert kgtool("restore", file, "--yes").status == 0
    assert share.starts() == {(one, 0): 0, (two, 0): 0}
    assert kgtool("diff", file).status == 0
    copy = clients.unique("share-copy")
    renamed = kgtool("restore", file, "--map-group", f"{share.name}={copy}", "--yes")
    assert renamed.status == 0, renamed.err
    rows = results(kgtool("describe", copy, "-o", "json"))
    assert [(row["type"], row["start_offset"]) for row in rows] == [("share", 0)] * 2
    assert kgtool("delete", copy, "--yes").status == 0


def test_what_can_be_told_of_it(
    kafka: Sandbox, kgtool: Kgtool, share: Share, tmp_path: Path
) -> None:
    """``explain`` shows the start offsets; ``cleanup`` when it was last used."""
    share.leave()
    told = kgtool("explain", share.name, "-o", "json")
    (row,) = results(told)
    assert told.json["errors"] == [] == row["findings"]
    seen = {(one["topic"], one["partition"]): one["current_offset"] for one in row["offsets"]}
    assert seen == share.starts()
    assert {(one["rule"], one["expires_at_ms"]) for one in row["offsets"]} == {("share", None)}
    text = kgtool("explain", share.name)
    assert (text.status, "They do not expire" in text.out) == (0, True)
    plan = ("cleanup", "plan", "--group", share.name, "--idle", "1m")
    young = kgtool(*plan, "--out", str(tmp_path / "plan.json"))
    assert (young.status, (tmp_path / "plan.json").exists()) == (0, False)
    assert "nothing meets the conditions (1 used within 1m)" in young.err
