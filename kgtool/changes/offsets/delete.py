"""Deleting committed offsets (KIP-496): per partition, of groups that may be alive."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.offsets.delete_request import delete_partitions
from kgtool.changes.plan_rows import skip
from kgtool.changes.snapshot import (
    CHANGED_SINCE,
    FAILED,
    Agreed,
    BeforeChange,
    Check,
    GroupChange,
    take_images,
    value_digest,
)
from kgtool.client import denied
from kgtool.client.cluster import Cluster, fetch_metadata, unable
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError, NotDone
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
    OffsetDeletion,
    Target,
    TopicPartition,
    TopicSpec,
    has_failed,
)
from kgtool.protocol import codes
from kgtool.protocol.api import offset_delete
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.topics import expand
from kgtool.queries.cluster.transactions import pending_error, pending_partitions
from kgtool.queries.groups.describe import (
    UNKNOWN_TYPES,
    describe_with_type,
    holders_hint,
    is_held,
    wrong_type,
)
from kgtool.queries.log.reader import mark_pending
from kgtool.queries.offsets.fetch import Committed, fetch_selected, offsets_of
from kgtool.queries.offsets.lag import LogEnds
from kgtool.queries.offsets.list_offsets import log_ends


class OffsetsPlan(NamedTuple):
    """What would become of each group's offsets, and all that a table shows of it.

    ``agreed`` is all that has to be kept until the change.
    """

    results: dict[str, GroupOffsetDeletions]
    agreed: dict[str, Agreed]
    committed: dict[str, Committed]
    members: dict[str, int]


class _Asked(NamedTuple):
    """One group: what is to be deleted, what it is, and what it has."""

    group: str
    partitions: list[TopicPartition]
    unknown_topics: list[str]
    description: GroupDescription
    committed: Committed
    refused: dict[TopicPartition, KgError]
    """Partitions that are better left alone, and why."""
    known: dict[TopicPartition, OffsetDeletion]
    """Partitions whose outcome is known, as they were not agreed to, or as there is nothing."""

    @property
    def open(self) -> list[TopicPartition]:
        """The partitions that the coordinator is asked to delete."""
        return [p for p in self.partitions if p not in self.refused and p not in self.known]


def plan_offset_deletions(
    cluster: Cluster,
    requests: Mapping[str, Sequence[TopicSpec]],
    *,
    force: bool = False,
    check: Check | None = None,
) -> Operation[OffsetsPlan]:
    """Say what would become of committed offsets of groups, without doing anything.

    A topic without partitions means all that it has now, also at the time of the change.
    """
    done, asked = yield from _judge(cluster, requests, None, force, check)
    agreed: dict[str, Agreed] = {}
    explicit = {id(specs): _explicit(cluster, specs) for specs in requests.values()}
    for group, item in asked.items():
        done[group] = _foreseen(cluster, item)
    for group, specs in requests.items():
        rows = done[group].rows
        status = {(row.topic, row.partition): row.status for row in rows}
        partitions, _ = expand(cluster, specs)
        found = asked[group].committed if group in asked else {}
        digests = array("q", [_agreed_to(status.get(p), found.get(p)) for p in partitions])
        unknown = [row for row in rows if row.partition is None]
        agreed[group] = Agreed(explicit[id(specs)], digests, unknown)
    return OffsetsPlan(
        {group: done[group] for group in requests},
        agreed,
        {group: item.committed for group, item in asked.items()},
        {
            group: len(item.description.members)
            for group, item in asked.items()
            if item.description.error is None and not item.description.is_empty
        },
    )


def ends_of(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Operation[dict[TopicPartition, LogEnds]]:
    """Return where logs end, for a plan's lags: not at the cost of the change's own time."""
    return (yield from within(log_ends(cluster, partitions, starts=False), 0.3))


def delete_offsets(
    cluster: Cluster,
    requests: Mapping[str, Sequence[TopicSpec]],
    *,
    agreed: Mapping[str, Agreed] | None = None,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: BeforeChange | None = None,
    check: Check | None = None,
) -> Operation[dict[str, GroupOffsetDeletions]]:
    """Delete committed offsets of groups; each partition has its own outcome.

    The offsets are read first, so that "there was none" (which the broker reports as success) can
    be told from "deleted", and what can't be read or is about to be changed by a transaction
    (unless ``force``) is left alone. A topic without partitions means all that the topic has now.

    :param agreed: of a plan, for its groups: what has something else now is left alone.
    :param all_or_nothing: delete nothing if any of it must be left alone. Once deleting has begun,
        what fails does not take back the rest.
    :param before_change: called with the images of what is about to be deleted.
    :param check: says of a group, as it was just read, why it must be left alone after all; of
        its offsets it sees those that were asked for.
    """
    done, asked = yield from _judge(cluster, requests, agreed, force, check)
    if all_or_nothing:
        foreseen = _all_foreseen(cluster, requests, done, asked, agreed)
        if any(map(has_failed, foreseen.values())):
            return {one.group: one for one in skip(foreseen.values())}
    if any(item.open for item in asked.values()) and before_change is not None:
        before_change((yield from _changes(cluster, list(asked.values()))))
    wanted = {group: item.open for group, item in asked.items()}
    had = {group: item.committed for group, item in asked.items()}
    outcomes = yield from delete_partitions(cluster, wanted, had)
    for group, item in asked.items():
        done[group] = _outcome(cluster, item, outcomes[group])
    return _in_order(requests, done, agreed)


def look_again(
    cluster: Cluster, requests: Mapping[str, Sequence[TopicSpec]],
    agreed: Mapping[str, Agreed] | None, force: bool,
) -> Operation[dict[str, GroupOffsetDeletions]]:  # fmt: skip
    """Say what would become of committed offsets now, compared with the plan if there is one."""
    done, asked = yield from _judge(cluster, requests, agreed, force, None)
    return _all_foreseen(cluster, requests, done, asked, agreed)


def _all_foreseen(
    cluster: Cluster, groups: Iterable[str], done: Mapping[str, GroupOffsetDeletions],
    asked: Mapping[str, _Asked], agreed: Mapping[str, Agreed] | None,
) -> dict[str, GroupOffsetDeletions]:  # fmt: skip
    foreseen = {group: _foreseen(cluster, item) for group, item in asked.items()}
    return _in_order(groups, {**done, **foreseen}, agreed)


def _in_order(
    groups: Iterable[str], done: Mapping[str, GroupOffsetDeletions],
    agreed: Mapping[str, Agreed] | None,
) -> dict[str, GroupOffsetDeletions]:  # fmt: skip
    """Return the groups as they were asked for, with the topics that their plan could not find."""
    if agreed is None:
        return {group: done[group] for group in groups}
    return {
        group: done[group]._replace(rows=[*done[group].rows, *agreed[group].unknown])
        for group in groups
    }


def _judge(
    cluster: Cluster,
    requests: Mapping[str, Sequence[TopicSpec]],
    agreed: Mapping[str, Agreed] | None,
    force: bool,
    check: Check | None,
) -> Operation[tuple[dict[str, GroupOffsetDeletions], dict[str, _Asked]]]:
    """Sort groups into those of which nothing can be deleted, and those of which something may.

    The plan asks it, and the change asks it again of what it reads under the lock.
    """
    if agreed is not None:
        requests = {group: agreed[group].specs for group in requests}
    done: dict[str, GroupOffsetDeletions] = {}
    asked: dict[str, _Asked] = {}
    for description, committed, error in (yield from _read_all(cluster, requests, force)):
        group = description.group
        partitions, lacking = expand(cluster, requests[group])
        unknown = sorted(lacking)
        problem = check(description, committed) if check is not None else None
        problem = problem or _refusal(description, committed, force) or error
        if problem is not None or isinstance(committed, KgError):
            assert problem is not None
            done[group] = _all_failed(group, partitions, unknown, problem)
            continue
        refused = _refused(cluster, group, partitions, committed, force)
        asked[group] = _Asked(
            group, partitions, sorted(unknown), description, committed, refused, {}
        )
        if agreed is not None:
            _leave_changed(cluster, asked[group], agreed[group])
    return done, asked


def _explicit(cluster: Cluster, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """Name the partitions of topics as they are now, so that the change asks for no others."""
    return [
        spec if spec.partitions is not None
        else TopicSpec(spec.topic, tuple(cluster.topics[spec.topic].leaders))
        for spec in specs
    ]  # fmt: skip


def _agreed_to(status: str | None, value: CommittedOffset | KgError | None) -> int:
    """Return what is kept of a row of the plan until the change."""
    if status == "would-delete":
        return value_digest(value)
    return 0 if status == "no-offset" else FAILED


def _leave_changed(cluster: Cluster, item: _Asked, agreed: Agreed) -> None:
    """Ask only for what has the same offset as when the plan was shown."""
    rows = _foreseen(cluster, item).rows
    for partition, digest, row in zip(item.partitions, agreed.digests, rows, strict=False):
        now = value_digest(item.committed.get(partition))
        if now and now == digest:
            continue
        if row.status == "would-delete":
            row = _failed(item, partition, NotDone() if digest == FAILED else CHANGED_SINCE)
        item.known[partition] = row


def _read_all(
    cluster: Cluster, requests: Mapping[str, Sequence[TopicSpec]], force: bool
) -> Operation[list[tuple[GroupDescription, Committed | KgError, ItemError | None]]]:
    """Read what the groups are, what they have of the topics, and what their brokers can't do."""
    names = sorted({spec.topic for specs in requests.values() for spec in specs})
    both = gather([describe_with_type(cluster, list(requests)), fetch_metadata(cluster, names)])
    described, _ = yield from within(both, READING_SHARE)
    living = [d for d in described if _refusal(d, {}, force=True) is None]
    wanted = {d.group: expand(cluster, requests[d.group])[0] for d in living}
    both = gather([fetch_selected(cluster, wanted), _too_old(cluster, living)])
    committed, too_old = yield from within(both, READING_SHARE)
    if not force:
        able = {group: values for group, values in committed.items() if group not in too_old}
        yield from mark_pending(cluster, able)
    return [(d, committed.get(d.group, {}), too_old.get(d.group)) for d in described]


