"""The table ``removals``, and the signs that the brokers' retention was shorter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, decode_texts, ints
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.fold.removals import CAUSES, EXPLICIT, Removals
from kgtool.retention.rules import RULES

FEWEST, MOMENTS = 10, 3
"""Early removals of one age, and different times of them, that are no accident."""
SHORTEST_MS = 60_000
"""The shortest retention: offsets.retention.minutes is at least 1."""


def latency(found: Removals) -> Ints:
    """How long after its due time each came; NONE where that does not fit into an int64."""
    known = found.expires_ms != NONE
    difference = np.where(known, found.at_ms - np.where(known, found.expires_ms, 0), NONE)
    # at_ms is within 2^61, so only a time far below can overflow.
    fits = ~known | (found.expires_ms > -(2**62))
    return np.where(fits, difference, NONE)


def early_removals(folded: FoldedLog, found: Removals) -> Any:
    """Ages of offsets that were removed before their time, in steps of the check interval.

    ``moments``: number of different times; ``least``: the lowest age of the step.
    """
    plan = folded.plan
    known = ~found.of_group & (found.cause == EXPLICIT) & (found.expires_ms > found.at_ms)
    if len(plan.wrote.phases) > 1 or folded.log.missing & missing_data.BLIND:
        known[:] = False
    at_ms, due = found.at_ms[known], np.minimum(found.expires_ms[known], 2**62)
    age = np.maximum(at_ms - due + plan.wrote.phases[0][1], 0)
    step, code = np.unique(age // plan.interval_ms, return_inverse=True)
    times = np.unique(np.stack([code, at_ms]), axis=1)[0]
    least = np.full(len(step), MAX)
    np.minimum.at(least, code, age)
    return pa.table(
        {
            "step": step,
            "count": np.bincount(code, minlength=len(step)),
            "moments": np.bincount(times, minlength=len(step)),
            "least": least,
        }
    )


def shared_age(parts: Any) -> tuple[int, int, int] | None:
    """(early removals that share an age, all of them, that age in ms), if most share one.

    Clients delete at any time and any age; a broker with a shorter retention than assumed removes
    everything at that age, or within one interval after it.
    """
    step, code = np.unique(ints(parts["step"]), return_inverse=True)
    count, moments = (
        np.bincount(code, ints(parts[name]), minlength=len(step)) for name in ("count", "moments")
    )
    least = np.full(len(step), MAX)
    np.minimum.at(least, code, ints(parts["least"]))
    next_to = np.append(step[1:] == step[:-1] + 1, False)[: len(step)]
    both = [each + np.where(next_to, np.append(each[1:], 0), 0) for each in (count, moments)]
    if not len(step):
        return None
    best = int(np.argmax(both[0]))
    total, age_ms = int(count.sum()), int(least[best])
    is_shared = both[0][best] >= FEWEST and both[1][best] >= MOMENTS
    if not is_shared or both[0][best] * 3 < total * 2 or age_ms < SHORTEST_MS:
        return None
    return int(both[0][best]), total, age_ms


def table(folded: FoldedLog, found: Removals) -> Any:
    """Rows of ``schema.REMOVALS``; unknown values are null."""
    log, missing = folded.log, folded.log.missing
    blind = np.full(len(found.key), folded.unknown.blind())
    if missing & missing_data.TRANSACTIONS and not log.is_complete:
        # An aborted commit looks like one that was not due when the offset was removed.
        blind |= _may_be_transactional(folded)[found.group] & (found.cause == EXPLICIT)
    hidden = np.full(len(found.key), bool(missing & missing_data.TIMES))
    stored = np.append(folded.history.stored, -1)[found.row]
    there, commits = stored >= 0, log.offsets
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
