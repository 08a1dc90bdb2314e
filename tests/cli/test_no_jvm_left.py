"""Ctrl-C at any moment of a run leaves no process: above all not the JVM that is starting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.analysis import writer

RUN = "from kgtool.cli.app.main import main; import sys; sys.exit(main())"


def _alive(pids: Path) -> list[int]:
    found = []
    for word in pids.read_text().split() if pids.exists() else []:
        try:
            state = Path(f"/proc/{word}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [] if state == "Z" else [int(word)]
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_strike_at_any_moment(number: signal.Signals, tmp_path: Path) -> None:
    """Kind: PySpark forgets a JVM that has not told its port yet. Siblings: its launcher, SIGTERM.

    A JVM that takes its time is a script here, which notes its process and one below it.
    """
    path = writer.segment(tmp_path, writer.commits(0, 1))
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    pids = tmp_path / "pids"
    submit.write_text(f"#!/bin/sh\nsleep 300 &\necho $$ $! >> {pids}\nwait\n")
    submit.chmod(0o755)
    (tmp_path / "spark" / "jars").mkdir()
    environment = {**os.environ, "SPARK_HOME": str(tmp_path / "spark")}
    began = 0
    for step in range(8):
        before = len(pids.read_text().split()) if pids.exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "analyze", str(path)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if step % 2:  # steps of 0.1 s behind the start of the JVM, in turns with any moment
            while not pids.exists() or len(pids.read_text().split()) == before:
                assert process.poll() is None, process.communicate()
                time.sleep(0.005)
            time.sleep(0.1 * (step // 2))
        else:
            time.sleep(0.1 * step)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        began += bool(pids.exists())
        assert "Traceback" not in said or process.returncode in (-number, 1), said
        assert _alive(pids) == [], f"left at step {step}"
    assert began


STRUCK_IN_A_CALLBACK = """
import os, sys, threading, time, weakref
from kgtool.cli.app import main

class Thing: pass

def struck(*_):
    thing = Thing()
    kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), int(sys.argv[1])))
    del thing
    time.sleep(20)

class Late(threading.Timer):
    strikes = 0

    def start(self):
        super().start()
        Late.strikes += 1
        if Late.strikes <= int(sys.argv[2]):  # a busy machine: the signal comes before the end
            time.sleep(1)

threading.Timer = Late
main._dispatch = struck
sys.exit(main.main(["list"]))
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("late", [0, 2])
def test_a_strike_while_python_discards_exceptions(
    number: signal.Signals, status: int, late: int
) -> None:
    """Was: the handler ran in a weak reference's callback, as imports have many; nothing ended.

    Nor did it where the signal, sent again, came while what is discarded was still seen to: under
    load, once.
    """
    done = subprocess.run(
        [sys.executable, "-c", STRUCK_IN_A_CALLBACK, str(int(number)), str(late)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("ed.\n"), done.stderr
