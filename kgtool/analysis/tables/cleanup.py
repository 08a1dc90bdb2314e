"""A cleanup plan from the log: groups without members, and offsets of topics without subscribers.

Groups with unknown members or subscriptions are left out, with the reason. The tables lack metadata
and leader epochs: applying the plan compares offsets, and the time of the last commit, with the
cluster's.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold.arrays import NONE, Ints, extreme
from kgtool.analysis.fold.folded_log import FoldedLog
from kgtool.analysis.words import when
from kgtool.changes.cleanup.plan_file import (
    DELETE_GROUP,
    DELETE_OFFSETS,
    LeftOut,
    PlanItem,
    PlannedOffset,
)

EMPTY = "Empty"
_TYPES = ("classic", "consumer")


def items(folded: FoldedLog, live: pa.Table, group: Ints) -> pa.Table:
    """Rows of ``schema.CLEANUP`` from the rows of ``schema.LIVE``, which are of these groups.

    Only groups without a commit or a member, and offsets without a commit, for
    ``TableOptions.idle_ms`` before the end of the log.
    """
    plan, idle_ms = folded.plan, folded.plan.options.idle_ms
    latest_ms = None if idle_ms is None else plan.end_ms - idle_ms
    latest, states = folded.states.latest, folded.states
    names = np.where(states.groups.known[latest], states.protocol_types()[latest], None)
    own = folded.unknown.protocols(pa.array(names, pa.string())).to_pylist()
    used_ms = _last_own_record_ms(folded)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    found: list[PlanItem | LeftOut] = []
    for start, end in zip(starts, [*starts[1:], len(order)], strict=False):  # none: one end
        number = int(group[order[start]])
        rows = live.take(pa.array(order[start:end])).to_pylist()
        whole = _whole(folded, rows, own[number], int(used_ms[number]))
        if _is_wanted(whole, latest_ms):
            found += _decide(whole, plan.topic_ids, latest_ms, plan.end_ms)
    return pa.table(
        {
            "group": pa.array([each.group for each in found], pa.string()),
            "decision": pa.array([pickle.dumps(each) for each in found], pa.binary()),
        }
    )


def decisions(rows: Iterable[Mapping[str, Any]]) -> Iterator[PlanItem | LeftOut]:
    """The decisions of ``items``."""
    for row in rows:
        yield pickle.loads(row["decision"])  # noqa: S301 - our own workers' words


def _last_own_record_ms(folded: FoldedLog) -> Ints:
    """When the last own record of each group was written; NONE: unknown."""
    records, size = folded.log.group_records, folded.log.size
    if folded.log.missing & missing_data.TIMES:
        return np.full(size, NONE)
    return extreme(size, records.group, records.at_ms)


def _whole(
    folded: FoldedLog, rows: list[dict[str, Any]], protocol: str | None, used_ms: int
) -> dict[str, Any]:
    """A group with all its offsets."""
    for row in rows:
        _, end = folded.plan.ends.get((row["topic"], row["partition"]), (None, None))
        row["log_end_offset"] = end
    times = [row["commit_timestamp_ms"] for row in rows if row["commit_timestamp_ms"] is not None]
    # Members that joined and left without a commit are use too.
    states = [row["state_since_ms"] for row in rows if row["state_since_ms"] is not None]
    states += [] if states or used_ms == NONE else [used_ms]
    return {
        "group": rows[0]["group"],
        "type": rows[0]["group_type"],
        "state": rows[0]["group_state"],
        "protocol_type": protocol,
        "last_used_ms": max([*times, *states]) if times else None,
        "all_subscribed": all(row["subscribed"] for row in rows),
        "offsets": sorted(rows, key=lambda row: (row["topic"], row["partition"])),
    }


def _is_wanted(row: Mapping[str, Any], latest_ms: int | None) -> bool:
    # A living group matters only for unsubscribed offsets, an empty one only as a whole.
    is_empty = row["state"] == EMPTY
    if row["state"] is not None and not is_empty and row["all_subscribed"]:
        return False
    return not (is_empty and _is_after(row["last_used_ms"], latest_ms))


def _is_after(at_ms: int | None, latest_ms: int | None) -> bool:
    return at_ms is not None and latest_ms is not None and at_ms > latest_ms


def _decide(
    row: Mapping[str, Any], ids: Mapping[str, str], latest_ms: int | None, end_ms: int
) -> Iterator[PlanItem | LeftOut]:
    group, offsets = row["group"], row["offsets"]
    living = row["state"] != EMPTY
    if living and row["state"] is not None:
        offsets = [
            each
            for each in offsets
            if not each["subscribed"] and not _is_after(each["commit_timestamp_ms"], latest_ms)
        ]
        if not offsets:
            return
    problem = _problem(row, offsets, living)
    if problem is not None:
        yield LeftOut(group, problem)
        return
    topics = dict.fromkeys(each["topic"] for each in offsets)
    why = (
        [f"no member subscribes to {topic}" for topic in topics]
        if living
        else ["no members (Empty)"]
    )
    times = [each["commit_timestamp_ms"] for each in offsets]
    why.append(f"last commit {when(max(times))}, in a log until {when(end_ms)}")
    yield _item(row, DELETE_OFFSETS if living else DELETE_GROUP, why, offsets, ids)


def _problem(
    row: Mapping[str, Any], offsets: Iterable[Mapping[str, Any]], living: bool
) -> str | None:
    if row["state"] is None:
        return "whether it has members is not in the log"
    if row["type"] not in _TYPES:
        return f"it is a {row['type'] or 'group of unknown type'} group"
    if row["protocol_type"] not in (None, "", "consumer"):
        return f"it is a '{row['protocol_type']}' group, not a consumer group"
    if any(each["pending_transaction"] for each in offsets):
        return "a transaction is about to change its offsets"
    if living and any(each["subscribed"] is None for each in offsets):
        return "to what its members subscribe is not in the log"
    if any(each["commit_timestamp_ms"] is None for each in offsets):
        return "when its offsets were committed is not in the log"
    return None


def _item(
    row: Mapping[str, Any],
    action: str,
    why: Iterable[str],
    offsets: Iterable[Mapping[str, Any]],
    ids: Mapping[str, str],
) -> PlanItem:
    planned = tuple(_offset(each, ids, action) for each in offsets)
    lags = [each.lag for each in planned if each.lag is not None]
    dates = [each.expires_at_ms for each in planned if each.expires_at_ms is not None]
    times = [each.committed_at_ms for each in planned if each.committed_at_ms is not None]
    return PlanItem(
        action,
        row["group"],
        row["type"],
        row["state"],
        tuple(why),
        planned,
        lag=sum(lags) if len(lags) == len(planned) else None,
        last_commit_ms=max(times, default=None),
        expires_at_ms=max(dates) if len(dates) == len(planned) else None,
    )


def _offset(found: Mapping[str, Any], ids: Mapping[str, str], action: str) -> PlannedOffset:
    end = found["log_end_offset"]
    return PlannedOffset(
        found["topic"],
        found["partition"],
        found["offset"],
        topic_id=ids.get(found["topic"]),
        lag=None if end is None else max(end - found["offset"], 0),
        committed_at_ms=found["commit_timestamp_ms"],
        expires_at_ms=found["expires_at_ms"],
        rule=found["rule"],
        problem="unsubscribed" if action == DELETE_OFFSETS else None,
    )
