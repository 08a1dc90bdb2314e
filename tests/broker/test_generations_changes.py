"""undo and keep on brokers that lack something: no OffsetDelete, no word of transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.broker.test_generations import TABLE, rows
from tests.broker.test_generations import here as here
from tests.broker.test_generations import kgtool as kgtool
from tests.support import clients
from tests.support.generations import World
from tests.support.outcomes import Outcome


def test_undo_of_offsets_that_a_reset_made(here: World, kgtool: Any, outcome: Outcome) -> None:
    """Was, before 2.4: the dry run says would-delete, and the undo then fails."""
    group, topic = clients.unique("made"), here.topic
    clients.commit(here.bootstrap, group, {(topic, 0): 4})
    argv = ["reset-offsets", "--group", group, "--topic", topic, "--to-earliest"]
    assert kgtool(*argv, "--execute", "--yes").status == 0
    with outcome(TABLE, "undo of new offsets", here.generation.label) as cell:
        dry = kgtool("undo", "last", "--dry-run")
        undone = kgtool("undo", "last", "--yes")
        left = clients.committed(here.bootstrap, group)
        if here.generation.has_offset_delete:
            assert (dry.status, undone.status) == (0, 0)
            assert left == {(topic, 0): 4}
        else:
            cell.says("refused: needs 2.4")
            assert (dry.status, undone.status) == (3, 3)
            for done, first in ((dry, "would-restore"), (undone, "restored")):
                statuses = [row["status"] for row in rows(done)]
                assert statuses == [first, "failed", "failed"], done
                assert {error["name"] for error in done.json["errors"]} == {"UNSUPPORTED"}
                assert "deletes whole groups only" in done.json["errors"][0]["hint"]
            assert left == {(topic, 0): 4, (topic, 1): 0, (topic, 2): 0}


@pytest.mark.parametrize("is_raced", [False, True])
def test_undo_of_a_group_that_a_reset_made(here: World, kgtool: Any, is_raced: bool) -> None:
    """Was, before 2.4: nothing is undone; brokers delete no single offsets then, but groups."""
    group, topic = clients.unique("made"), here.topic
    argv = ["reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--create"]
    assert kgtool(*argv, "--execute", "--yes").status == 0
    theirs = {(here.other, 0): 0} if is_raced else {}
    if is_raced:
        clients.commit(here.bootstrap, group, theirs)
    assert kgtool("undo", "last", "--dry-run").status == 0
    undone = kgtool("undo", "last", "--yes")
    left = clients.committed(here.bootstrap, group)
    if is_raced and not here.generation.has_offset_delete:
        assert {row["status"] for row in rows(undone)} == {"changed-meanwhile"}
        assert (undone.status, len(left)) == (1, 4), "nothing of somebody else's goes"
        return
    assert {row["status"] for row in rows(undone)} == {"deleted"}
    assert (undone.status, left) == (0, theirs)
    assert (group in clients.group_ids(here.bootstrap)) == is_raced
    if not is_raced:
        again = kgtool("undo", kgtool("history", "-o", "json").json["results"][0]["id"], "--yes")
        assert (again.status, len(clients.committed(here.bootstrap, group))) == (0, 3)


def pending(here: World, group: str, offset: int) -> Producer:
    """A producer whose transaction is about to commit an offset of partition 0."""
    producer = Producer(
        {
            "bootstrap.servers": here.bootstrap,
            "transactional.id": clients.unique("tid"),
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(here.bootstrap, group)
    at = [TopicPartition(here.topic, 0, offset)]
    producer.send_offsets_to_transaction(at, reader.consumer_group_metadata(), 30)
    reader.close()
    return producer


def test_changes_of_offsets_are_refused_while_a_transaction_is_pending(
    here: World, kgtool: Any, outcome: Outcome, tmp_path: Path
) -> None:
    """Was, before 2.5: all of them done, and what the transaction committed was lost."""
    group, fresh, sole = (clients.unique(name) for name in ("held", "fresh", "sole"))
    topic = here.topic
    clients.commit(here.bootstrap, group, {(topic, 0): 1, (topic, 1): 1})
    clients.commit(here.bootstrap, fresh, {(here.other, 0): 0})
    clients.commit(here.bootstrap, sole, {(topic, 0): 1})
    saved = str(tmp_path / "backup.json")
    assert kgtool("backup", group, "--out", saved).status == 0
    reset = ("reset-offsets", "--group", group, "--topic", f"{topic}:0,1", "--shift-by")
    assert kgtool(*reset, "1", "--execute", "--yes").status == 0
    producers = [pending(here, name, 4) for name in (group, fresh, sole)]
    with outcome(TABLE, "changes, transaction pending", here.generation.label) as cell:
        deleted = kgtool("delete", "--group", group, "--group", fresh, "--yes")
        done = [
            kgtool(*reset, "-1", "--dry-run"),
            kgtool("undo", "last", "--dry-run"),
            kgtool("restore", saved, "--dry-run"),
        ]
        if here.generation.has_offset_delete:
            done.append(
                kgtool("delete-offsets", "--group", group, "--topic", f"{topic}:0,1", "--dry-run")
            )
        (explained,) = rows(kgtool("explain", sole))
        for producer in producers:
            producer.commit_transaction(30)
        clients.wait_for(
            lambda: clients.committed(here.bootstrap, group).get((topic, 0)) == 4,
            "the transaction's commit",
            10,
        )
        assert {error["name"] for error in deleted.json["errors"]} == {"UNSTABLE_OFFSET_COMMIT"}
        assert (deleted.status, len(deleted.json["errors"])) == (1, 2)
        assert explained["actions"]["delete"]["error"]["name"] == "UNSTABLE_OFFSET_COMMIT"
        assert explained["next"] == [f"kgtool describe --group {explained['group']}"], explained
        for result in done:
            found = {row["partition"]: row["status"] for row in rows(result)}
            assert (found[0], result.status) == ("failed", 3), result
            assert found[1].startswith("would-"), result
            assert "transaction is about to change" in result.json["errors"][0]["message"]
        cell.says("refused")


def test_a_first_commit_that_is_pending_is_described(here: World, kgtool: Any) -> None:
    """Was, from 2.5 to 2.8: the group has no committed offsets."""
    group = clients.unique("first")
    producer = pending(here, group, 4)
    found = rows(kgtool("describe", "--group", group))
    producer.abort_transaction(30)
    said = [(row["partition"], row["status"]) for row in found]
    assert said == ([(0, "pending-transaction")] if here.generation.tells_pending else [])


def test_what_a_transaction_is_about_to_change_is_left_alone(
    here: World, kgtool: Any, outcome: Outcome, tmp_path: Path
) -> None:
    """Was, before 4.0: kept, and what the transaction committed was lost.

    A coordinator drops the commit of a transaction where there is a newer one by then, or no group
    any more: a plan deleted such a group before 2.5.
    """
    group, topic = clients.unique("keep"), here.topic
    clients.commit(here.bootstrap, group, {(topic, 0): 1, (topic, 1): 1})
    idle = ("--group", group, "--idle", "1ms", "--out")
    older, newer = str(tmp_path / "older.json"), str(tmp_path / "newer.json")
    assert len(rows(kgtool("cleanup", "plan", *idle, older))) == 1
    producer = pending(here, group, 4)
    with outcome(TABLE, "keep, transaction pending", here.generation.label) as cell:
        applied = kgtool("cleanup", "apply", older, "--yes")
        kept = kgtool("keep", group, "--yes")
        plan = kgtool("cleanup", "plan", *idle, newer)
        producer.commit_transaction(30)
        clients.wait_for(
            lambda: clients.committed(here.bootstrap, group) == {(topic, 0): 4, (topic, 1): 1},
            "the transaction's commit",
            10,
        )
        first, second = rows(kept)
        cell.says(first["status"])
        assert "deleted" not in {row["status"] for row in rows(applied)}, applied
        assert applied.status in (1, 3)
        assert (rows(plan), "a transaction is about to change" in plan.err) == ([], True), plan
        assert second["status"] == "kept"
        assert (first["status"], kept.status) in (("failed", 3), ("not-needed", 0))
        if kept.status:
            assert "A transaction is about to change this offset" in first["error"]["message"]
