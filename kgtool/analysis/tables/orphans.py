"""Committed offsets of topics that are gone, or that were deleted and created again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import words
from kgtool.analysis.fold.scene import Scene, choice
from kgtool.analysis.tables.live import Live

REASONS = ("topic-gone", "topic-recreated")


def table(scene: Scene, found: Live) -> Any:
    """Rows of ``schema.ORPHANS``; none where cluster.json does not tell the topics."""
    log, plan = scene.log, scene.plan
    names, ids = log.topics.to_pylist(), plan.topic_ids or {}
    here = plan.topics
    gone = np.array([here is not None and name not in here for name in names], dtype=np.bool_)
    numbers = {name: number for number, name in enumerate(log.topic_ids.to_pylist())}
    # -1: cluster.json does not tell the id; -2: no commit has it.
    known = np.array([numbers.get(ids[n], -2) if n in ids else -1 for n in names], dtype=np.int64)
    topic, topic_id = log.keys.topic[found.key], log.offsets.topic_id[found.stored]
    if not len(topic):
        reason = topic
    else:
        other = (topic_id >= 0) & (known[topic] != -1) & (known[topic] != topic_id)
        reason = np.where(gone[topic], 0, np.where(other, 1, -1))
    rows = np.flatnonzero(reason >= 0)
    stored = found.stored[rows]
    columns = {
        **scene.key_columns(found.key[rows]),
        "offset": pa.array(log.offsets.offset[stored]),
        "topic_id": words(log.offsets.topic_id[stored], log.topic_ids),
        "reason": choice(REASONS, reason[rows]),
    }
    return scene.table("orphans", columns)
