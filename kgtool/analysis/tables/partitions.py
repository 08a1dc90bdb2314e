"""One row a partition of the log: what it holds, and how much of that still counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import NONE, ints
from kgtool.analysis.fold.scene import Scene
from kgtool.analysis.tables.live import Live


def table(scene: Scene, found: Live) -> Any:
    """The row of ``schema.PARTITIONS``."""
    log, read = scene.log, scene.log.read
    size, records = log.size_in_log
    first, last = pc.min(read["log_offset"]).as_py(), pc.max(read["offset"]).as_py()
    newest = pc.max(read["timestamp_ms"]).as_py()
    epochs, commit = np.unique(ints(log.epochs["commits"])), np.unique(found.group)
    columns = {
        "log_partition": None if scene.partition < 0 else scene.partition,
        "bytes": size,
        "records": records,
        "live_keys": len(found.key),
        "groups": len(commit),
        "coordinator_moves": max(len(epochs) - 1, 0) if len(epochs) else None,
        "first_offset": first,
        "last_offset": last,
        "newest_record_ms": newest,
    }
    rows = scene.table("partitions", {
        name: np.array([NONE if value is None else value]) for name, value in columns.items()
    })  # fmt: skip
    # A file whose rows are of several partitions has one more, in which there is nothing.
    return rows if log.size or scene.partition >= 0 else rows[:0]
