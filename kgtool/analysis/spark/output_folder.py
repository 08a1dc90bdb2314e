"""Folders to write to: of this machine, or of any file system that Spark knows."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kgtool.durable import sync
from kgtool.errors import UsageError

if TYPE_CHECKING:
    from kgtool.analysis.spark.remote import Store

Place: TypeAlias = "Folder | Store"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_url(out: str) -> bool:
    """Whether only Spark's file systems can look at it (``hdfs://…``, ``s3a://…``, ``file:/…``)."""
    return _URL.match(out) is not None


class Folder:
    """One on this machine; names are relative to it. Every method may raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self.base = str(self._path)
        """What engines are told to write below."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs of this machine out meanwhile (UsageError if one is there).

        The kernel lets them in when this one is killed.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        number = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # NFS locks no folders
                self._lock(number)
            yield
        finally:
            os.close(number)

    def _lock(self, number: int) -> None:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Another kgtool is writing to {self.base}: wait until it has ended."
            ) from None

    def check(self) -> None:
        """Raises OSError if nothing can be put there."""
        above = next(path for path in (self._path, *self._path.parents) if path.exists())
        number = 0 if above.is_dir() else errno.ENOTDIR
        number = number or (0 if os.access(above, os.W_OK) else errno.EACCES)
        if number:
            raise OSError(number, os.strerror(number), str(above))

    def kind(self) -> str:
        """Return ``file``, ``full`` or ``empty`` (a folder), or ``nothing``."""
        if not self._path.exists():
            return "nothing"
        if not self._path.is_dir():
            return "file"
        return "full" if self.names() else "empty"

    def names(self, folder: str = ".") -> list[str]:
        """What is in it, or in a folder of it."""
        return [path.name for path in (self._path / folder).iterdir()]

    def remove(self, name: str) -> None:
        """Delete a file or folder, if it is there."""
        path = self._path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def rename(self, name: str, to: str) -> None:
        """Move a folder to where nothing is."""
        (self._path / name).rename(self._path / to)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None: it is not there."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Let a file have that content, or on a failure the one that it had."""
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f".{name}.writing"
        draft.write_bytes(data)
        sync(draft)
        draft.replace(self._path / name)
        sync(self._path)


def place_at(session: Any, where: str) -> Place:
    """The place of a path or URL; of a URL Spark's libraries tell. Raises OSError."""
    if not is_url(where):
        return Folder(where)
    from kgtool.analysis.spark.remote import Store

    return Store(session, where)
