"""Input files: read once, whole, and then held.

What a command shows is what it does, so a file must not be another one at its second reading. ``-``
is stdin. Pipes, ``/dev/stdin`` and ``<(…)`` work as files do; of those that stay silent for longer
than ``--timeout`` the command lets go.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, cast

from kgtool.errors import ConfigError, readable

IN_MEMORY = 128 * 1024
"""Larger files are held in an unnamed file (``TMPDIR``)."""
STDIN = STDOUT = "-"
SILENT_MS = 30_000
"""The default of ``--timeout``."""
_CHUNK = 64 * 1024


class NotText(ConfigError):
    """The file is not UTF-8 text."""


class HeldFile:
    """The content of a file as it was when it was opened; ``str`` is its name in messages."""

    def __init__(self, name: str, parts: Iterator[bytes]) -> None:
        self.name = name
        self._spool: BinaryIO | None = None
        found = bytearray()
        for part in parts:
            if self._spool is None and len(found) + len(part) > IN_MEMORY:
                from tempfile import TemporaryFile

                self._spool = TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this is
                self._spool.write(found)
                found = bytearray()
            if self._spool is None:
                found += part
            else:
                self._spool.write(part)
        self._content = bytes(found)

    def __str__(self) -> str:
        return self.name

    def __del__(self) -> None:
        if self._spool is not None:
            self._spool.close()

    def open(self, _mode: str = "rb") -> BinaryIO:
        """Open it for reading from its beginning, any number of times at once."""
        if self._spool is None:
            return io.BytesIO(self._content)
        return cast("BinaryIO", io.BufferedReader(_Spooled(self, self._spool.fileno())))

    def text(self, encoding: str = "utf-8") -> str:
        """Return all of it.

        :raises NotText: it is not UTF-8.
        """
        with self.open() as file:
            try:
                return file.read().decode(encoding)
            except UnicodeDecodeError as error:
                raise NotText(f"{self.name} is not UTF-8 text.") from error


class _Spooled(io.RawIOBase):
    """A reader with a position of its own."""

    def __init__(self, owner: HeldFile, number: int) -> None:
        self._owner = owner  # which closes it
        self._number, self._at = number, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        ends = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._number).st_size}
        self._at = ends[whence] + offset
        return self._at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = os.pread(self._number, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def hold(
    path: str | os.PathLike[str], timeout_ms: int | None = SILENT_MS, name: str | None = None
) -> HeldFile:
    """Read a file, or stdin.

    :param timeout_ms: how long a pipe may be silent; None: for ever.
    :param name: how messages call it (default: its path).
    :raises ConfigError: it can't be read, or nothing came in time.
    """
    place = os.fspath(path)
    name = name or ("stdin" if place == STDIN else place)
    with readable(name):
        number = _open(place)
        try:
            return HeldFile(name, _parts(number, name, timeout_ms))
        finally:
            os.close(number)


def _open(place: str) -> int:
    folder, _, number = place.rpartition("/")
    if place in (STDIN, "/dev/stdin"):
        return os.dup(0)
    if folder in ("/dev/fd", "/proc/self/fd") and number.isdigit():
        return os.dup(int(number))  # opened again, a pipe whose writer is done never ends
    # Not to wait for a writer of a FIFO here, where nothing ends that.
    return os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def _parts(number: int, name: str, timeout_ms: int | None) -> Iterator[bytes]:
    from select import POLLIN, poll

    found = os.fstat(number)
    is_known = any(is_kind(found.st_mode) for is_kind in _KINDS)
    if not (is_known or os.isatty(number) or os.path.samestat(found, os.stat(os.devnull))):  # noqa: PTH116
        raise ConfigError(f"Can't read {name}: it is a device, not a file.")
    waiting = poll()
    waiting.register(number, POLLIN)
    while True:
        if not waiting.poll(None if os.isatty(number) else timeout_ms):
            raise ConfigError(
                f"Can't read {name}: nothing was written to it for {(timeout_ms or 0) / 1000:g} s.",
                hint="--timeout MS waits longer.",
            )
        try:
            part = os.read(number, _CHUNK)
        except BlockingIOError:  # another reader was faster
            continue
        if not part:
            return
        yield part


_KINDS = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISFIFO, stat.S_ISSOCK)
