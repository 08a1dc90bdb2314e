"""``retention`` on real brokers: longer ones outlive the broker's, shorter ones go, guards hold.

One broker keeps offsets for a minute only; what a cron job would do there for three of them is
played once. The rest is on the shared brokers, where a second is a shorter retention.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool import GroupAdmin
from kgtool.changes.journal.kept import Memory
from kgtool.changes.retention.look import look
from kgtool.cli.retention import look as retention_look
from kgtool.client.ops import Call
from kgtool.clock import now_ms
from kgtool.config import settings as settings_of
from kgtool.config.retention import RetentionRules, Rule
from kgtool.errors import KgError
from kgtool.model import CommittedOffset
from kgtool.model import TopicPartition as At
from kgtool.net.loop import Loop
from kgtool.net.session import Session
from kgtool.sandbox.cluster import Sandbox
from tests.broker import retention_story
from tests.broker.conftest import Kgtool
from tests.broker.live_world import RETENTION_MS
from tests.broker.retention_story import Story
from tests.cli.run import Result, command_line
from tests.support import brokers, clients
from tests.support.offsets import first_commits

Rules = Callable[..., str]


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    """Writes a file of rules: pairs of a pattern and a retention."""

    def write(*pairs: tuple[str, str]) -> str:
        path = tmp_path / "retention.toml"
        lines = (f'[[groups]]\nmatch = "{match}"\nretention = "{span}"\n' for match, span in pairs)
        path.write_text("\n".join(lines))
        return str(path)

    return write


@pytest.fixture
def topic(cluster: Sandbox) -> str:
    name = clients.create_topic(cluster.bootstrap, clients.unique("topic"), 2)
    clients.produce(cluster.bootstrap, name, 5)
    return name


def old(cluster: Sandbox, topic: str, name: str = "old") -> str:
    """A group without members that has committed more than a second ago."""
    group = clients.unique(name)
    clients.commit(cluster.bootstrap, group, {(topic, 0): 2, (topic, 1): 0}, metadata="note")
    time.sleep(1.2)
    return group


def told(result: Result) -> dict[tuple[str, int | None], tuple[str, str]]:
    return {
        (row["group"], row["partition"]): (row["action"], row["status"])
        for row in result.json["results"]
    }


# ---------------------------------------------------------------------------------------------
# Shorter


def test_a_shorter_one_goes_and_undo_brings_it_back(
    cluster: Sandbox, kgtool: Kgtool, topic: str, rules: Rules
) -> None:
    group = old(cluster, topic)
    file = rules((group, "1s"))
    shown = kgtool("retention", "show", file, "-o", "json")
    assert shown.status == 0, shown.err
    mine = [row for row in shown.json["results"] if row["group"] == group]
    assert {(row["rule"], row["retention_ms"]) for row in mine} == {(group, 1000)}
    assert {(row["action"], row["status"]) for row in mine} == {("delete-group", "due")}
    others = [row for row in shown.json["results"] if row["group"] != group]
    assert {(r["rule"], r["topic"], r["status"]) for r in others} <= {
        (None, None, "left-to-broker")
    }
    dry = kgtool("retention", "apply", file, "--dry-run", "-o", "json")
    assert told(dry) == {(group, p): ("delete-group", "would-delete") for p in (0, 1)}
    assert clients.committed(cluster.bootstrap, group)
    done = kgtool("retention", "apply", file, "--yes", "-o", "json")
    assert done.status == 0, done.err
    assert told(done) == {(group, p): ("delete-group", "deleted") for p in (0, 1)}
    assert group not in clients.group_ids(cluster.bootstrap)
    again = kgtool("retention", "apply", file, "--yes", "-o", "json")
    assert (again.status, again.json["results"]) == (0, []), again
    assert "Nothing is due." in again.err
    assert kgtool("undo", "last", "--yes").status == 0
    assert clients.committed(cluster.bootstrap, group) == {(topic, 0): 2, (topic, 1): 0}


def test_only_the_older_offset_goes_first(
    cluster: Sandbox, kgtool: Kgtool, topic: str, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = clients.unique("partly")
    clients.commit(cluster.bootstrap, group, {(topic, 0): 2})
    time.sleep(3.2)
    clients.commit(cluster.bootstrap, group, {(topic, 1): 1})
    file = rules((group, "3s"))
    with GroupAdmin(cluster.bootstrap) as admin:
        committed_ms = admin.expiry([group])[group][At(topic, 1)].committed_at_ms or 0
    with monkeypatch.context() as patch:  # however late it looks
        patch.setattr(retention_look, "now_ms", lambda: committed_ms + 1)
        done = kgtool("retention", "apply", file, "--yes", "-o", "json")
    assert told(done) == {(group, 0): ("delete-offsets", "deleted")}, done
    assert clients.committed(cluster.bootstrap, group) == {(topic, 1): 1}
    time.sleep(3.2)
    done = kgtool("retention", "apply", file, "--yes", "-o", "json")
    assert told(done) == {(group, 1): ("delete-group", "deleted")}, done
    assert group not in clients.group_ids(cluster.bootstrap)


def test_a_group_with_members_is_left_alone(
    cluster: Sandbox, kgtool: Kgtool, topic: str, rules: Rules
) -> None:
    group = old(cluster, topic)
    file = rules((group, "1s"))
    member = clients.join(cluster.bootstrap, group, [topic])
    try:
        shown = kgtool("retention", "show", file)
        (line,) = [line.split() for line in shown.out.splitlines() if line.startswith(group)]
        assert line == [group, group, "1s", "2", "has", "members"]
        done = kgtool("retention", "apply", file, "--yes", "-o", "json")
        assert (done.status, done.json["results"]) == (0, []), done
    finally:
        member.close()


# ---------------------------------------------------------------------------------------------
# Plans


def test_a_plan_is_reviewed_and_what_has_changed_is_left_alone(
    cluster: Sandbox, kgtool: Kgtool, topic: str, rules: Rules, tmp_path: Path
) -> None:
    used, unused = (old(cluster, topic, name) for name in ("used", "unused"))
    plan = tmp_path / "plan.json"
    made = kgtool("retention", "plan", rules((used, "1s"), (unused, "1s")), "--out", str(plan))
    assert made.status == 0 and "kgtool retention apply" in made.err, made.err
    clients.commit(cluster.bootstrap, used, {(topic, 0): 2})
    done = kgtool("retention", "apply", str(plan), "--yes", "-o", "json")
    assert done.status == 3, done
    assert told(done) == {
        **{(used, p): ("delete-group", "skipped") for p in (0, 1)},
        **{(unused, p): ("delete-group", "deleted") for p in (0, 1)},
    }
    assert {row["rule"] for row in done.json["results"]} == {used, unused}
    again = kgtool("retention", "apply", str(plan), "--yes", "-o", "json")
    assert told(again)[unused, 0] == ("delete-group", "done-before")


def test_cleanup_and_retention_do_not_take_each_other_s_plans(
    cluster: Sandbox, kgtool: Kgtool, topic: str, rules: Rules, tmp_path: Path
) -> None:
    group = old(cluster, topic)
    theirs, mine = tmp_path / "cleanup.json", tmp_path / "retention.json"
    argv = ["cleanup", "plan", "--group", group, "--idle", "1s", "--out", str(theirs)]
    assert kgtool(*argv).status == 0
    refused = kgtool("retention", "apply", str(theirs), "--yes")
    assert refused.status == 2 and "kgtool cleanup apply" in refused.err
    assert kgtool("retention", "plan", rules((group, "1s")), "--out", str(mine)).status == 0
    document = json.loads(mine.read_text())
    document["items"][0]["action"] = "keep"
    mine.write_text(json.dumps(document))
    refused = kgtool("cleanup", "apply", str(mine), "--yes")
    assert refused.status == 2 and "'keep'" in refused.err
    kept = kgtool("retention", "apply", str(mine), "--yes", "-o", "json")  # more than half is left
    assert told(kept) == {(group, p): ("keep", "not-needed") for p in (0, 1)}, kept


# ---------------------------------------------------------------------------------------------
# Refusals


def test_a_policy_refuses_it(
    cluster: Sandbox,
    kgtool: Kgtool,
    topic: str,
    rules: Rules,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = old(cluster, topic)
    file = rules((group, "1s"))
    policy = tmp_path / "policy.toml"
    monkeypatch.setenv("KGTOOL_POLICY", str(policy))
    for line, why in (
        (f'protected = ["{group}"]', "is protected"),
        ('min_idle = "1d"', "idle for 1d"),
        ("max_offsets = 1", "the limit is 1"),
        ("reason = true", "needs a reason"),
    ):
        policy.write_text(line)
        refused = kgtool("retention", "apply", file, "--yes")
        assert refused.status == 1 and why in refused.err, refused
        assert len(clients.committed(cluster.bootstrap, group)) == 2
    monkeypatch.delenv("KGTOOL_POLICY")
    refused = kgtool("retention", "apply", file, "--yes", "--max-groups", "0")
    assert refused.status == 1 and "--max-groups allows 0" in refused.err, refused


def test_a_bad_file_is_refused_before_anything_is_sent(kgtool: Kgtool, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[[groups]]\nmatch = "a"\nretention = "5 days"\n')
    for argv in (["show"], ["plan", "--out", str(tmp_path / "p")], ["apply", "--yes"]):
        refused = kgtool("retention", argv[0], str(bad), *argv[1:], "-b", "127.0.0.1:1")
        assert refused.status == 2 and "bad.toml, line 3" in refused.err, refused
        refused = kgtool("retention", argv[0], str(tmp_path / "none"), *argv[1:])
        assert refused.status == 2 and "No such file" in refused.err, refused


def test_rules_come_from_stdin(cluster: Sandbox) -> None:
    argv = command_line("retention", "show", "-", "-b", cluster.bootstrap)
    rule = '[[groups]]\nmatch = "no-such-group"\nretention = "never"\n'
    done = subprocess.run(argv, input=rule, text=True, capture_output=True)
    assert done.returncode == 0, done
    done = subprocess.run(argv, input="groups = 1\n", text=True, capture_output=True)
    assert done.returncode == 2 and "stdin, line 1" in done.stderr, done


def test_group_admin_has_the_same(
    cluster: Sandbox, topic: str, rules: Rules, tmp_path: Path
) -> None:
    group = old(cluster, topic)
    with GroupAdmin(cluster.bootstrap, journal=tmp_path / "journal") as admin:
        file = rules((group, "1s"))
        shown = [row for row in admin.retention_show(file) if row.group == group]
        assert {(row.action, row.status) for row in shown} == {("delete-group", "due")}
        dry = admin.retention_apply(file, dry_run=True)
        assert {row.status for row in dry} == {"would-delete"}
        with pytest.raises(KgError, match="--max-groups allows 0"):
            admin.retention_apply(file, max_groups=0)
        assert clients.committed(cluster.bootstrap, group)
        done = admin.retention_apply(file)
        assert {(row.rule, row.action, row.status) for row in done} == {
            (group, "delete-group", "deleted")
        }
        assert group not in clients.group_ids(cluster.bootstrap)
        assert admin.retention_apply(file) == []
        admin.undo()
    assert clients.committed(cluster.bootstrap, group) == {(topic, 0): 2, (topic, 1): 0}


# ---------------------------------------------------------------------------------------------
# Requests


@pytest.mark.parametrize("count", [500, 10_000])
def test_one_listing_and_one_look_whatever_the_number_of_groups(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request per group: those that are there for ten are the same, but for larger batches."""
    kafka = brokers.shared_broker("4.3.1", name="kafka-many")
    topic = clients.create_topic(kafka.bootstrap, clients.unique("many"), 2)
    prefix = clients.unique("many")
    found = settings_of(kafka.bootstrap, None, 300_000)
    assert found is not None
    names = [f"{prefix}-{number:05}" for number in range(count)]
    value = {At(topic, 0): CommittedOffset(1, None, "")}
    sent: Counter[str] = Counter()
    send = Loop._call

    def counted(loop: Loop, calls: list[Call], task: Any) -> None:
        sent.update(type(call.request).__module__.rsplit(".", 1)[1] for call in calls)
        send(loop, calls, task)

    def requests(glob: str, count: int) -> Counter[str]:
        with Session(found) as session:
            session.connect()
            sent.clear()
            before = session.loop.requests_sent
            file = RetentionRules("f", (Rule(1, (glob,), 30 * 86_400_000),))
            looked = session.run(look(session.cluster, file, now_ms(), lambda _: Memory({}, False)))
            mine = [one for one in looked.groups if one.matched is not None]
            assert len(mine) == count and all(len(one.rows) == 1 for one in mine)
            assert {row.status for one in mine for row in one.rows} == {"waiting"}
            assert sent.total() == session.loop.requests_sent - before
            return Counter(sent)

    with Session(found) as session:
        session.run(first_commits(session.cluster, dict.fromkeys(names, value)))
    monkeypatch.setattr(Loop, "_call", counted)
    few, many = requests(f"{prefix}-0000[0-9]", 10), requests(f"{prefix}-*", count)
    assert many["list_groups"] == few["list_groups"] == 1
    batches = many.pop("describe_groups") + many.pop("offset_fetch")
    assert batches <= 2 * (count // 200), batches
    assert many.total() < few.total() + 10, (few, many)


# ---------------------------------------------------------------------------------------------
# Longer: a minute's retention, and a cron job


@pytest.fixture(scope="module")
def story() -> Story:
    return retention_story.told()


def test_a_longer_one_outlives_the_broker_s(story: Story) -> None:
    values = {("read", 0): 2, ("read", 1): 1}
    assert [offsets for _, offsets in story.offsets["long-1"]] == [values] * len(story.runs)
    assert story.offsets["long-1"][-1][0] > 3 * RETENTION_MS / 1000
    assert story.offsets["empty"][-1][1] == {("read", 0): 3}  # joined and left
    assert story.offsets["plain"][-1][1] == {}


def test_an_end_is_an_end(story: Story) -> None:
    """Two minutes after the commit it is not kept any more; a minute later it is gone."""
    there = [at for at, offsets in story.offsets["end-1"] if offsets]
    assert 100 < max(there) < 190, there
    assert story.offsets["end-1"][-1][1] == {}


def test_a_group_with_members_is_refused_with_the_reason(story: Story) -> None:
    told = [error for run in story.runs for error in run.json["errors"]]
    mine = [error for error in told if error["target"]["group"] == "busy"]
    assert {error["name"] for error in mine} == {"NON_EMPTY_GROUP"}
    assert "takes commits from no one else" in mine[0]["message"]
    assert {run.status for run in story.runs} >= {3}


def test_it_says_how_often_to_run(story: Story) -> None:
    assert "at least every 30s" in story.runs[0].err


def test_a_late_run_names_what_it_has_lost_once(story: Story) -> None:
    lost = [row for row in story.late.json["results"] if row["status"] == "lost"]
    mine = {(row["group"], row["partition"]) for row in lost}
    assert mine >= {("long-1", 0), ("long-1", 1)}, story.late
    assert not [group for group, _ in mine if group in ("plain", "end-1")]
    assert story.late.status in (1, 3)
    assert "kgtool recover long-1" in story.late.err
    assert (story.after_late.status, story.after_late.json["results"]) == (0, [])
    assert story.recovered.status == 0, story.recovered
    assert story.last == {("read", 0): 2, ("read", 1): 1}
