"""``doctor`` on real brokers: what it finds is what Kafka's own tools say."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec, ResourceType

from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from kgtool.sandbox.seeding import world
from kgtool.sandbox.seeding.seed import seed
from tests.broker.test_authorisation import USER, Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.broker.test_many_brokers import Three, paused, run
from tests.broker.test_many_brokers import settled as settled
from tests.cli.run import Result, call
from tests.cli.run import kgtool as separately
from tests.support import brokers, clients
from tests.support.doctor import rows_of
from tests.support.generations import GENERATIONS, Generation
from tests.support.outcomes import Outcome

TABLE = "kgtool while one of three brokers fails"


class Seeded(NamedTuple):
    """The seeded sandbox, and what ``doctor`` said of it before it was seeded."""

    cluster: Sandbox
    when_fresh: Result


@pytest.fixture(scope="module")
def seeded(warm: Callable[[Sandbox], Sandbox]) -> Seeded:
    root = Path(os.environ[brokers.VARIABLE])
    kept = root / "doctor-when-fresh.json"
    with locked(root / "doctor-seeded.lock", timeout=600.0):
        cluster = brokers.shared_broker("4.3.1", name="doctor")
        if not kept.exists():  # once: another worker of the tests finds it seeded
            fresh = separately("doctor", "-o", "json", "--bootstrap-server", cluster.bootstrap)
            seed(cluster)
            kept.write_text(json.dumps(fresh))
    return Seeded(warm(cluster), Result(*json.loads(kept.read_text())))


# ---------------------------------------------------------------------------------------------
# The seeded world, with Kafka's own tools as the judge


def test_a_fresh_broker_has_nothing_wrong(seeded: Seeded) -> None:
    status, out, err = seeded.when_fresh
    assert (status, err) == (0, "")
    assert seeded.when_fresh.json["results"] == seeded.when_fresh.json["errors"] == []
    assert '"cluster_id": null' not in out


Said = list[tuple[str, str, int, int, int]]


@pytest.fixture(scope="module")
def said(seeded: Seeded) -> Said:
    """Group, topic, partition, committed and end, from Kafka's ``--describe``."""
    shown = seeded.cluster.run_tool("kafka-consumer-groups", "--describe", "--all-groups")
    rows = []
    for line in shown.stdout.splitlines():
        words = line.rsplit(None, 8)
        if len(words) == 9 and words[3].isdecimal() and words[4].isdecimal():
            rows.append((words[0], words[1], int(words[2]), int(words[3]), int(words[4])))
    return rows


def starts(cluster: Sandbox, places: set[tuple[str, int]]) -> dict[tuple[str, int], int]:
    admin = clients.admin(cluster.bootstrap)
    asked = {TopicPartition(*place): OffsetSpec.earliest() for place in places}
    found = admin.list_offsets(asked)
    return {(p.topic, p.partition): f.result(timeout=30).offset for p, f in found.items()}


def test_the_seeded_world(seeded: Seeded, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "doctor", "-o", "json", "--bootstrap-server", seeded.cluster.bootstrap)
    assert (result.status, result.err) == (5, "")
    found: dict[str, set[tuple[Any, ...]]] = {}
    for row in rows_of(result):
        place = (row["group"], row["topic"], row["partition"])
        found.setdefault(row["finding"], set()).add(place)

    assert len(said) > 2400
    log_starts = starts(seeded.cluster, {(topic, number) for _, topic, number, _, _ in said})
    beyond = {(g, t, p) for g, t, p, offset, end in said if offset > end}
    before = {(g, t, p) for g, t, p, offset, _ in said if offset < log_starts[t, p]}
    assert beyond == {("stock-sync", "inventory", 0), ("stock-sync", "inventory", 1)}
    dropped = {(live.group, topic, None) for live in world.LIVE for topic in live.was_on}
    still = {(live.group, topic, None) for live in world.LIVE for topic in live.topics}
    assert found == {
        "beyond-end": beyond,
        "before-start": before,
        "ghost-topic": dropped - still,
        "piling-up": {(None, None, None)},
        "pending-transaction": {
            ("transfers", "transfers", 0),
            ("transfers-pending", "transfers", 1),
        },
    }


