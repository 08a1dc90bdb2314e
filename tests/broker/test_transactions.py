"""Transactions that are about to change offsets: shown, and not raced with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition

from kgtool.errors import TimedOut
from kgtool.queries.cluster import pending as cluster_pending
from tests.cli.run import Result, call
from tests.support import clients
from tests.support.outcomes import Outcome

TABLE = "kgtool while a transaction is pending"


class Open(NamedTuple):
    """Two groups with a pending commit of 7: of one it is the first."""

    topic: str
    known: str
    fresh: str
    producer: Producer
    run: Callable[..., Result]

    @property
    def named(self) -> list[str]:
        return ["--group", self.known, "--group", self.fresh]


@pytest.fixture
def pending(
    bootstrap: str,
    new_topic: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Open]:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    topic = new_topic(partitions=2)
    clients.produce(bootstrap, topic, 10)
    known, fresh = clients.unique("known"), clients.unique("fresh")
    clients.commit(bootstrap, known, {(topic, 0): 3, (topic, 1): 0})
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": clients.unique("tid"), "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for group in (known, fresh):
        reader = clients.consumer(bootstrap, group)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, 7)], reader.consumer_group_metadata(), 30
        )
        reader.close()

    def run(*argv: str) -> Result:
        return call(capsys, *argv, "--bootstrap-server", bootstrap, "-o", "json")

    made = Open(topic, known, fresh, producer, run)
    clients.wait_for(lambda: _status(made)[fresh, 0] == "pending-transaction", "both commits")
    yield made
    producer.abort_transaction(30)


def only(errors: list[Any]) -> Any:
    (error,) = errors
    return error


def _status(here: Open) -> Any:
    rows = here.run("describe", *here.named).json["results"]
    found: dict[tuple[str, int], str] = {(here.fresh, 0): ""}
    found.update({(row["group"], row["partition"]): row["status"] for row in rows})
    return found


def test_it_is_shown_also_where_it_is_the_first_commit(pending: Open, outcome: Outcome) -> None:
    with outcome(TABLE, "describe", "outcome") as cell:
        result = pending.run("describe", *pending.named)
        rows = {(row["group"], row["partition"]): row for row in result.json["results"]}
        assert {at: (row["current_offset"], row["status"]) for at, row in rows.items()} == {
            (pending.known, 0): (3, "pending-transaction"),
            (pending.known, 1): (0, "ok"),
            (pending.fresh, 0): (None, "pending-transaction"),
        }
        cell.says("shown, with the old value")


def test_groups_are_not_deleted(pending: Open, bootstrap: str, outcome: Outcome) -> None:
    with outcome(TABLE, "delete", "outcome") as cell:
        result = pending.run("delete", *pending.named, "--yes")
        assert result.status == 1
        assert {error["name"] for error in result.json["errors"]} == {"UNSTABLE_OFFSET_COMMIT"}
        assert all("--force" in error["hint"] for error in result.json["errors"])
        assert {pending.known, pending.fresh} <= clients.group_ids(bootstrap)
        forced = pending.run("delete", *pending.named, "--yes", "--force")
        assert forced.status == 0, forced
        assert not {pending.known, pending.fresh} & clients.group_ids(bootstrap)
        cell.says("refused; done with --force")


def test_explain_says_of_both_that_they_are_refused(pending: Open) -> None:
    rows = pending.run("explain", *pending.named).json["results"]
    assert len(rows) == 2
    for row in rows:
        for action in ("delete", "reset-offsets"):
            assert row["actions"][action]["error"]["name"] == "UNSTABLE_OFFSET_COMMIT", row
        assert not any("reset-offsets" in command for command in row["next"])


def test_a_large_cluster_is_asked_for_all_its_partitions(
    pending: Open, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_pending, "PARTITIONS_AT_ONCE", 1)
    result = pending.run("delete", "--group", pending.fresh, "--yes")
    assert only(result.json["errors"])["name"] == "UNSTABLE_OFFSET_COMMIT"
    assert pending.fresh in clients.group_ids(bootstrap)


def test_a_group_that_could_not_be_asked_is_not_deleted(
    pending: Open, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_cluster: Any, wanted: Any) -> Iterator[Any]:
        return dict.fromkeys(wanted, TimedOut("b1:9092 did not answer."))
        yield

    monkeypatch.setattr(cluster_pending, "fetch_selected", silent)
    result = pending.run("delete", "--group", pending.fresh, "--yes")
    error = only(result.json["errors"])
    assert (error["name"], "--force" in error["hint"]) == ("TIMEOUT", True)
    assert "is unknown: b1:9092 did not answer." in error["message"]
    assert pending.fresh in clients.group_ids(bootstrap)


def test_offsets_are_not_deleted(pending: Open, bootstrap: str, outcome: Outcome) -> None:
    with outcome(TABLE, "delete-offsets", "outcome") as cell:
        argv = ["delete-offsets", *pending.named, "--topic", pending.topic, "--yes"]
        result = pending.run(*argv)
        assert result.status == 3
        status = {(r["group"], r["partition"]): r["status"] for r in result.json["results"]}
        assert status == {
            (pending.known, 0): "failed",
            (pending.known, 1): "deleted",
            (pending.fresh, 0): "failed",
            (pending.fresh, 1): "no-offset",
        }
        assert clients.committed(bootstrap, pending.known) == {(pending.topic, 0): 3}
        forced = pending.run(*argv, "--force")
        assert forced.status == 0, forced
        assert clients.committed(bootstrap, pending.known) == {}
        cell.says("refused; done with --force")


def test_offsets_are_not_reset(pending: Open, bootstrap: str, outcome: Outcome) -> None:
    with outcome(TABLE, "reset-offsets", "outcome") as cell:
        argv = [
            "reset-offsets",
            "--group",
            pending.known,
            "--topic",
            f"{pending.topic}:0",
            "--to-offset",
            "5",
            "--execute",
            "--yes",
        ]
        result = pending.run(*argv)
        assert result.status == 1
        assert clients.committed(bootstrap, pending.known)[pending.topic, 0] == 3
        forced = pending.run(*argv, "--force")
        assert forced.status == 0, forced
        assert clients.committed(bootstrap, pending.known)[pending.topic, 0] == 5
        cell.says("refused; done with --force")


def test_a_transaction_of_somebody_else_is_in_nobodys_way(pending: Open, bootstrap: str) -> None:
    other = clients.unique("other")
    clients.commit(bootstrap, other, {(pending.topic, 0): 1})
    result = pending.run("delete", "--group", other, "--yes")
    assert result.status == 0, result


def test_only_a_marker_is_left_to_read(
    bootstrap: str, new_topic: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stands for: a lag without a record. Siblings: --time-lag, peek, JSON, a record after it."""
    topic, group = new_topic(partitions=1), clients.unique("marker")
    name = clients.unique("tid")
    config = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.commit_transaction(30)
    clients.commit(bootstrap, group, {(topic, 0): 1})

    def run(*argv: str) -> Result:
        return call(capsys, *argv, group, "--bootstrap-server", bootstrap)

    def row() -> tuple[Any, ...]:
        (found,) = run("describe", "--time-lag", "-o", "json").json["results"]
        return found["lag"], found["readable"], found["lag_ms"] is not None

    clients.wait_for(lambda: row() == (1, 0, False), "the marker")
    shown = run("describe", "--time-lag")
    assert "READABLE" in shown.out
    assert f"Only transaction markers are left to read in {topic}:0." in shown.err
    assert "no record to read (1 offset: only transaction markers" in run("peek").out
    clients.produce(bootstrap, topic, 1)
    clients.wait_for(lambda: row() == (2, 2, True), "the record")
    assert "2 offsets left to read" in run("peek").out
