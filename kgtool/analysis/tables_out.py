"""Where ``--out`` puts the tables: a folder of this machine, or of any file system Spark knows.

They are written below it, out of sight, and renamed when all of them are there; ``_SUCCESS`` comes
last. Whatever ends a run before that leaves the tables that were there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from kgtool.analysis import schema
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.session import cause_of
from kgtool.errors import AnalysisError, UsageError

STAGING = ".kgtool-writing"
DONE = "_SUCCESS"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_url(out: str) -> bool:
    """Whether only Spark's file systems can look at it (``hdfs://…``, ``s3a://…``, ``file:/…``)."""
    return _URL.match(out) is not None


class Place(Protocol):
    """A folder; its names are relative to it. Every method may raise OSError."""

    base: str
    """What engines are told to write below."""

    def kind(self) -> str:
        """What is there: ``file``, ``full`` or ``empty`` (a folder), ``nothing``."""

    def names(self) -> list[str]:
        """What is in it."""

    def remove(self, name: str) -> None:
        """Delete a file or folder, if it is there."""

    def rename(self, name: str, to: str) -> None:
        """Move a folder to where nothing is."""

    def touch(self, name: str) -> None:
        """Make an empty file."""


class Folder:
    """The Place on this machine."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self.base = str(self._path)

    def kind(self) -> str:
        """What is there."""
        if not self._path.exists():
            return "nothing"
        if not self._path.is_dir():
            return "file"
        return "full" if self.names() else "empty"

    def names(self) -> list[str]:
        """What is in it."""
        return [path.name for path in self._path.iterdir()]

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

    def touch(self, name: str) -> None:
        """Make an empty file."""
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / name).touch()


def check_folder(out: str, *, overwrite: bool) -> None:
    """Refuse a folder here that has something in it, unless it may be overwritten (UsageError)."""
    if not is_url(out):
        _check(Folder(out), out, overwrite)


def out_place(session: Any, out: str, *, overwrite: bool) -> Place:
    """The place, once it is known that tables may be put there (UsageError)."""
    from kgtool.analysis.remote import Store

    try:
        place: Place = Store(session, out) if is_url(out) else Folder(out)
        _check(place, out, overwrite)
    except OSError as error:
        raise UsageError(f"--out {out} can't be written to: {error}.") from None
    return place


def _check(place: Place, out: str, overwrite: bool) -> None:
    kind = place.kind()
    if kind == "file":
        raise UsageError(f"--out {out} is a file: name a folder.")
    # What a run left behind that was killed is nothing of anybody's.
    if kind == "full" and not overwrite and place.names() != [STAGING]:
        raise UsageError(
            f"--out {out} exists and is not empty: give --overwrite, or name another folder."
        )


def write_tables(analysis: Analysis, place: Place, only: Sequence[str] = ()) -> list[str]:
    """Put every table as Parquet in a folder of its own there, or ``only`` some; their names.

    Raises AnalysisError; what was there stays then.
    """
    names = list(dict.fromkeys(only)) or analysis.names()
    name = names[0]
    try:
        place.remove(STAGING)
        for name in names:
            analysis.write(name, f"{place.base}/{STAGING}/{name}")
            _check_written(place, f"{STAGING}/{name}")
        name = DONE
        _put(place, names, [] if only else [each for each in schema.TABLES if each not in names])
    except Exception as error:
        with suppress(Exception):  # the JVM may be gone
            place.remove(STAGING)
        if isinstance(error, AnalysisError):
            raise
        why = cause_of(str(error))
        raise AnalysisError(f"{place.base}/{name} could not be written: {why}") from error
    return names


def _put(place: Place, names: Sequence[str], gone: Sequence[str]) -> None:
    """Let the tables of this run take the places of those before."""
    place.remove(DONE)
    for name in (*gone, *names):
        place.remove(name)
    for name in names:
        place.rename(f"{STAGING}/{name}", name)
    place.remove(STAGING)
    place.touch(DONE)


def _check_written(place: Place, name: str) -> None:
    """Spark's workers write to their own disks if a folder is not shared."""
    if isinstance(place, Folder) and not list(Path(place.base, name).glob("part-*")):
        raise AnalysisError(
            f"{place.base} is not a folder that Spark's workers share with this machine: name a "
            "URL that every worker can write to."
        )
