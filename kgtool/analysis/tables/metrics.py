"""The four metrics of KIP-496 (``kafka.server:type=group-coordinator-metrics``) over time.

From the log, which is what the brokers' counters should say. Measured: 4.1 to 4.3 over-count
offset-expiration (they add the running size of the check's records, group after group), and the
Scala coordinator of 3.9.1 counts a commit of several offsets as one offset-commit.

OffsetDelete, DeleteGroups and a topic's deletion leave the same tombstones, and brokers count only
OffsetDelete (2.4+) as offset-deletion. To tell them apart: DeleteGroups removes the group in the
same write (the Scala coordinator writes its tombstone only for a generation above 0, so there a
removal that empties a group counts as DeleteGroups), and a removal that leaves no offset of a topic
in any group counts as the topic's deletion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis.fold.arrays import (
    Bools,
    Ints,
    Runs,
    any_of,
    as_of,
    codes,
    decode_texts,
    encode_texts,
    ints,
    sum_rows,
)
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import EXPIRED, EXPLICIT, Removals
from kgtool.analysis.tables.groups import completed_rebalances

AT_ONCE_MS = 10_000
"""A deleted topic's offsets are removed from all groups within this time."""
COUNTS = ("offset_commits", "offset_expirations", "offset_deletions", "group_completed_rebalances")


def offset_changes(folded: FoldedLog) -> pa.Table:
    """``topic, at_ms, change, groups``: changes of the number of offsets and of groups with any.

    Added up by topic and time.
    """
    past = folded.history
    rows, change, at_ms, group = _steps(folded)
    order = np.lexsort((-change, past.position[rows], group))
    rows, change, at_ms, group = rows[order], change[order], at_ms[order], group[order]
    had = Runs(group).sum_before(change)
    of_groups = np.where((had == 0) & (change == 1), 1, 0)
    of_groups -= (had + change == 0) & (change == -1)
    return _by_topic(folded, past.key[rows], at_ms=at_ms, change=change, groups=of_groups)


def _by_topic(folded: FoldedLog, key: Ints, **columns: Ints) -> pa.Table:
    log = folded.log
    found = sum_rows(pa.table({"topic": log.keys.topic[key], **columns}), ["topic", "at_ms"])
    return found.set_column(0, "topic", decode_texts(ints(found["topic"]), log.topics))


def _steps(folded: FoldedLog) -> tuple[Ints, Ints, Ints, Ints]:
    """Where offsets begin and end: rows of the history, 1 or -1, time, group."""
    past = folded.history
    removed = past.tombstone & (past.stored >= 0)
    rows = np.flatnonzero(removed | past.first)
    change = np.where(removed[rows], -1, 1)
    at_ms = np.where(removed[rows], past.at_ms[rows], past.first_ms[rows])
    return rows, change, at_ms, folded.log.keys.group[past.key[rows]]


def counts_here(folded: FoldedLog, writers: pa.Table, removals: Removals) -> pa.Table:
    """``what, bucket_start_ms, count``: the counts that need no other partition.

    ``what`` is an index into COUNTS; ``writers``: rows of ``schema.WRITERS``.
    """
    bucket_ms = folded.plan.options.bucket_ms
    assert bucket_ms is not None
    log = folded.log
    at_ms, count = ints(writers["bucket_ms"]), ints(writers["commits"])
    expired = removals.at_ms[~removals.of_group & (removals.cause == EXPIRED)]
    rebalanced = log.group_records.at_ms[completed_rebalances(folded)]
    parts = [
        (0, at_ms[count > 0], count[count > 0]),
        (1, expired, np.ones_like(expired)),
        (3, rebalanced, np.ones_like(rebalanced)),
    ]
    rows = [
        pa.table(
            {
                "what": np.full(len(at), what, np.int32),
                "bucket_start_ms": at // bucket_ms * bucket_ms,
                "count": number,
            }
        )
        for what, at, number in parts
    ]
    return sum_rows(pa.concat_tables(rows), ["what", "bucket_start_ms"])


def deleted_offsets(folded: FoldedLog, removals: Removals) -> pa.Table:
    """``topic, at_ms, count``: offsets that a client removed, but not with their group."""
    rules, own = folded.plan.rules, removals.of_group
    found: Bools = np.zeros(len(own), dtype=np.bool_)
    if rules.reads_subscriptions and len(own):  # before 2.4 there was no OffsetDelete
        with_group = any_of(codes(removals.group, removals.at_ms), own)
        found = (removals.cause == EXPLICIT) & ~own & ~with_group
        if not rules.new_coordinator:
            found &= ~_emptied(folded, removals)
    rows = np.flatnonzero(found)
    return _by_topic(
        folded, removals.key[rows], at_ms=removals.at_ms[rows], count=np.ones_like(rows)
    )


def _emptied(folded: FoldedLog, removals: Removals) -> Bools:
    """Whether removals leave no offset of their group."""
    _, change, at_ms, group = _steps(folded)
    return _left(group, at_ms, change, removals.group, removals.at_ms) <= 0


def _left(code: Ints, at_ms: Ints, change: Ints, asked: Ints, asked_ms: Ints) -> Ints:
    """The sum of the changes of each asked code up to a time."""
    if not len(code):
        return np.zeros(len(asked), dtype=np.int64)
    order = np.lexsort((at_ms, code))
    code, at_ms, change = code[order], at_ms[order], change[order]
    total = Runs(code).sum_before(change) + change
    place = as_of(code, at_ms, asked, asked_ms, before=False)
    return np.where(place >= 0, total[place], 0)


def metrics(
    counts: pa.Table, removed: pa.Table, changes: pa.Table, bucket_ms: int
) -> dict[str, Any]:
    """Columns of ``schema.METRICS`` of all partitions together.

    ``changes``: the rows of ``offset_changes`` of every topic of ``removed``; None: no topic.
    """
    at_ms, number = np.zeros((2, 0), dtype=np.int64)
    if changes is not None:
        at_ms, number = _without_topics(removed, changes)
    start, what, count = (ints(counts[name]) for name in ("bucket_start_ms", "what", "count"))
    start = np.concatenate([start, at_ms // bucket_ms * bucket_ms])
    what = np.concatenate([what, np.full(len(at_ms), COUNTS.index("offset_deletions"))])
    count = np.concatenate([count, number])
    buckets, code = np.unique(start, return_inverse=True)
    columns: dict[str, Any] = {
        "bucket_start_ms": buckets,
        "bucket_ms": np.full(len(buckets), bucket_ms),
    }
    for place, name in enumerate(COUNTS):
        mine = what == place
        sums = np.bincount(code[mine], count[mine], minlength=len(buckets))
        columns[name] = sums.astype(np.int64)
    return columns


def _without_topics(removed: pa.Table, changes: pa.Table) -> tuple[Ints, Ints]:
    """Times and counts of removals that leave offsets of their topic."""
    both = pa.chunked_array([*removed["topic"].chunks, *changes["topic"].chunks], pa.string())
    topic, _ = encode_texts(both)
    asked = topic[: len(removed)]
    at_ms, count = ints(removed["at_ms"]), ints(removed["count"])
    left = _left(
        topic[len(removed) :],
        ints(changes["at_ms"]),
        ints(changes["change"]),
        asked,
        np.minimum(at_ms, 2**62) + AT_ONCE_MS,
    )
    return at_ms[left > 0], count[left > 0]
