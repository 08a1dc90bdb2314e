"""How far ``analyze`` is: what Spark, or the local engine, has read and computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from kgtool.cli.output.progress import Line, fitted

if TYPE_CHECKING:
    from kgtool.analysis.decode.tally import State

MANY = 8
"""Tasks that are worth a bar: fewer come and go too fast."""


class Progress(Line):
    """Draws what ``look`` tells.

    Until somebody has set ``look`` Spark is starting, which takes a few seconds.
    """

    def __init__(self, stream: TextIO | None = None, start: str = "Starting Spark") -> None:
        super().__init__(self._line, stream=stream, after_s=0.0)
        self.look: Callable[[], State | None] | None = None
        self._start = start
        self._since = time.monotonic()

    def __enter__(self) -> Progress:
        super().__enter__()
        return self

    def begin(self) -> None:
        """Draw at once: while Spark starts its stderr goes elsewhere, and this one's with it."""
        self.draw(self._start)

    def _line(self, columns: int, ascii_only: bool) -> str | None:
        state = self.look() if self.look is not None else None
        if state is None:
            return None
        return line(state, int(time.monotonic() - self._since), columns, ascii_only=ascii_only)


def line(state: State, seconds: int, columns: int, *, ascii_only: bool = False) -> str:
    """What is read, of what, or else how many of the present tasks are done; and for how long.

    >>> from kgtool.analysis.decode.tally import State
    >>> line(State(1200, 500_000, 2_000_000, 1, 4), 65, 90, ascii_only=True)
    'Reading   [#####...............] 500.0 kB of 2.0 MB, 1,200 records, 1:05'
    """
    from kgtool.analysis.words import count, size

    clock = f"{seconds // 60}:{seconds % 60:02}"
    read = f"{count(state.records, 'record')}, {clock}"
    if state.is_reading and state.total_bytes:
        part = state.bytes / state.total_bytes
        words = f"{size(state.bytes)} of {size(state.total_bytes)}, "
        return fitted("Reading   ", part, words + read, columns, ascii_only)
    if state.tasks >= MANY and not state.is_reading:
        words = f"{state.tasks_done:,} of {state.tasks:,} tasks, "
        part = state.tasks_done / state.tasks
        return fitted("Computing ", part, words + read, columns, ascii_only)
    head = "Reading   " if state.is_reading else "Computing "
    words = f"{size(state.bytes)}, " if state.is_reading else f"with {size(state.bytes)}, "
    text = head + words + read
    return text if len(text) <= columns else (words + read)[: max(columns, 0)]
