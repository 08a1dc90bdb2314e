"""The folder of the journals, and of the other files about changes: private to its owner.

Whoever may write there decides what ``undo last`` restores, and where links lead. So the folder
and its files are used only where this user, or root, owns them and others can't write.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from kgtool.errors import KgError, other_folder

FOLDER_VARIABLE = "KGTOOL_JOURNAL_DIR"
UNNAMED = ".new"
"""The end of a journal's name until its first part is on the disk."""


class JournalError(KgError):
    """The journal can't be written, so nothing is changed."""

    name = "JOURNAL"


class NotPrivate(JournalError):
    """Somebody else may write where journals are kept."""


def default_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder of the journals: ``KGTOOL_JOURNAL_DIR``, or in the user's state folder."""
    chosen = environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    state = Path(environ.get("XDG_STATE_HOME", ""))
    # The XDG specification demands to ignore relative values.
    return (state if state.is_absolute() else home / ".local" / "state") / "kgtool" / "journal"


def make_folder(folder: Path) -> None:
    """Create the folder of the journals, private to its owner.

    :raises JournalError: it can't be created, or is not private.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(f"journal {folder}", error) from error
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """Refuse a folder that another user owns or may write to; it need not exist.

    Root may open a folder to others (the image's ``/journal``, a pod's ``fsGroup``): there the
    owner of each file decides.

    :raises NotPrivate: it is not private.
    """
    try:
        found = folder.stat()
    except OSError:
        return
    if found.st_uid or not os.geteuid():
        _check(f"journal folder {folder}", found)


def check_file(path: Path) -> None:
    """Refuse a file of the folder that another user planted, and what is not a file.

    :raises NotPrivate: it is not private.
    """
    try:
        found = path.lstat()
    except OSError:
        return
    _check_file(path, found)


def open_private(path: Path, flags: int) -> int:
    """Open or create a file of the folder; return its descriptor.

    :raises NotPrivate: it is a link, or another user's.
    :raises OSError: it can't be opened.
    """
    check_file(path)
    number = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _check_file(path, os.fstat(number))  # it may have been replaced meanwhile
    except NotPrivate:
        os.close(number)
        raise
    return number


_HINT = f"Remove it, or choose another folder with {FOLDER_VARIABLE}."


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotPrivate(f"{path} is not a regular file, so it is not used.", hint=_HINT)
    _check(f"file {path}", found)


def _check(what: str, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise NotPrivate(
            f"The {what} belongs to another user ({found.st_uid}), so it is not used.", hint=_HINT
        )
    if found.st_mode & 0o022:
        raise NotPrivate(
            f"Other users may write to the {what}, so it is not used.",
            hint=f"chmod go-w, or choose another folder with {FOLDER_VARIABLE}.",
        )


def is_locked(path: Path) -> bool:
    """Whether the process that writes a journal still lives."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def sweep(folder: Path) -> None:
    """Remove the unnamed journals of processes that were killed."""
    for path in folder.glob(f".*{UNNAMED}"):
        with contextlib.suppress(OSError):
            if not is_locked(path):
                path.unlink()


def write_error(what: str, error: OSError, *, has_changed: bool = False) -> JournalError:
    """Return the error of a file without which nothing is changed, or nothing more."""
    changed = "nothing more was changed" if has_changed else "nothing was changed"
    return JournalError(
        f"The {what} can't be written ({error.strerror}), so {changed}.",
        hint=other_folder(error, FOLDER_VARIABLE),
    )
