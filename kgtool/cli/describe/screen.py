"""The terminal of ``describe --watch``: the table, and the keys that scroll it."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from typing import Any

from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import Fit, draw, fit
from kgtool.columns import Column, Row

Table = tuple[Sequence[Column], Sequence[Row]]

UP, DOWN, PAGE_UP, PAGE_DOWN, TOP, END = "up", "down", "page up", "page down", "top", "end"
QUIT = "quit"
MOST = 1 << 31
LOW = 10
"""A terminal with fewer lines has none to spare for what is hidden."""
_KEYS = {
    b"\x1b[A": UP,
    b"\x1bOA": UP,
    b"k": UP,
    b"\x1b[B": DOWN,
    b"\x1bOB": DOWN,
    b"j": DOWN,
    b"\x1b[5~": PAGE_UP,
    b"b": PAGE_UP,
    b"\x1b[6~": PAGE_DOWN,
    b" ": PAGE_DOWN,
    b"\x1b[H": TOP,
    b"\x1b[1~": TOP,
    b"g": TOP,
    b"\x1b[F": END,
    b"\x1b[4~": END,
    b"G": END,
    b"q": QUIT,
}
"""Escape sequences of terminals; letters as in less."""


class Keys:
    """Reads single keys from the terminal, whose mode is restored at the end of the ``with``.

    There are no keys if stdin is not a terminal, or another process is in its foreground.
    """

    def __init__(self, has_screen: bool) -> None:
        self.is_over = False
        self._fd = sys.stdin.fileno() if has_screen and _is_foreground() else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Keys:
        if self._fd is not None:
            import termios
            import tty

            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None and self._before is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def next(self, seconds: float) -> str | None:
        """Wait for a key that scrolls the table; None: no such key in that time, or q."""
        if self._fd is None:
            time.sleep(seconds)
            return None
        if not select.select([self._fd], [], [], seconds)[0]:
            return None
        typed = os.read(self._fd, 32)
        if not typed:  # the terminal is gone
            self._fd = None
        move = _KEYS.get(typed)
        self.is_over = move == QUIT
        return None if self.is_over else move


def _is_foreground() -> bool:
    """Whether this process is in the foreground of its terminal."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # Windows; no controlling terminal; closed
        return False


class Screen:
    """Redraws the table in place, and leaves the rest of the terminal alone."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: tuple[str, Sequence[Table], Sequence[str]] = ("", (), ())
        self._above, self._room = 0, 1
        self._lines: list[str] = []
        self._is_drawing = False
        self._size = terminal.size()

    def show(self, head: str, tables: Sequence[Table], errors: Sequence[str]) -> None:
        """Show the tables; of one that does not fit, the part scrolled to."""
        self._shown = head, tables, errors
        self._draw()

    def move(self, move: str) -> None:
        """Scroll the tables."""
        steps = {
            UP: -1,
            DOWN: 1,
            PAGE_UP: 1 - self._room,
            PAGE_DOWN: self._room - 1,
            TOP: -self._above,
            END: MOST,
        }
        self._above = max(self._above + steps[move], 0)
        self._draw()

    def _draw(self) -> None:
        head, tables, errors = self._shown
        size = terminal.size()
        width, height = size[0] - 1, size[1]
        mark = terminal.mark_for()
        lines: list[str] = []
        hidden: list[str] = []
        for columns, rows in tables:
            fitting = fit(columns, rows, width)
            hidden += fitting.hidden
            lines += [*([""] if lines else []), *self._table(columns, rows, fitting, width, mark)]
        heads = [head]
        if hidden and height >= LOW:
            heads.append(f"Hidden columns: {', '.join(dict.fromkeys(hidden))}")
        errors = [terminal.shorten(line, width, mark) for line in errors][: height // 2]
        # Taken are the headlines and the line of the cursor.
        lines = self._visible(lines, max(height - 1 - len(heads) - len(errors), 3), mark)
        lines = [*(terminal.shorten(line, width, mark) for line in heads), *lines, *errors]
        self._write(lines, size)

    def _visible(self, lines: list[str], room: int, mark: str) -> list[str]:
        """Return the header, the lines that fit, and a line on those that do not."""
        self._room = room - 2
        missing = len(lines) - 1 - self._room
        if len(lines) <= room:
            self._above = 0
            return lines
        self._above = min(self._above, missing)
        below = missing - self._above
        counts = [
            f"{n} more {where}" for n, where in ((self._above, "above"), (below, "below")) if n
        ]
        scrolled = f"{mark} {', '.join(counts)}; arrow keys move, q ends it"
        first = 1 + self._above
        return [lines[0], *lines[first : first + self._room], scrolled]

    def _table(
        self, columns: Sequence[Column], rows: Sequence[Row], fitting: Fit, width: int, mark: str
    ) -> list[str]:
        fits = fitting.width <= width
        colored = fits and self._output.has_color
        lines = draw(columns, rows, sizes=fitting.sizes, colored=colored, mark=mark).splitlines()
        return lines if fits else [terminal.shorten(line, width, mark) for line in lines]

    def _write(self, lines: list[str], size: tuple[int, int]) -> None:
        start = f"\x1b[{len(self._lines)}F" if self._lines else ""
        if size != self._size:  # the terminal has wrapped the old lines
            start, self._size = "\x1b[H\x1b[2J", size
        self._is_drawing, self._lines = True, lines
        self._put(start + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._is_drawing = False

    def leave(self) -> None:
        """Move below the last table, after the ^C that the terminal shows.

        On Ctrl-C a terminal discards output that it has not shown, so that a table that was being
        drawn is drawn again.
        """
        again = "".join(f"{line}\n" for line in self._lines) if self._is_drawing else ""
        self._put("\n" + again)

    def _put(self, text: str) -> None:
        self._output.text(text, end="")
        self._output.flush()
