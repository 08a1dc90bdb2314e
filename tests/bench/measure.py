"""Run commands in turn and compare what they took."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LAUNCH = Path(__file__).with_name("launch.py")


class Run(NamedTuple):
    """One run of one command, as the operating system accounts for it."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    first_seconds: float
    """When the first byte came on stdout."""
    out: bytes


class Command(NamedTuple):
    """What to run; ``scale`` is how often its work would have to be done for the whole."""

    argv: Sequence[str]
    env: dict[str, str] | None = None
    statuses: tuple[int, ...] = (0,)
    scale: float = 1.0
    before: Callable[[], object] | None = None
    """Called before each run, outside the time."""
    after: Callable[[Run], object] | None = None
    """Called after each, likewise; raises AssertionError where the result is wrong."""


class Failed(Exception):
    """A command of the benchmark ended with a status that says its work was not done."""


def run(command: Command) -> Run:
    """Run a command once with its output in memory; raise Failed if it did not do its work."""
    if command.before is not None:
        command.before()
    # As a user has it: this session's PYTHONUNBUFFERED and the like would be measured otherwise.
    plain = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environ = {**plain, **(command.env or {})}
    # Notes go to a file: a pipe would fill up while stdout is read.
    with tempfile.TemporaryFile() as notes, tempfile.NamedTemporaryFile("r") as report:
        process = subprocess.Popen(
            [sys.executable, "-S", str(LAUNCH), report.name, *command.argv],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=notes,
        )
        out, first = _drain(process)
        process.wait()
        began, ended, cpu, peak, status = map(float, report.read().split())
        if int(status) not in command.statuses:
            notes.seek(0)
            tail = notes.read().decode(errors="replace").strip()[-400:]
            raise Failed(f"{' '.join(command.argv)[-200:]}: status {status:.0f}: {tail}")
    done = Run(ended - began, cpu, peak / 1024, first - began, out)
    if command.after is not None:
        command.after(done)
    return done


def _drain(process: subprocess.Popen[bytes]) -> tuple[bytes, float]:
    """Read all of stdout; say when it began, on the monotonic clock."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    pieces = []
    first = 0.0
    while piece := os.read(fd, 1 << 20):
        first = first or time.monotonic()
        pieces.append(piece)
    process.stdout.close()
    return b"".join(pieces), first


class Pair(NamedTuple):
    """What two commands took in turn."""

    ours: list[Run]
    theirs: list[Run]
    ratio: float
    """The median of ours by theirs, pair by pair, each times its scale."""


def in_turn(
    ours: Command, theirs: Command, runs: int, check: Callable[[Run, Run], None] | None = None
) -> Pair:
    """Run two commands A B A B … after one run of each that does not count (if ``runs`` is not 0).

    :param check: compares what both printed, after every pair; raises AssertionError.
    """
    pairs = []
    for turn in range(runs + 1):
        pair = run(ours), run(theirs)
        if check is not None:
            check(*pair)
        pairs += [pair] if turn or not runs else []
    slim = [(a._replace(out=b""), b._replace(out=b"")) for a, b in pairs]
    mine, other = [a for a, _ in slim], [b for _, b in slim]
    return Pair(mine, other, ratio(mine, other) * ours.scale / theirs.scale)


def rounds(commands: Mapping[str, Command], runs: int) -> dict[str, list[Run]]:
    """Run several commands A B C A B C …, each with each of the others beside it.

    For runs of a minute and more: there is none that does not count.
    """
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            found[name].append(run(command)._replace(out=b""))
    return found


def ratio(ours: Sequence[Run], theirs: Sequence[Run]) -> float:
    """Return the median of ours by theirs, pair by pair."""
    return statistics.median(a.seconds / b.seconds for a, b in zip(ours, theirs, strict=True))


def seconds(runs: Sequence[Run]) -> float:
    """Return the median wall time."""
    return statistics.median(run.seconds for run in runs)


def peak(runs: Sequence[Run]) -> float:
    """Return the median peak memory in MiB."""
    return statistics.median(run.peak_mib for run in runs)


def quiet(folder: Path) -> dict[str, str]:
    """The environment of kgtool's runs: journals and state in a folder of their own."""
    return {"KGTOOL_JOURNAL_DIR": str(folder / "journal"), "XDG_STATE_HOME": str(folder / "state")}
