"""The progress line of long work: on a terminal only, on stderr, after a second.

It is erased before any other output, and not drawn while a question waits for its answer.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kgtool.cli.output import terminal
from kgtool.columns import duration
from kgtool.text import addresses, size

if TYPE_CHECKING:
    from typing_extensions import Self

    from kgtool.cli.output.output import Output
    from kgtool.net.session import Session

EVERY_S = 0.2
AFTER_S = 1.0
"""Shorter work needs no line."""
AFTER_NOTES_S = 0.5
"""How long no line is drawn after other output on the terminal."""
BAR = 20
BYTES = "bytes"
_ERASE = "\r\x1b[K"


class ProgressLine:
    """Draws ``text()`` again and again during the ``with``, on a terminal only."""

    after_s = AFTER_S
    first_text = ""
    """Drawn at once."""
    ends_with_results = False
    """Whether the first result that is printed ends the line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stream = output.stderr
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._quiet_until = time.monotonic() + self.after_s
        self._drawn = ""
        """The text on the terminal; empty: none."""
        self._before: Callable[[bool], None] | None = None
        self._handle: int | None = None
        """The terminal itself: stderr is redirected while Spark starts."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def text(self, columns: int, ascii_only: bool) -> str | None:
        """Return the line, at most so many columns wide; None: nothing to show yet."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._before, self._output.before_writing = self._output.before_writing, self._make_way
        if self._before is not None:
            self._before(False)  # one line at a time: an outer one makes way
        if terminal.is_terminal(self._stream) and os.environ.get("TERM", "dumb") != "dumb":
            with suppress(OSError, ValueError):  # no file
                self._handle = os.dup(self._stream.fileno())
            try:
                if self.first_text:
                    self.draw(self.first_text)
                self._thread.start()
            except BaseException:  # interrupted: __exit__ is not called
                self.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._output.before_writing = self._before

    def close(self) -> None:
        """Erase the line, and draw no other."""
        self._stop.set()
        with self._lock:
            self._erase()
            handle, self._handle = self._handle, None
            if handle is not None:
                os.close(handle)

    def _make_way(self, is_result: bool) -> None:
        """Erase the line before other output."""
        if is_result and self.ends_with_results:
            self._stop.set()
        with self._lock:
            self._quiet_until = max(self._quiet_until, time.monotonic() + AFTER_NOTES_S)
            self._erase()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._redraw()

    def redraw(self) -> None:
        """Draw what holds from now on, which may be over before the next turn."""
        if self._thread.is_alive():
            self._redraw()

    def _redraw(self) -> None:
        if time.monotonic() < self._quiet_until:
            return
        columns = terminal.size()[0] - 1
        text = self.text(columns, terminal.mark_for(self._stream) != "…")
        if text is not None:
            self.draw(text)

    def draw(self, text: str) -> None:
        """Draw the line over the last one."""
        with self._lock:
            is_quiet = self._output.is_asking or time.monotonic() < self._quiet_until
            if not self._stop.is_set() and not is_quiet:
                was, self._drawn = self._drawn, text  # first: an interruption may come
                if text != was:
                    self._put(_ERASE + text)

    def _erase(self) -> None:
        if self._drawn:
            self._put(_ERASE)
            self._drawn = ""

    def _put(self, text: str) -> None:
        try:
            if self._handle is not None:
                self._stream.flush()  # in order
                os.write(self._handle, text.encode(self._stream.encoding, "replace"))
                return
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._stop.set()


