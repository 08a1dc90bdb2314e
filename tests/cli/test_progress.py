"""The line that tells how far Spark is: what it says, and that it never gets into anybody's way."""

from __future__ import annotations

import io
import os
import pty
import select
import time
from collections.abc import Callable

import pytest

from kgtool.analysis.decode.job_progress import State
from kgtool.cli.output.analyze_progress import AnalyzeProgress, line
from kgtool.cli.output.output import Output
from tests.cli.pseudo import screen

HALF = State(1_234_567, 500_000_000, 1_000_000_000, 3, 6)
MORE = State(1_234_567, 900_000_000, 1_000_000_000, 3, 6)
DONE = State(2_500_000, 1_000_000_000, 1_000_000_000, 16, 64)


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (HALF, "Reading   [##########..........] 500.0 MB of 1.0 GB, 4.0 MB/s, about 2m 5s left"),
        (DONE, "Computing [#####...............] 16 of 64 tasks, 0.1/s, about 6m 15s left"),
        (DONE._replace(tasks=2), "Computing with 1.0 GB, 2,500,000 records, 2:05"),
        # A task counts when it ends: until the first one does, the clock shows that it is alive.
        (State(0, 0, 1_000_000_000, 0, 6), "Reading   [....................] 0 B of 1.0 GB, 2m 5s"),
        # Nobody knows how much a cluster or a Parquet file has.
        (State(7, 500, 0, 0, 1), "Computing with 500 B, 7 records, 2:05"),
        (State(0, 0, 0, 0, 1), "Reading   0 B, 0 records, 2:05"),
        # Read twice, because memory was short: no more than all of it.
        (
            DONE._replace(bytes=3_000_000_000, tasks=0),
            "Computing with 3.0 GB, 2,500,000 records, 2:05",
        ),
    ],
)
def test_what_it_says(state: State, text: str) -> None:
    assert line(state, 125, 80, ascii_only=True) == text
    assert "█" in line(HALF, 125, 80)
    assert "\x1b[" in line(HALF, 125, 80, colored=True)


@pytest.mark.parametrize("columns", [79, 40, 19])
@pytest.mark.parametrize("state", [HALF, DONE])
def test_it_is_one_line_however_narrow(state: State, columns: int) -> None:
    text = line(state, 3600, columns)
    assert 0 < len(text) <= columns


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_it_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    stream, out = Tty(), io.StringIO()
    output = Output(stdout=out, stderr=stream)
    with AnalyzeProgress(output) as progress:
        assert screen(stream.getvalue(), 80, 2) == ["Starting Spark", ""]
        progress.look = lambda: HALF
        until(lambda: "500.0 MB" in stream.getvalue())
        output.note("Note: a remark")
        assert screen(stream.getvalue(), 80, 3)[0] == "Note: a remark"
        progress.look = lambda: MORE
        until(lambda: "900.0 MB" in stream.getvalue())
        assert screen(stream.getvalue(), 80, 3)[1].startswith("Reading   ")
        output.text("a result")
        there = stream.getvalue()
        time.sleep(0.5)
        assert stream.getvalue() == there
    assert screen(there, 80, 3) == ["Note: a remark", "", ""]
    assert out.getvalue() == "a result\n"


def test_the_start_has_a_clock_though_stderr_is_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while Spark starts."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    seen, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream, AnalyzeProgress(Output(stderr=stream)):
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
        drawn = ""
        limit = time.monotonic() + 20
        while "Starting Spark, 0:01" not in drawn and time.monotonic() < limit:
            if select.select([seen], [], [], 0.5)[0]:
                drawn += os.read(seen, 4096).decode()
    os.close(seen)
    assert "Starting Spark, 0:01" in drawn


@pytest.mark.parametrize("dumb", [True, False])
def test_it_is_for_terminals(monkeypatch: pytest.MonkeyPatch, dumb: bool) -> None:
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    stream = Tty() if dumb else io.StringIO()
    with AnalyzeProgress(Output(stderr=stream)) as progress:
        progress.look = lambda: HALF
        time.sleep(0.5)
    assert stream.getvalue() == ""


def test_the_terminal_may_go_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty()
    with AnalyzeProgress(Output(stderr=stream)) as progress:
        progress.look = lambda: HALF
        until(lambda: "Reading" in stream.getvalue())
        stream.close()
        time.sleep(0.5)
