"""Files and folders that are durable: atomic replacement and fsync."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path


def replace(path: Path, parts: Iterable[bytes], *, mode: int = 0o666) -> None:
    """Replace a file atomically; ``-`` is stdout.

    :param mode: the permissions of the new file, less the umask.
    :raises OSError: it can't be written; the old one is unchanged.
    """
    if str(path) == "-":
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()
        return
    # Collectors read every *.prom, so the temporary name ends differently.
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)  # left by a killed process with the same pid
    try:
        number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(number, "wb") as file:  # noqa: PTH123
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Fsync a file, or the entries of a folder.

    :raises OSError: it failed; EINVAL for a folder is ignored: some file systems need no fsync.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(number)