class Meter(ProgressLine):
    """``Deleting [####....] 1,200 of 2,000 groups, 240/s, about 3s left``.

    :param what: the work, as a participle.
    :param total: how many there are, if known.
    :param unit: what is counted; ``BYTES`` are written as such.
    :param count: returns how many are done, instead of ``add`` and ``set``.
    :param part: returns the part of the work that is done, 0 to 1, if the total is unknown.
    """

    def __init__(
        self,
        output: Output,
        what: str,
        total: int | None = None,
        unit: str = "groups",
        count: Callable[[], int] | None = None,
        part: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(output)
        self._what, self._total, self._unit = what, total, unit
        self._count, self._part = count, part
        self._began = time.monotonic()
        self._done = self._skipped = self._failed = 0

    def add(self, done: int) -> None:
        """Add to those that are done."""
        self._done += done

    def set(self, done: int, skipped: int = 0, failed: int = 0) -> None:
        """Set how many are done, and how many of them were left alone or failed."""
        self._done, self._skipped, self._failed = done, skipped, failed

    def text(self, columns: int, ascii_only: bool) -> str | None:
        """Return count, rate and time left, with a bar if the total or the part is known."""
        seconds = time.monotonic() - self._began
        done = self._done if self._count is None else self._count()
        part = self._part() if self._part is not None else done / (self._total or done or 1)
        words = progress_words(done, self._total, self._unit, seconds, part)
        words += f", {self._skipped} left alone" if self._skipped else ""
        words += f", {self._failed} failed" if self._failed else ""
        if not self._total and self._part is None:
            clock = f", {duration(int(seconds) * 1000)}" if done else ""
            return f"{self._what}: {words}{clock}"[:columns]
        colored = self._output.has_color
        return fitted(f"{self._what} ", part, words, columns, ascii_only, colored=colored)


class Connecting(ProgressLine):
    """``Connecting to b1:9092: 2s``, until a broker has answered or another line is drawn."""

    def __init__(self, output: Output, session: Session) -> None:
        super().__init__(output)
        self._session, self._began = session, time.monotonic()

    def text(self, columns: int, ascii_only: bool) -> str | None:
        """Return the addresses and how long they have been tried."""
        if self._session.cluster_id is not None:
            self.close()
        is_alone = self._output.before_writing == self._make_way
        if self._stop.is_set() or not is_alone:
            return None
        seconds = f": {duration(int(time.monotonic() - self._began) * 1000)}"
        where = f"Connecting to {addresses(self._session.settings.bootstrap)}"
        mark = terminal.mark_for(self._stream)
        return terminal.shorten(where, columns - len(seconds), mark) + seconds


def looking(output: Output, session: Session, what: str = "Looking") -> Meter:
    """Return a line that counts requests, until the first result."""
    meter = Meter(output, what, unit="requests", count=lambda: session.loop.requests_sent)
    meter.ends_with_results = True
    return meter


def progress_words(done: int, total: int | None, unit: str, seconds: float, part: float) -> str:
    """Return how many are done, the rate, and the time left at that rate.

    >>> progress_words(1200, 2000, "groups", 5.0, 0.6)
    '1,200 of 2,000 groups, 240/s, about 3s left'
    >>> progress_words(1_500_000, None, "bytes", 1.0, 0.25)
    '1.5 MB, 1.5 MB/s, about 3s left'
    """

    def shown(number: float) -> str:
        if unit == BYTES:
            return size(number)
        return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"

    if not done and not total:
        return duration(int(seconds) * 1000) if seconds >= 1 else ""
    words = shown(done) + (f" of {shown(total)}" if total else "")
    words += "" if unit == BYTES else f" {unit}"
    if done <= 0 or seconds <= 0:  # the clock shows that it is alive
        return words + (f", {duration(int(seconds) * 1000)}" if seconds >= 1 else "")
    words += f", {shown(done / seconds)}/s"
    if not 0 < part < 1:
        return words
    left = duration(max(int(seconds / part * (1 - part)), 1) * 1000)
    return f"{words}, about {left} left"


def fitted(
    head: str, part: float, words: str, columns: int, ascii_only: bool, *, colored: bool = False
) -> str:
    """Return one line of head, bar and words; on a narrow terminal the words alone."""
    size = min(BAR, columns - len(head) - len(words) - 3)
    if size < BAR // 2:
        return words[: max(columns, 0)]
    return f"{head}{bar(part, size, ascii_only=ascii_only, colored=colored)} {words}"


def bar(part: float, size: int = BAR, *, ascii_only: bool, colored: bool = False) -> str:
    """Return a bar of ``size`` columns and two brackets, or rich's where there are colours."""
    part = min(max(part, 0.0), 1.0)
    if colored and not ascii_only:
        return _rich_bar(part, size + 2)
    done = round(size * part)
    full, rest = ("#", ".") if ascii_only else ("█", "░")
    return f"[{full * done}{rest * (size - done)}]"


def _rich_bar(part: float, width: int) -> str:
    from io import StringIO

    from rich.console import Console
    from rich.progress_bar import ProgressBar

    drawn = StringIO()
    console = Console(file=drawn, force_terminal=True, color_system="standard", width=width)
    console.print(
        ProgressBar(1.0, part, width, complete_style="green", finished_style="green"), end=""
    )
    return drawn.getvalue()
