"""A minute's retention, and a cron job that keeps some groups: minutes without anything to do.

A process of its own plays it while the tests run. ``begin`` starts it, once for all workers of
pytest-xdist, before the first test; ``told`` waits for its end.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from tests.broker.live_world import CONFIG, RETENTION_MS
from tests.cli.run import ROOT, Result
from tests.cli.run import kgtool as process
from tests.support import brokers, clients


class Story(NamedTuple):
    """What the runs said, and the offsets that were there, by seconds since the beginning."""

    runs: list[Result]
    offsets: dict[str, list[tuple[float, dict[tuple[str, int], int]]]]
    late: Result
    after_late: Result
    recovered: Result
    last: dict[tuple[str, int], int]


RULES = """
[[groups]]
match = "long-*"
retention = "never"

[[groups]]
match = ["end-*", "busy"]
retention = "2m"

[[groups]]
match = "empty"
retention = "1h"
"""
GROUPS = ("long-1", "end-1", "empty", "plain")
EVERY = 20


def _folder() -> Path:
    return Path(os.environ[brokers.VARIABLE]) / "retention-story"


def begin() -> None:
    """Start it, unless another worker has."""
    folder = _folder()
    with locked(folder.with_suffix(".begin")):
        if folder.exists():
            return
        folder.mkdir()
        with (folder / "lock").open("w") as lock, (folder / "said").open("w") as said:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the process has the same lock, until it ends
            command = [sys.executable, "-c", f"from {__name__} import play; play()"]
            started = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[lock.fileno()],
            )
            started.returncode = 0  # nobody waits for it here


def told() -> Story:
    """Wait for its end, and return what it has told."""
    begin()
    folder = _folder()
    with locked(folder / "lock", timeout=600):
        said = (folder / "said").read_text()
        assert (folder / "story").exists(), said
        found: Story = pickle.loads((folder / "story").read_bytes())
        return found


def play() -> None:
    """The process."""
    folder = _folder()
    threading.Thread(target=_end_with, args=(folder,), daemon=True).start()
    brokers.draw_own_ports(brokers.SHARES - 1)
    config, root = CONFIG, folder.parent
    with Sandbox.start("retention-1m", version="4.3.1", config=config, root=root) as cluster:
        ready.wait_for_coordinators(cluster.state)
        story = _live(cluster.bootstrap, folder)
    (folder / "story").write_bytes(pickle.dumps(story))


def _end_with(folder: Path) -> None:
    """Stop as if by Ctrl-C when the run of the tests is over: it removes the folder."""
    while folder.exists():
        time.sleep(0.5)
    _thread.interrupt_main()


def _live(bootstrap: str, root: Path) -> Story:
    file = root / "retention.toml"
    file.write_text(RULES)
    for name in ("read", "other"):
        clients.create_topic(bootstrap, name, 2)
        clients.produce(bootstrap, name, 5)
        clients.produce(bootstrap, name, 5, partition=1)
    member = clients.join(bootstrap, "empty", ["read"])
    member.commit(offsets=[TopicPartition("read", 0, 3)], asynchronous=False)
    member.close()
    for group in ("long-1", "end-1", "plain", "busy"):
        clients.commit(bootstrap, group, {("read", 0): 2, ("read", 1): 1}, metadata="note")
    busy = clients.join(bootstrap, "busy", ["other"])
    began = time.monotonic()
    seen: dict[str, list[tuple[float, Any]]] = {group: [] for group in GROUPS}
    runs = []

    def run(*argv: str) -> Result:
        where = ("-b", bootstrap, "-o", "json")
        return process(*argv, *where, env={"KGTOOL_JOURNAL_DIR": str(root / "journal")})

    def apply() -> Result:
        return run("retention", "apply", str(file), "--yes", "--join")

    while time.monotonic() - began < 3.5 * RETENTION_MS / 1000:
        due = began + (len(runs) + 1) * EVERY
        time.sleep(max(due - time.monotonic(), 0))
        runs.append(apply())
        for group in GROUPS:
            offsets = clients.committed(bootstrap, group)
            seen[group].append((time.monotonic() - began, offsets))
    busy.close()
    time.sleep(1.3 * RETENTION_MS / 1000)
    late, after = apply(), apply()
    recovered = run("recover", "long-1", "--yes")
    return Story(runs, seen, late, after, recovered, clients.committed(bootstrap, "long-1"))
