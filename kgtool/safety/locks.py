"""Locks between the kgtools of one machine: nobody changes a group that another one is changing.

One file for each cluster, in the folder of the journals; each group has one byte of it, locked
with POSIX record locks, which the kernel drops with the process. Two groups that share a byte
(one in 2⁵⁶) only wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from kgtool.safety.journal import JournalError, make_folder

_FLOCK = struct.Struct("@hhqqi4x")
"""``struct flock`` of 64-bit Linux."""


class GroupLocks:
    """The locks that this process holds on groups of one cluster; a context manager."""

    def __init__(self, folder: Path, cluster_id: str | None) -> None:
        make_folder(folder)
        name = sha256((cluster_id or "").encode()).hexdigest()[:16]
        self._path = folder / f"cluster-{name}.lock"
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _failed(self._path, error) from error

    def __enter__(self) -> GroupLocks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop all locks."""
        os.close(self._file)

    def take(self, groups: Iterable[str]) -> str | None:
        """Lock groups; return None, or the first one that another process holds.

        Those before it stay locked then: always in the same order, so that two processes that
        wait for each other's groups can't exist.
        """
        for group in sorted(groups):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(group))
            except (BlockingIOError, PermissionError):
                return group
            except OSError as error:
                raise _failed(self._path, error) from error
        return None

    def release(self, groups: Iterable[str]) -> None:
        """Let others have groups."""
        for group in groups:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(group))

    def holder(self, group: str) -> int | None:
        """Return the process that holds a group, None where the system doesn't tell."""
        if not sys.platform.startswith("linux"):
            return None
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _byte(group), 1, 0)
        try:
            answer = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, asked))
        except (OSError, struct.error):
            return None
        return answer[4] if answer[0] != fcntl.F_UNLCK and answer[4] > 0 else None


def _byte(group: str) -> int:
    return int.from_bytes(sha256(group.encode()).digest()[:7], "big")


def _failed(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"Can't lock {path} ({error.strerror}), so nothing was changed.",
        hint="Name another folder with KGTOOL_JOURNAL_DIR.",
    )
