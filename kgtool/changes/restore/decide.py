"""Whether an earlier offset can be restored, offset by offset: pure functions.

``undo`` and ``restore`` check the same facts: is it still the same topic, is the offset still in
its log, did somebody commit since. ``RestorePolicy`` has their differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.changes.offsets.verify import shown
from kgtool.changes.reset.rows import members, stop_them
from kgtool.changes.snapshot import GroupImage, GroupReading, OffsetImage
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition, same_commit
from kgtool.protocol import codes

STOP_OR_SPEAK = (
    "Stop them (kgtool remove-members evicts stuck ones), wait for them with --wait-empty 60s, or "
    "commit in a member's name with --as-member."
)
"""The hint for members that block a restore."""


class DesiredOffset(NamedTuple):
    """The offset that one partition of a group is to have again.

    ``then`` is the image of that time; without a ``committed`` offset the current one is deleted.
    ``left`` is the value after the change, which is expected to be there now; it does not matter
    where ``any_left``, as in a restore. ``or_nothing``: the change first deleted the offset, and
    may have been killed before it committed ``left``.
    """

    then: OffsetImage
    left: CommittedOffset | None = None
    any_left: bool = False
    or_nothing: bool = False
    objection: tuple[str, str, str] | None = None
    """Name, message and hint of the refusal where the topic was re-created (beyond topic ids)."""

    def is_left(self, now: CommittedOffset | None) -> bool:
        """Whether the current offset is the one after the change."""
        return self.any_left or same_commit(now, self.left) or (self.or_nothing and now is None)

    def wanted(self, topic_id: str | None) -> CommittedOffset | None:
        """Return what to commit for a topic with this id.

        Leader epochs start again when a topic is created: clients that find the epoch of another
        topic wait for it, and read nothing.
        """
        committed, then_id = self.then.committed, self.then.topic_id
        is_other = None not in (then_id, topic_id) and then_id != topic_id
        if committed is None or not (is_other or self.objection):
            return committed
        return committed._replace(leader_epoch=None)


class DesiredGroup(NamedTuple):
    """The desired offsets of a group; ``then`` is its image of that time."""

    group: str
    offsets: Mapping[TopicPartition, DesiredOffset]
    then: GroupImage


class RestorePolicy(NamedTuple):
    """What is allowed.

    :param force: everything that the broker accepts.
    :param exact: offsets that were out of their log's range at that time already (undo).
    :param create: creating missing groups.
    :param as_member: committing in a member's name for groups with members.
    """

    force: bool = False
    exact: bool = False
    create: bool = True
    as_member: bool = False


class RestoreRow(NamedTuple):
    """One partition: its current and its new offset, and the outcome.

    ``status``: ``would-restore``, ``would-delete`` (there was no offset then), ``unchanged`` (it
    has the offset already), ``failed``; then ``restored``, ``deleted``, ``changed-meanwhile``,
    ``unknown``, ``skipped`` (others failed, and all or nothing was asked for). ``note``: a
    peculiarity of a restored offset.
    """

    group: str
    topic: str
    partition: int
    old: CommittedOffset | None
    new: CommittedOffset | None
    status: str
    error: ItemError | None = None
    note: str | None = None

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status in ("would-restore", "would-delete")


class RestoreGroup(NamedTuple):
    """One group: its rows, or the reason why nothing of it can be done."""

    group: str
    rows: list[RestoreRow]
    reading: GroupReading
    error: ItemError | None
    is_share: bool
    """Whether it is a share group; where there is no group, whether there was one then."""


def decide(desired: DesiredGroup, reading: GroupReading, policy: RestorePolicy) -> RestoreGroup:
    """Plan the restore of one group as it is now."""
    broken = {error.target[1:3]: error for error in reading.errors}
    rows = []
    for partition, one in desired.offsets.items():
        row = _decide_one(desired.group, partition, one, reading, policy)
        error = broken.get(partition)
        # The offset itself may be known, and only the topic be deleted.
        is_done = row.status == "unchanged" and partition in reading.image.offsets
        if error is not None and not is_done:
            row = row._replace(status="failed", error=error, note=None)
        rows.append(row)
    problem = next((error for error in reading.errors if error.target.topic is None), None)
    if problem is None and any(row.is_open for row in rows):
        problem = _group_error(desired, reading, policy)
    if problem is not None:
        rows = [row._replace(status="failed", error=problem, note=None) for row in rows]
    now = reading.description
    kind = (desired.then if now.error else now).type
    return RestoreGroup(desired.group, rows, reading, problem, kind == "share")


def _group_error(
    desired: DesiredGroup, reading: GroupReading, policy: RestorePolicy
) -> ItemError | None:
    description = reading.description
    if description.error is not None:  # it does not exist: other errors are in the reading
        if policy.create:
            return None
        hint = "Without --no-create it is created."
        return description.error._replace(hint=hint)
    is_share = description.type == "share"
    if is_share != (desired.then.type == "share") and not policy.force:
        then = "a share group" if desired.then.type == "share" else "not a share group"
        return ItemError(
            Target(group=desired.group),
            None,
            "WRONG_GROUP_TYPE",
            f"Group '{desired.group}' is a {description.type} group now, and was {then} then: "
            "start offsets and committed offsets are not the same.",
            "Look at it with kgtool describe; --force tries it anyway.",
        )
    if is_share and not description.is_empty:
        return ItemError(
            Target(group=desired.group),
            codes.NON_EMPTY_GROUP,
            "NON_EMPTY_GROUP",
            f"Group '{desired.group}' is {description.state}, and brokers set start offsets only "
            "while a share group is empty.",
            f"{members(description)} {stop_them(description)}",
        )
    if not description.is_empty and not policy.as_member:
        return ItemError(
            Target(group=desired.group),
            codes.NON_EMPTY_GROUP,
            "NON_EMPTY_GROUP",
            f"Group '{desired.group}' is {description.state}, and brokers let only its members "
            "commit for it.",
            f"{members(description)} {STOP_OR_SPEAK}",
        )
    return None


def _decide_one(
    group: str,
    partition: TopicPartition,
    desired: DesiredOffset,
    reading: GroupReading,
    policy: RestorePolicy,
) -> RestoreRow:
    now = reading.image.offsets.get(partition, OffsetImage(None))
    row = RestoreRow(group, *partition, now.committed, desired.wanted(now.topic_id), "unchanged")
    if same_commit(row.old, row.new):
        return row
    problem = None if policy.force else _problem(desired, now, policy)
    if problem is not None:
        error = ItemError(Target(group, *partition), None, *problem)
        return row._replace(status="failed", error=error)
    status = "would-delete" if row.new is None else "would-restore"
    return row._replace(status=status, note=_note(desired, now))


def _problem(
    desired: DesiredOffset, now: OffsetImage, policy: RestorePolicy
) -> tuple[str, str, str] | None:
    """Return name, message and hint of an objection."""
    if not desired.is_left(now.committed):
        return _committed_since(desired, now)
    if now.committed is not None and now.committed.is_pending:
        return (
            "PENDING_TRANSACTION",
            "A transaction is about to change this offset.",
            "Wait until it has ended, or give --force; kgtool doctor names it, and what ends "
            "one that hangs.",
        )
    if desired.then.committed is None:
        return None
    before, after = desired.then.topic_id, now.topic_id
    if before and after and before != after:
        return (
            "TOPIC_RECREATED",
            f"The topic was re-created since (id {before} then, {after} now): its offsets mean "
            "other records.",
            "--force restores the offset anyway.",
        )
    return desired.objection or _range_problem(desired.then, now, policy)


def _committed_since(desired: DesiredOffset, now: OffsetImage) -> tuple[str, str, str]:
    if now.committed is None:
        what = "The offset was removed since, expired, or its topic was re-created"
    else:
        what = "Another client has committed since"
    return (
        "CHANGED_MEANWHILE",
        f"{what}: {shown(desired.left)} was left there, {shown(now.committed)} is there now "
        f"({shown(desired.then.committed)} would be restored).",
        "--force restores it anyway.",
    )


def _range_problem(
    then: OffsetImage, now: OffsetImage, policy: RestorePolicy
) -> tuple[str, str, str] | None:
    target = now._replace(committed=then.committed)
    if policy.exact and then.misplaced is not None:
        return None
    offset = then.committed.offset if then.committed else None
    if now.log_start is None or now.log_end is None:
        return (
            "RANGE_UNKNOWN",
            f"The leader does not say where the log begins and ends, so it is not known whether "
            f"offset {offset} is still in it.",
            "Run it again when the leader answers; --force restores the offset unchecked.",
        )
    log = f"[{now.log_start}, {now.log_end}]"
    if target.misplaced is not None:
        return (
            "OUT_OF_RANGE",
            f"Offset {offset} is outside of its log now, which is {log}" + _earlier(then),
            "--force restores it anyway; kgtool reset-offsets sets another one.",
        )
    if policy.exact and then.log_end is not None and now.log_end < then.log_end:
        return (
            "LOG_TRUNCATED",
            f"The log was {_log(then)} then and is {log} now: it was truncated, or the topic "
            "was re-created.",
            "--force restores the offset anyway.",
        )
    return None


def _earlier(then: OffsetImage) -> str:
    if then.misplaced:
        return ", as it was then."
    return "." if then.log_end is None else f" (then {_log(then)})."


def _log(image: OffsetImage) -> str:
    return f"[{image.log_start}, {image.log_end}]"


def _note(desired: DesiredOffset, now: OffsetImage) -> str | None:
    """Describe a restored offset from which a consumer can't resume."""
    target = now._replace(committed=desired.then.committed)
    if target.misplaced is None:
        return None
    then = ", as it was then" if desired.then.misplaced == target.misplaced else ""
    where = "beyond the end" if target.misplaced == "beyond-end" else "before the start"
    return f"it lies {where} of its log {_log(now)}{then}"
