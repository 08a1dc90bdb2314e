"""``cleanup``: find, plan, review, apply, undo, on a real broker; Kafka's own tool is the judge."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place

from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.config import settings
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from kgtool.sandbox.seeding import group_client
from tests.changes import world
from tests.changes.world import Run, seen
from tests.cli.pseudo import Terminal
from tests.support import clients

Tool = Callable[..., subprocess.CompletedProcess[str]]


def commit_all(
    bootstrap: str, groups: Sequence[str], topic: str, first: int = 0, *, again: bool = False
) -> None:
    """Give many groups offsets in one go: partition 0 and 1, with metadata and an epoch.

    The metadata ends with NUL, as librdkafka writes it, because its admin client reads on until
    there is one.

    :param again: they have the very same offsets already.
    """
    found = settings(bootstrap)
    assert found is not None
    offsets = {
        name: {
            TopicPartition(topic, 0): CommittedOffset(number % 7, 0, f"note {number}\0"),
            TopicPartition(topic, 1): CommittedOffset(number % 5, None, ""),
        }
        for number, name in enumerate(groups, first)
    }
    with Session(found) as session:
        writes = {
            group: {p: Write(value if again else None, value) for p, value in parts.items()}
            for group, parts in offsets.items()
        }
        written = write_offsets(session.cluster, writes, verify=False, refresh=again)
        outcomes = session.run(written)
    assert not [e for outcome in outcomes.values() for e in outcome.values() if e is not None]


class Scene:
    """A topic with 10 records in each of 2 partitions, a prefix, and a folder for plans."""

    def __init__(self, bootstrap: str, folder: Path, groups: int = 0) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.journal = folder / "journal"
        self.prefix = clients.unique("dead")
        self.topic = clients.create_topic(bootstrap, clients.unique("cleanup"), 2)
        for partition in range(2):
            clients.produce(bootstrap, self.topic, 10, partition=partition)
        self.groups = [f"{self.prefix}-{number:04}" for number in range(groups)]
        if groups:
            commit_all(bootstrap, self.groups, self.topic)
        self.plans = 0

    def run(self, *argv: str, **options: Any) -> Run:
        return world.kgtool(self.journal, "--bootstrap-server", self.bootstrap, *argv, **options)

    def plan(self, *criteria: str, match: str | None = None) -> Path:
        self.plans += 1
        path = self.folder / f"plan-{self.plans}.json"
        match = match or f"{self.prefix}-*"
        done = self.run("cleanup", "plan", "--match", match, *criteria, "--out", str(path))
        assert done.status == 0, done.err
        return path

    def apply(self, path: Path, *argv: str) -> Run:
        return self.run("cleanup", "apply", str(path), "--yes", "-o", "json", *argv)

    def undo(self) -> Run:
        return self.run("undo", "last", "--yes", "-o", "json")

    def living(self) -> set[str]:
        return {name for name in clients.group_ids(self.bootstrap) if self.prefix in name}

    def offsets(self) -> dict[str, Any]:
        return seen(self.bootstrap, *self.groups)

    def histories(self) -> list[dict[str, Any]]:
        return world.history(self.journal)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def statuses(run: Run) -> dict[str, str]:
    return {row["group"]: row["status"] for row in run.rows}


@pytest.fixture
def scene(bootstrap: str, tmp_path: Path) -> Callable[[int], Scene]:
    return lambda groups: Scene(bootstrap, tmp_path, groups)


# ---------------------------------------------------------------------------------------------
# The whole way


def test_two_hundred_of_three_hundred_there_and_back(
    scene: Callable[[int], Scene], kafka_tool: Tool
) -> None:
    here = scene(300)
    began_ms = now_ms()
    used, dead = here.groups[200:], here.groups[:200]
    for seconds in (2, 15, 60):
        time.sleep(seconds)
        again_ms = now_ms()
        commit_all(here.bootstrap, used, here.topic, 200, again=True)  # only the log tells
        idle_ms = now_ms() - began_ms
        path = here.plan("--idle", f"{idle_ms}ms", "--state", "Empty")
        plan = load(path)
        if plan["made_at_ms"] - again_ms < idle_ms:
            break  # else kgtool has looked so late that those were idle, too
    assert {item["group"] for item in plan["items"]} == set(dead)
    assert plan["summary"]["groups"] == 200 and plan["summary"]["offsets"] == 400

    def described() -> list[str]:
        """What Kafka's tool shows: by name, for --all-groups fails at a group that just went."""
        names = [word for group in here.groups for word in ("--group", group)]
        shown = kafka_tool("--describe", *names).stdout.splitlines()
        return sorted(line for line in shown if here.prefix in line)

    before, table = here.offsets(), described()
    assert len(table) == 600
    done = here.apply(path, "--reason", "dead")
    assert done.status == 0, done.err
    assert set(statuses(done).values()) == {"deleted"}
    assert here.living() == set(used)
    (entry,) = here.histories()
    assert (entry["command"], entry["groups"], entry["changes"]) == ("cleanup", 200, 400)
    again = here.apply(path)
    assert (again.status, set(statuses(again).values())) == (0, {"done-before"})
    undone = here.undo()
    assert undone.status == 0, undone.err
    assert here.offsets() == before
    assert described() == table


