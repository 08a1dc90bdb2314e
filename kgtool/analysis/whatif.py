"""History under other retentions, check intervals and rules.

``retention.counterfactual`` is the specification: the broker's own removals are taken out of the
log, and another broker is played over the rest. Three steps:

1. *Commits that no check could touch* (in any scenario) before the next commit of their key are
   dropped, but for the first and the last of each such row of commits. This sees every commit, so
   it is windows keyed by group, topic and partition: one huge group is many small windows.
2. *The replay* goes through what is left of one group after the other, in a stream: an offset's
   removal changes its group, and the group the fate of later offsets. Its input is about as large
   as what was ever live, not as large as the log.
3. Everything else is counted from the lives that the replay tells.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kgtool.analysis import group_records, schema
from kgtool.analysis.due import Put, Scenario
from kgtool.analysis.history import KEY, with_transaction_ends
from kgtool.analysis.replay import GroupReplay, Life
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

COMMIT, PEND, END, FORGET, OWN = "commit", "pend", "end", "forget", "own"
"""What can happen to a group, and where a group's own record came."""
MANY = 200
"""Empty stretches of a group beyond which they are taken as one long one."""
_FAR = 2**62
"""Times stop here, where sums of them still are int64."""


class Author(NamedTuple):
    """The broker that wrote the log."""

    rules: RuleSet
    retention_ms: int


def lives(
    removals: DataFrame, author: Author, scenarios: Sequence[Scenario], end_ms: int
) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``schema.RECORDS`` → rows of ``schema.LIVES``, for every scenario until ``end_ms``.

    ``removals`` are the explained ones; they tell which tombstones were the broker's own doing.
    """

    def transform(records: DataFrame) -> DataFrame:
        by_hand = removals.where(
            ~F.coalesce(
                F.col("cause").isin(retention.CAUSE_EXPIRED, retention.CAUSE_GROUP_EMPTY),
                F.lit(False),
            )
        )
        offsets = _offset_events(records, by_hand, author).transform(
            _thin(_empty_stretches(records), scenarios)
        )
        events = offsets.unionByName(_group_events(records, by_hand), allowMissingColumns=True)
        ordered = events.repartition("log_partition", "group").sortWithinPartitions(
            "log_partition", "group", "position"
        )

        def fold(tables: Iterable[Any]) -> Iterator[Any]:
            return replay_groups(tables, scenarios, end_ms)

        names = [name for name, _ in schema.HAPPENED]
        return ordered.select(*names).mapInArrow(fold, schema.ddl(schema.LIVES))

    return transform


# --- what happened -------------------------------------------------------------------------------


def _offset_events(records: DataFrame, by_hand: DataFrame, author: Author) -> DataFrame:
    """Commits, transactions' commits and ends, and deletions by hand, of every key."""
    commits = records.where((F.col("kind") == schema.KIND_OFFSET) & ~F.col("tombstone"))
    in_transaction = F.col("producer_id").isNotNull()
    pending = commits.where(in_transaction).transform(with_transaction_ends(records))
    at = F.col("timestamp_ms")
    first = F.coalesce("first_ms", at)
    plain = _event(commits.where(~in_transaction), COMMIT, F.col("log_offset"), at, first, author)
    begun = _event(pending, PEND, F.col("log_offset"), at, at, author)
    ended_at = F.col("ended.timestamp_ms")
    over = pending.where(F.col("ended").isNotNull())
    ended = _event(over, END, F.col("ended.log_offset"), ended_at, ended_at, author)
    ended = ended.withColumn("committed", F.col("ended_committed"))
    forgotten = by_hand.where(F.col("topic").isNotNull()).select(
        "log_partition",
        "group",
        "topic",
        F.col("partition").alias("topic_partition"),
        "position",
        F.col("removed_at_ms").alias("at_ms"),
        F.lit(FORGET).alias("event"),
    )
    events = plain
    for other in (begun, ended, forgotten):
        events = events.unionByName(other, allowMissingColumns=True)
    return events.drop("ended_committed")


def _event(
    rows: DataFrame, event: str, position: Column, at: Column, first: Column, author: Author
) -> DataFrame:
    own = F.col("expire_timestamp_ms")
    if author.rules.fixed_at_commit:
        # The broker filled in what no client had asked for.
        filled_in = own == F.col("commit_timestamp_ms") + F.lit(author.retention_ms)
        own = F.when(~F.coalesce(filled_in, F.lit(False)), own)
    ended = F.col("ended.committed") if event == END else F.lit(None).cast("boolean")
    return rows.select(
        F.col("partition").alias("log_partition"),
        "group",
        "topic",
        "topic_partition",
        position.alias("position"),
        F.least(at, F.lit(_FAR)).alias("at_ms"),
        F.lit(event).alias("event"),
        "offset",
        "commit_timestamp_ms",
        own.alias("expire_timestamp_ms"),
        "log_offset",
        F.least(first, at, F.lit(_FAR)).alias("first_ms"),
        "producer_id",
        "creates_group",
        ended.alias("ended_committed"),
    )


