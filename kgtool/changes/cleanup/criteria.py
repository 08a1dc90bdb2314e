"""Which groups and offsets a cleanup removes: pure decisions over ``kgtool.changes.cleanup.facts``.

Nothing is guessed: a group is left out, with the reason, where a criterion can't be judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kgtool.changes.cleanup.facts import GONE_PARTITION, GONE_TOPIC, GroupFacts, OffsetFacts
from kgtool.changes.cleanup.plan_file import (
    DELETE_GROUP,
    DELETE_OFFSETS,
    REBUILD_GROUP,
    WAIT,
    LeftOut,
    PlanItem,
    PlannedOffset,
)
from kgtool.model import TopicPartition
from kgtool.queries.groups.describe import is_subscribed
from kgtool.retention.generated_names import family
from kgtool.retention.rules import RULE_COMMIT, TYPE_STREAMS
from kgtool.text import moment, span

UNSUBSCRIBED = "unsubscribed"
_GONE = (GONE_TOPIC, GONE_PARTITION)
_WHOLE_ONLY = (
    "it is a share group: while it has members its start offsets can't be deleted, and those of "
    "deleted topics go by themselves"
)
_WORDS = {
    UNSUBSCRIBED: "no member subscribes to {}",
    GONE_TOPIC: "topic {} does not exist any more",
    GONE_PARTITION: "partitions of {} do not exist any more",
    "topic-recreated": "topic {} was re-created since the commit",
    "beyond-end": "commits beyond the end of {}: truncated or re-created",
}


class Criteria(NamedTuple):
    """The criteria of a cleanup.

    Whole groups without members; or, with ``unsubscribed`` or ``orphaned``, such offsets. The
    others narrow that down. ``rebuild``: offsets of deleted topics are removed by deleting their
    group, where it has no members, and restoring the rest.
    """

    idle_ms: int | None = None
    no_lag: bool = False
    generated: bool = False
    unsubscribed: bool = False
    orphaned: bool = False
    rebuild: bool = True

    @property
    def is_about_offsets(self) -> bool:
        """Whether single offsets are removed, not whole groups."""
        return self.unsubscribed or self.orphaned

    @property
    def given(self) -> dict[str, Any]:
        """The criteria that are set."""
        return {key: value for key, value in self._asdict().items() if value not in (None, False)}


class Unknown(Exception):
    """A criterion can't be judged."""


