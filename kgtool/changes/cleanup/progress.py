"""The progress of a plan, from which an interrupted run is resumed.

::

    {"kind": "progress", "kgtool_progress": 1, "plan": "20260131-…", "cluster_id": "…"}
    {"kind": "begin", "items": ["…", …], "journal": "20260131-…"}    requests for these may leave
    {"kind": "result", "item": "…", "status": "deleted"}

One file a plan, in the folder of the journals, locked while the plan is applied. What has begun and
has no result may have been done or not: only the cluster knows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from kgtool.changes.journal.folder import JournalError, make_folder, open_private, write_error
from kgtool.changes.journal.jsonl import LineFile, drop_torn_line, dump, record_of
from kgtool.errors import KgError

SUFFIX = ".progress"
VERSION = 1


class BeingApplied(KgError):
    """Another process is applying the same plan."""

    name = "LOCKED"


class PlanProgress:
    """The progress of one plan on one cluster; a context manager that holds its lock.

    ``results``: what this and earlier runs have finished, by the items' keys; ``begun``: what they
    had begun; ``journals``: the ids of their journals.

    :raises BeingApplied: another process holds the lock.
    :raises JournalError: the file can't be written.
    """

    def __init__(self, folder: Path, plan_id: str, cluster_id: str | None) -> None:
        make_folder(folder)
        self.path = folder / f"plan-{_name(plan_id, cluster_id)}{SUFFIX}"
        self.results: dict[str, str] = {}
        self.begun: set[str] = set()
        self.journals: list[str] = []
        try:
            number = open_private(self.path, os.O_RDWR | os.O_APPEND)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                drop_torn_line(number)
                self._file = LineFile(number)
                lines = self.path.read_bytes().splitlines()
                if not lines:
                    header = {"kind": "progress", "kgtool_progress": VERSION, "plan": plan_id}
                    self._write([{**header, "cluster_id": cluster_id}])
            except BaseException:
                os.close(number)
                raise
        except BlockingIOError:
            raise BeingApplied(
                f"Another kgtool is applying the plan {plan_id}.", hint="Wait until it has ended."
            ) from None
        except OSError as error:
            raise self._write_error(error) from error
        for line in lines:
            self._take(record_of(line) or {})

    def _take(self, record: Mapping[str, Any]) -> None:
        if record.get("kind") == "begin":
            self.begun.update(record.get("items", ()))
            journal = record.get("journal")
            if journal is not None and journal not in self.journals:
                self.journals.append(journal)
        elif record.get("kind") == "result":
            self.results[str(record.get("item"))] = str(record.get("status"))

    def __enter__(self) -> PlanProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def begin(self, items: Iterable[str], journal: str | None) -> None:
        """Note durably that requests for these items may be sent.

        :raises JournalError: it can't be written; nothing may be sent then.
        """
        record = {"kind": "begin", "items": list(items), "journal": journal}
        try:
            self._write([record])
        except OSError as error:
            raise self._write_error(error) from error
        self._take(record)

    def finish(self, results: Mapping[str, str]) -> OSError | None:
        """Note the results of items; what can't be noted is looked up on the cluster next time."""
        records = [
            {"kind": "result", "item": item, "status": status} for item, status in results.items()
        ]
        self.results.update(results)
        try:
            self._write(records)
        except OSError as error:
            return error
        return None

    def _write(self, records: Iterable[Mapping[str, Any]]) -> None:
        size = self._file.size
        try:
            self._file.write("".join(map(dump, records)))
            self._file.sync()
        except OSError:
            self._file.cut(size)
            raise

    def _write_error(self, error: OSError) -> JournalError:
        return write_error(f"progress {self.path}", error, has_changed=True)


def prune(folder: Path, before_ms: int) -> None:
    """Remove the progress of plans that were last applied before a time."""
    for path in folder.glob(f"plan-*{SUFFIX}"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while it is applied
                path.unlink()


def _name(plan_id: str, cluster_id: str | None) -> str:
    """Return a file name that is unique to a plan and cluster."""
    cluster = sha256((cluster_id or "").encode()).hexdigest()[:8]
    if re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_-]{0,80}", plan_id):
        return f"{plan_id}-{cluster}"
    return f"{sha256(plan_id.encode()).hexdigest()[:24]}-{cluster}"
