"""A terminal of one's own: runs a program on a pty, and knows what stands on its screen.

It understands what full-screen programs of Textual send: absolute moves, colours, clearing.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PIECE = re.compile(
    r"\x1b\[(?P<csi>[<>?=0-9;]*)(?P<final>[$ ]?[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[()].|\x1bP[^\x1b]*\x1b\\|\x1b[=>78A-Z]|(?P<char>[^\x1b])",
    re.DOTALL,
)
KEYS = {
    "enter": "\r",
    "space": " ",
    "escape": "\x1b",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "end": "\x1b[F",
}
SECONDS = 60
_SIZE = ("COLUMNS", "LINES")
"""The window's size is that of the pty."""


class Terminal:
    """A context manager: a program on a terminal of some size."""

    def __init__(
        self, command: Sequence[str], size: tuple[int, int], environ: Mapping[str, str]
    ) -> None:
        self.width, self.height = size
        self.raw = ""
        """All that the program has sent."""
        self._cells = [[" "] * self.width for _ in range(self.height)]
        self._x = self._y = 0
        self._left = ""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", self.height, self.width, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**{k: v for k, v in environ.items() if k not in _SIZE}, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        os.close(self._theirs)
        self._thread.join(10)
        os.close(self._ours)

    # -- what a person does -----------------------------------------------------------------

    def press(self, *keys: str) -> None:
        """Press keys: those of ``KEYS``, or texts as they are."""
        for key in keys:
            os.write(self._ours, KEYS.get(key, key).encode())
            # What follows an Escape at once is taken for Alt with that key.
            time.sleep(0.5 if key == "escape" else 0.05)

    def click(self, x: int, y: int) -> None:
        """Click on a cell, counted from 0 (SGR mouse reports)."""
        os.write(self._ours, f"\x1b[<0;{x + 1};{y + 1}M\x1b[<0;{x + 1};{y + 1}m".encode())

    def resize(self, width: int, height: int) -> None:
        """Make the window larger or smaller."""
        self.width, self.height = width, height
        self._cells = [[" "] * width for _ in range(height)]
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.killpg(self.process.pid, signal.SIGWINCH)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        return ["".join(row).rstrip() for row in self._cells]

    def until(self, condition: Callable[[list[str]], Any], what: str = "") -> list[str]:
        """Wait until the screen is so; return its lines."""
        deadline = time.monotonic() + SECONDS
        while not condition(lines := self.lines):
            seen = "\n".join(lines)
            assert time.monotonic() < deadline, f"{what} never came:\n{seen}\n{self.raw[-500:]!r}"
            time.sleep(0.05)
        return lines

    def shows(self, text: str) -> list[str]:
        """Wait until a text stands somewhere on the screen."""
        return self.until(lambda lines: any(text in line for line in lines), text)

    def exit_status(self) -> int:
        """Wait for the program's end."""
        return self.process.wait(SECONDS)

    # -- what the terminal does -------------------------------------------------------------

    def _read(self) -> None:
        decode = _decoder()
        try:
            while part := os.read(self._ours, 65536):
                self._take(decode(part))
                if self.process.poll() is not None:
                    os.set_blocking(self._ours, False)
        except OSError:  # the other side is closed
            pass

    def _take(self, text: str) -> None:
        self.raw += text
        text = self._left + text
        at = 0
        while found := _PIECE.match(text, at):
            at = found.end()
            if found["char"] is not None:
                self._put(found["char"])
            elif found["final"] is not None:
                self._control(found["csi"], found["final"])
        self._left = text[at:]

    def _put(self, char: str) -> None:
        if char == "\r":
            self._x = 0
        elif char == "\n":
            self._x, self._y = 0, min(self._y + 1, self.height - 1)
        elif char >= " ":
            if self._x < self.width and self._y < self.height:
                self._cells[self._y][self._x] = char
            self._x += 1

    def _control(self, numbers: str, final: str) -> None:
        if final == "H":
            row, _, column = numbers.partition(";")
            self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
        elif final == "J":
            self._cells = [[" "] * self.width for _ in range(self.height)]
        elif final == "K":
            self._cells[self._y][self._x :] = [" "] * (self.width - self._x)


def _decoder() -> Callable[[bytes], str]:
    import codecs

    return codecs.getincrementaldecoder("utf-8")("replace").decode
