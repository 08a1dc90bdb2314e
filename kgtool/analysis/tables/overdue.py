"""Offsets and groups that a check should have removed before the end of the log.

A broker checks once per interval. Anything due for longer points at a coordinator that does not
clean up (it could not load its partition, say), or at other settings than assumed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, arrow_ints, decode_texts, ints
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import group_contents
from kgtool.retention import rules as r
from kgtool.retention.doubts import grace_ms


def due(folded: FoldedLog, live: pa.Table) -> pa.Table:
    """Those rows of ``schema.LIVE`` that are overdue."""
    return live.filter(pc.less(live["expires_at_ms"], _limit_ms(folded)))


def table(folded: FoldedLog, offsets: pa.Table) -> pa.Table:
    """Rows of ``schema.OVERDUE`` at the end of the log; ``offsets``: those of ``due``."""
    plan = folded.plan
    rows = pa.concat_tables([offsets, due(folded, _groups(folded))], promote_options="default")
    expires = ints(rows["expires_at_ms"])
    columns = {name: rows[name] for name in rows.column_names}
    # null where a commit timestamp is so absurd that the difference does not fit
    overdue = np.where(expires > -(2**62), plan.end_ms - plan.interval_ms - expires, NONE)
    partition = np.full(len(expires), folded.partition)
    return folded.table("overdue", {**columns, "overdue_ms": overdue, "log_partition": partition})


def _limit_ms(folded: FoldedLog) -> int:
    plan = folded.plan
    limit = plan.end_ms - grace_ms(plan.interval_ms)
    if folded.log.moved_ms > limit:
        # A coordinator checks first an interval after it has loaded the partition.
        limit -= grace_ms(plan.interval_ms)
    return limit


def _groups(folded: FoldedLog) -> pa.Table:
    """Groups that the next check removes, and since when."""
    size, rules, states = folded.log.size, folded.plan.rules, folded.states
    latest = states.latest
    group = states.groups.at(latest)
    every = np.arange(size)
    left, held, cleared = group_contents(folded, every, *np.full((2, size), MAX))
    goes = rc.may_go(rules, group, left=left, pending=held > 0, had=left > 0)
    # Else its removal leaves no trace in the log.
    goes &= group.known & rc.leaves_tombstone(rules, group, states.ints("generation")[latest])
    since = folded.unknown.since_ms(every, latest)
    goes &= ~folded.unknown.members & ~folded.unknown.contents(every, np.full(size, MAX - 1))
    goes &= (since != NONE) | (states.since_ms(latest) == NONE)
    rows = np.flatnonzero(goes)
    return pa.table(
        {
            "group": decode_texts(rows, folded.log.groups),
            "group_type": decode_texts(group.type[rows], rc.TYPES),
            "group_state": decode_texts(group.state[rows], rc.STATES),
            "rule": pa.repeat(r.CAUSE_GROUP_EMPTY, len(rows)),
            "expires_at_ms": arrow_ints(np.maximum(since, cleared)[rows]),
        }
    )
