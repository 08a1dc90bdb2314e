"""What a plan of ``kgtool retention`` consists of, and its outcomes as rows, for every door."""

from __future__ import annotations

from kgtool.changes.cleanup.apply import ItemResult
from kgtool.changes.cleanup.plan_file import KEEP_OFFSETS, CleanupPlan
from kgtool.changes.kinds.keep import KEPT, KeepRow
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


def kept_row(rules: RetentionRules, row: KeepRow, now_ms: int) -> RetentionRow:
    """Return the row of an offset that was to be kept."""
    ends_ms = row.new_expires_at_ms if row.status == KEPT else row.old_expires_at_ms
    made = RetentionRow(row.group, row.topic, row.partition, expires_at_ms=ends_ms, action=KEEP)
    return _ruled(rules, made._replace(status=row.status, error=row.error, at_ms=now_ms))


def removed_rows(rules: RetentionRules, result: ItemResult, now_ms: int) -> list[RetentionRow]:
    """Return the rows of the offsets that an item was to remove."""
    item = result.item
    rows = [
        RetentionRow(item.group, *each.at, expires_at_ms=each.expires_at_ms, action=item.action)
        for each in item.offsets
    ]
    return [
        _ruled(rules, row._replace(status=result.status, error=result.error, at_ms=now_ms))
        for row in rows
    ]


def _ruled(rules: RetentionRules, row: RetentionRow) -> RetentionRow:
    found = rules.of(row.group)
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
