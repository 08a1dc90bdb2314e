"""Applying the plan of a reset: compare all groups with it, then write and verify.

What has changed since the plan is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.changes.offsets.commit import Outcome
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.plan_rows import compared, each_open, failed, open_rows, settle
from kgtool.changes.reset.rows import refusal
from kgtool.changes.reset.targets import GroupReset, ResetRow
from kgtool.changes.snapshot import BeforeChange, GroupChange, OffsetImage, image_of
from kgtool.client.cluster import Cluster
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.wire import id_text
from kgtool.queries.groups.describe import describe_with_type
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed, fetch_selected


def execute_resets(
    cluster: Cluster,
    plan: Sequence[GroupReset],
    *,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: BeforeChange | None = None,
) -> Operation[list[GroupReset]]:
    """Write the rows that ``would-reset``; return the plan with the outcome of each.

    :param force: write also where a transaction is pending.
    :param all_or_nothing: write nothing if any row of the plan has failed, or fails now. Once
        writing has begun, a failure does not revert the rest.
    :param before_change: called once with the images of all that is about to be written.
    """
    now = settle(plan, all_or_nothing)
    now = settle((yield from look_again(cluster, now, force)), all_or_nothing)
    writes = {
        reset.group: {row.at: Write(row.old, row.new) for row in rows}
        for reset in now
        if (rows := open_rows(reset))
    }
    if not writes:
        return now
    if before_change is not None:
        before_change([_change(cluster, reset) for reset in now if reset.group in writes])
    outcomes = yield from write_offsets(cluster, writes)
    return [each_open(reset, lambda row: _done(row, outcomes[row.group])) for reset in now]


# ---------------------------------------------------------------------------------------------
# Before


def look_again(
    cluster: Cluster, plan: Sequence[GroupReset], force: bool
) -> Operation[list[GroupReset]]:
    """Compare all groups and offsets with the plan, before the first is changed."""
    wanted = {reset.group: [row.at for row in rows] for reset in plan if (rows := open_rows(reset))}
    if not wanted:
        return list(plan)
    both = gather([describe_with_type(cluster, list(wanted)), fetch_selected(cluster, wanted)])
    described, committed = yield from within(both, READING_SHARE)
    if not force:
        yield from mark_pending(cluster, committed)
    groups = {description.group: description for description in described}
    return [
        _checked(reset, groups[reset.group], committed[reset.group], force)
        if reset.group in wanted
        else reset
        for reset in plan
    ]


def _checked(
    reset: GroupReset, now: GroupDescription, committed: Committed | KgError, force: bool
) -> GroupReset:
    was_there = reset.description is None or reset.description.error is None
    error = refusal(now, can_create=not was_there)
    if error is None and isinstance(committed, KgError):
        error = ItemError.of(committed, Target(group=reset.group))
    if error is not None:
        return each_open(reset, lambda row: failed(row, error))._replace(error=error)
    assert not isinstance(committed, KgError)
    pending = (
        None
        if force
        else ChangedMeanwhile(
            "A transaction has begun to change this offset since the plan was made.",
            hint="Wait until it has ended, or give --force.",
        )
    )
    return each_open(reset, lambda row: compared(row, row.old, committed.get(row.at), pending))


# ---------------------------------------------------------------------------------------------
# After


def _done(row: ResetRow, outcome: Outcome) -> ResetRow:
    error = outcome[row.at]
    return row._replace(status="reset") if error is None else failed(row, _commit_error(row, error))


def _commit_error(row: ResetRow, error: KgError) -> KgError:
    if error.code != codes.UNKNOWN_MEMBER_ID:
        return error
    known = codes.code(codes.UNKNOWN_MEMBER_ID)
    return BrokerError(
        known.code,
        known.name,
        f"Assignments can only be reset if the group '{row.group}' is inactive, and a member has "
        "joined it meanwhile.",
        hint="Stop its members, or wait for it with --wait-empty 60s.",
    )


# ---------------------------------------------------------------------------------------------
# The journal's images, from the rows of the plan: nothing is read again


def _change(cluster: Cluster, reset: GroupReset) -> GroupChange:
    """Return a group's change for the journal, from its open rows.

    The cluster has the ids of the topics, whose logs the plan has read.
    """
    assert reset.description is not None, "a plan whose groups were not read"
    after: dict[TopicPartition, CommittedOffset | None] = {}
    offsets: dict[TopicPartition, OffsetImage] = {}
    for row in open_rows(reset):
        topic = cluster.topics.get(row.topic)
        topic_id = id_text(topic.topic_id) if topic is not None else None
        log = (row.log.start.offset, row.log.end.offset) if row.log is not None else (None, None)
        offsets[row.at] = OffsetImage(row.old, topic_id, *log)
        after[row.at] = row.new
    return GroupChange(image_of(reset.description, offsets), after)
