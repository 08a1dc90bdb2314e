"""Keeping the offsets that a plan of ``kgtool retention`` names, where that is still due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgtool.changes.cleanup.plan_file import PlannedOffset
from kgtool.changes.cleanup.verify import is_same
from kgtool.changes.kinds.keep import NOT_NEEDED, Clock, GroupKeep, Keep, KeepRow
from kgtool.changes.offsets.verify import changed_meanwhile
from kgtool.changes.plan import failed
from kgtool.changes.retention.decide import is_due
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.model import CommittedOffset, TopicPartition

Planned = Mapping[str, Mapping[TopicPartition, PlannedOffset]]
"""The offsets to keep, by group."""


class KeepPlanned(Keep):
    """``Keep`` of single offsets, as they were when the plan was made.

    What has another value now is left alone, and so is what is not due any more: somebody has
    committed it, or an earlier run has kept it.

    :param first_ms: from which time offsets counted before kgtool kept them, for the journal.
    """

    def __init__(
        self,
        now: Clock,
        planned: Planned,
        first_ms: Mapping[tuple[str, TopicPartition], int],
        *,
        join: bool = False,
    ) -> None:
        super().__init__(now, join=join)
        self._planned = planned
        self._first_ms = first_ms

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupKeep]]:
        """Plan for the named offsets of groups."""
        found = yield from super().look(cluster, groups)
        return [self._chosen(group) for group in found]

    def _chosen(self, group: GroupKeep) -> GroupKeep:
        if group.error is not None:
            return group
        planned, there = self._planned[group.group], {row.at: row for row in group.rows}
        rows = [
            self._row(there[at], offset) if at in there else _gone(group.group, offset)
            for at, offset in planned.items()
        ]
        return group._replace(rows=rows)

    def _row(self, row: KeepRow, planned: PlannedOffset) -> KeepRow:
        if not is_same(planned, row.value):
            then = CommittedOffset(planned.offset, planned.leader_epoch, planned.metadata)
            return failed(row, changed_meanwhile(then, row.value))
        expiry = self.expiries.groups.get(row.group)
        broker_ms = expiry.broker.retention_ms if expiry and expiry.broker else None
        ends_ms, now_ms = row.old_expires_at_ms, self._now()
        if ends_ms is not None and broker_ms is not None and not is_due(ends_ms, broker_ms, now_ms):
            return row._replace(status=NOT_NEEDED, error=None)
        return row._replace(first_ms=self._first_ms.get((row.group, row.at)))


def _gone(group: str, planned: PlannedOffset) -> KeepRow:
    """Return the row of an offset that does not exist any more."""
    then = CommittedOffset(planned.offset, planned.leader_epoch, planned.metadata)
    row = KeepRow(group, *planned.at, then, None, None, None, None, NOT_NEEDED)
    return failed(row, changed_meanwhile(then, None))
