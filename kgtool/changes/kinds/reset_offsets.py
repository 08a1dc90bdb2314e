"""Resetting committed offsets: the plan is ``kgtool.changes.reset``'s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.offsets.commit import Outcomes
from kgtool.changes.offsets.start_offsets import write_by_type
from kgtool.changes.offsets.verify import Write
from kgtool.changes.plan import compared, each_open, failed, open_rows
from kgtool.changes.reset.plan import plan_resets
from kgtool.changes.reset.rows import refusal
from kgtool.changes.reset.targets import GroupReset, ResetRequest, ResetRow
from kgtool.changes.snapshot import GroupChange, OffsetImage, image_of
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.wire import id_text
from kgtool.queries.groups.share_and_streams import read_with_offsets
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed


class ResetOffsets(NamedTuple):
    """Sets the committed offsets of groups that have no members, as ``request`` says.

    ``refine`` may change the plan of each wave, before it is shown.
    """

    request: ResetRequest
    refine: Callable[[list[GroupReset]], list[GroupReset]] = list

    def weigh(self, group: GroupReset) -> int:
        """Return how many partitions a group has."""
        return len(group.rows)

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupReset]]:
        """Plan the reset."""
        planned = yield from plan_resets(cluster, self.request._replace(groups=tuple(groups)))
        return self.refine(planned)

    def look_again(
        self, cluster: Cluster, plan: Sequence[GroupReset]
    ) -> Operation[list[GroupReset]]:
        """Compare groups and offsets with the plan; the targets stay those that were shown."""
        wanted = {r.group: [row.at for row in rows] for r in plan if (rows := open_rows(r))}
        if not wanted:
            return list(plan)
        described, committed = yield from read_with_offsets(cluster, list(wanted), wanted)
        if not self.request.force:
            yield from mark_pending(cluster, committed)
        groups = {description.group: description for description in described}
        return [
            _checked(reset, groups[reset.group], committed[reset.group], self.request.force)
            if reset.group in wanted
            else reset
            for reset in plan
        ]

    def before(self, cluster: Cluster, going: Sequence[GroupReset]) -> Operation[Before]:
        """Return the images, from the rows of the plan: nothing is read again."""
        yield from ()
        return Before([_change(cluster, reset) for reset in going])

    def send(self, cluster: Cluster, going: Sequence[GroupReset]) -> Operation[list[GroupReset]]:
        """Commit the new offsets."""
        writes = {r.group: {row.at: Write(row.old, row.new) for row in open_rows(r)} for r in going}
        share = [r.group for r in going if r.description and r.description.type == "share"]
        outcomes = yield from write_by_type(cluster, writes, share)
        return [each_open(reset, lambda row: _done(row, outcomes[row.group])) for reset in going]


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


def _done(row: ResetRow, outcome: Outcomes) -> ResetRow:
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
