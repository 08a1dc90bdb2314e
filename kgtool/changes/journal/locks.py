"""Locks between the kgtools of one machine: only one changes a group at a time.

One file for each cluster, in the folder of the journals; each group has one byte of it, which the
kernel unlocks with the process. Two groups with one byte (one in 2⁵⁶) only wait for each other.
The kernel keeps locks in a list, so the time of many is quadratic: more than ``MANY_GROUPS`` take
all bytes with one lock, if no other kgtool is at work.

The lock belongs to the open file (``F_OFD_SETLK``): POSIX record locks do not exclude within one
process, and closing any descriptor of the file drops them. A POSIX lock on a second byte names
the holder: an open file has no process id. Where the system lacks OFD locks, POSIX ones do both.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from kgtool.changes.journal.folder import JournalError, make_folder, open_private

_FLOCK = struct.Struct("@hhqqi4x")
"""``struct flock`` of 64-bit Linux."""
_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None
_HOLDERS = 2**56
MANY_GROUPS = 500
"""More groups than these are locked with the whole cluster."""


class GroupLocks:
    """The locks that this process holds on groups of one cluster, until ``close``."""

    def __init__(self, folder: Path, cluster_id: str | None) -> None:
        make_folder(folder)
        name = sha256((cluster_id or "").encode()).hexdigest()[:16]
        self._path = folder / f"cluster-{name}.lock"
        self._wanted: set[str] = set()
        try:
            self._file = open_private(self._path, os.O_RDWR)
        except OSError as error:
            raise _failed(self._path, error) from error

    def close(self) -> None:
        """Drop all locks."""
        os.close(self._file)

    def take(self, groups: Iterable[str]) -> str | None:
        """Lock groups; return None, or the first one that another process holds.

        Those before it stay locked then: always in the same order, so that processes can't
        deadlock.
        """
        names = sorted(groups)
        self._wanted.update(names)
        if len(names) > MANY_GROUPS and self._try(0, _HOLDERS):
            return None
        return next((name for name in names if not self._try(_byte(name), 1)), None)

    def _try(self, start: int, length: int) -> bool:
        """Lock some bytes, unless another process holds one of them."""
        try:
            self._lock(fcntl.F_WRLCK, start, length)
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:
            raise _failed(self._path, error) from error
        return True

    def _lock(self, kind: int, start: int, length: int) -> None:
        if _OFD_SETLK is not None:
            wanted = _FLOCK.pack(kind, os.SEEK_SET, start, length, 0)
            fcntl.fcntl(self._file, _OFD_SETLK, wanted)
            start += _HOLDERS
        how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
        with contextlib.suppress(OSError) if _OFD_SETLK is not None else contextlib.nullcontext():
            fcntl.lockf(self._file, how, length, start)

    def release(self, groups: Iterable[str]) -> None:
        """Unlock groups."""
        names = set(groups)
        self._wanted -= names
        if not self._wanted:
            self._lock(fcntl.F_UNLCK, 0, _HOLDERS)
            return
        for name in names:
            self._lock(fcntl.F_UNLCK, _byte(name), 1)

    def holder(self, group: str) -> int | None:
        """Return the process that holds a group, None where it is unknown."""
        if not sys.platform.startswith("linux"):
            return None
        at = _byte(group) + (_HOLDERS if _OFD_SETLK is not None else 0)
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0)
        try:
            answer = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, asked))
        except (OSError, struct.error):
            return None
        return answer[4] if answer[0] != fcntl.F_UNLCK and answer[4] > 0 else None


def _byte(group: str) -> int:
    return int.from_bytes(sha256(group.encode("utf-8", "surrogateescape")).digest()[:7], "big")


def _failed(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"Can't lock {path} ({error.strerror}), so nothing was changed.",
        hint="Choose another folder with KGTOOL_JOURNAL_DIR.",
    )
