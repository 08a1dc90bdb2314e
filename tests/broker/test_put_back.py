"""``undo`` and ``restore`` where the world has moved, and topics that are re-created meanwhile."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from kgtool.changes.reset.plan import plan_resets
from kgtool.changes.reset.targets import ResetRequest, Strategy
from kgtool.cli.change import confirm
from kgtool.config import settings
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.api import offset_fetch
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.broker.test_commits_in_doubt import (
    NEW,
    OFFSET_FETCH,
    OLD,
    DoubtfulCommit,
    doubtful,
    proxied,
)
from tests.changes.world import commit, seen
from tests.support import clients
from tests.support.changing import execute_resets
from tests.support.outcomes import Outcome
from tests.support.proxy import Fault, Plan
from tests.support.rewriting import rewriting

__all__ = ["proxied", "doubtful"]

LIST_OFFSETS, OFFSET_DELETE = 2, 47
EPOCH = 7


@pytest.fixture
def topic(cluster: Sandbox) -> str:
    return filled(cluster.bootstrap, clients.unique("put-back"))


def filled(bootstrap: str, name: str, records: int = 20) -> str:
    clients.create_topic(bootstrap, name)
    clients.produce(bootstrap, name, records)
    return name


def recreate(bootstrap: str, name: str, records: int = 20) -> None:
    clients.delete_topics(bootstrap, name)
    client = clients.admin(bootstrap)

    def is_gone() -> bool:
        return name not in client.list_topics(timeout=5).topics

    clients.wait_for(is_gone, f"{name} to go")
    clients.wait_for(lambda: _again(bootstrap, name), f"{name} to come back")
    clients.produce(bootstrap, name, records)


def _again(bootstrap: str, name: str) -> bool:
    try:
        return bool(clients.create_topic(bootstrap, name))
    except KafkaException:  # it is still being deleted
        return False


# ---------------------------------------------------------------------------------------------
# Leader epochs


def backup(kgtool: Kgtool, group: str, folder: Path) -> Path:
    path = folder / "backup.json"
    assert kgtool("backup", "--group", group, "--out", str(path)).status == 0
    return path


class TestLeaderEpochs:
    """A client that finds another topic's epoch waits for a leader that never comes."""

    def test_of_a_mapped_topic(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group, other = clients.unique("group"), filled(cluster.bootstrap, clients.unique("other"))
        commit(cluster.bootstrap, group, {(topic, 0): OLD}, "m", EPOCH)
        path = backup(kgtool, group, tmp_path)
        done = kgtool("restore", str(path), "--map-topic", f"{topic}={other}", "--yes")
        assert done.status == 0, done.err
        assert seen(cluster.bootstrap, group)[group] == {
            (topic, 0): (OLD, "m", EPOCH),
            (other, 0): (OLD, "m", None),
        }

    def test_of_another_cluster(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group = clients.unique("group")
        commit(cluster.bootstrap, group, {(topic, 0): OLD}, "m", EPOCH)
        path = backup(kgtool, group, tmp_path)
        commit(cluster.bootstrap, group, {(topic, 0): NEW}, "m", 0)
        done = kgtool("restore", str(path), "--other-cluster", "--yes")
        assert done.status == 0, done.err
        assert seen(cluster.bootstrap, group)[group] == {(topic, 0): (OLD, "m", None)}

    def test_of_a_topic_that_was_re_created(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group = clients.unique("group")
        commit(cluster.bootstrap, group, {(topic, 0): OLD}, "m", EPOCH)
        path = backup(kgtool, group, tmp_path)
        recreate(cluster.bootstrap, topic)
        refused = kgtool("restore", str(path), "--yes", "-o", "json")
        assert refused.json["errors"][0]["name"] == "TOPIC_RECREATED"
        done = kgtool("restore", str(path), "--force", "--yes")
        assert done.status == 0, done.err
        assert seen(cluster.bootstrap, group)[group] == {(topic, 0): (OLD, "m", None)}

    def test_of_the_same_topic_stays(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group = clients.unique("group")
        commit(cluster.bootstrap, group, {(topic, 0): OLD}, "m", EPOCH)
        path = backup(kgtool, group, tmp_path)
        commit(cluster.bootstrap, group, {(topic, 0): NEW}, "m", 0)
        assert kgtool("restore", str(path), "--yes").status == 0
        assert seen(cluster.bootstrap, group)[group] == {(topic, 0): (OLD, "m", EPOCH)}


# ---------------------------------------------------------------------------------------------
# What changes between the look and the write


def test_all_or_nothing_looks_again_after_the_question(
    cluster: Sandbox, kgtool: Kgtool, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [clients.unique(name) for name in ("a", "b")]
    for group in groups:
        clients.commit(cluster.bootstrap, group, {(topic, 0): OLD})
    named = [word for group in groups for word in ("--group", group)]
    argv = ["reset-offsets", *named, "--topic", topic, "--to-offset", str(NEW), "--execute"]
    assert kgtool(*argv, "--yes").status == 0

    def meanwhile(_session: Any, _output: Any, change: Any, *_: Any, **__: Any) -> Any:
        clients.commit(cluster.bootstrap, groups[1], {(topic, 0): 17})
        return change

    monkeypatch.setattr(confirm, "ask", meanwhile)
    done = kgtool("undo", "last", "--all-or-nothing", "--yes", "-o", "json")
    assert done.status == 1, done.err
    assert {row["group"]: row["status"] for row in done.json["results"]} == {
        groups[0]: "skipped",
        groups[1]: "failed",
    }
    assert done.json["errors"][0]["name"] == "CHANGED_MEANWHILE"
    left = [clients.committed(cluster.bootstrap, group)[topic, 0] for group in groups]
    assert left == [NEW, 17]


@pytest.mark.parametrize("more", [[], ["--all-or-nothing"], ["--force"]])
def test_a_restore_leaves_what_is_committed_after_the_question(
    cluster: Sandbox,
    kgtool: Kgtool,
    topic: str,
    tmp_path: Path,
    more: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Was: overwritten, as a restore does not ask who has committed since the backup."""
    groups = [clients.unique(name) for name in ("a", "b")]
    for group in groups:
        clients.commit(cluster.bootstrap, group, {(topic, 0): OLD})
    named = [word for group in groups for word in ("--group", group)]
    path = tmp_path / "backup.json"
    assert kgtool("backup", *named, "--out", str(path)).status == 0
    for group in groups:
        clients.commit(cluster.bootstrap, group, {(topic, 0): NEW})

    def meanwhile(_session: Any, _output: Any, change: Any, *_: Any, **__: Any) -> Any:
        clients.commit(cluster.bootstrap, groups[1], {(topic, 0): 17})
        return change

    monkeypatch.setattr(confirm, "ask", meanwhile)
    done = kgtool("restore", str(path), "--yes", "-o", "json", *more)
    is_off = "--all-or-nothing" in more
    assert done.status == (1 if is_off else 3), done.err
    assert {row["group"]: row["status"] for row in done.json["results"]} == {
        groups[0]: "skipped" if is_off else "restored",
        groups[1]: "changed-meanwhile",
    }
    left = [clients.committed(cluster.bootstrap, group)[topic, 0] for group in groups]
    assert left == [NEW if is_off else OLD, 17]


def test_a_living_group_is_told_of_as_member(cluster: Sandbox, kgtool: Kgtool, topic: str) -> None:
    """The deletion was allowed, as the members do not subscribe to the topic; its undo is not."""
    group, other = clients.unique("living"), filled(cluster.bootstrap, clients.unique("other"))
    clients.commit(cluster.bootstrap, group, {(topic, 0): OLD})
    member = clients.join(cluster.bootstrap, group, [other])
    try:
        deleted = kgtool("delete-offsets", "--group", group, "--topic", f"{topic}:0", "--yes")
        assert deleted.status == 0, deleted.err
        refused = kgtool("undo", "last", "--yes")
        assert refused.status == 1
        assert "--wait-empty" in refused.err and "--as-member" in refused.err
        done = kgtool("undo", "last", "--as-member", "--yes")
        assert done.status == 0, done.err
        assert clients.committed(cluster.bootstrap, group) == {(topic, 0): OLD}
    finally:
        member.close()


def test_a_group_in_use_is_not_removed_by_undo(doubtful: DoubtfulCommit, outcome: Outcome) -> None:
    """Undo of a reset that made the group: another client has committed before it goes."""
    reset = ["reset-offsets", "--group", doubtful.name, "--topic", doubtful.topic, "--to-offset"]
    doubtful.quietly(*reset, str(NEW), "--create", "--execute", "--yes")
    other = filled(doubtful.bootstrap, clients.unique("other"))

    def meanwhile() -> None:
        clients.commit(doubtful.bootstrap, doubtful.name, {(other, 0): 3})

    doubtful._undo = lambda: ["undo", "last"]  # type: ignore[method-assign]
    # Its answer still says "no offsets": the commit comes just before the group would go.
    plan = Plan(
        *(
            Fault("watch", broker, api=OFFSET_FETCH, at=READ_BACK, hook=meanwhile)
            for broker in doubtful.brokers
        )
    )
    with outcome("What changes while undo works", "another client commits", "undo") as cell:
        done = doubtful.run("undo", plan)
        assert plan.struck == 1, done.text
        assert done.status == 0, done.text
        assert clients.committed(doubtful.bootstrap, doubtful.name) == {(other, 0): 3}, done.text
        cell.says("its offset stays, 0")
    journals = [p.read_text() for p in (doubtful.folder / "journal").glob("*.jsonl")]
    (undone,) = [text for text in journals if '"command": "undo"' in text or '"undo"' in text]
    assert doubtful.name in undone


READ_BACK = 3
"""OffsetFetch: the plan, the look under the lock, the look before the deletion, the read-back."""


def with_list_offsets_code(code: int) -> Callable[[bytes], bytes]:
    """Make a ListOffsets answer (v6+) for one partition say this code."""
    return lambda frame: frame[:-25] + struct.pack(">h", code) + frame[-23:]


@pytest.mark.parametrize("command", ["undo", "restore"])
def test_a_range_that_is_not_known_is_not_fine(doubtful: DoubtfulCommit, command: str) -> None:
    argv = getattr(doubtful, f"_{command}")()
    setattr(doubtful, f"_{command}", lambda: argv)

    def silent() -> Plan:
        rewrite = with_list_offsets_code(56)  # KAFKA_STORAGE_ERROR: asked again, for ever
        return Plan(
            *(
                Fault("rewrite", broker, api=LIST_OFFSETS, times=999, rewrite=rewrite)
                for broker in doubtful.brokers
            )
        )

    done = doubtful.run(command, silent(), 4000)
    assert (done.status, done.error) == (1, "RANGE_UNKNOWN"), done.text
    assert done.offset == OLD
    assert done.commits == 0
    argv.append("--force")
    forced = doubtful.run(command, silent(), 4000)
    assert (forced.status, forced.offset) == (0, NEW), forced.text


# ---------------------------------------------------------------------------------------------
# Topic ids


def test_a_topic_that_is_re_created_before_the_write(cluster: Sandbox, topic: str) -> None:
    """4.3.1 is asked and told by id; 3.9.1 has no such version, so Metadata is compared."""
    group = clients.unique("group")
    clients.commit(cluster.bootstrap, group, {(topic, 0): OLD})
    found = settings(cluster.bootstrap)
    assert found is not None
    with Session(found) as session:
        request = ResetRequest((group,), Strategy("to-offset", NEW), None, False, False)
        plan = session.run(plan_resets(session.cluster, request._replace(topics=_all(topic))))

        def before(rows: Sequence[object]) -> None:
            assert len(rows) == 1
            recreate(cluster.bootstrap, topic)
            # The broker has removed the offset with the topic; another client has it back.
            clients.commit(cluster.bootstrap, group, {(topic, 0): OLD})

        (done,) = session.run(execute_resets(session.cluster, plan, before_change=before))
    (row,) = done.rows
    assert row.error is not None
    assert (row.status, row.error.name) == ("failed", "TOPIC_RECREATED")
    assert clients.committed(cluster.bootstrap, group) == {(topic, 0): OLD}


def _all(topic: str) -> Any:
    from kgtool.model import TopicSpec

    return (TopicSpec(topic),)


def test_a_topic_that_is_re_created_between_look_and_write(
    doubtful: DoubtfulCommit, outcome: Outcome
) -> None:
    """Nothing that kgtool reads could show it: the broker itself refuses the old id."""

    def meanwhile() -> None:
        recreate(doubtful.bootstrap, doubtful.topic)
        doubtful.commit(OLD)

    # OffsetFetch: the plan, the look under the lock, the look before the commit.
    plan = Plan(
        *(
            Fault("watch", broker, api=OFFSET_FETCH, at=2, hook=meanwhile)
            for broker in doubtful.brokers
        )
    )
    table = "A topic that is re-created between look and write"
    with outcome(table, "re-created", "reset-offsets") as cell:
        done = doubtful.run("reset-offsets", plan)
        assert done.struck == 1, done.text
        assert done.offset == OLD, done.text
        assert (done.status, done.error) == (1, "TOPIC_RECREATED"), done.text
        assert done.commits == 1
        (line,) = done.journaled
        assert json.dumps(line["error"]).count("TOPIC_RECREATED") == 1
        cell.says(f"{done.offset} stays, {done.status}")


@pytest.mark.parametrize("code", [codes.NONE, codes.UNKNOWN_TOPIC_ID], ids=["none", "unknown"])
def test_what_is_not_found_by_the_topic_s_id_is_asked_by_name(
    doubtful: DoubtfulCommit, code: int
) -> None:
    """The coordinator does not know the topic yet, or has an offset of an earlier one."""

    def not_found(answer: Any) -> Any:
        (group,) = answer.groups
        (topic,) = group.topics
        (row,) = topic.partitions
        missing = row.replace(offset=-1, metadata="", error_code=code)
        found = group.replace(topics=[topic.replace(partitions=[missing])])
        return answer.replace(groups=[found])

    # OffsetFetch: the plan, the look under the lock, the look before the commit.
    rewrite = rewriting(offset_fetch, not_found)
    done = doubtful.run(
        "reset-offsets", doubtful.fault("rewrite", None, api=OFFSET_FETCH, at=2, rewrite=rewrite)
    )
    assert done.struck == 1, done.text
    assert (done.offset, done.status, done.error) == (NEW, 0, None), done.text
    assert done.commits == 1
