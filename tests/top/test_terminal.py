"""The ten most used ways of ``kgtool top``, on a real terminal and a real broker."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import commit, committed, create_topic, group_ids, produce, unique
from tests.support.terminal import Terminal

pytestmark = pytest.mark.broker
KGTOOL = [
    sys.executable,
    "-c",
    "import sys; from kgtool.cli.app.main import main; sys.exit(main())",
]
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


@pytest.fixture(params=[(80, 24), (140, 40)], ids=str)
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    found: tuple[int, int] = request.param
    return found


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = create_topic(bootstrap, unique("ways"), 1)
    produce(bootstrap, name, 10)
    return name


@pytest.fixture
def prefix(bootstrap: str, topic: str) -> str:
    """Three groups whose names begin alike."""
    name = unique("ways")
    for ending, offset in (("a", 2), ("b", 10), ("c", 99)):
        commit(bootstrap, f"{name}-{ending}", {(topic, 0): offset})
    return name


@pytest.fixture
def screen(bootstrap: str, size: tuple[int, int], tmp_path: Path) -> Iterator[Terminal]:
    with _start(bootstrap, size, tmp_path) as terminal:
        yield terminal


def _start(bootstrap: str, size: tuple[int, int], folder: Path, **more: str) -> Terminal:
    environ = {**os.environ, "KGTOOL_JOURNAL_DIR": str(folder / "journal"), **more}
    if "NO_COLOR" not in more:
        environ.pop("NO_COLOR", None)
    there = ["env", "-C", str(folder), *KGTOOL]
    return Terminal([*there, "top", "-b", bootstrap, "--interval", "500ms"], size, environ)


def _only(screen: Terminal, prefix: str) -> list[str]:
    """Filter, so that three groups are left; the worst of them comes first."""
    screen.shows(" ago")
    _filter(screen, prefix)
    screen.until(lambda lines: sum(_is_row(line, prefix) for line in lines) == 3, "three groups")
    return screen.until(lambda lines: lines[2].split()[-1:] != ["-"] and _rank(lines)[0] == "c")


def _filter(screen: Terminal, text: str) -> None:
    screen.press("/")
    screen.shows("name, glob*")
    screen.press(text, "enter")
    screen.until(lambda lines: f"({text})" in lines[0] and lines[-3] != text, "a closed filter")


def _is_row(line: str, prefix: str) -> bool:
    return prefix[:7] in line and "classic" in line or ("Empty" in line and prefix[:7] in line)


def _rank(lines: list[str]) -> list[str]:
    """The endings of the names in the table, from top to bottom."""
    return [m[1] for line in lines[2:5] if (m := re.match(r".\s?\S*-([abc])\s", line))]


def _wrapped(screen: Terminal, text: str) -> None:
    """Wait for words that a line may end between: names have the number of the test's process."""
    screen.until(lambda lines: text in " ".join(map(str.strip, lines)), text)


def test_looking(screen: Terminal, size: tuple[int, int], prefix: str, topic: str) -> None:
    lines = _only(screen, prefix)
    assert _rank(lines)[0] == "c", "beyond the end: the worst"
    assert max(map(len, lines)) <= size[0]
    screen.until(lambda lines: f"describe {prefix}-c" in lines[-2], "the chosen row's command")
    assert screen.lines[-2].startswith("$ kgtool")
    screen.press("s")  # by lag
    screen.until(lambda lines: _rank(lines)[0] == "a", "the largest lag first")
    assert "by lag" in screen.lines[0]
    screen.press("enter")
    page = screen.shows("No findings.")
    assert page[0].split()[0] == f"{prefix}-a"
    assert any(line.split()[1:4] == ["2", "10", "8"] for line in page), page
    screen.press("escape", "t")
    page = screen.shows("MAX-LAG")
    screen.press("escape", "?")
    screen.shows("Changes of the marked groups")
    screen.press("escape")
    screen.until(lambda lines: _rank(lines)[:1] == ["a"], "the table")
    screen.click(5, 3)
    second = screen.until(lambda lines: f"{prefix}-a" not in lines[-2], "another command line")
    assert f"describe {prefix}-" in second[-2]
    screen.press("q")
    assert screen.exit_status() == 0
    assert "Traceback" not in screen.raw
    assert "\x1b[?1049l" in screen.raw, "the screen of before is back"
    assert termios.tcgetattr(screen._theirs)[3] == screen.before[3], "and the terminal's modes"


