"""The processes of ``--engine local`` when they are interrupted or killed: one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.analysis import writer

RUN = """
import signal, sys
from kgtool.analysis import local_engine
from kgtool.cli.app.main import main

signal.signal(signal.SIGINT, signal.default_int_handler)
local_engine.SMALL_BYTES = 0
sys.exit(main(["analyze", sys.argv[1], "--engine", "local"]))
"""
KILLED = "Error: A process that decoded or folded was killed"


def worker_of(process: subprocess.Popen[str]) -> int:
    """The first process that it has started for the work, once there is one."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        for child in children.read_text().split():
            command = Path(f"/proc/{child}/cmdline")
            if command.exists() and b"spawn_main" in command.read_bytes():
                return int(child)
        time.sleep(0.002)
    pytest.fail("it ended before it had workers")


@pytest.mark.parametrize("wait_s", [0, 0.3])
@pytest.mark.parametrize(
    ("number", "to_all", "status", "said"),
    [
        (signal.SIGINT, True, 130, "Error: Interrupted."),
        (signal.SIGTERM, True, 143, "Error: Terminated."),
        (signal.SIGKILL, False, 1, KILLED),
    ],
)
def test_one_sentence(
    tmp_path: Path, number: signal.Signals, to_all: bool, status: int, said: str, wait_s: float
) -> None:
    for partition in range(4):
        writer.segment(tmp_path, writer.commits(0, 2), partition=partition)
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        worker = worker_of(process)
        time.sleep(wait_s)  # it imports first, which takes longer
        if to_all:
            os.killpg(process.pid, number)
        else:
            os.kill(worker, number)
        _, err = process.communicate(timeout=120)
    assert process.returncode == status, err
    last = err.splitlines()[-1]
    assert last.startswith(said) and "Traceback" not in err and "Exception in" not in err


DURING = """
import os, signal, time
from multiprocessing import active_children, reduction

dump = reduction.dump

def kill_then_dump(what, file):
    if hasattr(what, "_args"):
        for first in active_children()[:1]:
            first.kill()
            until = time.monotonic() + 5
            while not what._args[0]._reader.closed and time.monotonic() < until:
                time.sleep(0.01)  # the pool sees that it is broken, and closes its pipes
            {then}
    dump(what, file)

reduction.dump = kill_then_dump
"""
SAME_NUMBERS = 'raise ValueError("bad value(s) in fds_to_keep")'
"""Seen once, where a new pipe had the number of one that was just closed."""


@pytest.mark.parametrize("then", ["pass", SAME_NUMBERS], ids=["no pipes", "same numbers"])
def test_one_is_killed_while_the_next_starts(tmp_path: Path, then: str) -> None:
    for partition in range(4):
        writer.segment(tmp_path, writer.commits(0, 2), partition=partition)
    done = subprocess.run(
        [sys.executable, "-c", DURING.format(then=then) + RUN, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(KILLED), done.stderr
    assert "Traceback" not in done.stderr and "Exception in" not in done.stderr