def test_the_evidence_is_kafkas(
    seeded: Seeded,
    said: Said,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    time.sleep(10)  # the least idle time that doctor suggests
    result = call(capsys, "doctor", "-o", "json", "--bootstrap-server", seeded.cluster.bootstrap)
    at = {(g, t, p): (offset, end) for g, t, p, offset, end in said}
    for row in rows_of(result):
        evidence, place = row["evidence"], (row["group"], row["topic"], row["partition"])
        if row["finding"] in ("beyond-end", "before-start"):
            assert (evidence["committed_offset"], evidence["log_end_offset"]) == at[place]
        elif row["finding"] == "ghost-topic":
            mine = [x for (g, t, _), x in at.items() if (g, t) == place[:2]]
            assert evidence["offsets"] == len(mine)
            assert evidence["lag"] == sum(end - offset for offset, end in mine)
        elif row["finding"] == "piling-up":
            names = {group for group, *_ in said if group.startswith("console-consumer-")}
            assert evidence == {
                "family": "console-consumer-*",
                "groups": len(names),
                "offsets": sum(group in names for group, *_ in said),
                "idle_groups": len(names),
            }
            # On the cluster that made the finding its command finds what it says.
            monkeypatch.chdir(tmp_path)
            plan = call(capsys, *shlex.split(row["fix"])[1:], "-o", "json")
            assert {item["group"] for item in plan.json["results"]} == names
        else:
            # Open since the world was seeded, and it may stay so for a day.
            assert evidence["transactional_id"] == "transfers-open"
            assert 0 <= evidence["open_ms"] < evidence["timeout_ms"] == 86_400_000
            listed = seeded.cluster.run_tool("kafka-transactions", "list")
            assert re.search(
                rf"^transfers-open\s+\d+\s+{evidence['producer_id']}\s+Ongoing",
                listed.stdout,
                re.MULTILINE,
            )


def test_the_page(seeded: Seeded, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--bootstrap-server", seeded.cluster.bootstrap)
    result = call(capsys, "doctor", *at)
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("PROBLEM beyond-end (2): ")
    assert lines[-1] == "Checked 219 groups on 1 broker: 2 problems, 4 warnings, 2 notes."
    heads = [line.split()[0] for line in lines if line[:1].isupper()][:-1]
    assert heads == ["PROBLEM", "WARNING", "WARNING", "WARNING", "NOTE"]
    # What the page says to type is what the rows say, however it is folded.
    typed = " ".join(line.strip().removesuffix("\\").strip() for line in lines)
    for row in call(capsys, "doctor", *at, "-o", "json").json["results"]:
        assert row["fix"] is None or row["fix"] in typed


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["--fail-on", "problem"], 5),
        (["--fail-on", "none"], 0),
        (["--ignore", "beyond-end", "--fail-on", "problem"], 0),
        (["--group", "transfers"], 0),
        (["--group", "transfers", "--fail-on", "note"], 5),
        (["--match", "stock*", "--match", "mirr*"], 5),
        (["--match", "mirr*"], 0),
    ],
)
def test_when_it_fails(
    seeded: Seeded, capsys: pytest.CaptureFixture[str], argv: list[str], status: int
) -> None:
    result = call(capsys, "doctor", *argv, "--bootstrap-server", seeded.cluster.bootstrap)
    assert (result.status, result.err) == (status, "")


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda generation: generation.label)
def test_every_generation(
    generation: Generation,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    at = generation.broker().bootstrap
    made = clients.create_topic(at, clients.unique("doctor"), 1)
    clients.produce(at, made, 10)
    group = clients.unique("beyond")
    clients.commit(at, group, {(made, 0): 99})
    result = call(capsys, "doctor", "--bootstrap-server", at, "-o", "json")
    assert (result.status, result.json["errors"]) == (5, [])
    rows = rows_of(result)
    old = {row["severity"] for row in rows if row["finding"] == "broker-old"}
    assert old == {"2.1.1": {"warning"}, "3.9.1-new": {"note"}}.get(generation.label, set())
    (mine,) = [row for row in rows if row["group"] == group]
    assert mine["finding"] == "beyond-end"
    assert call(capsys, *shlex.split(mine["fix"])[1:], "--yes").status == 0
    argv = ("doctor", "--group", group, "--bootstrap-server", at)
    assert call(capsys, *argv) == (0, "Checked 1 group: nothing found.\n", "")


# ---------------------------------------------------------------------------------------------
# What may not be seen, and who does not answer


def grant(guarded: tuple[Sandbox, str], row: dict[str, Any]) -> None:
    """Run a finding's kafka-acls.sh as an administrator, who comes in through another door."""
    program, *words = shlex.split(row["fix"])
    assert program == "kafka-acls.sh"
    assert words[:4] == ["--bootstrap-server", guarded[1], "--command-config", "ADMIN.properties"]
    done = guarded[0].run_tool("kafka-acls", *words[4:])
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_look_at_the_log(here: Guarded, guarded: tuple[Sandbox, str]) -> None:
    """As on managed clouds: ``__consumer_offsets`` and the brokers' configs may not be read."""
    group = here.group("DESCRIBE")
    result = here.run("doctor", "--group", group)
    assert (result.status, result.json["errors"]) == (0, [])
    denied = {row["evidence"]["resource"]: row for row in rows_of(result)}
    assert {(row["finding"], row["severity"]) for row in denied.values()} == {("denied", "note")}
    assert denied.keys() == {"__consumer_offsets", "kafka-cluster"}
    assert "expiring" in denied["__consumer_offsets"]["evidence"]["findings_missing"]
    assert "retention-short" in denied["kafka-cluster"]["evidence"]["findings_missing"]
    whole = rows_of(here.run("doctor"))
    hidden = [row for row in whole if row["evidence"].get("operation") == "DESCRIBE"]
    assert "cluster" in {row["evidence"]["resource_type"] for row in hidden}

    try:
        for row in denied.values():
            grant(guarded, row)
        # DESCRIBE comes with READ; nothing is left to be said.
        assert rows_of(here.run("doctor", "--group", group)) == []
    finally:
        here.forbid(ResourceType.TOPIC, "__consumer_offsets")
        here.forbid(ResourceType.BROKER, "kafka-cluster")


def test_groups_that_may_not_be_seen(here: Guarded, guarded: tuple[Sandbox, str]) -> None:
    """Named, it is an error and a finding; the other group is looked at all the same."""
    mine, other = here.group("DESCRIBE", offsets=False), here.group()
    clients.commit(here.bootstrap, mine, {(here.seen, 0): 99})
    result = here.run("doctor", "--group", mine, "--group", other)
    assert result.status == 5
    found = {(row["finding"], row["group"]): row for row in rows_of(result)}
    assert found["beyond-end", mine]["severity"] == "problem"
    denied = found["denied", other]
    assert denied["severity"] == "warning"
    assert f"--allow-principal User:{USER} --operation Describe --group" in denied["fix"]
    (error,) = result.json["errors"]
    assert (error["code"], error["target"]["group"]) == (30, other)
    assert here.run("doctor", "--group", mine, "--group", other, "--fail-on", "none").status == 3
    assert here.run("doctor", "--group", other, "--fail-on", "none").status == 1
    grant(guarded, denied)
    assert here.run("doctor", "--group", other).json["errors"] == []


def _left(three: Three) -> str:
    """Return a group beyond the end of its log; nothing else is wrong that was not made so.

    While it looks, followers hear that the commit is below the high watermark: only then does
    whoever takes over as coordinator know it.
    """
    group = clients.unique("left")
    clients.commit(three.bootstrap, group, {("bulk", 0): 99})
    well = run(three, "doctor", "--exclude", "left-*", "--ignore", "piling-up")
    found = {(row["finding"], row["topic"], row["partition"]) for row in well.document["results"]}
    segments = ("offsets-segments", "__consumer_offsets", None)  # a sandbox has small ones
    assert found == {segments, ("uncommitted", "bulk", 2)}, well
    assert well.document["errors"] == []
    return group


@pytest.mark.timed
@pytest.mark.starts_first
def test_one_of_three_is_killed(settled: Three, outcome: Outcome) -> None:
    group = _left(settled)
    victim = settled.cluster.nodes[1].id
    settled.cluster.kill(victim)
    with outcome(TABLE, "doctor", "kill -9") as cell:
        done = run(settled, "doctor", "--timeout", "20000")
        assert done.status == 5, done
        rows = done.document["results"]
        found = {(row["finding"], row["broker"], row["group"]) for row in rows}
        assert ("broker-down", victim, None) in found
        assert ("beyond-end", None, group) in found
        degraded = [
            r for r in done.document["results"] if r["finding"] == "offsets-under-replicated"
        ]
        assert all(row["evidence"]["not_in_sync"] == [victim] for row in degraded)
        assert degraded
        cell.says(f"found after {done.seconds:.0f} s")


@pytest.mark.timed
@pytest.mark.starts_first
def test_one_of_three_hangs(settled: Three, outcome: Outcome) -> None:
    """What waits for it must not take the time that the others' groups need."""
    group = _left(settled)
    with outcome(TABLE, "doctor", "SIGSTOP") as cell, paused(settled, 3):
        done = run(settled, "doctor", first=1)
        assert done.status == 5, done
        found = {(row["finding"], row["broker"], row["group"]) for row in done.document["results"]}
        assert {("broker-down", 3, None), ("beyond-end", None, group)} <= found
        assert done.seconds < 31
        cell.says(f"found after {done.seconds:.0f} s")


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, "doctor", "--bootstrap-server", "127.0.0.1:1", "-o", "json")
    assert result.status == 4
    assert result.json["results"] == []
    (error,) = result.json["errors"]
    assert error["name"] == "UNREACHABLE"
