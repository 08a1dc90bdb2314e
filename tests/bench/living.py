"""``top``: how long a frame takes while somebody scrolls; what it costs when nothing changes."""

from __future__ import annotations

import json
import os
import pty
import select
import statistics
import subprocess
import time
from pathlib import Path

from tests.bench.installed import KGTOOL, PYTHON
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World

FRAMES = Path(__file__).with_name("frames.py")
FRAME_S, IDLE_SHARE = 0.05, 0.05


def measure(world: World, sizes: Sizes) -> list[Result]:
    """Scroll through all groups in a process of its own; then look on in a real terminal."""
    count, _, seconds = sizes.living
    frames = _frames(world, seconds)
    slow = frames[int(len(frames) * 0.99)]
    return [
        Result(
            f"top, {count:,} groups: 99 of 100 frames",
            f"{FRAME_S * 1000:.0f} ms",
            slow / FRAME_S,
            1,
            seconds=statistics.median(frames),
            note=f"{len(frames)} frames, median {statistics.median(frames) * 1000:.0f} ms,"
            f" slowest {frames[-1] * 1000:.0f} ms",
        ),
        Result(
            f"top, {count:,} groups, when nothing changes",
            "one core",
            _idle_share(world.bootstrap, seconds),
            IDLE_SHARE,
            seconds=seconds,
        ),
    ]


def _frames(world: World, seconds: float) -> list[float]:
    """The seconds of each frame, sorted."""
    done = subprocess.run(
        [PYTHON, str(FRAMES), world.bootstrap, str(seconds)],
        cwd=world.folder,
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    frames = json.loads(done.stdout)
    assert frames, "no frame was drawn"
    return sorted(frames)


def _idle_share(bootstrap: str, seconds: float) -> float:
    """CPU time by time of ``kgtool top`` at 140 columns, after its first looks at all groups."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "40"}
        os.execve(KGTOOL, [KGTOOL, "top", "--bootstrap-server", bootstrap], environment)
    try:
        _watch(terminal, 2 * seconds)
        began, before = time.monotonic(), _cpu_s(pid)
        _watch(terminal, 2 * seconds)
        share = (_cpu_s(pid) - before) / (time.monotonic() - began)
        os.write(terminal, b"q")
        _watch(terminal, 2)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    assert status == 0, f"top ended with {os.waitstatus_to_exitcode(status)}"
    return share


def _watch(terminal: int, seconds: float) -> None:
    """Read what is drawn, as a terminal does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        try:
            if ready and not os.read(terminal, 1 << 16):
                return
        except OSError:  # Linux's end of file
            return


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
