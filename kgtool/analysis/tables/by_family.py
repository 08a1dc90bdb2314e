"""Tables by family of generated names: writers of the log, and gaps between commits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import (
    NONE,
    Ints,
    decode_texts,
    encode_texts,
    extreme,
    ints,
    sum_rows,
)
from kgtool.analysis.fold.folded_log import FoldedLog, fold
from kgtool.analysis.fold.removals import EXPIRED, Removals
from kgtool.analysis.fold.whatif.client_events import offset_events, successor_dropped
from kgtool.analysis.fold.whatif.offset_intervals import build_history
from kgtool.analysis.input.broker_settings import Scenario

_SUMS = ("commits", "records", "bytes")


def gaps(folded: FoldedLog, removals: Removals) -> pa.Table:
    """Rows of ``schema.GAPS`` by group, and its name's family.

    In one pass: of every pause the last check that finds the old commit unprotected tells which
    retention is long enough.
    """
    plan, size = folded.plan, folded.log.size
    scenario = Scenario(plan.rules, 0, plan.interval_ms)
    history = build_history(folded, removals, (scenario,))
    checks = history.checks(scenario)
    longest, safe, keys = np.full(size, NONE), *np.zeros((2, size), dtype=np.int64)
    expired = ~removals.of_group & (removals.cause == EXPIRED)
    expired_ms = extreme(len(folded.log.keys.group), removals.key[expired], removals.at_ms[expired])
    for happened in offset_events(folded, history.events, history.end_ms):
        events, again = happened.events, happened.again
        several = happened.is_commit & (again >= 0)
        # The pause before a dropped successor is no longer than one of these.
        rows = np.flatnonzero(several & ~successor_dropped(folded, events))
        last = np.flatnonzero(happened.is_commit & happened.runs.is_last)
        ended = _end_of_pause(expired_ms[events.key[last]], events.at_ms[last], plan.end_ms)
        pauses = (
            (rows, events.first_ms[again[rows]], happened.until_ms[rows]),
            # The check that found it due is among those that must not.
            (last, ended, np.where(ended < plan.end_ms, ended + plan.interval_ms, ended + 1)),
        )
        for which, end_ms, until_ms in pauses:
            group = events.group[which]
            np.maximum.at(longest, group, end_ms - events.at_ms[which])
            np.maximum.at(safe, group, checks.safe_retention(happened, which, until_ms))
        paused = np.concatenate([events.key[rows], events.key[last]])
        of = folded.log.keys.group[np.unique(paused)]
        keys += np.bincount(of, minlength=size)
    some = np.flatnonzero(keys)
    columns = {
        "family": folded.families.take(some),
        "groups": np.ones(len(some), dtype=np.int64),
        "keys": keys[some],
        "longest_gap_ms": longest[some],
        "safe_retention_ms": safe[some],
        "group": folded.log.groups.take(some),
    }
    return folded.table("gaps", columns, (("group", "string"),))


def _end_of_pause(expired_ms: Ints, commit_ms: Ints, end_ms: int) -> Ints:
    """When the pause after a last commit ended: at its removal by a check, or with the log."""
    found = np.where(expired_ms > commit_ms, expired_ms, end_ms)
    return np.asarray(np.maximum(found, commit_ms), dtype=np.int64)


def writers(folded: FoldedLog) -> pa.Table:
    """Rows of ``schema.WRITERS`` by group, and its name's family."""
    count = _count_records if folded.plan.overlapping else _decoder_counts
    group, names, bucket, sums = count(folded)
    written = {"bucket_ms": bucket, "number": group, **dict(zip(_SUMS, sums, strict=True))}
    rows = sum_rows(pa.table(written), ["bucket_ms", "number"])
    which = ints(rows["number"])
    families = pa.array([fold(name) for name in names.to_pylist()], pa.string())
    columns = {
        **{name: ints(rows[name]) for name in ("bucket_ms", *_SUMS)},
        "family": families.take(pa.array(which)),
        "groups": np.ones(len(rows), dtype=np.int64),
        "group": decode_texts(which, names),
    }
    return folded.table("writers", columns, (("group", "string"),))


def _decoder_counts(folded: FoldedLog) -> tuple[Ints, Any, Ints, tuple[Ints, ...]]:
    """Group, the groups' names, bucket, and the decoder's counts."""
    counts = folded.log.counts
    group, names = encode_texts(counts["group"])
    return group, names, ints(counts["bucket_start_ms"]), tuple(ints(counts[n]) for n in _SUMS)


def _count_records(folded: FoldedLog) -> tuple[Ints, Any, Ints, tuple[Ints, ...]]:
    """The same if inputs overlap: then every record is here, once."""
    log, bucket_ms = folded.log, folded.plan.options.bucket_ms
    assert bucket_ms is not None
    offsets, own = log.offsets, log.group_records
    none, one = np.zeros_like(own.group), np.ones_like(own.group)
    at_ms = np.concatenate([offsets.at_ms, own.at_ms])
    sums = (
        np.concatenate([offsets.commits, none]),
        np.concatenate([np.ones_like(offsets.key), one]),
        np.concatenate([offsets.bytes, own.bytes]),
    )
    group = np.concatenate([log.keys.group[offsets.key], own.group])
    return group, log.groups, at_ms // bucket_ms * bucket_ms, sums
