"""Where ``--out`` puts the tables: a folder of this machine, or of any file system Spark knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.session import cause_of
from kgtool.errors import AnalysisError, UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_url(out: str) -> bool:
    """Whether only Spark's file systems can look at it (``hdfs://…``, ``s3a://…``, ``file:/…``)."""
    return _URL.match(out) is not None


def check_folder(out: str, *, overwrite: bool) -> None:
    """Refuse a folder here that has something in it, unless it may be overwritten (UsageError)."""
    if is_url(out):
        return
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {out} is a file: name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise _not_empty(out)


def check_url(session: Any, out: str, *, overwrite: bool) -> None:
    """The same of a URL, once there is a session (UsageError)."""
    from kgtool.analysis.remote import Store

    if not is_url(out):
        return
    try:
        kind = Store(session, out).kind()
    except OSError as error:
        raise UsageError(f"--out {out} can't be written to: {error}.") from None
    if kind == "file":
        raise UsageError(f"--out {out} is a file: name a folder.")
    if kind == "full" and not overwrite:
        raise _not_empty(out)


def _not_empty(out: str) -> UsageError:
    return UsageError(
        f"--out {out} exists and is not empty: give --overwrite, or name another folder."
    )


def write_tables(analysis: Analysis, out: str, only: Sequence[str] = ()) -> list[str]:
    """Write every table as Parquet under ``out``, or ``only`` some, one folder each; their names.

    Raises AnalysisError.
    """
    base = out.rstrip("/") if is_url(out) else str(Path(out).absolute())
    written = []
    for name in dict.fromkeys(only) or analysis.names():
        try:
            analysis.write(name, f"{base}/{name}")
        except Exception as error:
            why = cause_of(str(error))
            raise AnalysisError(f"{out.rstrip('/')}/{name} could not be written: {why}") from error
        written.append(name)
    return written
