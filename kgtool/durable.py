"""Putting files and folders on the disk, so that they outlive the machine's power."""

from __future__ import annotations

import errno
import os
from pathlib import Path


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
