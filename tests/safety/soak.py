"""Kills kgtool, again and again, and looks at what is left. ``make soak`` runs it as a program:

    python -m tests.safety.soak [--kills 200] [--all] [--bootstrap-server HOST:PORT]

Two thirds of the kills come at exact steps of every change and of its undo, spread over all that
there are (``--all``: at each of them; see ``tests.safety.crash``), the others from outside at
random times. After each one

* what the cluster has is what was there before, or what the journal says that it was to become;
* a journal is there if anything has changed, can be read, and says ``interrupted``;
* ``undo`` brings everything back exactly, and a second one has nothing to do.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.safety import world
from tests.support import clients

CHANGES: dict[str, list[str]] = {
    "delete": ["--delete", "--group", "{one}", "--group", "{two}"],
    "delete-offsets": ["--delete-offsets", "--group", "{one}", "--topic", "{topic}"],
    "reset-offsets": [
        "--reset-offsets", "--group", "{one}", "--group", "{two}", "--topic", "{topic}",
        "--to-latest", "--execute",
    ],
    "cleanup": ["cleanup", "apply", "{plan}", "--yes", "--canary", "1"],
}  # fmt: skip


class Scene:
    """Two groups, one change of them, and every way to be killed in it."""

    def __init__(self, bootstrap: str, folder: Path, change: str) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.topic = clients.create_topic(bootstrap, clients.unique("crash"), 3)
        for partition in range(3):
            clients.produce(bootstrap, self.topic, 10, partition=partition)
        self.one, self.two = clients.unique("crash-one"), clients.unique("crash-two")
        self.plan = folder / f"{change}-plan.json"
        words = {"one": self.one, "two": self.two, "topic": self.topic, "plan": str(self.plan)}
        self._is_planned = change == "cleanup"
        self.argv = ["--bootstrap-server", bootstrap, *(w.format(**words) for w in CHANGES[change])]
        world.commit(bootstrap, self.one, {(self.topic, 0): 3, (self.topic, 1): 4}, "first")
        world.commit(bootstrap, self.two, {(self.topic, 2): 7}, "second")
        self.before = self.offsets()
        self.kills = 0
        self._journals = 0
        self.journal = self._new_journal()
        self._plan()

    def offsets(self) -> dict[str, world.Seen]:
        return world.seen(self.bootstrap, self.one, self.two)

    def _new_journal(self) -> Path:
        self._journals += 1
        journal = self.folder / f"journal-{self._journals}"
        journal.mkdir()
        return journal

    def _plan(self) -> None:
        """Make a new plan: what an undo has put back counts as committed since the old one."""
        if self._is_planned:
            done = world.kgtool(
                self.journal, "--bootstrap-server", self.bootstrap, "cleanup", "plan",
                "--group", self.one, "--group", self.two, "--out", str(self.plan), "--overwrite",
            )  # fmt: skip
            assert done.status == 0, done.err

    @property
    def undo(self) -> list[str]:
        return ["--bootstrap-server", self.bootstrap, "undo", "last", "--yes"]

    def steps_of_change(self) -> list[str]:
        """Which steps the change takes; nothing is changed afterwards."""
        steps = world.steps(self.journal, self.argv)
        self._bring_back("changed")
        return steps

    def steps_of_undo(self) -> list[str]:
        """Likewise for the undo."""
        self._change()
        steps = world.steps(self.journal, self.undo)
        assert self.offsets() == self.before
        self.journal = self._new_journal()
        self._plan()
        return steps

    # -- kills ------------------------------------------------------------------------------

    def kill_change(self, step: int | str) -> str:
        """Kill the change at a step; return ``changed`` or ``unchanged``."""
        return self._after_kill(world.crash(self.journal, step, self.argv).status)

    def kill_undo(self, step: int | str) -> None:
        """Kill the undo at a step; the next one does the rest."""
        self._change()
        status = world.crash(self.journal, step, self.undo).status
        assert status in (0, -9), status
        self.kills += status == -9
        entry = world.history(self.journal)[-1]
        assert entry["state"] in ("done", "undone"), entry
        self._bring_back("changed")

    def kill_at_random(self, argv: list[str], seconds: float) -> None:
        """Kill from outside after some time."""
        command = [sys.executable, "-m", "kgtool.cli", *argv]
        process = subprocess.Popen(
            command, cwd=world.ROOT, env=world.environment(self.journal),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds)
        process.kill()
        self._after_kill(process.wait())

    # -- what is left -----------------------------------------------------------------------

    def _change(self) -> None:
        done = world.kgtool(self.journal, *self.argv)
        assert done.status == 0, done.err
        assert self.offsets() != self.before

    def _after_kill(self, status: int) -> str:
        assert status in (0, -9), status
        self.kills += status == -9
        found = "unchanged" if self.offsets() == self.before else "changed"
        entries = world.history(self.journal)
        assert len(entries) <= 1, entries
        if found == "changed":
            assert entries, "something has changed, and no journal tells of it"
        for entry in entries:
            assert entry["state"] == ("interrupted" if status else "done") or status == -9, entry
        self._bring_back(found)
        return found

    def _bring_back(self, found: str) -> None:
        """Undo, twice; everything is as it was, and the journal says so."""
        # An undo that was killed at its very end has said so already.
        is_undone = any(entry["state"] == "undone" for entry in world.history(self.journal))
        done = world.kgtool(self.journal, *self.undo)
        may_be_1 = found == "unchanged" or is_undone
        assert done.status == 0 or (done.status == 1 and may_be_1), done.err
        assert self.offsets() == self.before, (self.before, self.offsets(), done)
        again = world.kgtool(self.journal, *self.undo)
        assert again.status == 1 and "nothing to undo" in again.err, again
        assert self.offsets() == self.before
        self.journal = self._new_journal()
        self._plan()


# ---------------------------------------------------------------------------------------------


def run(bootstrap: str, kills: int, folder: Path, is_all: bool = False) -> int:
    """Kill at many steps, then at random times, until there were enough; return how many."""
    scenes = {name: Scene(bootstrap, folder / name, name) for name in _folders(folder)}
    for name, scene in scenes.items():
        for what, count, kill in (
            ("change", len(scene.steps_of_change()), scene.kill_change),
            ("undo", len(scene.steps_of_undo()), scene.kill_undo),
        ):
            chosen = range(1, count + 1)
            if not is_all:
                each = max(1, kills * 2 // 3 // (2 * len(scenes)))
                chosen = sorted({1 + number * (count - 1) // each for number in range(each + 1)})
            for step in chosen:
                kill(step)
            _say(f"{name}: killed at {len(chosen)} of the {count} steps of the {what}")
    source = random.Random(1)
    total = sum(scene.kills for scene in scenes.values())
    while total < kills:
        scene = source.choice(list(scenes.values()))
        scene.kill_at_random(scene.argv, source.uniform(0.05, 0.6))
        total = sum(one.kills for one in scenes.values())
    return total


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _folders(folder: Path) -> list[str]:
    for name in CHANGES:
        (folder / name).mkdir()
    return list(CHANGES)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--bootstrap-server")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        total = _on_a_broker(given.bootstrap_server, given.kills, Path(folder), given.all)
    seconds = time.monotonic() - began
    _say(f"{total} kills in {seconds:.0f} s: nothing lost, nothing done twice.")
    return 0


def _on_a_broker(bootstrap: str | None, kills: int, folder: Path, is_all: bool) -> int:
    if bootstrap is not None:
        return run(bootstrap, kills, folder, is_all)
    from kgtool.sandbox import ready
    from kgtool.sandbox.cluster import Cluster

    root: Any = folder / "broker"
    root.mkdir()
    cluster = Cluster.start("soak", version="4.3.1", root=root)
    try:
        ready.wait_for_coordinators(cluster.state)
        return run(cluster.bootstrap, kills, folder, is_all)
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
