"""What a plan of ``kgtool retention`` consists of, and its outcomes as rows, for every door."""

from __future__ import annotations

from kgtool.changes.cleanup.apply import ItemResult
from kgtool.changes.cleanup.plan_file import KEEP_OFFSETS, CleanupPlan
from kgtool.changes.kinds.keep import KEPT, GroupKeep, KeepRow
from kgtool.changes.kinds.keep_planned import Planned
from kgtool.changes.retention.decide import KEEP, REFUSALS, RetentionRow
from kgtool.changes.retention.look import Looked
from kgtool.config.retention import RetentionRules


def split(plan: CleanupPlan) -> tuple[Planned, CleanupPlan]:
    """Return what a plan keeps, and the rest of it, which removes."""
    keeps = [item for item in plan.items if item.action == KEEP_OFFSETS]
    rest = tuple(item for item in plan.items if item.action != KEEP_OFFSETS)
    planned = {item.group: {each.at: each for each in item.offsets} for item in keeps}
    return planned, plan._replace(items=rest)


def kept_row(rules: RetentionRules, group: GroupKeep, row: KeepRow, now_ms: int) -> RetentionRow:
    """Return the row of an offset of a group that was to be kept."""
    ends_ms = row.new_expires_at_ms if row.status == KEPT else row.old_expires_at_ms
    made = RetentionRow(row.group, row.topic, row.partition, expires_at_ms=ends_ms, action=KEEP)
    made = made._replace(status=row.status, error=row.error, at_ms=now_ms)
    return _ruled(rules, made, group.description.type)


def removed_rows(rules: RetentionRules, result: ItemResult, now_ms: int) -> list[RetentionRow]:
    """Return the rows of the offsets that an item was to remove."""
    item = result.item
    said = RetentionRow(
        item.group, None, None, None, None, None, item.action, now_ms, result.status, result.error
    )
    said = _ruled(rules, said, item.type)
    return [
        said._replace(topic=each.topic, partition=each.partition, expires_at_ms=each.expires_at_ms)
        for each in item.offsets
    ]


def _ruled(rules: RetentionRules, row: RetentionRow, kind: str | None) -> RetentionRow:
    found = rules.of(row.group, kind)
    if found is None:  # a plan that was edited
        return row
    return row._replace(rule=found[1], retention_ms=found[0].retention_ms)


def refused_rows(looked: Looked, now_ms: int) -> list[RetentionRow]:
    """Return what should be kept or removed by now and can't be."""
    return [
        row
        for group in looked.groups
        for row in group.rows
        if row.status in REFUSALS and (row.at_ms is None or row.at_ms <= now_ms)
    ]
