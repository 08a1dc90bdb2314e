"""The progress line of ``analyze``: what Spark, or the local engine, has read and computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kgtool.analysis.words import count
from kgtool.cli.output.progress import BYTES, ProgressLine, fitted, progress_words
from kgtool.text import size

if TYPE_CHECKING:
    from kgtool.analysis.decode.job_progress import State
    from kgtool.cli.output.output import Output

MANY = 8
"""Tasks that are worth a bar: fewer are done too fast."""


class AnalyzeProgress(ProgressLine):
    """Draws the state that ``look`` returns, which is set when Spark has started.

    The first text is drawn at once: while Spark starts, stderr is redirected.
    """

    after_s = 0.0
    ends_with_results = True

    def __init__(self, output: Output, first_text: str = "Starting Spark") -> None:
        super().__init__(output)
        self.look: Callable[[], State | None] | None = None
        self.first_text = first_text
        self._was_reading: bool | None = None
        self._since = time.monotonic()

    def text(self, columns: int, ascii_only: bool) -> str | None:
        """Return what is read or computed."""
        if self.look is None:
            return f"{self.first_text}, {clock(time.monotonic() - self._since)}"[:columns]
        state = self.look()
        if state is None:
            return None
        if state.is_reading != self._was_reading:  # the rate is that of the phase
            self._was_reading, self._since = state.is_reading, time.monotonic()
        seconds = time.monotonic() - self._since
        colored = self._output.has_color
        return line(state, seconds, columns, ascii_only=ascii_only, colored=colored)


def line(
    state: State, seconds: float, columns: int, *, ascii_only: bool = False, colored: bool = False
) -> str:
    """Return what is read, or how many of the current tasks are done, and the rate.

    >>> from kgtool.analysis.decode.job_progress import State
    >>> line(State(1200, 500_000, 2_000_000, 1, 4), 65, 90, ascii_only=True)
    'Reading   [#####...............] 500.0 kB of 2.0 MB, 7.7 kB/s, about 3m 15s left'
    """
    head = "Reading   " if state.is_reading else "Computing "
    done, total, unit = state.tasks_done, state.tasks, "tasks"
    if state.is_reading:
        done, total, unit = state.bytes, state.total_bytes, BYTES
    if total >= (1 if state.is_reading else MANY):
        part = done / total
        words = progress_words(done, total, unit, seconds, part)
        return fitted(head, part, words, columns, ascii_only, colored=colored)
    words = "" if state.is_reading else "with "
    words += f"{size(state.bytes)}, {count(state.records, 'record')}, {clock(seconds)}"
    text = head + words
    return text if len(text) <= columns else words[: max(columns, 0)]


def clock(seconds: float) -> str:
    """Return a time like ``2:05``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
