"""The line of progress of long changes and copies: on a real terminal, and in small."""

from __future__ import annotations

import io
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kgtool.cli.output import progress
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import BAR, BYTES, Connecting, Meter, bar, progress_words
from kgtool.net.session import Session
from kgtool.sandbox.cluster import Sandbox
from tests.cli import run
from tests.cli.pseudo import Terminal, screen
from tests.cli.test_progress import Tty, until
from tests.support import clients


@pytest.mark.parametrize(
    ("done", "total", "unit", "part", "said"),
    [
        (0, 2000, "groups", 0.0, "0 of 2,000 groups, 10s"),
        (1200, 2000, "groups", 0.6, "1,200 of 2,000 groups, 120/s, about 6s left"),
        (2000, 2000, "groups", 1.0, "2,000 of 2,000 groups, 200/s"),
        (5, 9, "groups", 5 / 9, "5 of 9 groups, 0.5/s, about 8s left"),
        (25_000_000, None, BYTES, 0.25, "25.0 MB, 2.5 MB/s, about 30s left"),
        (25_000_000, 50_000_000, BYTES, 0.5, "25.0 MB of 50.0 MB, 2.5 MB/s, about 10s left"),
        (0, None, "groups", 0.0, "10s"),
    ],
)
def test_what_it_says(done: int, total: int | None, unit: str, part: float, said: str) -> None:
    assert progress_words(done, total, unit, 10.0, part) == said


def test_it_is_never_still_for_long(tty: Tty) -> None:
    """Kind: work without anything new on the screen. Siblings: a total, none, nothing done yet."""
    output = Output(stdout=io.StringIO(), stderr=tty)
    for meter in (Meter(output, "Looking"), Meter(output, "Deleting", 10)):
        with meter:
            until(lambda: "1s" in tty.getvalue())
            until(lambda: "2s" in tty.getvalue())
        tty.truncate(0)
    counted = Meter(output, "Looking", unit="requests", count=lambda: 7)
    counted._began -= 65
    assert counted.text(80, ascii_only=True) == "Looking: 7 requests, 0.1/s, 1m 5s"


def test_a_cluster_that_does_not_answer_is_named_while_it_is_waited_for() -> None:
    """Was: nothing on the screen until the error."""
    argv = run.command_line("list", "-b", "127.0.0.1:1,127.0.0.1:2")
    with Terminal(argv, columns=60) as terminal:
        assert terminal.read_all() == 4
        assert "Connecting to 127.0.0.1:1,127.0.0.1:2: 1s" in terminal.output
        assert terminal.screen[0].startswith("Error: None of the 2 bootstrap addresses")


def test_once_there_is_an_answer_or_another_line_none_tells_of_connecting(tty: Tty) -> None:
    output = Output(stdout=io.StringIO(), stderr=tty)
    servers = ((f"broker-{n}.example.com", 9092) for n in range(9))
    session = SimpleNamespace(cluster_id=None, settings=SimpleNamespace(bootstrap=tuple(servers)))
    with Connecting(output, cast(Session, session)) as connecting:
        until(lambda: "Connecting to broker-0" in tty.getvalue())
        assert len(connecting.text(40, ascii_only=False) or "") == 40
        with Meter(output, "Looking") as inner:
            assert screen(tty.getvalue(), 80, 1) == [""]
            inner.draw("Looking: 1s")
            assert connecting.text(80, ascii_only=False) is None
        until(lambda: screen(tty.getvalue(), 80, 1)[0].startswith("Connecting"))
        session.cluster_id = "abc"
        until(lambda: screen(tty.getvalue(), 80, 1) == [""])


def test_the_bar_has_colours_where_there_are_any() -> None:
    assert bar(0.5, ascii_only=True) == f"[{'#' * (BAR // 2)}{'.' * (BAR // 2)}]"
    assert bar(2.0, ascii_only=False) == f"[{'█' * BAR}]"
    colored = bar(0.5, ascii_only=False, colored=True)
    assert "\x1b[" in colored
    assert screen(colored, 80, 1) == ["━" * 11 + "╺" + "━" * 10]


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Tty:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(progress, "AFTER_NOTES_S", 0.3)
    return Tty()


def test_short_work_has_none(tty: Tty, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Meter.after_s == 1.0
    monkeypatch.setattr(Meter, "after_s", 60.0)  # a busy machine's 0.4 s may be more than one
    with Meter(Output(stderr=tty), "Deleting", 10) as meter:
        meter.add(3)
        time.sleep(0.4)
    assert tty.getvalue() == ""


def test_it_makes_way_for_notes_and_questions(tty: Tty) -> None:
    output = Output(stdout=io.StringIO(), stderr=tty)
    with Meter(output, "Deleting", 10) as meter:
        meter.add(3)
        until(lambda: "3 of 10 groups" in tty.getvalue())
        output.note("Error: a remark")
        assert screen(tty.getvalue(), 80, 3)[:2] == ["Error: a remark", ""]
        meter.set(4, skipped=1, failed=1)
        until(lambda: "1 left alone, 1 failed" in tty.getvalue())
        output.note("Go on?", end=" ")
        output.is_asking = True
        there = tty.getvalue()
        meter.add(1)
        time.sleep(0.8)
        assert tty.getvalue() == there
        output.is_asking = False
        until(lambda: "5 of 10" in tty.getvalue())
    assert output.before_writing is None
    assert screen(tty.getvalue(), 80, 3) == ["Error: a remark", "", ""]


@pytest.mark.broker
@pytest.mark.parametrize("color", [True, False])
def test_a_cleanup_on_a_terminal(kafka: Sandbox, tmp_path: Path, color: bool) -> None:
    topic = clients.create_topic(kafka.bootstrap, clients.unique("meter"), 1)
    groups = [clients.unique("meter") for _ in range(4)]
    for group in groups:
        clients.commit(kafka.bootstrap, group, {(topic, 0): 0})
    plan = str(tmp_path / "plan.json")
    named = [word for group in groups for word in ("--group", group)]
    made = run.kgtool(
        "cleanup", "plan", *named, "--state", "Empty", "--out", plan, "-b", kafka.bootstrap
    )
    assert made.status == 0, made.err
    argv = run.command_line("cleanup", "apply", plan, "--yes", "--rate", "1", "-b", kafka.bootstrap)
    env = {} if color else {"NO_COLOR": "1"}
    with Terminal(argv, columns=100, env=env) as terminal:
        came = terminal.read_until(r"2 of 4 groups, [01]\.\d/s, about \ds left")
        assert terminal.read_all() == 0
        assert "Cleaning up" in came
        assert ("━" in came, "█" in came) == (color, not color)
        shown = "\n".join(terminal.screen)
        assert "Cleaning up" not in shown  # it has gone
        assert shown.count("deleted") >= 4
