"""Who fills the log: what each group wrote, over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import Ints, ints, texts, words
from kgtool.analysis.fold.families import fold
from kgtool.analysis.fold.scene import Scene

_SUMS = ("commits", "records", "bytes")


def table(scene: Scene) -> Any:
    """Rows of ``schema.WRITERS`` by group, and what its name folds into."""
    group, names, bucket, sums = _doubled(scene) if scene.plan.doubled else _counted(scene)
    times, at = np.unique(bucket, return_inverse=True)
    pair, code = np.unique(at * (len(names) + 1) + group, return_inverse=True)
    which = pair % (len(names) + 1)
    families = pa.array([fold(name) for name in names.to_pylist()], pa.string())
    columns = {
        "bucket_ms": times[pair // (len(names) + 1)] if len(pair) else pair,
        "family": families.take(pa.array(which)),
        "groups": np.ones(len(pair), dtype=np.int64),
        **{name: np.bincount(code, each, minlength=len(pair)).astype(np.int64)
           for name, each in zip(_SUMS, sums, strict=True)},
        "group": words(which, names),
    }  # fmt: skip
    return scene.table("writers", columns, (("group", "string"),))


def _counted(scene: Scene) -> tuple[Ints, Any, Ints, tuple[Ints, ...]]:
    """Group, names of groups, bucket, and what was counted while decoding."""
    counts = scene.log.counts
    group, names = texts(counts["group"])
    return group, names, ints(counts["timestamp_ms"]), tuple(ints(counts[n]) for n in _SUMS)


def _doubled(scene: Scene) -> tuple[Ints, Any, Ints, tuple[Ints, ...]]:
    """The same of records that several inputs have: all of them are here, each once."""
    log, bucket_ms = scene.log, scene.plan.bucket_ms
    assert bucket_ms is not None
    offsets, own = log.offsets, log.own
    none, one = np.zeros(len(own.group), dtype=np.int64), np.ones(len(own.group), dtype=np.int64)
    at_ms = np.concatenate([offsets.at_ms, own.at_ms])
    sums = (
        np.concatenate([offsets.commits, none]),
        np.concatenate([np.ones_like(offsets.key), one]),
        np.concatenate([offsets.bytes, own.bytes]),
    )
    group = np.concatenate([log.keys.group[offsets.key], own.group])
    return group, log.groups, at_ms // bucket_ms * bucket_ms, sums
