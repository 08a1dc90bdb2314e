"""The rows of a reset from what was read, and the refusals: pure functions."""

from __future__ import annotations

from kgtool.changes.plan import failed
from kgtool.changes.reset.targets import ResetRequest, ResetRow, target
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.pending import pending_error
from kgtool.queries.groups.describe import wrong_type
from kgtool.queries.offsets.list_offsets import LogRange
from kgtool.text import counted, listed

Value = CommittedOffset | KgError | None
"""The committed offset of one partition of a group."""


def refusal(description: GroupDescription, *, can_create: bool) -> ItemError | None:
    """Return why nothing of a group can be reset; None where it can.

    A group has to exist, to be a consumer group, and to have no members.
    """
    error = description.error
    if error is not None:
        if error.code != codes.GROUP_ID_NOT_FOUND:
            return error
        hint = "Check the name with kgtool list; --create creates the group."
        return None if can_create else error._replace(hint=hint)
    wrong = _wrong_type(description)
    if wrong is not None:
        return wrong_type(description.group, wrong[0], f"Use {wrong[1]} for it.")
    return None if description.is_empty else active(description)


def _wrong_type(description: GroupDescription) -> tuple[str, str] | None:
    if description.protocol_type == "connect":
        return "Kafka Connect", "Connect's REST API (PATCH /connectors/NAME/offsets, KIP-875)"
    if description.protocol_type not in ("", "consumer", "share", "streams"):
        return f"'{description.protocol_type}'", "the tool that made it"
    return None


def active(description: GroupDescription) -> ItemError:
    """Refuse a group that has members, in the words of Kafka's tool, and name them."""
    return ItemError(
        Target(group=description.group),
        codes.NON_EMPTY_GROUP,
        codes.code(codes.NON_EMPTY_GROUP).name,
        f"Assignments can only be reset if the group '{description.group}' is inactive, "
        f"but the current state is {description.state}.",
        f"{members(description)} {stop_them(description)}",
    )


def stop_them(description: GroupDescription) -> str:
    """Return the hint for members that block a change; share and streams groups evict none."""
    is_other = description.type in ("share", "streams")
    evict = "" if is_other else " (kgtool remove-members evicts stuck ones)"
    return f"Stop its members{evict}, or wait with --wait-empty 60s."


def members(description: GroupDescription, limit: int = 3) -> str:
    """Return a sentence that names a group's members by client and host."""
    names = sorted({f"{member.client_id} on {member.host}" for member in description.members})
    if not names:
        return "Its members are joining or leaving."
    count = len(description.members)
    return f"It has {counted(count, 'member')}: {listed(names, limit, ' and {} more')}."


def plan_row(
    request: ResetRequest,
    group: str,
    partition: TopicPartition,
    value: Value,
    given: Value,
    log: LogRange | KgError,
) -> ResetRow:
    """Plan the reset of one partition.

    :param value: the group's committed offset.
    :param given: the offset of the file or of the other group.
    """
    row = ResetRow(group, *partition)
    if isinstance(log, KgError):
        return failed(row, _explain(log, partition))
    if isinstance(value, KgError):
        return failed(row, value)
    if isinstance(given, KgError):
        return failed(row, given)
    old = value if value is not None and value.offset is not None else None
    row = row._replace(old=old, log=log)
    for source, whose in ((value, group), (given, request.strategy.like)):
        if source is not None and source.is_pending and not request.force:
            return failed(row, pending_error(whose))
    return _with_target(request, row, log, given)


def _with_target(
    request: ResetRequest, row: ResetRow, log: LogRange, given: CommittedOffset | None
) -> ResetRow:
    kind = request.strategy.kind
    found = target(request.strategy, log, row.old, given.offset if given else None)
    if found is None:
        if kind == "shift-by":
            return failed(row, _no_offset(row.at))
        return row._replace(status="no-commit")
    goal, asked = found
    new = CommittedOffset(goal.offset, goal.leader_epoch, row.old.metadata if row.old else "")
    row = row._replace(new=new, asked=asked, clamp=goal.clamp, needs_epoch=goal.needs_epoch)
    if kind == "like" and given is not None and goal.clamp is None:
        # An offset of another group is copied with its metadata and epoch.
        new = new._replace(metadata=given.metadata)
        if given.leader_epoch is not None:
            new = new._replace(leader_epoch=given.leader_epoch)
            row = row._replace(needs_epoch=False)
        return row._replace(new=new)
    return row


def _explain(error: KgError, partition: TopicPartition) -> KgError:
    """Return the error of a missing partition or leader in the words of Kafka's tool."""
    if error.code == codes.UNKNOWN_TOPIC_OR_PARTITION:
        return broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION, not_there([partition]))
    if error.code == codes.LEADER_NOT_AVAILABLE:
        return broker_error(codes.LEADER_NOT_AVAILABLE, leaderless([partition]))
    return error


def not_there(partitions: list[TopicPartition]) -> str:
    """Return Kafka's sentence about partitions that do not exist (one or several)."""
    return f'The partitions "{",".join(map(str, partitions))}" do not exist'


def leaderless(partitions: list[TopicPartition]) -> str:
    """Return Kafka's sentence about partitions without a leader (one or several)."""
    return f'The partitions "{",".join(map(str, partitions))}" have no leader'


class NoCommittedOffset(KgError):
    """There is no offset to start from."""

    name = "NO_COMMITTED_OFFSET"


def _no_offset(partition: TopicPartition) -> KgError:
    return NoCommittedOffset(
        f"Cannot shift offset for partition {partition} since there is no current committed offset"
    )


def refuse_like_nothing(rows: list[ResetRow], like: str) -> list[ResetRow]:
    """Return rows of which none takes over an offset of the other group as failed."""
    if any(row.is_open for row in rows):
        return rows
    error = NoCommittedOffset(
        f"Group '{like}' has no committed offset there that could be taken over."
    )
    return [failed(row, error) if row.status == "no-commit" else row for row in rows]