def _group_events(records: DataFrame, by_hand: DataFrame) -> DataFrame:
    """The groups' own records, without the tombstones that the broker wrote by itself."""
    own = records.where(F.col("kind") == schema.KIND_GROUP)
    ends = F.col("key_type").isin(*group_records.GROUP_TYPES) & F.col("tombstone")
    explained = by_hand.where(F.col("topic").isNull()).select(
        F.col("log_partition").alias("partition"),
        "group",
        F.col("position").alias("log_offset"),
        # DeleteGroups leaves nothing; what leaves offsets behind only makes orphans of them.
        ((F.col("cause") == retention.CAUSE_EXPLICIT) & (F.col("offsets_left") == 0)).alias("wipe"),
        F.lit(True).alias("is_by_hand"),
    )
    ended = own.where(ends).join(explained, on=["partition", "group", "log_offset"], how="inner")
    kept = own.where(~ends).unionByName(ended, allowMissingColumns=True)
    return kept.select(
        F.col("partition").alias("log_partition"),
        "group",
        F.col("log_offset").alias("position"),
        F.least("timestamp_ms", F.lit(_FAR)).alias("at_ms"),
        F.lit(OWN).alias("event"),
        "log_offset",
        "key_type",
        "tombstone",
        "detail",
        F.coalesce("wipe", F.lit(False)).alias("wipe"),
    )


# --- commits that no check could touch -----------------------------------------------------------


def _empty_stretches(records: DataFrame) -> DataFrame:
    """From where to where a classic group was Empty with a date that its offsets share.

    Longer than it was rather than shorter: this only tells which commits need a closer look.
    """
    of_group = Window.partitionBy("partition", "group").orderBy("log_offset")
    state = records.where(
        (F.col("kind") == schema.KIND_GROUP)
        & (F.col("key_type") == group_records.GROUP_METADATA)
        & ~F.col("tombstone")
    )
    dated = (F.col("detail.members") == 0) & F.col("detail.state_since_ms").isNotNull()
    stretch = F.struct(
        F.col("log_offset").alias("first"),
        F.coalesce("next", F.lit(2**63 - 1)).alias("next"),
        F.least("detail.state_since_ms", F.lit(_FAR)).alias("since_ms"),
    )
    joined = F.struct(
        F.min("stretch.first").alias("first"),
        F.lit(2**63 - 1).alias("next"),
        F.min("stretch.since_ms").alias("since_ms"),
    )
    return (
        state.withColumn("next", F.lead("log_offset").over(of_group))
        .where(dated)
        .select(F.col("partition").alias("log_partition"), "group", stretch.alias("stretch"))
        .groupBy("log_partition", "group")
        .agg(F.collect_list("stretch").alias("all"), F.array(joined).alias("joined"))
        .select(
            "log_partition",
            "group",
            F.when(F.size("all") <= MANY, F.col("all"))
            .otherwise(F.col("joined"))
            .alias("stretches"),
        )
    )


def _thin(stretches: DataFrame, scenarios: Sequence[Scenario]) -> Callable[[DataFrame], DataFrame]:
    """Drop commits that nothing can come between, and add ``continued`` to what is left.

    A commit is continued by the next one of its key if no check of any scenario could remove it
    before; one that is continued and continues is dropped.
    """
    by_key = Window.partitionBy("log_partition", *KEY[1:]).orderBy("position")

    def transform(events: DataFrame) -> DataFrame:
        both = (F.col("event") == COMMIT) & (F.lead("event").over(by_key) == COMMIT)
        following = events.join(stretches, on=["log_partition", "group"], how="left").withColumns(
            {
                "followed": F.coalesce(both, F.lit(False)),
                "next_ms": F.lead("at_ms").over(by_key),
                "next_position": F.lead("position").over(by_key),
            }
        )
        safe = F.col("followed") & ~F.coalesce(_in_danger(scenarios), F.lit(False))
        marked = following.withColumn("continued", safe)
        continues = F.lag("continued").over(by_key)
        dropped = F.col("continued") & continues & ~F.coalesce("creates_group", F.lit(False))
        return (
            marked.withColumn("dropped", F.coalesce(dropped, F.lit(False)))
            .where(~F.col("dropped"))
            .drop("followed", "next_ms", "next_position", "stretches", "dropped", "creates_group")
        )

    return transform