def _too_old(
    cluster: Cluster, groups: Sequence[GroupDescription]
) -> Operation[dict[str, ItemError]]:
    """Return the groups whose coordinator can't delete offsets, before anything is sent."""
    homes = {d.group: d.coordinator.id for d in groups if d.coordinator}
    lacks = yield from unable(cluster, homes, offset_delete.Request)
    return {group: ItemError.of(error, Target(group=group)) for group, error in lacks.items()}


def _refused(
    cluster: Cluster,
    group: str,
    partitions: Sequence[TopicPartition],
    committed: Committed,
    force: bool,
) -> dict[TopicPartition, KgError]:
    pending = [] if force else pending_partitions(committed, partitions)
    refused: dict[TopicPartition, KgError] = {p: pending_error(group) for p in pending}
    for partition in partitions:
        value = committed.get(partition)
        if isinstance(value, KgError):
            refused[partition] = denied.explain(value, denied.DESCRIBE, topic=partition.topic)
        elif value is None and (missing := _missing(cluster, partition)) is not None:
            refused[partition] = missing
    return refused


def _missing(cluster: Cluster, partition: TopicPartition) -> KgError | None:
    """Return why there is no such partition; None where there is one."""
    topic = cluster.topics[partition.topic]
    if topic.error is None and partition.partition in topic.leaders:
        return None
    return topic.error or broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)