class Decision(NamedTuple):
    """The items of one group for the plan, and those left out."""

    items: tuple[PlanItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def decide_all(
    groups: Iterable[GroupFacts], criteria: Criteria, now_ms: int
) -> tuple[tuple[PlanItem, ...], tuple[LeftOut, ...]]:
    """Decide on many groups: the items of a plan, and those left out."""
    decisions = [decide(facts, criteria, now_ms) for facts in groups]
    return (
        tuple(item for decision in decisions for item in decision.items),
        tuple(each for decision in decisions for each in decision.left_out),
    )


def decide(facts: GroupFacts, criteria: Criteria, now_ms: int) -> Decision:
    """Judge one group; ``now_ms`` since the epoch."""
    group = facts.description.group
    if criteria.generated and family(group) is None:
        return Decision()
    if not criteria.is_about_offsets and facts.error is None and not facts.description.is_empty:
        return Decision()
    problem = _problem(facts)
    if problem is not None:
        return Decision(left_out=(LeftOut(group, problem),))
    judge = _decide_offsets if criteria.is_about_offsets else _decide_group
    decision = judge(facts, criteria, now_ms)
    # Brokers before 2.5 show transactions in their log only.
    pending = any(
        offset.committed.is_pending or offset.expiry.is_pending for offset in facts.offsets.values()
    )
    if decision.items and pending:
        return Decision(left_out=(LeftOut(group, "a transaction is about to change its offsets"),))
    return decision


def why_kept(facts: GroupFacts, criteria: Criteria) -> str:
    """Return the first condition that a group, about which all is known, does not meet."""
    group, offsets = facts.description, facts.offsets.values()
    if criteria.generated and family(group.group) is None:
        return "without a generated name"
    if criteria.is_about_offsets:
        return "without such offsets" if criteria.idle_ms is None else "without such idle offsets"
    if not group.is_empty:
        return "with members"
    if criteria.no_lag and any(each.lag for each in offsets):
        return "with a lag"
    return f"used within {span(criteria.idle_ms or 0)}"


def _problem(facts: GroupFacts) -> str | None:
    if facts.error is not None:
        return facts.error.message
    if facts.description.protocol_type not in ("", "consumer", "share", "streams"):
        return f"it is a '{facts.description.protocol_type}' group, not a consumer group"
    return None


# ---------------------------------------------------------------------------------------------
# Whole groups


def _decide_group(facts: GroupFacts, criteria: Criteria, now_ms: int) -> Decision:
    try:
        why = _why_group(facts, criteria, now_ms)
    except Unknown as reason:
        return Decision(left_out=(LeftOut(facts.description.group, str(reason)),))
    if why is None:
        return Decision()
    return Decision((make_item(facts, DELETE_GROUP, why, planned(facts, facts.offsets)),))


def _why_group(facts: GroupFacts, criteria: Criteria, now_ms: int) -> list[str] | None:
    """Return why a group without members goes; None: it does not."""
    why = ["no members"]
    if criteria.generated and family(facts.description.group) is not None:
        why.append("generated name")
    if criteria.idle_ms is not None:
        if not facts.offsets and not facts.is_share:
            raise Unknown("it has no committed offset, so its last use is unknown")
        if not _are_idle(facts, now_ms - criteria.idle_ms):
            return None
        why.append(last_use(facts, now_ms))
    if criteria.no_lag:
        if any(each.lag for each in facts.offsets.values()):
            return None  # even if the lag of others is unknown
        for partition, each in facts.offsets.items():
            _has_no_lag(partition, each)
        if facts.unread_starts:
            raise Unknown("where it begins to read is not decided yet, so its lag is unknown")
        why.append("no lag")
    return why


def _are_idle(facts: GroupFacts, since_ms: int) -> bool:
    if facts.is_share:
        return share_is_idle(facts, since_ms)
    offsets = facts.offsets.values()
    if any(each.committed_at and each.committed_at.at_ms > since_ms for each in offsets):
        return False  # even if the times of others are unknown
    return not _had_members(facts, since_ms) and all(
        is_idle(facts, each, since_ms) for each in offsets
    )


def _had_members(facts: GroupFacts, since_ms: int) -> bool:
    """Whether members came or went since a time; they need not have committed anything."""
    return facts.changed_ms is not None and facts.changed_ms > since_ms


def is_idle(facts: GroupFacts, offset: OffsetFacts, since_ms: int) -> bool:
    """Whether an offset was not committed since a time; Unknown where that can't be told."""
    if facts.is_share:
        return share_is_idle(facts, since_ms)
    if offset.committed_at is not None:
        return offset.committed_at.at_ms <= since_ms
    if facts.times_error is not None:
        raise Unknown(f"its last commit is unknown: {facts.times_error.message}")
    if facts.committed_before_ms is not None and facts.committed_before_ms <= since_ms:
        return True
    raise Unknown("its last commit is no longer in __consumer_offsets")


def share_is_idle(facts: GroupFacts, since_ms: int) -> bool:
    """Whether a share group had no member since a time; Unknown where that can't be told.

    Only members read and acknowledge, so that is its last use; its start offsets have no times.
    """
    if facts.changed_ms is not None:
        return facts.changed_ms <= since_ms
    if facts.times_error is not None:
        raise Unknown(f"its last use is unknown: {facts.times_error.message}")
    if facts.committed_before_ms is not None and facts.committed_before_ms <= since_ms:
        return True
    raise Unknown("its last use is not in what was read of __consumer_offsets")


def _has_no_lag(partition: TopicPartition, offset: OffsetFacts) -> bool:
    if offset.lag is None:
        raise Unknown(f"its lag on {partition.typed} is unknown")
    return offset.lag == 0


def last_use(facts: GroupFacts, now_ms: int) -> str:
    """Return the time of the last commit, and of the last change of members if that was later."""
    if facts.is_share:
        if facts.changed_ms is None:
            return (
                f"last change of members or topics before {moment(facts.committed_before_ms or 0)}"
            )
        return f"members and topics unchanged for {span(now_ms - facts.changed_ms)}"
    times = [each.committed_at.at_ms for each in facts.offsets.values() if each.committed_at]
    last = max(times, default=0)
    said = f"last commit before {moment(facts.committed_before_ms or 0)}"
    if times:
        said = f"idle for {span(now_ms - last)}"
    if facts.changed_ms is not None and facts.changed_ms > last:
        said += f", last change of members {moment(facts.changed_ms)}"
    return said


# ---------------------------------------------------------------------------------------------
# Single offsets


def _decide_offsets(facts: GroupFacts, criteria: Criteria, now_ms: int) -> Decision:
    group, is_empty = facts.description.group, facts.description.is_empty
    if facts.is_share:
        return Decision(left_out=(LeftOut(group, _WHOLE_ONLY),))
    # Without a topology that is ready, what a streams group reads is unknown to the broker too.
    is_unready = facts.description.type == TYPE_STREAMS and facts.description.state == "NotReady"
    if criteria.unsubscribed and facts.description.is_rebalancing or is_unready:
        reason = f"it is {facts.description.state}: its subscriptions are still changing"
        return Decision(left_out=(LeftOut(group, reason),))
    found: dict[TopicPartition, str] = {}
    unknown: dict[str, None] = {}
    for partition, offset in facts.offsets.items():
        try:
            problem = _offset_problem(facts, partition, offset, criteria)
            if problem is not None and _passes(facts, partition, offset, criteria, now_ms):
                found[partition] = problem
        except Unknown as reason:
            unknown[str(reason)] = None
    left_out = tuple(LeftOut(group, reason) for reason in unknown)
    gone = {p: problem for p, problem in found.items() if problem in _GONE}
    rest = {p: problem for p, problem in found.items() if problem not in _GONE}
    # What is committed for a streams group that was deleted makes a group of another type.
    is_kept = facts.description.type == TYPE_STREAMS and len(found) < len(facts.offsets)
    if gone and is_empty and criteria.rebuild and not is_kept:
        return Decision((_rebuild(facts, found),), left_out)
    items = []
    if rest:
        items.append(_problem_item(facts, DELETE_OFFSETS, rest))
    if gone:
        items.append(_problem_item(facts, WAIT, gone))
    return Decision(tuple(items), left_out)


def _offset_problem(
    facts: GroupFacts, partition: TopicPartition, offset: OffsetFacts, criteria: Criteria
) -> str | None:
    """Return the problem of an offset that the criteria ask for; None: it has none."""
    subscribed: bool | None = False
    if not facts.description.is_empty:
        subscribed = is_subscribed(facts.description.members, partition.topic)
        by_regex = any(member.subscribed_regex for member in facts.description.members)
        if subscribed is None and by_regex and offset.expiry.rule is not None:
            # The log has what the regular expression is resolved to.
            subscribed = offset.expiry.rule != RULE_COMMIT
    if criteria.orphaned and offset.problem is not None:
        if offset.problem in _GONE or subscribed is False:
            return offset.problem
        said = _WORDS[offset.problem].format(partition.topic)
        raise Unknown(f"{said}, but its members may subscribe to it")
    if not criteria.unsubscribed or facts.description.is_empty:
        return None
    if subscribed is None:
        raise Unknown(f"whether its members subscribe to {partition.topic} is unknown")
    return None if subscribed else UNSUBSCRIBED


def _passes(
    facts: GroupFacts,
    partition: TopicPartition,
    offset: OffsetFacts,
    criteria: Criteria,
    now_ms: int,
) -> bool:
    if criteria.idle_ms is not None:
        since_ms = now_ms - criteria.idle_ms
        if not is_idle(facts, offset, since_ms):
            return False
        # In a group with members the offset is idle, whichever members join and leave.
        if facts.description.is_empty and _had_members(facts, since_ms):
            return False
    return not criteria.no_lag or _has_no_lag(partition, offset)


def _rebuild(facts: GroupFacts, found: Mapping[TopicPartition, str]) -> PlanItem:
    keep = [partition for partition in facts.offsets if partition not in found]
    if not keep:
        return _problem_item(facts, DELETE_GROUP, found)
    item = _problem_item(facts, REBUILD_GROUP, found)
    return item._replace(keep=planned(facts, keep))


def _problem_item(facts: GroupFacts, action: str, found: Mapping[TopicPartition, str]) -> PlanItem:
    topics = dict.fromkeys((problem, partition.topic) for partition, problem in found.items())
    why = [_WORDS[problem].format(topic) for problem, topic in topics]
    item = make_item(facts, action, why, planned(facts, found, found))
    if action == WAIT:
        item = item._replace(why=(*item.why, _until(item, facts)))
    return item


def _until(item: PlanItem, facts: GroupFacts) -> str:
    """Say until when to wait for offsets that the broker refuses to delete."""
    members = "" if facts.description.is_empty else ", and the group has members"
    refused = f"OffsetDelete is refused for it{members}"
    if item.expires_at_ms is not None:
        return f"{refused}: it expires by itself from {moment(item.expires_at_ms)} on"
    if all(offset.rule is not None for offset in item.offsets):
        return f"{refused}: it does not expire as things stand"
    return f"{refused}: when it expires is unknown"


# ---------------------------------------------------------------------------------------------
# Items


def planned(
    facts: GroupFacts,
    partitions: Iterable[TopicPartition],
    problems: Mapping[TopicPartition, str] = {},
) -> tuple[PlannedOffset, ...]:
    """Return offsets as a plan has them."""
    chosen = []
    for at in partitions:
        found = facts.offsets[at]
        chosen.append(
            PlannedOffset(
                *at,
                found.committed.offset,
                found.committed.leader_epoch,
                found.committed.metadata,
                found.topic_id,
                found.lag,
                found.committed_at.at_ms if found.committed_at is not None else None,
                found.expiry.expires_at_ms,
                found.expiry.rule,
                problems.get(at),
            )
        )
    return tuple(chosen)


def make_item(
    facts: GroupFacts, action: str, why: Iterable[str], offsets: tuple[PlannedOffset, ...]
) -> PlanItem:
    """Return an item of a plan."""
    description = facts.description
    times = [each.committed_at_ms for each in offsets if each.committed_at_ms is not None]
    dates = [each.expires_at_ms for each in offsets if each.expires_at_ms is not None]
    lags = [each.lag for each in offsets if each.lag is not None]
    return PlanItem(
        action,
        description.group,
        description.type,
        description.state,
        tuple(why),
        offsets,
        lag=sum(lags) if len(lags) == len(offsets) else None,
        last_commit_ms=max(times, default=None),
        committed_before_ms=facts.committed_before_ms if len(times) < len(offsets) else None,
        expires_at_ms=max(dates) if dates and len(dates) == len(offsets) else None,
        last_change_ms=facts.changed_ms,
    )
