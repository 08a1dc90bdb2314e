"""A line that says how far a long command is: on a terminal only, on stderr."""

from __future__ import annotations

import sys
import time

from kgtool.columns import duration


class Meter:
    """``1200 of 2000 groups, 3 left alone, 240/s, about 3s left``; redrawn in place.

    :param total: how many there are; ``done`` counts those of this run, for the rate.
    """

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._began = time.monotonic()
        self._done = 0
        self._shown = False
        self._is_on = sys.stderr.isatty()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def add(self, done: int) -> None:
        """Count more of them; the line goes away with the last one."""
        self._done += done
        if self._done < self._total:
            self.show(self._done)
        else:
            self.clear()

    def show(self, done: int, skipped: int = 0, failed: int = 0) -> None:
        """Draw the line anew."""
        if not self._is_on:
            return
        line = f"{done} of {self._total} {self._what}"
        line += f", {skipped} left alone" if skipped else ""
        line += f", {failed} failed" if failed else ""
        line += self._pace(done)
        sys.stderr.write(f"\r\x1b[K{line[:79]}")
        sys.stderr.flush()
        self._shown = True

    def _pace(self, done: int) -> str:
        seconds = time.monotonic() - self._began
        if not done or seconds <= 0:
            return ""
        rate = done / seconds
        left = duration(max(int((self._total - done) / rate), 1) * 1000)
        shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
        return f", {shown}/s" + (f", about {left} left" if done < self._total else "")

    def clear(self) -> None:
        """Take the line away, so that something else can be said."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
