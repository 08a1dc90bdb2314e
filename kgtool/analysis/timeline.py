"""A group's life from its own records, and from its first commits.

Group records are rare and their state is a fold (members come and go one record at a time), so
they are brought together by group, sorted by log offset, and folded in a stream: a worker holds
one group at a time. The loading rules are those of ``facts``: GroupMetadataManager.replay (new
coordinator) and GroupMetadataManager.loadGroupsAndOffsets (Scala).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis import schema
from kgtool.analysis.group_life import GroupLife
from kgtool.retention.rules import RuleSet

_EVENT_COLUMNS = (
    "partition",
    "group",
    "log_offset",
    "timestamp_ms",
    "kind",
    "key_type",
    "tombstone",
    "detail",
)


def timeline(rules: RuleSet) -> Callable[[DataFrame], DataFrame]:
    """Rows of ``schema.RECORDS`` → rows of ``schema.TIMELINE``, one for each change of a group."""

    def transform(records: DataFrame) -> DataFrame:
        own = F.col("kind") == schema.KIND_GROUP
        creating = F.col("creates_group") & F.lit(rules.new_coordinator)
        events = records.where(own | creating).select(*_EVENT_COLUMNS)
        ordered = events.repartition("partition", "group").sortWithinPartitions(
            "partition", "group", "log_offset"
        )

        def fold(tables: Iterable[Any]) -> Iterator[Any]:
            return fold_groups(tables, rules)

        return ordered.mapInArrow(fold, schema.ddl(schema.TIMELINE))

    return transform


def timeline_of(table: Any, rules: RuleSet) -> Any:
    """The same of an Arrow table of all rows of ``schema.RECORDS``, here and now."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    wanted = pc.equal(table["kind"], schema.KIND_GROUP)
    if rules.new_coordinator:
        wanted = pc.or_(wanted, pc.fill_null(table["creates_group"], False))
    events = table.filter(wanted).select(_EVENT_COLUMNS)
    if not events.num_rows:  # Arrow can't sort what has no chunk
        return schema.arrow(schema.TIMELINE).empty_table()
    order = [(name, "ascending") for name in ("partition", "group", "log_offset")]
    folded = fold_groups([events.sort_by(order)], rules)
    return pa.Table.from_batches(folded, schema=schema.arrow(schema.TIMELINE))


def fold_groups(tables: Iterable[Any], rules: RuleSet) -> Iterator[Any]:
    """``mapInArrow`` function over events sorted by group and log offset."""
    import pyarrow as pa

    target = schema.arrow(schema.TIMELINE)
    key: tuple[int, str] | None = None
    life = GroupLife(rules)
    for table in tables:
        rows: list[dict[str, Any]] = []
        for event in table.to_pylist():
            if (event["partition"], event["group"]) != key:
                key = (event["partition"], event["group"])
                life = GroupLife(rules)
            row = life.apply(event)
            if row is not None:
                rows.append({"partition": key[0], "group": key[1], **row})
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=target)
