"""Append-only files that hold whole lines only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_BUFFER_BYTES = 256 * 1024


class LineFile:
    """An open file to which lines are appended.

    A failed write leaves no torn line behind: the file is cut after the last whole one. The lines
    that did not fit are kept and written with the next ones, or dropped by ``cut``.

    :param number: the file's descriptor; ``close`` closes it.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = os.fstat(number).st_size
        self._waiting = bytearray()
        self._torn: OSError | None = None

    def write(self, lines: str) -> None:
        """Buffer lines; ``flush``, or a full buffer, hands them to the system."""
        self._waiting += lines.encode("ascii")
        if len(self._waiting) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the system, so that it outlives this process."""
        if self._torn is not None:
            raise self._torn
        lines, done = self._waiting, 0
        try:
            while done < len(lines):
                done += os.write(self.number, lines[done : done + _BUFFER_BYTES])
        except OSError:
            done = lines.rfind(b"\n", 0, done) + 1
            self._truncate(self.size + done)
            raise
        finally:
            self.size += done
            del lines[:done]

    def sync(self) -> None:
        """Put everything on the disk."""
        self.flush()
        os.fsync(self.number)

    def cut(self, size: int) -> None:
        """Drop what was written behind ``size``, and the buffer."""
        self._waiting.clear()
        self._truncate(size)
        self.size = size

    def _truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.number, size)
        except OSError as error:
            # Readers skip a torn last line: nothing may follow it.
            self._torn = error

    def close(self) -> None:
        """Close the file; errors are ignored."""
        with contextlib.suppress(OSError):
            os.close(self.number)


def append(path: Path, line: str) -> None:
    """Append a line durably to a file that a killed process may have left torn.

    :raises OSError: it can't be written.
    """
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        drop_torn_line(number)
        file = LineFile(number)
        file.write(line)
        file.sync()
    finally:
        os.close(number)


def drop_torn_line(number: int) -> None:
    """Cut off the part of a last line that a killed writer left: it would garble the next one."""
    size = os.fstat(number).st_size
    keep = size
    while keep:
        start = max(0, keep - 65536)
        at = os.pread(number, keep - start, start).rfind(b"\n")
        keep = start if at < 0 else start + at + 1
        if at >= 0:
            break
    if keep < size:
        os.ftruncate(number, keep)
