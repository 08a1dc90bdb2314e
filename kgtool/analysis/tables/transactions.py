"""Open transactions: who holds which offsets since when, at the end of the log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import lacks
from kgtool.analysis.fold.arrays import NONE, Ints, codes, words
from kgtool.analysis.fold.offsets import transaction_ends
from kgtool.analysis.fold.scene import Scene


def table(scene: Scene) -> Any:
    """Rows of ``schema.TRANSACTIONS``."""
    log, offsets = scene.log, scene.log.offsets
    rows = _held(scene)
    group = log.keys.group[offsets.key[rows]]
    code = codes(group, offsets.producer_id[rows])
    size = int(code.max(initial=-1)) + 1
    since = np.full(size, 2**63 - 1)
    np.minimum.at(since, code, offsets.at_ms[rows])
    newest = np.zeros(size, dtype=np.int64)
    newest[code] = rows  # in log order
    pair = np.unique(np.stack([code, offsets.key[rows]]), axis=1)
    names = log.topics.to_pylist()
    topics: list[set[str]] = [set() for _ in range(size)]
    for number, key in pair.T.tolist():
        topics[number].add(names[log.keys.topic[key]])
    columns = {
        "group": words(log.keys.group[offsets.key[newest]], log.groups),
        "producer_id": offsets.producer_id[newest],
        "producer_epoch": offsets.producer_epoch[newest],
        "since_ms": since if not log.lacks & lacks.TIMES else np.full(size, NONE),
        "topics": pa.array(list(map(sorted, topics)), pa.list_(pa.string())),
        "partitions": np.bincount(pair[0], minlength=size),
    }
    return scene.table("transactions", columns)


def _held(scene: Scene) -> Ints:
    """Commits within transactions that the log does not end."""
    log, offsets = scene.log, scene.log.offsets
    rows = np.flatnonzero((offsets.producer_id != NONE) & ~offsets.tombstone)
    rows = rows[transaction_ends(log, rows).marker < 0]
    if scene.plan.rules.tombstone_drops_pending and len(rows):
        gone = np.full(len(log.keys.group), -1)
        lost = np.flatnonzero(offsets.tombstone)
        gone[offsets.key[lost]] = lost
        rows = rows[rows > gone[offsets.key[rows]]]
    return rows
