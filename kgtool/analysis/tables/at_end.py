"""Tables about the end of the log: partitions, open transactions, orphans, and the offsets that
classic groups would lose by an upgrade."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE, Ints, codes, decode_texts, extreme, ints, plus
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.offset_history import transaction_ends
from kgtool.analysis.tables.live import LiveOffsets, topic_counts
from kgtool.retention import rules as r

REASONS = ("topic-gone", "topic-recreated")


def partitions(folded: FoldedLog, found: LiveOffsets) -> pa.Table:
    """The row of ``schema.PARTITIONS``."""
    log, read = folded.log, folded.log.read
    size, records = log.size_in_log
    epochs = np.unique(ints(log.epochs["leader_epoch"]))
    columns = {
        "log_partition": None if folded.partition < 0 else folded.partition,
        "bytes": size,
        "records": records,
        "live_keys": len(found.key),
        "groups": len(np.unique(found.group)),
        "coordinator_moves": max(len(epochs) - 1, 0) if len(epochs) else None,
        "first_offset": pc.min(read["first_offset"]).as_py(),
        "last_offset": pc.max(read["last_offset"]).as_py(),
        "newest_record_ms": pc.max(read["newest_ms"]).as_py(),
    }
    rows = folded.table(
        "partitions",
        {name: np.array([NONE if value is None else value]) for name, value in columns.items()},
    )
    # Of a file with rows of several partitions there is one more fold, of no records.
    return rows if log.size or folded.partition >= 0 else rows[:0]


def transactions(folded: FoldedLog) -> pa.Table:
    """Rows of ``schema.TRANSACTIONS``."""
    log, offsets = folded.log, folded.log.offsets
    rows = _held(folded)
    group = log.keys.group[offsets.key[rows]]
    code = codes(group, offsets.producer_id[rows])
    size = int(code.max(initial=-1)) + 1
    newest = np.zeros(size, dtype=np.int64)
    newest[code] = rows  # in log order
    pair = np.unique(np.stack([code, offsets.key[rows]]), axis=1)
    names = log.topics.to_pylist()
    topics: list[set[str]] = [set() for _ in range(size)]
    for number, key in pair.T.tolist():
        topics[number].add(names[log.keys.topic[key]])
    since = extreme(size, code, offsets.at_ms[rows], least=True)
    columns = {
        "group": decode_texts(log.keys.group[offsets.key[newest]], log.groups),
        "producer_id": offsets.producer_id[newest],
        "producer_epoch": offsets.producer_epoch[newest],
        "since_ms": np.full(size, NONE) if log.missing & missing_data.TIMES else since,
        "topics": pa.array(list(map(sorted, topics)), pa.list_(pa.string())),
        "partitions": np.bincount(pair[0], minlength=size),
    }
    return folded.table("transactions", columns)


def _held(folded: FoldedLog) -> Ints:
    """Indices of the commits of open transactions."""
    log, offsets = folded.log, folded.log.offsets
    rows = np.flatnonzero((offsets.producer_id != NONE) & ~offsets.tombstone)
    rows = rows[transaction_ends(log, rows).marker < 0]
    if folded.plan.rules.tombstone_drops_pending and len(rows):
        deleted = np.full(len(log.keys.group), -1)
        tombstones = np.flatnonzero(offsets.tombstone)
        deleted[offsets.key[tombstones]] = tombstones
        rows = rows[rows > deleted[offsets.key[rows]]]
    return rows


def orphans(folded: FoldedLog, live: pa.Table, found: LiveOffsets) -> pa.Table:
    """Rows of ``schema.ORPHANS``; none without the topics of cluster.json."""
    log, plan = folded.log, folded.plan
    names, ids = log.topics.to_pylist(), plan.topic_ids
    there = plan.topics
    gone = np.array([there is not None and name not in there for name in names], dtype=np.bool_)
    numbers = {name: number for number, name in enumerate(log.topic_ids.to_pylist())}
    # -1: not in cluster.json; -2: of no commit.
    known = np.array([numbers.get(ids[n], -2) if n in ids else -1 for n in names], dtype=np.int64)
    topic, topic_id = log.keys.topic[found.key], log.offsets.topic_id[found.stored]
    other = (topic_id >= 0) & (known[topic] != -1) & (known[topic] != topic_id)
    reason = np.where(gone[topic], 0, np.where(other, 1, -1))
    rows = np.flatnonzero(reason >= 0)
    some = live.take(pa.array(rows))
    columns = {name: some[name] for name in some.column_names}
    return folded.table("orphans", {**columns, "reason": decode_texts(reason[rows], REASONS)})


def upgrades(folded: FoldedLog, found: LiveOffsets) -> pa.Table:
    """Rows of ``schema.UPGRADES``: every classic consumer group with offsets.

    A classic group's offsets share one date, the time at which it became Empty + retention. Those
    of a KIP-848 group each have their own, commit + retention, and only subscriptions protect them
    (``facts``: ``ConsumerGroup.offsetExpirationCondition``).
    """
    plan, log, size = folded.plan, folded.log, folded.log.size
    of = folded.states.groups.at(folded.states.latest)
    classic = of.known & (of.type == rc.TYPE[r.TYPE_CLASSIC]) & (of.protocol == rc.CONSUMER)
    classic &= ~folded.unknown.groups
    rows = np.flatnonzero(classic[found.group] & ~found.pending)
    group, stored = found.group[rows], found.stored[rows]
    commit, own = log.offsets.commit_ms[stored], log.offsets.expire_ms[stored]
    dated = (own != NONE) & (own != -1)
    due = np.where(dated, own, plus(commit, plan.wrote.phases[-1][1]))
    lost = due <= plan.end_ms
    some = np.unique(group)
    columns = {
        "group": log.groups.take(some),
        "group_state": decode_texts(of.state[some], rc.STATES),
        "live_offsets": np.bincount(group, minlength=size)[some],
        "lost_offsets": np.bincount(group[lost], minlength=size)[some],
        "lost_topics": topic_counts(folded, group[lost], found.key[rows[lost]])[some],
        "oldest_commit_ms": extreme(size, group, commit, least=True)[some],
    }
    return folded.table("upgrades", columns)
