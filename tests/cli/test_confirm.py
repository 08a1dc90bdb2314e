"""Changes are asked about on a terminal: a real pseudo-terminal, a real broker."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli import run
from tests.support import clients

pytestmark = pytest.mark.broker

CTRL_C = b"\x03"


class Answered(NamedTuple):
    status: int
    out: str
    screen: str


def _answer(
    argv: list[str], answer: bytes, after_seconds: float = 0, *, is_asked: bool = True
) -> Answered:
    """Run with a terminal for stdin and stderr; type when the question stands there."""
    master, slave = pty.openpty()
    try:
        process = subprocess.Popen(
            run.command_line(*argv),
            stdin=slave,
            stderr=slave,
            stdout=subprocess.PIPE,
            text=True,
            cwd=run.ROOT,
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(slave)
        screen = b""
        if is_asked:
            screen = _read(master, until=b"[y/N]: ")
            time.sleep(after_seconds)
            # Between the prompt's last letter and read() CPython looks for no signal: a Ctrl-C
            # that comes there, microseconds after the prompt, is lost.
            clients.wait_for(lambda: _is_reading(process.pid), "the process to read")
            os.write(master, answer)
        try:
            out, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        screen += _read(master)
        return Answered(process.returncode, out, screen.decode())
    finally:
        os.close(master)


def _is_reading(pid: int) -> bool:
    """Whether the process sleeps, and goes on sleeping."""
    for _ in range(3):
        if not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S"):
            return False
        time.sleep(0.01)
    return True


def _own_terminal() -> None:
    """Make the terminal the controlling one, so that Ctrl-C typed there is a SIGINT."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read(master: int, until: bytes | None = None) -> bytes:
    seen = b""
    limit = time.monotonic() + 40
    while time.monotonic() < limit and (until is None or until not in seen):
        ready, _, _ = select.select([master], [], [], 0.5)
        if not ready and until is None:
            break
        if ready:
            try:
                data = os.read(master, 4096)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            seen += data
    assert until is None or until in seen, seen.decode()
    return seen


@pytest.fixture
def group(bootstrap: str) -> Iterator[tuple[str, str]]:
    topic = clients.create_topic(bootstrap, clients.unique("prompt"), 2)
    name = clients.unique("prompt")
    clients.commit(bootstrap, name, {(topic, 0): 0, (topic, 1): 0})
    yield name, topic


def test_yes_deletes_the_offsets(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    argv = ["delete-offsets", "--bootstrap-server", bootstrap, "--group", name, "--topic"]
    done = _answer([*argv, f"{topic}:1"], b"y\n")
    assert done.status == 0
    assert f" of {name}." in done.out
    assert "Delete 1 committed offset?" in done.screen
    assert "kgtool undo restores them" in done.screen
    assert topic in done.screen
    assert clients.committed(bootstrap, name) == {(topic, 0): 0}


@pytest.mark.parametrize(
    ("answer", "status"), [(b"n\n", 1), (b"\n", 1), (b"\x04", 1), (CTRL_C, 130)]
)
def test_anything_else_deletes_nothing(
    bootstrap: str, group: tuple[str, str], answer: bytes, status: int
) -> None:
    name, topic = group
    for argv in (
        ["delete", "--bootstrap-server", bootstrap, "--group", name],
        ["delete-offsets", "--bootstrap-server", bootstrap, "--group", name, "--topic", topic],
    ):
        done = _answer(argv, answer)
        assert done.status == status
        assert done.out == ""
        assert "Traceback" not in done.screen
        assert clients.committed(bootstrap, name) == {(topic, 0): 0, (topic, 1): 0}


def test_yes_deletes_the_group(bootstrap: str, group: tuple[str, str]) -> None:
    name, _ = group
    done = _answer(["delete", "--bootstrap-server", bootstrap, "--group", name], b"y\n")
    assert done.status == 0
    assert done.out == f"Deleted group {name}.\n"
    assert "Delete 1 group?" in done.screen
    assert name not in clients.group_ids(bootstrap)


def test_thinking_does_not_count(bootstrap: str, group: tuple[str, str]) -> None:
    """--timeout is for the cluster, not for the person at the terminal."""
    name, _ = group
    argv = ["delete", "--bootstrap-server", bootstrap, "--group", name, "--timeout", "4000"]
    done = _answer(argv, b"y\n", after_seconds=4.5)
    assert done.status == 0
    assert name not in clients.group_ids(bootstrap)


def test_without_a_terminal_nothing_is_sent(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    result = run.kgtool("delete", "--bootstrap-server", bootstrap, "--group", name)
    assert (result.status, result.out) == (2, "")
    assert "--yes" in result.err
    assert clients.committed(bootstrap, name) == {(topic, 0): 0, (topic, 1): 0}
    result = run.kgtool("delete", "--bootstrap-server", bootstrap, "--group", name, "--yes")
    assert result.status == 0
    assert name not in clients.group_ids(bootstrap)


def test_the_question_says_what_is_at_stake(bootstrap: str) -> None:
    """And whoever has not typed the name of a group that is in use types it now."""
    topic = clients.create_topic(bootstrap, clients.unique("stakes"), 2)
    clients.produce(bootstrap, topic, 7)
    prefix = clients.unique("stakes")
    for number in range(2):
        clients.commit(bootstrap, f"{prefix}-{number}", {(topic, 0): 5, (topic, 1): 0})
    by_name = ["--group", f"{prefix}-0", "--group", f"{prefix}-1"]
    said = _answer(["delete", "--bootstrap-server", bootstrap, *by_name], b"n\n").screen
    assert "Total: 2 groups, 4 offsets, lag 4, latest commit 20" in said
    argv = ["delete", "--bootstrap-server", bootstrap, "--match", f"{prefix}-*"]
    wrong = _answer(argv, b"y\nno\n")
    assert wrong.status == 1
    question = rf"the latest commit was \d+m?s ago\. Type the latest, ({prefix}-[01]): "
    asked = re.search(f"Groups that changed within the day: {question}", wrong.screen)
    assert asked, wrong.screen
    named = asked[1]
    offsets = ["delete-offsets", *argv[1:], "--topic", f"{topic}:0"]
    assert _answer(offsets, f"y\n{named}\n".encode()).status == 0
    assert clients.committed(bootstrap, named) == {(topic, 1): 0}


def test_a_reset_without_execute_is_a_preview_and_then_a_question(
    bootstrap: str, group: tuple[str, str]
) -> None:
    name, topic = group
    clients.produce(bootstrap, topic, 3)
    argv = ["reset-offsets", name, "-b", bootstrap, "--topic", f"{topic}:0", "--to-latest"]
    no = _answer(argv, b"\n")
    assert (no.status, no.out) == (0, "")
    assert "Reset 1 committed offset?" in no.screen
    assert "Skips 3 records unread, replays 0." in no.screen  # whatever columns fit
    assert "Nothing changed." in no.screen
    assert clients.committed(bootstrap, name)[topic, 0] == 0
    for more in (["--dry-run"], ["--export"], ["-o", "json"]):
        silent = _answer([*argv, *more], b"", is_asked=False)
        assert (silent.status, "committed offset?" in silent.screen) == (0, False), more
        assert clients.committed(bootstrap, name)[topic, 0] == 0
    script = run.kgtool(*argv)
    assert script.status == 0
    assert "Dry run: nothing was changed" in script.err
    assert clients.committed(bootstrap, name)[topic, 0] == 0
    yes = _answer(argv, b"y\n")
    assert yes.status == 0
    assert "Dry run" not in yes.screen
    assert clients.committed(bootstrap, name)[topic, 0] == 3
