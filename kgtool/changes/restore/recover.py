"""``recover``: offsets that are gone, as the wanted offsets of a restore.

The values come from the log (``kgtool.queries.log.gone``). An offset that somebody has committed
since is left alone, unless a moment was asked for (``--at``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgtool.changes.kinds.restore_offsets import RestoreOffsets
from kgtool.changes.plan import failed
from kgtool.changes.restore.decide import (
    DesiredGroup,
    DesiredOffset,
    RestoreGroup,
    RestorePolicy,
    RestoreRow,
)
from kgtool.changes.snapshot import CHANGED_SINCE, GroupImage, OffsetImage
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import ChangedMeanwhile, KgError, UsageError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition, same_commit
from kgtool.protocol.wire import id_text
from kgtool.queries.groups.describe import describe_with_type, without_expiry
from kgtool.queries.log.gone import GoneGroup, GoneOffset, read_gone
from kgtool.queries.offsets.list_offsets import log_ends
from kgtool.queries.offsets.time_lag import times_before
from kgtool.text import moment

EXISTS, NOT_IN_LOG = "exists", "not-in-log"
STATUSES = {
    "OUT_OF_RANGE": "out-of-range",
    "TOPIC_RECREATED": "topic-recreated",
    "UNKNOWN_TOPIC_OR_PARTITION": "topic-gone",
    "NOT_IN_LOG": NOT_IN_LOG,
}
"""The statuses of rows that failed, by the name of their error; the others are ``failed``."""

Gone = Mapping[str, GoneGroup]


def no_trace(group: str, gone: GoneGroup) -> KgError:
    """Return the error of a group that the log does not mention."""
    since = "" if gone.first is None else f", which goes back to {moment(gone.first[1])}"
    where = "__consumer_offsets"
    if gone.partition >= 0:
        where += f"-{gone.partition}"
    hint = "Check the name. An older export has more: kgtool recover --from FOLDER."
    if any(sign in group for sign in "*?["):
        hint = (
            "recover takes no patterns: name the groups. The shell completes those that are gone."
        )
    error = KgError(f"Group '{group}' has no trace in {where}{since}.", hint=hint)
    error.name = "NO_TRACE"
    return error


def read_living(
    cluster: Cluster, groups: Sequence[str], at_ms: int | None
) -> Operation[dict[str, GoneGroup | KgError]]:
    """Read from the cluster's log what is gone of groups; nothing of a share group lies there."""
    described = yield from describe_with_type(cluster, groups)
    share = {one.group: _without_commits(one.group) for one in described if one.type == "share"}
    found = yield from read_gone(cluster, [group for group in groups if group not in share], at_ms)
    return {group: share[group] if group in share else found[group] for group in groups}


def _without_commits(group: str) -> KgError:
    refused = without_expiry(group)
    error = KgError(refused.message, hint=refused.hint)
    error.name = refused.name
    return error


def known_groups(read: Mapping[str, GoneGroup | KgError]) -> dict[str, GoneGroup]:
    """Return what was read of groups.

    :raises KgError: a group's log can't be read, or has no trace of it.
    """
    found: dict[str, GoneGroup] = {}
    for name, one in read.items():
        if isinstance(one, KgError):
            raise one
        if not one.seen:
            raise no_trace(name, one)
        found[name] = one
    return found


def check_moment(gone: Gone, at_ms: int | None) -> None:
    """:raises UsageError: the log of a group begins after ``at_ms``."""
    for group, one in gone.items():
        if at_ms is not None and one.first is not None and one.first[1] > at_ms:
            raise UsageError(
                f"--at {moment(at_ms)} is before the log of group '{group}' begins: "
                f"__consumer_offsets-{one.partition} goes back to {moment(one.first[1])}."
            )


def desired_groups(
    gone: Gone, wants: Callable[[TopicPartition], bool], *, any_left: bool = False
) -> list[DesiredGroup]:
    """Return the offsets to restore; those without a value have an empty image.

    :param wants: which partitions.
    :param any_left: also where the offset has been committed since.
    """
    found = []
    for group, one in gone.items():
        offsets = {
            at: DesiredOffset(_image(offset), any_left=any_left)
            for at, offset in sorted(one.offsets.items())
            if wants(at)
        }
        if offsets:
            then = GroupImage(group, None, "Empty", "", True, {})
            found.append(DesiredGroup(group, offsets, then))
    return found


