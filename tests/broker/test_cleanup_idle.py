"""``cleanup --idle``: members count as use, though they commit nothing; and clocks that differ."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kgtool.cli.cleanup import plan as cleanup_plan
from kgtool.queries.log import fetch as log
from tests.cli.run import Result, call
from tests.support import clients

IDLE_SECONDS = 10
DAY_MS = 86_400_000


class Scene:
    """A topic, groups with one commit each, and a plan."""

    def __init__(self, bootstrap: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self.path = folder / "plan.json"
        self._capsys = capsys
        self.topic = clients.create_topic(bootstrap, clients.unique("idle"))

    def run(self, *argv: str) -> Result:
        return call(self._capsys, *argv, "--bootstrap-server", self.bootstrap, "-o", "json")

    def group(self) -> str:
        name = clients.unique("group")
        clients.commit(self.bootstrap, name, {(self.topic, 0): 0})
        return name

    def visit(self, group: str, protocol: str) -> None:
        """Join and leave, without a commit."""
        clients.join(self.bootstrap, group, [self.topic], group_protocol=protocol).close()

    def plan(self, *argv: str) -> tuple[dict[str, Any], str]:
        made = self.run("cleanup", "plan", *argv, "--out", str(self.path), "--overwrite")
        assert made.status == 0, made
        found = json.loads(self.path.read_text()) if self.path.exists() else {"items": []}
        return found, made.err

    def apply(self) -> dict[str, Any]:
        done = self.run("cleanup", "apply", str(self.path), "--yes")
        return {row["group"]: row for row in done.json["results"]}


@pytest.fixture
def scene(
    bootstrap: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return Scene(bootstrap, tmp_path, capsys)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_count_as_use(scene: Scene, protocol: str) -> None:
    """A consumer that is behind joins, reads and leaves: its group is not idle."""
    visited, later, dead = scene.group(), scene.group(), scene.group()
    named = ("--group", visited, "--group", later, "--group", dead)
    time.sleep(IDLE_SECONDS)
    scene.visit(visited, protocol)
    found, _ = scene.plan(*named, "--idle", f"{IDLE_SECONDS}s")
    assert {item["group"] for item in found["items"]} == {later, dead}
    scene.visit(later, protocol)
    rows = scene.apply()
    assert (rows[dead]["status"], rows[later]["status"]) == ("deleted", "skipped")
    assert rows[later]["error"]["name"] == "CHANGED_MEANWHILE"
    assert "joined or left" in rows[later]["error"]["message"]
    assert clients.committed(scene.bootstrap, later) == {(scene.topic, 0): 0}
    found, _ = scene.plan("--group", later)
    assert found["items"][0]["last_change_ms"] > found["items"][0]["last_commit_ms"]
    assert scene.apply()[later]["status"] == "deleted"


def test_a_clock_that_is_ahead(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed after the plan lies before it, by such a clock, and was not looked for."""
    used, dead = scene.group(), scene.group()
    ahead_ms = 40 * DAY_MS
    monkeypatch.setattr(cleanup_plan, "now_ms", lambda: time.time_ns() // 1_000_000 + ahead_ms)
    found, said = scene.plan("--group", used, "--group", dead, "--idle", "30d")
    assert {item["group"] for item in found["items"]} == {used, dead}
    assert "this clock is ahead" in said
    clients.commit(scene.bootstrap, used, {(scene.topic, 0): 0})
    rows = scene.apply()
    assert (rows[used]["status"], rows[dead]["status"]) == ("skipped", "deleted")
    assert clients.committed(scene.bootstrap, used) == {(scene.topic, 0): 0}


def test_a_clock_that_is_behind(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    name = scene.group()
    monkeypatch.setattr(cleanup_plan, "now_ms", lambda: time.time_ns() // 1_000_000 - DAY_MS)
    found, said = scene.plan("--group", name, "--idle", "1s")
    assert found["items"] == []
    assert "clocks differ" in said


def test_a_plan_of_a_broker_whose_clock_is_ahead_of_the_others(scene: Scene) -> None:
    """Commits bear the time of their own coordinator, which may lie before the plan's."""
    used, dead = scene.group(), scene.group()
    plan, _ = scene.plan("--group", used, "--group", dead)
    clients.commit(scene.bootstrap, used, {(scene.topic, 0): 0})
    later = {name: plan[name] + 1_800_000 for name in ("made_at_ms", "as_of_ms")}
    scene.path.write_text(json.dumps({**plan, **later}))
    rows = scene.apply()
    assert (rows[used]["status"], rows[dead]["status"]) == ("skipped", "deleted")
    assert f"Another client has committed {scene.topic}:0 since" in rows[used]["reason"]


def test_a_plan_that_does_not_know_when_offsets_were_committed(scene: Scene) -> None:
    """The log of a large cluster is read from a time on: older commits are only older than that.

    One that was committed again since, unchanged, as an idle consumer does, was deleted.
    """
    used, dead = scene.group(), scene.group()
    plan, _ = scene.plan("--group", used, "--group", dead)
    for item in plan["items"]:
        item["offsets"] = [{**each, "committed_at_ms": None} for each in item["offsets"]]
    scene.path.write_text(json.dumps(plan))
    clients.commit(scene.bootstrap, used, {(scene.topic, 0): 0})
    rows = scene.apply()
    assert (rows[used]["status"], rows[dead]["status"]) == ("skipped", "deleted")
    assert f"Another client has committed {scene.topic}:0 since" in rows[used]["reason"]
    assert clients.committed(scene.bootstrap, used) == {(scene.topic, 0): 0}


def test_clocks_that_agree(scene: Scene) -> None:
    _, said = scene.plan("--group", scene.group(), "--idle", "1s")
    assert "Warning" not in said


def test_the_log_is_read_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Fetch ends where a segment does, or at its limit, so offsets tell, not their number."""
    asked: list[tuple[Any, int]] = []
    real = log.fetch_request

    def fetch_request(positions: Any, *args: Any, **options: Any) -> Any:
        asked.extend(positions.items())
        return real(positions, *args, **options)

    monkeypatch.setattr(log, "fetch_request", fetch_request)
    scene.plan("--group", scene.group(), "--idle", "1s")
    assert len({partition for partition, _ in asked}) == 1
    assert asked == sorted(set(asked)), asked