def _changes(cluster: Cluster, asked: Sequence[_Asked]) -> Operation[list[GroupChange]]:
    """Take images of the offsets that are about to go; where there is none, nothing can be lost."""
    parts = [(i.description, offsets_of(i.committed, i.open)) for i in asked]
    images = yield from take_images(cluster, parts)
    return [GroupChange(image, dict.fromkeys(image.offsets)) for image in images]


def _refusal(
    description: GroupDescription, committed: Committed | KgError, force: bool
) -> ItemError | None:
    """Say why nothing of a group can be deleted, before anything is sent."""
    group, kind, error = description.group, description.protocol_type, description.error
    # A member's topic that may not be seen is no reason: the coordinator knows who subscribes.
    if error is not None and error.code != codes.TOPIC_AUTHORIZATION_FAILED:
        return error
    if description.type in UNKNOWN_TYPES:
        hint = f"Use {UNKNOWN_TYPES[description.type]} for it."
        return wrong_type(group, description.type, hint)
    if kind not in ("", "consumer") and not force:
        hint = "Use the tool that made it, or --force to delete its offsets anyway."
        return wrong_type(group, f"'{kind}'", hint)
    if isinstance(committed, KgError):
        return ItemError.of(committed, Target(group=group))
    return None


def _all_failed(
    group: str, partitions: list[TopicPartition], unknown: list[str], error: ItemError
) -> GroupOffsetDeletions:
    rows = [OffsetDeletion(group, *p, error.status, error) for p in partitions]
    rows += [OffsetDeletion(group, topic, None, error.status, error) for topic in unknown]
    return GroupOffsetDeletions(group, rows, error)


