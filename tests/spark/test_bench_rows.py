"""What ``make bench`` runs of Spark still does its work, in the session of the tests."""

from __future__ import annotations

import contextlib
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.bench.analyzing import Log
from tests.bench.measure import Command, Run
from tests.cli.run import ROOT, Result
from tests.support.clients import wait_for

pytestmark = pytest.mark.spark
RECORDS = 20_000


def test_the_commands_of_analyze(analyze: Callable[..., Result], tmp_path: Path) -> None:
    for hot_groups in (1, 10):
        command = Log(tmp_path, f"log{hot_groups}", RECORDS, hot_groups).tables()
        assert command.before is not None and command.after is not None
        command.before()
        done = analyze(*command.argv[2:])
        assert done.status == 0, done.err
        command.after(Run(1.0, 1.0, 1.0, 1.0, done.out.encode()))


def test_one_hot_group_and_ten_differ_in_nothing_else(tmp_path: Path) -> None:
    one, ten = (Log(tmp_path, f"log{count}", RECORDS, count).expected for count in (1, 10))
    assert one._replace(live_groups=0) == ten._replace(live_groups=0)
    assert ten.live_groups == one.live_groups + 9


TERMINATED = """
import sys, time
from pathlib import Path
from tests.bench import __main__ as bench
from tests.support.standalone import FAST_JVM, standalone

def part(_runs, _sizes):
    with standalone(folder, Path(sys.executable), [None], jvm=FAST_JVM):
        (folder / "ready").touch()
        time.sleep(300)

folder = Path(sys.argv.pop())
bench.PARTS["part"] = part
sys.exit(bench.main())
"""


def test_what_is_terminated_leaves_no_workers(tmp_path: Path) -> None:
    """Was: master and worker went on for ever."""
    command = [sys.executable, "-c", TERMINATED, "--smoke", "part", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT) as bench:
        wait_for((tmp_path / "ready").exists, "the workers", 300)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
    assert tmp_path not in _folders_at_work()


def _folders_at_work() -> Iterator[Path]:
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            yield link.readlink()


def test_the_floor(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """A program of its own: here in the session that is there, whose master stays what it is."""
    monkeypatch.setattr(SparkSession.Builder, "master", lambda builder, _: builder)
    command: Command = Log(tmp_path, "log", RECORDS).floor()
    assert command.after is not None
    monkeypatch.setattr(sys, "argv", list(command.argv[1:]))
    runpy.run_path(command.argv[1], run_name="__main__")
    command.after(Run(1.0, 1.0, 1.0, 1.0, capsys.readouterr().out.encode()))