def test_what_an_undo_brought_back_is_not_done_before(scene: Callable[[int], Scene]) -> None:
    """Kind: an older run's word is taken for what the cluster has now.

    Siblings: deleted groups, deleted offsets, rebuilt groups; the same plan with other values.
    """
    here = scene(3)
    whole, single, rebuilt = here.groups
    path = here.plan()
    document = load(path)
    items = {item["group"]: item for item in document["items"]}
    items[single] |= {"action": "delete-offsets", "offsets": items[single]["offsets"][:1]}
    first, second = items[rebuilt]["offsets"]
    items[rebuilt] |= {"action": "rebuild-group", "offsets": [first], "keep": [second]}
    path.write_text(json.dumps(document))
    before = here.offsets()
    done = here.apply(path)
    assert statuses(done) == {whole: "deleted", single: "deleted", rebuilt: "rebuilt"}, done.err
    assert set(statuses(here.apply(path)).values()) == {"done-before"}
    assert here.undo().status == 0
    assert here.offsets() == before
    again = here.apply(path)
    assert again.status == 1, again.err
    assert set(statuses(again).values()) == {"skipped"}
    assert again.err.count("This plan deleted it before, and") == 3
    assert here.offsets() == before
    # The same places with other values are another item: it is looked at anew.
    items[single]["offsets"][0]["offset"] += 7
    path.write_text(json.dumps(document))
    other = here.apply(path)
    assert f"group {single}: Another client has committed since" in other.err
    assert here.offsets() == before


def test_what_a_plan_says(scene: Callable[[int], Scene]) -> None:
    here = scene(3)
    item = load(here.plan())["items"][1]
    group = here.groups[1]
    assert (item["action"], item["group"], item["type"]) == ("delete-group", group, "classic")
    assert (item["state"], item["lag"], item["why"]) == ("Empty", 18, ["no members"])
    assert abs(item["last_commit_ms"] / 1000 - time.time()) < 60
    assert item["expires_at_ms"] - item["last_commit_ms"] == 7 * 86_400_000
    first, second = item["offsets"]
    assert (first["offset"], first["metadata"], first["leader_epoch"]) == (1, "note 1\0", 0)
    assert (second["partition"], second["lag"], len(second["topic_id"])) == (1, 9, 22)
    rows = here.run("cleanup", "plan", "--group", group, "-o", "json").rows
    assert [(row["group"], row["offsets"], row["lag"]) for row in rows] == [(group, 2, 18)]


