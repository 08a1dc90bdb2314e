"""The table ``removals``, and the signs that the brokers' retention was shorter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold.arrays import NONE, Bools, Ints, codes, decode_texts, extreme
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import CAUSES, EXPIRED, EXPLICIT, Removals
from kgtool.retention import doubts
from kgtool.retention.doubts import Spans
from kgtool.retention.rules import RULES


def latency(found: Removals) -> Ints:
    """How long after its due time each came; NONE where that does not fit into an int64."""
    known = found.expires_ms != NONE
    difference = np.where(known, found.at_ms - np.where(known, found.expires_ms, 0), NONE)
    # at_ms is within 2^61, so only a time far below can overflow.
    fits = ~known | (found.expires_ms > -(2**62))
    return np.where(fits, difference, NONE)


def early_removals(folded: FoldedLog, found: Removals) -> pa.Table:
    """Offsets that were removed before their time, by age and time in steps of the check interval.

    ``least``: the lowest age of these; ``last``: the latest time.
    """
    plan = folded.plan
    known = ~found.of_group & (found.cause == EXPLICIT) & (found.expires_ms > found.at_ms)
    if len(plan.wrote.phases) > 1 or folded.log.missing & missing_data.BLIND:
        known[:] = False
    at_ms, due = found.at_ms[known], np.minimum(found.expires_ms[known], 2**62)
    age = np.maximum(at_ms - due + plan.wrote.phases[0][1], 0)
    step, moment = age // plan.interval_ms, at_ms // plan.interval_ms
    code = codes(step, moment)
    first, size = np.unique(code, return_index=True)[1], int(code.max(initial=-1)) + 1
    return pa.table(
        {
            "step": step[first],
            "moment": moment[first],
            "count": np.bincount(code, minlength=size),
            "least": extreme(size, code, age, least=True),
            "last": extreme(size, code, at_ms),
        }
    )


def moments(folded: FoldedLog, found: Removals) -> pa.Table:
    """Times and topics of what was removed, for ``certain_checks``: no rows by the new coordinator.

    ``cause``: 0 expired, 3 explicit, -1 in doubt.
    """
    told = found.doubtful | (found.cause == EXPIRED) | (found.cause == EXPLICIT)
    told &= (found.stored >= 0) & (not folded.plan.rules.new_coordinator)
    at_ms, cause, topic = (
        found.at_ms[told],
        found.cause[told],
        folded.log.keys.topic[found.key[told]],
    )
    _, first = np.unique(codes(at_ms, cause, topic), return_index=True)
    return pa.table(
        {
            "at_ms": at_ms[first],
            "topic": decode_texts(topic[first], folded.log.topics).cast(pa.string()),
            "cause": cause[first],
        }
    )


def certain_checks(parts: pa.Table) -> Spans:
    """``doubts.certain_checks`` of the moments of all partitions; () if nothing is in doubt."""
    if not pc.any(pc.equal(parts["cause"], -1)).as_py():
        return ()
    columns = (parts[name].to_pylist() for name in parts.column_names)
    return doubts.certain_checks(
        doubts.Moment(at, topic, None if cause < 0 else CAUSES[cause])
        for at, topic, cause in zip(*columns, strict=True)
    )


def shared_ages(parts: pa.Table) -> list[doubts.SharedAge]:
    """``doubts.shared_ages`` of the early removals of all partitions."""
    columns = (parts[name].to_pylist() for name in parts.column_names)
    return doubts.shared_ages(map(doubts.EarlyRemovals, *columns))


def table(folded: FoldedLog, found: Removals) -> pa.Table:
    """Rows of ``schema.REMOVALS``; unknown values are null."""
    log, missing = folded.log, folded.log.missing
    blind = folded.unknown.blind() & (found.at_ms >= folded.plan.hold_ms[0])
    if missing & missing_data.TRANSACTIONS and not log.is_complete:
        # An aborted commit looks like one that was not due when the offset was removed.
        blind |= _may_be_transactional(folded)[found.group] & (found.cause == EXPLICIT)
    hidden = np.full(len(found.key), bool(missing & missing_data.TIMES))
    stored, commits = found.stored, log.offsets
    there = stored >= 0
    dated = there & (not missing & missing_data.COMMIT_TIMES)
    return folded.table(
        "removals",
        {
            **folded.key_columns(found.key),
            "group": decode_texts(found.group, log.groups),
            "removed_at_ms": np.where(hidden, NONE, found.at_ms),
            "cause": decode_texts(np.where(blind, -1, found.cause), CAUSES),
            "expires_at_ms": np.where(blind, NONE, found.expires_ms),
            "latency_ms": np.where(blind, NONE, latency(found)),
            "offset": pa.array(np.append(commits.offset, 0)[stored], mask=~there),
            "commit_timestamp_ms": pa.array(np.append(commits.commit_ms, 0)[stored], mask=~dated),
            "rule": decode_texts(np.where(blind, -1, found.rule), RULES),
        },
    )


def _may_be_transactional(folded: FoldedLog) -> Bools:
    """Whether groups have commits that may be transactional.

    Since 4.1 all others carry a topic id.
    """
    log = folded.log
    maybe = ~log.offsets.tombstone & (log.offsets.topic_id < 0)
    result = np.zeros(log.size, dtype=np.bool_)
    result[log.keys.group[log.offsets.key[maybe]]] = True
    return result
