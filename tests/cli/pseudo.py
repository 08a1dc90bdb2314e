"""A pseudo-terminal to run commands in, and what would be seen on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from tests.cli import run


class Terminal:
    """Runs one command with a terminal of a given size; close it after use (``with``)."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 80,
        lines: int = 24,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.columns, self.lines = columns, lines
        self.output = ""
        self._unread = ""
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        environ = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "PAGER", "KGTOOL_PAGER", "LESS", "COLUMNS", "LINES")
        }
        environ |= {"TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})}
        try:
            self.process = subprocess.Popen(
                list(argv),
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=environ,
                cwd=run.ROOT,
                start_new_session=True,
                preexec_fn=_own_terminal,
            )
        finally:
            os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=30)
        os.close(self._master)

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def type_until(self, key: str, pattern: str) -> None:
        """Type a key, each second again, until a pattern was printed: keys may get lost."""
        for _ in range(40):
            self.type(key)
            limit = time.monotonic() + 1
            while time.monotonic() < limit:
                if re.search(pattern, self._unread):
                    return
                assert self._read(limit) is not None, f"ended without {pattern!r}"
        raise AssertionError(f"no {pattern!r} in 40 s: {self._unread!r}")

    def read_until(self, pattern: str, timeout: float = 40) -> str:
        """Read until a pattern was printed; what came behind it is left for the next time."""
        wanted = re.compile(pattern)
        limit = time.monotonic() + timeout
        while not (found := wanted.search(self._unread)):
            more = self._read(limit)
            assert more is not None, f"ended without {pattern!r}: {self._unread!r}"
            assert time.monotonic() < limit, f"no {pattern!r} in {timeout} s: {self._unread!r}"
        came, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        return came

    def read_all(self, timeout: float = 40) -> int:
        """Read to the end; return the exit status."""
        limit = time.monotonic() + timeout
        while self._read(limit) is not None:
            assert time.monotonic() < limit, f"no end in {timeout} s: {self._unread!r}"
        return self.process.wait(timeout=timeout)

    def _read(self, limit: float) -> str | None:
        """Read what there is; None at the end, "" when there was nothing for a while."""
        if not select.select([self._master], [], [], max(min(limit - time.monotonic(), 0.5), 0))[0]:
            return ""
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return None
        text = data.decode(errors="replace")
        self.output += text
        self._unread += text
        return text if data else None

    @property
    def screen(self) -> list[str]:
        return screen(self.output, self.columns, self.lines)


def _own_terminal() -> None:
    """Make the terminal the controlling one, so that Ctrl-C typed there is a SIGINT."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


_TOKEN = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|\x1b[=>()][0B]?|\r|\n|.", re.DOTALL)


def screen(output: str, columns: int, lines: int) -> list[str]:
    """What a terminal shows after some output: its lines, without blanks at their ends.

    Knows what kgtool and ``less`` use; an escape sequence that isn't known fails the test.
    """
    rows = [""] * lines
    x = y = 0
    for match in _TOKEN.finditer(output):
        token = match.group()
        if token == "\r":
            x = 0
        elif token == "\n" or (token[0] != "\x1b" and x >= columns):
            x = 0
            y += 1
            if y == lines:
                rows, y = [*rows[1:], ""], lines - 1
        if token in "\r\n":
            continue
        if token[0] != "\x1b":
            rows[y] = rows[y].ljust(x)[:x] + token + rows[y][x + 1 :]
            x += 1
            continue
        x, y = _escape(rows, x, y, match.group(1), match.group(2))
    return [row.rstrip() for row in rows]


def _escape(
    rows: list[str], x: int, y: int, numbers: str | None, what: str | None
) -> tuple[int, int]:
    if what in ("m", "h", "l", "r", None):
        return x, y
    if what == "F":
        return 0, max(y - int(numbers or 1), 0)
    if what == "H":
        row, _, column = (numbers or "1;1").partition(";")
        return int(column or 1) - 1, int(row or 1) - 1
    if what == "K":
        rows[y] = rows[y][:x]
    elif what == "J":
        if numbers == "2":
            rows[:] = [""] * len(rows)
        else:
            rows[y] = rows[y][:x]
            rows[y + 1 :] = [""] * len(rows[y + 1 :])
    else:
        raise AssertionError(f"an escape sequence nobody expects: {numbers}{what}")
    return x, y
