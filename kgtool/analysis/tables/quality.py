"""What was read of each file, and what was not and why."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.fold.log import UNREAD_BATCHES

_FIELDS = ("path", "partition", "reason", "records", "bytes", "position", "damage", "log_offset",
           "offset")  # fmt: skip

_Reasons = dict[str | None, list[dict[str, Any]]]


def quality(notes: Any) -> Any:
    """Rows of ``schema.RECORDS`` of the kind quality → an Arrow table of ``schema.QUALITY``."""
    files: dict[str, _Reasons] = {}
    for note in notes.select(_FIELDS).to_pylist():
        of_file = files.setdefault(note["path"], defaultdict(list))
        of_file[note["reason"]].append(note)
    rows = [_row(path, of_file) for path, of_file in files.items()]
    return pa.Table.from_pylist(rows, schema=schema.arrow(schema.QUALITY))


def _row(path: str, by_reason: _Reasons) -> dict[str, Any]:
    size = total = skipped = 0
    problems, firsts, lasts = [], [], []
    for reason, notes in by_reason.items():
        records, length = (_sum(notes, name) for name in ("records", "bytes"))
        if reason is None or reason in UNREAD_BATCHES:
            total += records or 0
        # Bytes of batches within a chunk are counted with the chunk.
        if reason is None or reason not in UNREAD_BATCHES:
            size += length or 0
        firsts += [note["log_offset"] for note in notes if note["log_offset"] is not None]
        lasts += [note["offset"] for note in notes if note["offset"] is not None]
        if reason is not None:
            skipped += records or 0
            problems.append(
                {
                    "reason": reason,
                    "records": records,
                    "bytes": length,
                    "position": min((note["position"] for note in notes), default=None),
                    "damage": any(note["damage"] for note in notes),
                }
            )
    partitions = {note["partition"] for notes in by_reason.values() for note in notes}
    one = partitions.pop() if len(partitions) == 1 else -1
    return {
        "path": path,
        "partition": one if one >= 0 else None,
        "bytes": size,
        "records": total,
        "decoded": total - skipped,
        "skipped": skipped,
        "damaged": any(problem["damage"] for problem in problems),
        "first_offset": min(firsts, default=None),
        "last_offset": max(lasts, default=None),
        "problems": sorted(problems, key=lambda each: (each["reason"], each["position"] or 0)),
    }


def _sum(notes: list[dict[str, Any]], name: str) -> int | None:
    values = [note[name] for note in notes if note[name] is not None]
    return sum(values) if values else None
