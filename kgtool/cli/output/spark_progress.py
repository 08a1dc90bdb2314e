"""A line on the terminal that tells how far Spark is; it goes away before anything is put out."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from kgtool.cli.output import terminal

if TYPE_CHECKING:
    from kgtool.analysis.tally import State

EVERY_S = 0.2
AFTER_NOTES_S = 0.5
"""How long the line stays away when something was said on the same terminal."""
BAR = 20
MANY = 8
"""Tasks that are worth a bar: fewer come and go too fast."""
_ERASE = "\r\x1b[K"


class Progress:
    """Draws what ``look`` tells while the ``with`` lasts; nothing where nobody looks.

    Until somebody has set ``look`` Spark is starting, which takes a few seconds.
    """

    def __init__(self, stream: TextIO | None = None, start: str = "Starting Spark") -> None:
        self.look: Callable[[], State | None] | None = None
        self._stream = stream or sys.stderr
        self._start = start
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._quiet_until = 0.0
        self._is_drawn = False
        self._drawn = ""
        self._since = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Progress:
        if terminal.is_terminal(self._stream) and os.environ.get("TERM", "dumb") != "dumb":
            try:
                # At once: while Spark starts its own stderr goes elsewhere, and this one's with it.
                self._draw(self._start)
                self._thread.start()
            except BaseException:  # an interruption: nobody calls __exit__ then
                self.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the line away for good."""
        self._stop.set()
        with self._lock:
            self._erase()

    def make_way(self) -> None:
        """Take the line away for a moment: something else is about to be said."""
        with self._lock:
            self._quiet_until = time.monotonic() + AFTER_NOTES_S
            self._erase()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            state = self.look() if self.look is not None else None
            if state is None:
                continue
            columns = terminal.size()[0] - 1
            ascii_only = terminal.mark_for(self._stream) != "…"
            seconds = int(time.monotonic() - self._since)
            self._draw(line(state, seconds, columns, ascii_only=ascii_only))

    def _draw(self, text: str) -> None:
        with self._lock:
            if not self._stop.is_set() and time.monotonic() >= self._quiet_until:
                is_new = not self._is_drawn or text != self._drawn
                self._is_drawn, self._drawn = True, text  # first: an interruption may come
                if is_new:
                    self._put(_ERASE + text)

    def _erase(self) -> None:
        if self._is_drawn:
            self._put(_ERASE)
            self._is_drawn = False

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._stop.set()


def line(state: State, seconds: int, columns: int, *, ascii_only: bool = False) -> str:
    """What is read, of what, or else how many of the present tasks are done; and for how long.

    >>> from kgtool.analysis.tally import State
    >>> line(State(1200, 500_000, 2_000_000, 1, 4), 65, 80, ascii_only=True)
    'Reading   [#####...............] 500.0 kB of 2.0 MB, 1,200 records, 1:05'
    """
    from kgtool.analysis.words import count, size

    clock = f"{seconds // 60}:{seconds % 60:02}"
    read = f"{count(state.records, 'record')}, {clock}"
    if state.is_reading and state.total_bytes:
        bar = _bar(state.bytes / state.total_bytes, ascii_only)
        head, words = f"Reading   {bar} ", f"{size(state.bytes)} of {size(state.total_bytes)}, "
    elif state.is_reading:
        head, words = "Reading   ", f"{size(state.bytes)}, "
    elif state.tasks >= MANY:
        bar = _bar(state.tasks_done / state.tasks, ascii_only)
        head, words = f"Computing {bar} ", f"{state.tasks_done:,} of {state.tasks:,} tasks, "
    else:
        head, words = "Computing ", f"with {size(state.bytes)}, "
    text = head + words + read
    return text if len(text) <= columns else (words + read)[: max(columns, 0)]


def _bar(part: float, ascii_only: bool) -> str:
    done = round(BAR * min(max(part, 0.0), 1.0))
    full, rest = ("#", ".") if ascii_only else ("█", "░")
    return f"[{full * done}{rest * (BAR - done)}]"