def test_changing(
    screen: Terminal, prefix: str, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    _only(screen, prefix)
    screen.press("space")
    screen.until(lambda lines: lines[2].startswith("●"), "a mark")
    screen.press("d")
    screen.shows("Change 1 group?")
    screen.press("enter", "escape")
    screen.shows("FINDINGS" if screen.width > 100 else "SEEN")
    assert f"{prefix}-c" in group_ids(bootstrap), "Enter and Escape change nothing"
    screen.press("d")
    screen.shows("Change 1 group?")
    screen.press("y")
    screen.shows("Undo: u, or kgtool undo")
    assert f"{prefix}-c" not in group_ids(bootstrap)
    screen.press("escape", "u")
    screen.shows("Change 1 group?")
    screen.press("y")
    screen.shows("restored")
    assert committed(bootstrap, f"{prefix}-c") == {(topic, 0): 99}
    screen.press("escape")
    screen.shows(f"({prefix})")
    screen.press("escape")
    _filter(screen, f"{prefix}-a")
    screen.until(lambda lines: _rank(lines) == ["a"], "one group")
    screen.press("r")
    screen.shows("To where?")
    screen.press("latest", "enter")
    _wrapped(screen, "2 → 10, skips 8")
    screen.press("y")
    screen.shows("Undo: u, or kgtool undo")
    assert committed(bootstrap, f"{prefix}-a") == {(topic, 0): 10}
    screen.press("escape", "k")
    screen.shows("Change 1 group?")
    screen.press("escape", "o")
    screen.shows("Offsets of which topics?")
    screen.press(topic, "enter")
    screen.shows("would-delete")
    screen.press("y")
    screen.shows("Undo: u, or kgtool undo")
    assert committed(bootstrap, f"{prefix}-a") == {}
    screen.press("escape", "q")
    assert screen.exit_status() == 0
    assert "Traceback" not in screen.raw


def test_keys_that_come_in_one_burst(screen: Terminal, prefix: str, topic: str) -> None:
    """Over a slow line keys come together: each goes where it would have gone one by one.

    The filter took what was typed before Enter was carried out, and lost what came with its "/".
    """
    _only(screen, prefix)
    screen.press("escape")
    screen.press(f"/{prefix}-b\rr")
    screen.shows("To where?")
    screen.press("escape")
    screen.until(lambda lines: _rank(lines) == ["b"], "the group of the whole filter")
    screen.press("/", "\x7f")
    screen.until(lambda lines: f"({prefix}-)" in lines[0], "the line is open")
    screen.press("a\rr")
    screen.shows("To where?")
    screen.press("escape")
    screen.until(lambda lines: _rank(lines) == ["a"], "the filter, edited")
    screen.press("rlatest\r\r")
    _wrapped(screen, "2 → 10, skips 8")


def test_a_plan_is_written(screen: Terminal, prefix: str, bootstrap: str, tmp_path: Path) -> None:
    _only(screen, prefix)
    screen.press("p")
    screen.shows("Wrote kgtool-cleanup-")
    (plan,) = tmp_path.glob("kgtool-cleanup-*.json")
    assert f"{prefix}-c" in plan.read_text()
    shown = " ".join(" ".join(screen.lines).split())
    assert f"cleanup apply {plan.name}" in shown, "the line may be longer than the screen is wide"
    assert f"{prefix}-c" in group_ids(bootstrap)


def test_no_color(bootstrap: str, prefix: str, tmp_path: Path) -> None:
    with _start(bootstrap, (80, 24), tmp_path, NO_COLOR="1") as screen:
        _only(screen, prefix)
        screen.press("enter")
        screen.shows("problem:")
        assert COLOUR.search(screen.raw) is None
    with _start(bootstrap, (80, 24), tmp_path) as screen:
        _only(screen, prefix)
        assert COLOUR.search(screen.raw) is not None, "the test sees colours"


def test_windows_of_any_size(bootstrap: str, prefix: str, tmp_path: Path) -> None:
    with _start(bootstrap, (80, 24), tmp_path) as screen:
        _only(screen, prefix)
        for width, height in ((20, 5), (8, 2), (1, 1), (300, 60), (80, 24)):
            screen.resize(width, height)
            screen.press("down", "up")
        screen.until(lambda lines: len(_rank(lines)) == 3, "the table")
        screen.press("\x03")  # Ctrl-C
        screen.press("q")
        assert screen.exit_status() == 0
        assert "Traceback" not in screen.raw


def test_a_signal_ends_it(bootstrap: str, prefix: str, tmp_path: Path) -> None:
    """A closed window or ``kill`` leaves no broken terminal and no traceback."""
    with _start(bootstrap, (80, 24), tmp_path) as screen:
        _only(screen, prefix)
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.exit_status() == 128 + signal.SIGTERM
        assert "\x1b[?1049l" in screen.raw
        assert "Traceback" not in screen.raw