def test_criteria_narrow_each_other(scene: Callable[[int], Scene]) -> None:
    here = scene(2)
    commit_all(here.bootstrap, ["console-consumer-" + str(os.getpid())], here.topic)
    read = f"{here.prefix}-read"
    clients.commit(here.bootstrap, read, {(here.topic, 0): 10, (here.topic, 1): 10})

    def groups(*criteria: str, match: str = here.prefix + "-*") -> list[str]:
        plan = here.plan(*criteria, match=match)  # none is written where there is nothing to do
        return [item["group"] for item in load(plan)["items"]] if plan.exists() else []

    assert groups("--no-lag") == [read]
    assert groups("--no-lag", "--generated") == []
    assert groups("--generated", match="console-consumer-*") == [f"console-consumer-{os.getpid()}"]
    assert groups("--exclude", read) == here.groups
    assert groups("--state", "Stable") == []
    assert groups("--idle", "1d") == []


def test_times_out_of_an_analysis(scene: Callable[[int], Scene]) -> None:
    """For those who may not read __consumer_offsets; only where the very same offsets are there."""
    here = scene(5)
    old, young, other, visited, unknown = here.groups
    month_ago = int(time.time() * 1000) - 40 * 86_400_000
    rows = [
        {
            "group": group,
            "topic": here.topic,
            "partition": partition,
            "offset": offset,
            "commit_timestamp_ms": month_ago + (39 * 86_400_000 if group == young else 0),
            "state_since_ms": month_ago + (39 * 86_400_000 if group == visited else 0),
        }
        for group, offsets in ((old, (0, 0)), (young, (1, 1)), (other, (2, 1)), (visited, (3, 3)))
        for partition, offset in enumerate(offsets)
    ]
    table = here.folder / "live.ndjson"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = load(here.plan("--idle", "30d", "--times-from", str(table)))
    assert [item["group"] for item in plan["items"]] == [old]
    assert plan["items"][0]["last_commit_ms"] == month_ago
    assert {each["group"] for each in plan["left_out"]} == {other, unknown}
    wrong = here.run("cleanup", "plan", "--idle", "30d", "--times-from", str(here.folder))
    assert (wrong.status, "no table live" in wrong.err) == (2, True)


# ---------------------------------------------------------------------------------------------
# Whatever has changed is left alone


def test_what_changed_since_is_left_alone(scene: Callable[[int], Scene]) -> None:
    here = scene(8)
    plan = here.plan()
    joined, moved, same, more, gone, *rest = here.groups
    member = clients.join(here.bootstrap, joined, [here.topic], client_id="late")
    try:
        clients.commit(here.bootstrap, moved, {(here.topic, 0): 9})
        commit_all(here.bootstrap, [same], here.topic, 2, again=True)
        other = clients.create_topic(here.bootstrap, clients.unique("other"))
        clients.commit(here.bootstrap, more, {(other, 0): 0})
        assert here.run("delete", "--group", gone, "--yes").status == 0
        foreseen = here.apply(plan, "--dry-run")
        assert here.living() == {joined, moved, same, more, *rest}
        done = here.apply(plan)
    finally:
        member.close()
    said = "are saved in the journal first"
    assert said not in foreseen.err and said in done.err
    for run, word in ((foreseen, "would-delete"), (done, "deleted")):
        assert run.status == 3, run.err
        assert statuses(run) == {
            joined: "skipped",
            moved: "skipped",
            same: "skipped",
            more: "skipped",
            gone: "gone",
            **dict.fromkeys(rest, word),
        }
    reasons = {row["group"]: row["reason"] for row in done.rows}
    assert "late on /127.0.0.1" in reasons[joined]
    assert f"{here.topic}:0 was at 1 and is at 9 now" in reasons[moved]
    assert f"committed {here.topic}:0 since" in reasons[same]
    assert f"an offset on {other}:0 that the plan does not name" in reasons[more]
    assert here.living() == {joined, moved, same, more}
    assert len(done.json["errors"]) == 4


