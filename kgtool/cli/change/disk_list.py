"""Plans of changes on disk: what was shown is what is done, and memory holds one wave of it."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from typing import Generic, TypeVar

from kgtool.errors import KgError

T = TypeVar("T")

MEMORY_BYTES = 4 * 1024 * 1024
"""A plan up to this size needs no file."""


class SpoolError(KgError):
    """The plan does not fit on the disk."""

    name = "SPOOL"


class Spool(Generic[T]):
    """Waves that are written one by one, and read again in that order as often as needed.

    A context manager. The file has no name, and no other process can read it.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - see __exit__

    def __enter__(self) -> Spool[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, wave: T) -> None:
        """Write one wave.

        :raises SpoolError: there is no room for it; nothing was changed then.
        """
        try:
            self._file.seek(0, 2)
            pickle.dump(wave, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise SpoolError(
                f"The plan can't be kept in {tempfile.gettempdir()} ({error.strerror}), so nothing "
                "was changed.",
                hint="Free some space, or choose another folder with TMPDIR.",
            ) from error

    def __iter__(self) -> Iterator[T]:
        at = 0
        while True:
            self._file.seek(at)
            try:
                wave: T = pickle.load(self._file)
            except EOFError:
                return
            at = self._file.tell()
            yield wave
