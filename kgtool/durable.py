"""Putting files and folders on the disk, so that they outlive the machine's power."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path


def replace(path: Path, parts: Iterable[bytes], *, mode: int = 0o666) -> None:
    """Write a file: who reads it sees the old or the new one, never a part.

    :param mode: the permissions of the new file, less the umask.
    :raises OSError: it can't be written; the old one is still there.
    """
    # Collectors take every *.prom: the half-written file must not end like that.
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)  # of a process that had this number and was killed
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
    """Make a file, or the names in a folder, durable.

    :raises OSError: the disk refuses it. Some file systems keep folders durable by themselves.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(number)
