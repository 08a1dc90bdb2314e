"""A cleanup plan out of the log: groups without members, and offsets that nobody subscribes to.

What the log does not tell (who subscribes, whether a group has members) is not guessed: such groups
are left out, and say why. Metadata and leader epochs are no part of the tables; whoever applies the
plan compares offsets, and the time of the last commit, with what is there then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis.losses import log_ends
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.words import when
from kgtool.safety.plan import DELETE_GROUP, DELETE_OFFSETS, LeftOut, PlanItem, PlannedOffset

EMPTY = "Empty"
_TYPES = ("classic", "consumer")
_OFFSET = (
    "topic", "partition", "offset", "commit_timestamp_ms", "expires_at_ms", "rule", "subscribed",
    "pending_transaction", "log_end_offset",
)  # fmt: skip


def plan_items(analysis: Analysis, idle_ms: int | None) -> Iterator[PlanItem | LeftOut]:
    """Decide group by group, in the order of their names; one group at a time is in memory.

    :param idle_ms: only what nobody has committed for so long before the end of the log.
    """
    ids = _topic_ids(analysis.basis.topics)
    latest_ms = None if idle_ms is None else analysis.end_ms - idle_ms
    for row in _groups(analysis, latest_ms).toLocalIterator(prefetchPartitions=True):
        yield from _decide(row.asDict(recursive=True), ids, latest_ms, analysis.end_ms)


def _groups(analysis: Analysis, latest_ms: int | None) -> DataFrame:
    """One row a group that may be of interest, with all its offsets."""
    protocols = analysis.table("groups").select("group", "protocol_type")
    ends = log_ends(analysis.session, analysis.basis.topics).drop("log_start_offset")
    rows = analysis.live.join(ends, ["topic", "partition"], "left")
    found = rows.groupBy("group").agg(
        F.first("group_type").alias("type"),
        F.first("group_state").alias("state"),
        F.max("commit_timestamp_ms").alias("last_commit_ms"),
        F.min(F.coalesce(F.col("subscribed"), F.lit(False))).alias("all_subscribed"),
        F.sort_array(F.collect_list(F.struct(*_OFFSET))).alias("offsets"),
    )
    is_empty = F.col("state") == EMPTY
    # A living group matters only for what nobody subscribes to, an empty one only as a whole.
    wanted = F.col("state").isNull() | is_empty | ~F.col("all_subscribed")
    if latest_ms is not None:
        wanted &= ~F.coalesce(is_empty, F.lit(False)) | (F.col("last_commit_ms") <= latest_ms)
    return found.where(wanted).join(protocols, "group", "left").orderBy("group")


def _decide(
    row: Mapping[str, Any], ids: Mapping[str, str], latest_ms: int | None, end_ms: int
) -> Iterator[PlanItem | LeftOut]:
    group, offsets = row["group"], row["offsets"]
    living = row["state"] != EMPTY
    if living and row["state"] is not None:
        offsets = [each for each in offsets if not each["subscribed"]]
        if latest_ms is not None:
            offsets = [each for each in offsets if each["commit_timestamp_ms"] <= latest_ms]
        if not offsets:
            return
    problem = _problem(row, offsets, living)
    if problem is not None:
        yield LeftOut(group, problem)
        return
    topics = dict.fromkeys(each["topic"] for each in offsets)
    why = [f"no member subscribes to {topic}" for topic in topics] if living else [
        "no members (Empty)"
    ]  # fmt: skip
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
    return None


def _item(
    row: Mapping[str, Any], action: str, why: Iterable[str], offsets: Iterable[Mapping[str, Any]],
    ids: Mapping[str, str],
) -> PlanItem:  # fmt: skip
    planned = tuple(_offset(each, ids, action) for each in offsets)
    lags = [each.lag for each in planned if each.lag is not None]
    dates = [each.expires_at_ms for each in planned if each.expires_at_ms is not None]
    times = [each.committed_at_ms for each in planned if each.committed_at_ms is not None]
    return PlanItem(
        action, row["group"], row["type"], row["state"], tuple(why), planned,
        lag=sum(lags) if len(lags) == len(planned) else None,
        last_commit_ms=max(times, default=None),
        expires_at_ms=max(dates) if len(dates) == len(planned) else None,
    )  # fmt: skip


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


def _topic_ids(topics: Iterable[Any] | None) -> dict[str, str]:
    """The ids that cluster.json gives to topics."""
    return {
        str(topic.get("name")): topic["topic_id"]
        for topic in topics or ()
        if isinstance(topic, Mapping) and isinstance(topic.get("topic_id"), str)
    }
