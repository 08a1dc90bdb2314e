"""Where ``--out`` puts the tables: a folder of this machine, or of any file system Spark knows.

They are written below it, out of sight, and renamed when all of them are there; ``_SUCCESS`` comes
last. Whatever ends a run before that leaves the tables that were there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kgtool.analysis import schema
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.spark.output_folder import Folder, Place, is_url, place_at
from kgtool.analysis.spark.session import cause_of
from kgtool.errors import AnalysisError, KgError, UsageError

STAGING = ".kgtool-writing"
DONE = "_SUCCESS"


def check_folder(out: str, *, overwrite: bool) -> None:
    """Refuse a folder here that nothing can be put into (UsageError).

    One that has something in it needs ``overwrite``.
    """
    if is_url(out):
        return
    folder = Folder(out)
    _check(folder, out, overwrite)
    try:
        folder.check()
    except OSError as error:
        raise UsageError(
            f"--out {out}: can't write to {error.filename}: {error.strerror}."
        ) from None


def out_place(session: Any, out: str, *, overwrite: bool) -> Place:
    """The place, once it is known that tables may be put there (UsageError)."""
    try:
        place = place_at(session, out)
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


def write_tables(
    analysis: Analysis, place: Place, only: Sequence[str] = (), *, overwrite: bool = True
) -> list[str]:
    """Put every table as Parquet in a folder of its own there, or ``only`` some; their names.

    Raises AnalysisError, or UsageError if another run has been faster; what was there stays then.
    """
    names = list(dict.fromkeys(only)) or analysis.names()
    try:
        with place.held():
            _check(place, place.base, overwrite)
            _write(analysis, place, names, whole=not only)
    except Exception as error:
        if isinstance(error, KgError):
            raise
        why = getattr(error, "strerror", None) or cause_of(str(error))
        raise AnalysisError(f"{place.base} could not be written: {why}") from error
    return names


def _write(analysis: Analysis, place: Place, names: Sequence[str], *, whole: bool) -> None:
    try:
        place.remove(STAGING)
        analysis.write(names, f"{place.base}/{STAGING}")
        _put(place, names, [each for each in schema.TABLES if each not in names] if whole else [])
    except Exception:
        with suppress(Exception):  # the JVM may be gone
            place.remove(STAGING)
        raise


def _put(place: Place, names: Sequence[str], gone: Sequence[str]) -> None:
    """Let the tables of this run take the places of those before."""
    place.remove(DONE)
    for name in (*gone, *names):
        place.remove(name)
    for name in names:
        place.rename(f"{STAGING}/{name}", name)
    place.remove(STAGING)
    place.write(DONE, b"")