def _image(gone: GoneOffset) -> OffsetImage:
    value = gone.value
    if value is None:
        return OffsetImage(None)
    epoch = getattr(value, "leader_epoch", -1)
    topic_id = getattr(value, "topic_id", None)
    committed = CommittedOffset(value.offset, None if epoch < 0 else epoch, value.metadata)
    return OffsetImage(
        committed, id_text(topic_id) if topic_id is not None and topic_id.int else None
    )


def object_to_recreated(
    cluster: Cluster, gone: Gone, desired: Sequence[DesiredGroup]
) -> Operation[list[DesiredGroup]]:
    """Object to offsets whose topic was re-created, where the log has no topic id: before Kafka
    4.1, and in transactions.

    The record before a committed offset was there when it was committed; one that was written
    after the offset went is another topic's.
    """
    asked: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
    for group in desired:
        for at, one in group.offsets.items():
            removed_ms = gone[group.group].offsets[at].removed_at_ms
            offset = one.then.committed.offset if one.then.committed else None
            if one.then.topic_id is None and removed_ms is not None and offset:
                asked[group.group, at] = offset, removed_ms
    ends = yield from log_ends(cluster, {at for _, at in asked})
    found: dict[tuple[str, TopicPartition], tuple[str, str, str]] = {}
    while asked:  # two groups may have different offsets of one partition
        wave = {key[1]: (key, *then) for key, then in asked.items()}
        places = {}
        for at, (_, offset, _) in wave.items():
            start, end = ends[at].start or 0, ends[at].end
            if isinstance(end, int) and start < offset <= end:
                places[at] = (offset, start)
        times = yield from times_before(cluster, places)
        for at, (key, offset, removed_ms) in wave.items():
            del asked[key]
            written_ms = times.get(at)
            if isinstance(written_ms, int) and written_ms > removed_ms:
                found[key] = _recreated(offset, written_ms, removed_ms)
    return [
        group._replace(
            offsets={
                at: one._replace(objection=found.get((group.group, at)))
                for at, one in group.offsets.items()
            }
        )
        for group in desired
    ]


def _recreated(offset: int, written_ms: int, removed_ms: int) -> tuple[str, str, str]:
    return (
        "TOPIC_RECREATED",
        f"The topic was re-created since: the record before offset {offset} was written "
        f"{moment(written_ms)}, and the offset was removed {moment(removed_ms)}.",
        "--force restores the offset anyway.",
    )


class RecoverOffsets(RestoreOffsets):
    """Restores what is gone; an offset that exists again is ``unchanged``."""

    def __init__(
        self, policy: RestorePolicy, desired: Sequence[DesiredGroup], gone: Gone, **more: Any
    ) -> None:
        super().__init__(policy, desired, **more)
        self._gone = gone

    def _look(
        self, cluster: Cluster, desired: Sequence[DesiredGroup]
    ) -> Operation[list[RestoreGroup]]:
        checked = yield from object_to_recreated(cluster, self._gone, desired)
        groups = yield from super()._look(cluster, checked)
        return [group._replace(rows=list(map(self._as_it_is, group.rows))) for group in groups]

    def _as_it_is(self, row: RestoreRow) -> RestoreRow:
        is_lost = self._gone[row.group].offsets[row.at].value is None
        if is_lost and row.old is None:
            return row if row.error is not None else row._replace(status="failed", error=_lost(row))
        is_there = row.error is not None and row.error.name == ChangedMeanwhile.name
        return row._replace(status="unchanged", error=None) if is_lost or is_there else row

    def _row_as_planned(self, plan: RestoreRow, now: RestoreRow) -> RestoreRow:
        is_there = plan.is_open and now.status == "unchanged"
        if is_there and not same_commit(now.old, now.new):
            return failed(now, CHANGED_SINCE)  # somebody has committed after the question
        return super()._row_as_planned(plan, now)


def _lost(row: RestoreRow) -> ItemError:
    return ItemError(
        Target(row.group, *row.at),
        None,
        "NOT_IN_LOG",
        "The log has the tombstone of this offset, but its value was compacted away.",
        "An older export may have it: kgtool recover --from FOLDER.",
    )


def status(row: RestoreRow) -> str:
    """Return the status of a row in recover's words."""
    if row.error is not None:
        return STATUSES.get(row.error.name, row.status)
    return EXISTS if row.status == "unchanged" else row.status