def test_another_topic_of_the_same_name(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    plan = here.plan()
    text = plan.read_text()
    (old,) = {each["topic_id"] for each in load(plan)["items"][0]["offsets"]}
    plan.write_text(text.replace(old, "AAAAAAAAAAAAAAAAAAAAAA"))
    done = here.apply(plan)
    assert statuses(done) == {here.groups[0]: "skipped"}
    assert done.status == 1
    assert "was re-created since" in done.rows[0]["reason"]


def test_a_consumer_that_starts_in_the_middle(scene: Callable[[int], Scene]) -> None:
    here = scene(20)
    plan = here.plan()
    same, late = here.groups[-2:]
    argv = [
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(plan),
        "--yes",
        "--rate",
        "1",
        "-o",
        "ndjson",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kgtool.cli", *argv],
        cwd=world.ROOT,
        text=True,
        env=world.environment(here.journal),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    clients.wait_for(lambda: here.groups[0] not in here.living(), "the first deletion")
    commit_all(here.bootstrap, [same], here.topic, 18, again=True)
    member = clients.join(here.bootstrap, late, [here.topic])
    try:
        out, err = process.communicate(timeout=120)
        rows = {row["group"]: row["status"] for row in map(json.loads, out.splitlines())}
        skipped = dict.fromkeys((same, late), "skipped")
        assert rows == {**dict.fromkeys(here.groups[:-2], "deleted"), **skipped}, err
        assert process.returncode == 3
        assert here.living() == {same, late}
        assert len(seen(here.bootstrap, late)[late]) == 2
    finally:
        member.close()


# ---------------------------------------------------------------------------------------------
# Offsets of living groups, and of topics that are gone


def test_ghosts_of_a_living_group(scene: Callable[[int], Scene]) -> None:
    here = scene(0)
    ghost = clients.create_topic(here.bootstrap, clients.unique("ghost"), 2)
    clients.produce(here.bootstrap, ghost, 5)
    group = f"{here.prefix}-living"
    member = clients.join(here.bootstrap, group, [here.topic], client_id="reader")
    try:
        parts = [Place(here.topic, 0, 3), Place(ghost, 0, 1), Place(ghost, 1, 0)]
        member.commit(offsets=parts, asynchronous=False)
        plan = here.plan("--unsubscribed")
        (item,) = load(plan)["items"]
        assert (item["action"], item["group"]) == ("delete-offsets", group)
        assert {(o["topic"], o["partition"]) for o in item["offsets"]} == {(ghost, 0), (ghost, 1)}
        assert item["why"] == [f"no member subscribes to {ghost}"]
        member.unsubscribe()
        member.subscribe([here.topic, ghost])
        clients.wait_for(
            lambda: member.poll(0.1) is None and len(member.assignment()) == 4, "the ghost"
        )
        held = here.apply(plan)
        assert statuses(held) == {group: "skipped"}
        assert "reader on /127.0.0.1" in held.json["errors"][0]["hint"]
        member.unsubscribe()
        member.subscribe([here.topic])
        clients.wait_for(
            lambda: member.poll(0.1) is None and len(member.assignment()) == 2, "the rest"
        )
        done = here.apply(plan)
        assert (done.status, statuses(done)) == (0, {group: "deleted"}), done.err
        assert set(seen(here.bootstrap, group)[group]) == {(here.topic, 0)}
    finally:
        member.close()
    assert here.undo().status == 0
    assert {(t, p): o for (t, p), (o, *_) in seen(here.bootstrap, group)[group].items()} == {
        (here.topic, 0): 3,
        (ghost, 0): 1,
        (ghost, 1): 0,
    }


def test_types_that_are_not_cleaned_up(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    connect = f"{here.prefix}-connect"
    with group_client.connect(here.bootstrap, connect, "worker") as socket:
        member = socket.join(connect, "connect", "default", b"")
        socket.sync(member, b"")
        socket.leave(member)
    assert load(here.plan())["summary"]["groups"] == 1
    named = here.run("cleanup", "plan", "--group", connect, "--group", "no-such", "-o", "json")
    assert named.rows == []
    assert [error["target"]["group"] for error in named.json["errors"]] == ["no-such"]
    assert "'connect' group" in named.err


def test_a_run_that_was_undone_is_no_way_back(scene: Callable[[int], Scene]) -> None:
    """Was: its journal is named as the way back after the undo as well."""
    here = scene(1)
    plan = here.plan()
    assert here.apply(plan).status == 0
    (entry,) = here.histories()
    way_back = f"Earlier runs of this plan are undone by kgtool undo {entry['id']}."
    assert way_back in here.apply(plan).err
    assert here.undo().status == 0
    again = here.apply(plan)
    assert (statuses(again), "Earlier" in again.err) == ({here.groups[0]: "skipped"}, False)
    (here.journal / f"{entry['id']}.jsonl").unlink()
    assert "Earlier" not in here.apply(plan).err


# ---------------------------------------------------------------------------------------------
# Limits, questions, mistakes


def test_max_delete_and_another_cluster_change_nothing(scene: Callable[[int], Scene]) -> None:
    here = scene(3)
    plan = here.plan()
    many = here.apply(plan, "--max-delete", "2")
    assert (many.status, many.rows) == (1, [])
    assert "--max-groups allows 2" in many.err
    assert here.apply(plan, "--max-delete", "2", "--dry-run").status == 1
    found = load(plan)
    other = plan.with_name("other.json")
    other.write_text(json.dumps({**found, "cluster_id": "another"}))
    wrong = here.apply(other)
    (error,) = wrong.json["errors"]
    assert (wrong.status, error["name"]) == (1, "OTHER_CLUSTER")
    assert error["hint"] == (
        "Check --bootstrap-server; kgtool cleanup plan makes a plan of this cluster."
    )
    assert here.living() == set(here.groups)
    assert here.histories() == []
    assert here.apply(plan, "--max-delete", "3").status == 0


@pytest.mark.parametrize("space", [0, 100, 900])
def test_a_full_disk_changes_nothing(scene: Callable[[int], Scene], space: int) -> None:
    """No room for the progress, for the journal's first line, or for all of what was there."""
    here = scene(4)
    plan = here.plan()

    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (space, space))

    argv = ("cleanup", "apply", str(plan), "--yes", "-o", "json")
    full = here.run(*argv, preexec_fn=no_space)
    assert (full.status, full.json["errors"][0]["name"]) == (1, "JOURNAL")
    assert here.living() == set(here.groups)
    assert here.histories() == []
    assert set(statuses(here.apply(plan)).values()) == {"deleted"}


def test_a_plan_that_was_edited(scene: Callable[[int], Scene]) -> None:
    here = scene(4)
    plan = here.plan()
    lines = plan.read_text().splitlines()
    kept = next(i for i, line in enumerate(lines) if here.groups[2] in line)
    lines[kept] = lines[kept].replace('"delete-group"', '"wait"')
    del lines[next(i for i, line in enumerate(lines) if here.groups[1] in line)]
    plan.write_text("\n".join(lines))
    assert statuses(here.apply(plan, "--dry-run"))[here.groups[2]] == "waiting"
    bad = plan.with_name("bad.json")
    bad.write_text(plan.read_text().replace('"delete-group"', '"remove"'))
    refused = here.apply(bad)
    assert refused.status == 2
    assert "bad.json, line 3 (item 1" in refused.err
    assert here.living() == set(here.groups)
    assert here.apply(plan).status == 0
    assert here.living() == {here.groups[1], here.groups[2]}


def test_mistakes_are_usage_errors(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    plan = here.plan()
    assert here.run("cleanup", "apply", str(plan)).status == 2  # no terminal, no --yes
    assert here.run("cleanup", "plan").status == 2
    assert here.run("cleanup", "plan", "--idle", "30").status == 2
    assert here.run("cleanup", "plan", "--regex", "(").status == 2
    again = here.run("cleanup", "plan", "--all-groups", "--idle", "1d", "--out", str(plan))
    assert (again.status, "exists" in again.err) == (2, True)
    assert here.living() == set(here.groups)


def test_a_group_that_does_not_exist_leaves_an_older_plan(scene: Callable[[int], Scene]) -> None:
    here = scene(1)
    plan = here.plan()
    before = plan.read_bytes()
    typo = here.run("cleanup", "plan", "--group", "no-such", "--out", str(plan), "--overwrite")
    assert (typo.status, plan.read_bytes()) == (1, before)
    assert "Wrote" not in typo.err
    nothing = here.run("cleanup", "plan", "--match", "no-such", "--out", str(plan), "--overwrite")
    assert (nothing.status, plan.exists()) == (0, False)
    assert "No plan was written" in nothing.err


def test_a_canary_asks_and_a_used_group_is_typed(scene: Callable[[int], Scene]) -> None:
    here = scene(5)
    plan = here.plan()
    argv = [
        sys.executable,
        "-m",
        "kgtool.cli",
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(plan),
        "--canary",
        "2",
    ]
    env = {"KGTOOL_JOURNAL_DIR": str(here.journal)}
    with Terminal(argv, columns=120, env=env) as terminal:
        shown = terminal.read_until(r"\[y/N\]: ")
        assert "5 groups, 10 offsets, lag" in shown and "latest commit" in shown
        terminal.type("y\n")
        asked = terminal.read_until(r"Type (the latest, .*|its name to confirm): ")
        named = next(group for group in here.groups if group in asked)
        terminal.type(f"{named}\n")
        terminal.read_until(r"Canary: 2 groups done.*\n")
        assert here.living() == set(here.groups[2:])
        terminal.read_until(r"\[y/N\]: ")
        terminal.type("n\n")
        assert terminal.read_all() == 3
    assert here.living() == set(here.groups[2:])
    with Terminal(argv, columns=120, env=env) as terminal:
        terminal.read_until(r"\[y/N\]: ")
        terminal.type("y\n")
        terminal.read_until(r"Type (the latest, .*|its name to confirm): ")
        terminal.type("something\n")
        assert terminal.read_all() == 1
    assert here.living() == set(here.groups[2:])
    done = here.apply(plan, "--canary", "1")
    assert (done.status, here.living()) == (0, set())


def test_a_group_whose_last_use_the_plan_does_not_know_is_typed_too(
    scene: Callable[[int], Scene],
) -> None:
    here = scene(1)
    plan = here.plan()
    text = re.sub(r'("last_(?:commit|change)_ms": ?)\d+', r"\1null", plan.read_text())
    assert text != plan.read_text()
    plan.write_text(text)
    argv = [
        sys.executable,
        "-m",
        "kgtool.cli",
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(plan),
    ]
    with Terminal(argv, columns=120, env={"KGTOOL_JOURNAL_DIR": str(here.journal)}) as terminal:
        terminal.read_until(r"\[y/N\]: ")
        terminal.type("y\n")
        asked = terminal.read_until(r"Type (the latest, .*|its name to confirm): ")
        assert f"When {here.groups[0]} last committed is unknown" in asked
        terminal.type("something\n")
        assert terminal.read_all() == 1
    assert here.living() == set(here.groups)


def test_a_terminal_sees_how_far_it_is(scene: Callable[[int], Scene]) -> None:
    here = scene(9)
    argv = [
        sys.executable,
        "-m",
        "kgtool.cli",
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(here.plan()),
        "--yes",
        "--rate",
        "4",
    ]
    with Terminal(argv, columns=100, env={"KGTOOL_JOURNAL_DIR": str(here.journal)}) as terminal:
        assert terminal.read_all() == 0
        assert re.search(r"4 of 9 groups, \d+(\.\d)?/s, about \d+s left", terminal.output)
        assert not any(" of 9 groups" in line for line in terminal.screen)
        assert "9 deleted." in terminal.screen


# ---------------------------------------------------------------------------------------------
# Interrupted in the middle, and taken up again


def start(here: Scene, plan: Path, *argv: str) -> subprocess.Popen[str]:
    words = ["--bootstrap-server", here.bootstrap, "cleanup", "apply", str(plan), "--yes", *argv]
    return subprocess.Popen(
        [sys.executable, "-m", "kgtool.cli", *words],
        cwd=world.ROOT,
        text=True,
        env=world.environment(here.journal),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle(
    scene: Callable[[int], Scene], number: signal.Signals, status: int
) -> None:
    here = scene(40)
    before = here.offsets()
    plan = here.plan()
    # One a second: whatever comes until the signal comes in the middle.
    process = start(here, plan, "--rate", "1", "-o", "json")
    clients.wait_for(lambda: len(here.living()) < 39, "the second deletion")
    busy = here.apply(plan)
    assert (busy.status, busy.json["errors"][0]["name"]) == (1, "LOCKED")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert "Run the same command to finish the rest." in err
    done = json.loads(out)["results"]
    assert {row["status"] for row in done} == {"deleted"} and 0 < len(done) < 40
    left = here.living()
    assert left
    back = min(set(here.groups) - left)
    clients.commit(here.bootstrap, back, {(here.topic, 0): 5})  # whoever comes back is left alone
    rest = here.apply(plan)
    assert rest.status == 3
    found = statuses(rest)
    assert found.pop(back) == "skipped"
    assert set(found.values()) == {"deleted", "done-before"}
    # One that was under way when the signal came is gone, and the second run finds it so.
    deleted = {group for group, said in found.items() if said == "deleted"}
    assert left <= deleted <= set(here.groups) - {row["group"] for row in done}
    assert here.living() == {back}
    assert [entry["state"] for entry in here.histories()] == ["done", "interrupted"]
    assert here.run("delete", "--group", back, "--yes").status == 0
    ids = [entry["id"] for entry in here.histories()[1:]]
    for journal in ids:
        undone = here.run("undo", journal, "--yes", "-o", "json")
        assert undone.status == 0, undone.err
    assert here.offsets() == before


@pytest.fixture(scope="module")
def places(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A dozen steps of an apply, as names that every run has."""
    here = Scene(bootstrap, tmp_path_factory.mktemp("steps"), 12)
    plan = here.plan()
    argv = ["--bootstrap-server", bootstrap, "cleanup", "apply", str(plan), "--yes"]
    steps = world.steps(here.journal, [*argv, "--rate", "100", "--canary", "4"])
    # Before the first fsync nothing can have happened: half of the kills would be wasted there.
    first = steps.index("before fsync")
    # And runs differ by up to a fifth: how many groups go at once is a matter of time.
    length = len(steps) * 4 // 5 - first
    yield [*(str(first + length * n // 10 + 1) for n in range(11)), "write end/1"]


@pytest.mark.parametrize("number", range(12))
def test_killed_anywhere(scene: Callable[[int], Scene], places: list[str], number: int) -> None:
    """kill -9 at a step, and the same command again: each group goes once, and all come back."""
    here = scene(12)
    before = here.offsets()
    plan = here.plan()
    argv = [
        "--bootstrap-server",
        here.bootstrap,
        "cleanup",
        "apply",
        str(plan),
        "--yes",
        "--rate",
        "100",
        "--canary",
        "4",
    ]
    killed = world.crash(here.journal, places[number], argv)
    assert killed.status == -9, killed.err
    gone = set(here.groups) - here.living()
    rest = here.apply(plan)
    assert rest.status == 0, rest.err
    found = statuses(rest)
    assert set(found) == set(here.groups)
    assert set(found.values()) <= {"deleted", "done-before"}
    assert here.living() == set()
    # What the journals were going to delete is all there was, and nothing twice.
    journals = [entry for entry in here.histories() if entry["command"] == "cleanup"]
    recorded = [group for entry in journals for group in _recorded(here, entry["id"])]
    twice = {group for group in recorded if recorded.count(group) > 1}
    assert set(recorded) == set(here.groups) and not twice & gone
    for entry in journals:
        undone = here.run("undo", entry["id"], "--yes", "-o", "json")
        assert undone.status == 0, undone.err
    assert here.offsets() == before


def _recorded(here: Scene, journal: str) -> list[str]:
    lines = (here.journal / f"{journal}.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines if line.endswith("}")]
    return [record["group"] for record in records if record["kind"] == "group"]
