"""Output folders, local or on any file system that Spark supports."""

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
    """Whether it is a URL for Spark's file systems (``hdfs://…``, ``s3a://…``, ``file:/…``)."""
    return _URL.match(out) is not None


class Folder:
    """A local folder; names are relative to it. Every method may raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self.base = str(self._path)
        """The folder that engines write below."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock out other runs on this machine (UsageError if one holds the lock).

        The kernel releases the lock if this process is killed.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        number = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # NFS can't lock folders
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
        """Raise OSError if the folder can't be written to."""
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
        """Names in it, or in a folder of it."""
        return [path.name for path in (self._path / folder).iterdir()]

    def remove(self, name: str) -> None:
        """Delete a file or folder if it exists."""
        path = self._path / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def rename(self, name: str, to: str) -> None:
        """Rename a folder; the new name does not exist yet."""
        (self._path / name).rename(self._path / to)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None: it does not exist."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Replace the content of a file; on a failure it keeps its old content."""
        self._path.mkdir(parents=True, exist_ok=True)
        draft = self._path / f".{name}.writing"
        draft.write_bytes(data)
        sync(draft)
        draft.replace(self._path / name)
        sync(self._path)


def place_at(session: Any, where: str) -> Place:
    """The folder at a path, or at a URL (which needs ``session``). Raises OSError."""
    if not is_url(where):
        return Folder(where)
    from kgtool.analysis.spark.remote import Store

    return Store(session, where)