def _outcome(cluster: Cluster, item: _Asked, answer: Any) -> GroupOffsetDeletions:
    if isinstance(answer, KgError):
        answer = denied.explain(answer, denied.DELETE_OFFSETS, group=item.group)
        if not item.known and not item.refused:
            failure = ItemError.of(answer, Target(group=item.group))
            return _all_failed(item.group, item.partitions, item.unknown_topics, failure)
        answer = dict.fromkeys(item.open, answer)
    found = {**answer, **item.refused}
    rows = {at: _row(item, at, outcome, "deleted") for at, outcome in found.items()}
    rows.update(item.known)
    return _with_unknown(cluster, item, [rows[at] for at in sorted(rows)])


def _foreseen(cluster: Cluster, item: _Asked) -> GroupOffsetDeletions:
    """Say what the broker would answer, without asking it."""
    rows = []
    for at in item.partitions:
        if at in item.known:
            rows.append(item.known[at])
            continue
        outcome: int | KgError = item.refused.get(at) or _missing(cluster, at) or codes.NONE
        if not outcome and any(is_held(member, at.topic) for member in item.description.members):
            outcome = codes.GROUP_SUBSCRIBED_TO_TOPIC
        rows.append(_row(item, at, outcome, "would-delete"))
    return _with_unknown(cluster, item, rows)


def _row(
    item: _Asked, partition: TopicPartition, outcome: int | KgError, good: str
) -> OffsetDeletion:
    if outcome:
        return _failed(item, partition, outcome)
    there = offsets_of(item.committed, [partition])
    return OffsetDeletion(item.group, *partition, good if there else "no-offset")


def _failed(item: _Asked, partition: TopicPartition, outcome: int | KgError) -> OffsetDeletion:
    if isinstance(outcome, int):
        hint = None
        if outcome == codes.GROUP_SUBSCRIBED_TO_TOPIC:
            hint = holders_hint(item.description, partition.topic)
        outcome = broker_error(outcome, hint=hint)
    reason = denied.explain(outcome, denied.DELETE_OFFSETS, topic=partition.topic)
    error = ItemError.of(reason, Target(item.group, *partition))
    return OffsetDeletion(item.group, *partition, error.status, error)


def _with_unknown(
    cluster: Cluster, item: _Asked, rows: list[OffsetDeletion]
) -> GroupOffsetDeletions:
    """Add the topics that were named without partitions and can't be looked up."""
    for topic in item.unknown_topics:
        known = cluster.topics[topic].error or broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)
        error = ItemError.of(known, Target(item.group, topic))
        rows.append(OffsetDeletion(item.group, topic, None, "failed", error))
    return GroupOffsetDeletions(item.group, rows)
