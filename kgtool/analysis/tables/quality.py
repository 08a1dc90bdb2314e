"""What was read of each file, and what was not and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.analysis.decode.batches import UNREAD_BATCHES
from kgtool.analysis.decode.decoder import REASON_AFTER
from kgtool.analysis.decode.segments import REASON_TRUNCATED
from kgtool.analysis.input.input_files import SEGMENT
from kgtool.analysis.words import count

NOT_READ = (*UNREAD_BATCHES, REASON_AFTER)
"""Reasons whose records are not counted as read."""
_AGGREGATES = (
    ("records", "sum"),
    ("bytes", "sum"),
    ("position", "min"),
    ("damage", "any"),
    ("first_offset", "min"),
    ("last_offset", "max"),
    ("partition", "min"),
    ("partition", "max"),
)


def quality(notes: pa.Table) -> pa.Table:
    """Rows of ``schema.KIND_QUALITY`` → an Arrow table of ``schema.QUALITY``."""
    files: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in notes.group_by(["path", "reason"]).aggregate(list(_AGGREGATES)).to_pylist():
        files[part["path"]].append(part)
    earlier = _earlier_segments(files)
    rows = [_row(path, parts, is_last=path not in earlier) for path, parts in files.items()]
    return pa.Table.from_pylist(rows, schema=schema.arrow(schema.QUALITY))


def _earlier_segments(paths: Iterable[str]) -> set[str]:
    """Segments behind which another one of their partition lies in their folder."""
    bases: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for path in paths:
        match = SEGMENT.search(path)
        if match is not None:
            bases[path[: match.start("base")]][int(match["base"])] = path
    return {path for some in bases.values() for base, path in some.items() if base < max(some)}


def _row(path: str, parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    """A file, of what was read (reason None) and of what was not."""
    unread = [part for part in parts if part["reason"] is not None]
    batches = [part for part in parts if part["reason"] in (None, *NOT_READ)]
    # Bytes of batches within a chunk are counted with the chunk.
    chunks = [part for part in parts if part["reason"] not in NOT_READ]
    total = sum(part["records_sum"] or 0 for part in batches)
    skipped = sum(part["records_sum"] or 0 for part in unread)
    first, last = (
        [part[name] for part in parts if part[name] is not None]
        for name in ("first_offset_min", "last_offset_max")
    )
    partitions = {part[name] for part in parts for name in ("partition_min", "partition_max")}
    one = partitions.pop() if len(partitions) == 1 else -1
    problems = [
        {
            "reason": part["reason"],
            "records": part["records_sum"],
            "bytes": part["bytes_sum"],
            "position": part["position_min"],
            # Only the last segment is written to while it is copied.
            "damage": part["damage_any"] or (part["reason"] == REASON_TRUNCATED and not is_last),
        }
        for part in unread
    ]
    return {
        "path": path,
        "partition": one if one >= 0 else None,
        "bytes": sum(part["bytes_sum"] or 0 for part in chunks),
        "records": total,
        "decoded": total - skipped,
        "skipped": skipped,
        "damaged": any(problem["damage"] for problem in problems),
        "first_offset": min(first, default=None),
        "last_offset": max(last, default=None),
        "problems": sorted(problems, key=lambda each: (each["reason"], each["position"] or 0)),
    }


def damaged_files(quality: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Path, records read and problems of the first ``limit`` damaged files."""
    rows = quality.filter(quality["damaged"]).sort_by("path")
    return list(islice(rows.to_pylist(), limit))


def sentence(file: dict[str, Any]) -> str:
    """A damaged file in words."""
    reasons = "; ".join(problem_text(each) for each in file["problems"] if each["damage"])
    return f"{file['path']}: {reasons}."


def problem_text(problem: dict[str, Any]) -> str:
    """One problem of a file in words."""
    parts = [problem["reason"]]
    if problem["records"]:
        parts.append(count(problem["records"], "record"))
    if problem["bytes"]:
        parts.append(f"{problem['bytes']:,} bytes at {problem['position']:,}")
    return ", ".join(parts)