def _in_danger(scenarios: Sequence[Scenario]) -> Column:
    """Whether some check could remove the commit before the next one of its key comes."""
    shortest = min(scenario.retention_ms for scenario in scenarios)
    intervals = sorted({scenario.interval_ms for scenario in scenarios})
    own = F.least(
        F.least("commit_timestamp_ms", F.lit(_FAR)) + F.lit(shortest), F.col("expire_timestamp_ms")
    )

    def by_date(stretch: Column) -> Column:
        overlaps = (stretch["first"] < F.col("next_position")) & (
            stretch["next"] > F.col("position")
        )
        return overlaps & _is_checked(stretch["since_ms"] + F.lit(shortest), intervals)

    dated = F.exists(F.coalesce("stretches", F.array()), by_date)
    return _is_checked(own, intervals) | dated


def _is_checked(due: Column, intervals: Sequence[int]) -> Column:
    """Whether a check comes when the commit is there and that moment has come."""
    start = F.least(F.greatest(due, F.col("at_ms")), F.lit(_FAR))
    result = F.lit(False)
    for interval in intervals:
        # The first multiple that is not before the start.
        check = start + F.lit(interval - 1) - F.pmod(start - 1, F.lit(interval))
        result = result | (check < F.col("next_ms"))
    return result


# --- the replay ----------------------------------------------------------------------------------


def replay_groups(
    tables: Iterable[Any], scenarios: Sequence[Scenario], end_ms: int
) -> Iterator[Any]:
    """``mapInArrow`` function: rows of ``schema.HAPPENED``, sorted by group and position."""
    player = _Player(scenarios, end_ms)
    names = [name for name, _ in schema.HAPPENED]
    with _rare_collections():
        for table in tables:
            columns = [table.column(at).to_pylist() for at in range(len(names))]
            for row in zip(*columns, strict=True):
                player.see(_Happened(*row))
            yield from player.batches()
        player.close()
        yield from player.batches()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for reference cycles rarely: a group's offsets are many objects and have none.

    Looking as often as Python does by itself takes a third of the time (measured).
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Happened(NamedTuple):
    """A row of ``schema.HAPPENED``."""

    log_partition: int
    group: str
    position: int
    at_ms: int
    event: str
    topic: str
    topic_partition: int
    offset: int
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    log_offset: int
    first_ms: int
    continued: bool | None
    producer_id: int
    committed: bool
    key_type: int
    tombstone: bool
    detail: dict[str, Any] | None
    wipe: bool


class _Player:
    """Plays one group after the other, in all scenarios at once."""

    def __init__(self, scenarios: Sequence[Scenario], end_ms: int) -> None:
        self.scenarios = scenarios
        self.end_ms = end_ms
        self.key: tuple[int, str] | None = None
        self.groups: list[GroupReplay] = []
        self.rows: list[tuple[Any, ...]] = []

    def see(self, row: _Happened) -> None:
        if row[:2] != self.key:
            self.close()
            self.key = row[:2]
            self.groups = [
                GroupReplay(scenario, self._emit(number))
                for number, scenario in enumerate(self.scenarios)
            ]
        _apply(self.groups, row)

    def close(self) -> None:
        for group in self.groups:
            group.finish(self.end_ms)
        self.groups = []

    def _emit(self, number: int) -> Callable[[Life], None]:
        assert self.key is not None
        log_partition, group = self.key

        def emit(life: Life) -> None:
            self.rows.append((number, log_partition, group, *life))

        return emit

    def batches(self) -> Iterator[Any]:
        """What has been told since the last call."""
        import pyarrow as pa  # type: ignore[import-untyped]

        if self.rows:
            target = schema.arrow(schema.LIVES)
            columns = zip(*self.rows, strict=True)
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, target, strict=True)
            ]
            self.rows = []
            yield pa.RecordBatch.from_arrays(arrays, schema=target)


def _apply(groups: list[GroupReplay], row: _Happened) -> None:
    """Let it happen in every scenario."""
    at_ms, what = row.at_ms, row.event
    if what == OWN:
        event = {"kind": schema.KIND_GROUP, "timestamp_ms": at_ms, **row._asdict()}
        for group in groups:
            group.group_record(at_ms, event, wipe=row.wipe)
        return
    key = (row.topic, row.topic_partition)
    if what == FORGET:
        for group in groups:
            group.forget(at_ms, key)
        return
    if what == END:
        for group in groups:
            group.end(at_ms, key, row.producer_id, committed=row.committed)
        return
    put = Put(
        row.commit_timestamp_ms, row.expire_timestamp_ms, row.offset, row.log_offset,
        row.first_ms, bool(row.continued),
    )  # fmt: skip
    for group in groups:
        if what == COMMIT:
            group.commit(at_ms, key, put)
        else:
            group.pend(at_ms, key, put, row.producer_id)
