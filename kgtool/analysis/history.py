"""An offset's life: what was stored just before each tombstone, and at the end of the log.

One row each time a key (group, topic, partition) loses its offset, and one for the key's last
record. Windows are keyed by the whole key, so a group with most of the records is still many
small windows. Positions are log offsets of the ``__consumer_offsets`` partition; a transactional
commit counts from its own record as pending, and from its COMMIT marker as stored. Of a group
without transactions what is stored is what its last record says, so that one look back is enough;
only the others take the windows that follow what is pending.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.retention.rules import RuleSet

KEY = (*schema.GROUP, "topic", "topic_partition")
_COMMITTED = ("offset", "commit_timestamp_ms", "expire_timestamp_ms", "topic_id", "bytes")
STORED = ("log_offset", "timestamp_ms", *_COMMITTED)
"""Fields of ``stored``; ``timestamp_ms`` is when it began to count."""
NEVER = 2**63 - 1
"""Position of a transaction's end that the log does not show."""


def history(rules: RuleSet, transactional: bool | None) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``schema.RECORDS`` → one row for each tombstone and each key's last record.

    Columns: the key; ``position``, ``timestamp_ms``, ``tombstone``, ``is_last``; ``first`` (the
    offset is stored here for the first time, at ``first_ms``, rows too); ``pending_change``
    (1, -1: a transaction begins, ceases to hold the key, rows too); ``mark`` of the group by
    ``producer_id`` (rows too, see RuleSet.marks_outlive_offsets); and as of just before a
    tombstone, else just after the row: ``stored`` (the committed offset, null if there is none),
    ``pending``, ``pending_ended_ms``.

    :param transactional: whether groups may have committed within transactions; None: Spark finds
        out which have, and follows only those through their transactions.
    """

    def transform(records: DataFrame) -> DataFrame:
        if transactional:
            return followed(records)
        offsets = records.where(F.col("kind") == schema.KIND_OFFSET)
        if transactional is False:
            return _plain(offsets)
        with_them = offsets.where(F.col("producer_id").isNotNull())
        groups = F.broadcast(with_them.select(*schema.GROUP).distinct())
        some = offsets.join(groups, on=list(schema.GROUP), how="left_semi")
        others = offsets.join(groups, on=list(schema.GROUP), how="left_anti")
        markers = records.where(F.col("kind") == schema.KIND_MARKER)
        return _plain(others).unionByName(followed(some.unionByName(markers)))

    def followed(records: DataFrame) -> DataFrame:
        return records.transform(_events).transform(_lives(rules)).transform(_states(rules))

    return transform


def _plain(offsets: DataFrame) -> DataFrame:
    """``history`` of groups that never committed within a transaction, whatever the rules."""
    spec = Window.partitionBy(*KEY).orderBy("log_offset")
    commit, nothing = ~F.col("tombstone"), F.lit(None)
    rows = (
        offsets.select(*KEY, "log_offset", "timestamp_ms", "tombstone", *_COMMITTED, "first_ms")
        .withColumn("own", F.when(commit, F.struct(*STORED)))
        .withColumn("before", F.lag("own").over(spec))
        .withColumn("is_last", F.lead("log_offset").over(spec).isNull())
        .withColumn("first", commit & F.col("before").isNull())
        .where(F.col("tombstone") | F.col("is_last") | F.col("first"))
    )
    return rows.select(
        *KEY,
        F.col("log_offset").alias("position"),
        "timestamp_ms",
        "tombstone",
        "is_last",
        "first",
        F.coalesce("first_ms", "timestamp_ms").alias("first_ms"),
        F.lit(0).alias("pending_change"),
        nothing.cast("bigint").alias("producer_id"),
        nothing.cast("int").alias("mark"),
        F.lit(False).alias("pending"),
        F.when(commit, F.col("own")).otherwise(F.col("before")).alias("stored"),
        nothing.cast("bigint").alias("pending_ended_ms"),
    )


def _events(records: DataFrame) -> DataFrame:
    """Every change of every key: plain commits, tombstones, pending commits, COMMITs."""
    is_offset = F.col("kind") == schema.KIND_OFFSET
    transactional = F.col("producer_id").isNotNull() & ~F.col("tombstone")
    plain = records.where(is_offset & ~transactional)
    pending = records.where(is_offset & transactional).transform(with_transaction_ends(records))
    ends = F.coalesce(F.col("ended.log_offset"), F.lit(NEVER))
    begun = _event(
        pending, F.col("log_offset"), F.col("timestamp_ms"), visible=F.lit(False), ends=ends
    )
    closed = pending.where(F.col("ended").isNotNull())
    stored = _event(
        closed,
        F.col("ended.log_offset"),
        F.col("ended.timestamp_ms"),
        visible=F.col("ended.committed"),
        ends=None,
    )
    position, at = F.col("log_offset"), F.col("timestamp_ms")
    return (
        _event(plain, position, at, visible=F.lit(True), ends=None)
        .unionByName(begun)
        .unionByName(stored)
    )


def _event(
    rows: DataFrame, position: Column, at: Column, *, visible: Column, ends: Column | None
) -> DataFrame:
    ended_ms = F.lit(None).cast("bigint") if ends is None else F.col("ended.timestamp_ms")
    return rows.select(
        *KEY,
        position.alias("position"),
        at.alias("timestamp_ms"),
        "tombstone",
        visible.alias("visible"),
        "log_offset",
        *_COMMITTED,
        # A transaction's COMMIT stores at its own time.
        F.when(position == F.col("log_offset"), F.coalesce("first_ms", at))
        .otherwise(at)
        .alias("first_ms"),
        "producer_id",
        (F.lit(None).cast("bigint") if ends is None else ends).alias("pending_until"),
        ended_ms.alias("pending_until_ms"),
    )


def with_transaction_ends(records: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Add ``ended``: the marker that ended each pending commit's transaction, if there is one."""

    def transform(pending: DataFrame) -> DataFrame:
        markers = records.where(F.col("kind") == schema.KIND_MARKER)
        both = pending.unionByName(markers)
        # Backwards, because Spark evaluates "until the end of the window" in quadratic time.
        backwards = (
            Window.partitionBy("partition", "producer_id")
            .orderBy(F.col("log_offset").desc())
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        marker = F.when(
            F.col("kind") == schema.KIND_MARKER,
            F.struct("log_offset", "timestamp_ms", "committed"),
        )
        ended = F.last(marker, ignorenulls=True).over(backwards)
        return both.withColumn("ended", ended).where(F.col("kind") == schema.KIND_OFFSET)

    return transform


def _lives(rules: RuleSet) -> Callable[[DataFrame], DataFrame]:
    """Add ``life``, the number of tombstones before, and drop what a tombstone took along."""

    def transform(events: DataFrame) -> DataFrame:
        before = (
            Window.partitionBy(*KEY).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
        )
        gone = F.when(F.col("tombstone"), F.col("position"))
        numbered = events.withColumn(
            "life", F.coalesce(F.count(gone).over(before), F.lit(0))
        ).withColumn("last_tombstone", F.max(gone).over(before))
        if not rules.tombstone_drops_pending:
            return numbered.withColumn("dropped", F.lit(False))
        dropped = F.coalesce(F.col("last_tombstone") > F.col("log_offset"), F.lit(False))
        # Only the end of a transaction lies behind its own record.
        late = F.col("position") > F.col("log_offset")
        return numbered.withColumn("dropped", late & dropped).withColumn(
            "visible", F.col("visible") & ~F.col("dropped")
        )

    return transform


def _states(rules: RuleSet) -> Callable[[DataFrame], DataFrame]:
    """Add what is stored and pending at each event, and keep the events that matter."""
    spec = Window.partitionBy(*KEY).orderBy("position")
    so_far = spec.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    commits = F.col("visible") & ~F.col("tombstone")
    # Lives follow each other; a window for each of them would sort everything once more.
    before = F.max(F.when(commits, F.col("life"))).over(
        spec.rowsBetween(Window.unboundedPreceding, -1)
    )
    still_open = F.coalesce(F.col("open_until.pending_until") > F.col("position"), F.lit(False))

    def transform(events: DataFrame) -> DataFrame:
        epoch = _epoch(rules)
        state = (
            events.withColumn("best", F.max(_stored(rules, commits)).over(so_far))
            .withColumn("open_until", F.max(_open_until(epoch)).over(so_far))
            .withColumn(
                "open_until", F.when(F.col("open_until.life") == epoch, F.col("open_until"))
            )
            .withColumn("is_last", F.lead("position").over(spec).isNull())
            .withColumn("first", commits & (F.coalesce(before, F.lit(-1)) < F.col("life")))
            .withColumn("mark", _mark(rules))
            .withColumn("holds", (still_open & ~_drops(rules)).cast("int"))
            .withColumn(
                "pending_change",
                F.col("holds") - F.coalesce(F.lag("holds").over(spec), F.lit(0)),
            )
            .withColumn("pending", still_open)
        )
        return state.where(_matters()).select(*_columns())

    return transform


def _stored(rules: RuleSet, commits: Column) -> Column:
    """What a commit stores; the greatest of them is what is stored."""
    order = F.col("position") if rules.commit_always_replaces else F.col("log_offset")
    return F.when(commits, F.struct("life", order.alias("order"), *STORED))


def _epoch(rules: RuleSet) -> Column:
    """What a tombstone ends for open transactions: with some coordinators nothing."""
    return F.col("life") if rules.tombstone_drops_pending else F.lit(0).cast("bigint")


def _open_until(epoch: Column) -> Column:
    """Until when a pending commit holds its key; the greatest of them counts."""
    held = F.struct(epoch.alias("life"), "pending_until", "pending_until_ms")
    return F.when(F.col("pending_until").isNotNull(), held)


def _matters() -> Column:
    changes = (F.col("pending_change") != 0) | F.col("mark").isNotNull()
    return F.col("tombstone") | F.col("is_last") | F.col("first") | changes


def _columns() -> list[Column]:
    names = (
        "position",
        "timestamp_ms",
        "tombstone",
        "is_last",
        "first",
        "first_ms",
        "pending_change",
    )
    stored = F.struct(*[F.col(f"best.{name}").alias(name) for name in STORED])
    return [
        *[F.col(name) for name in (*KEY, *names, "producer_id", "mark", "pending")],
        F.when(F.col("best.life") == F.col("life"), stored).alias("stored"),
        F.when(~F.col("pending"), F.col("open_until.pending_until_ms")).alias("pending_ended_ms"),
    ]


def _mark(rules: RuleSet) -> Column:
    """1 where a transaction marks its group, 0 where its end takes the mark away, else null."""
    if not rules.marks_outlive_offsets:
        return F.lit(None).cast("int")
    ends = (F.col("position") > F.col("log_offset")) & ~F.col("dropped")
    return F.when(F.col("pending_until").isNotNull(), F.lit(1)).when(ends, F.lit(0))


def _drops(rules: RuleSet) -> Column:
    """Whether the row takes along what open transactions hold for its key."""
    return F.col("tombstone") & F.lit(rules.tombstone_drops_pending)
