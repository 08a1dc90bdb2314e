"""Deleting committed offsets (KIP-496): per partition, also of groups with members."""

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
from kgtool.client.cluster import Cluster, fetch_metadata, find_unsupported
from kgtool.client.ops import READING_SHARE, Operation, gather, within
from kgtool.errors import KgError, NotDone
from kgtool.model import (
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

Requests = Mapping[str, Sequence[TopicSpec]]
Deletions = dict[str, GroupOffsetDeletions]


class OffsetsPlan(NamedTuple):
    """The foreseen outcome of each group, and the offsets and member counts for the preview.

    Only ``agreed`` has to be kept until the change.
    """

    results: Deletions
    agreed: dict[str, Agreed]
    committed: dict[str, Committed]
    members: dict[str, int]


class _Candidate(NamedTuple):
    """A group whose offsets may be deleted.

    ``settled``: rows decided before anything is sent; ``unknown``: rows of topics that were named
    without partitions and can't be looked up.
    """

    description: GroupDescription
    partitions: list[TopicPartition]
    committed: Committed
    settled: dict[TopicPartition, OffsetDeletion]
    unknown: list[OffsetDeletion]

    @property
    def group(self) -> str:
        return self.description.group

    @property
    def open(self) -> list[TopicPartition]:
        """The partitions that the coordinator is asked to delete."""
        return [at for at in self.partitions if at not in self.settled]


def plan_offset_deletions(
    cluster: Cluster, requests: Requests, *, force: bool = False, check: Check | None = None
) -> Operation[OffsetsPlan]:
    """Foresee a deletion of committed offsets, without doing it.

    A topic without partitions means all that it has now, also at the time of the change.
    """
    done, candidates = yield from _judge(cluster, requests, None, force, check)
    done.update({group: _foresee(cluster, one) for group, one in candidates.items()})
    committed = {group: one.committed for group, one in candidates.items()}
    explicit = {id(specs): _explicit(cluster, specs) for specs in requests.values()}
    agreed: dict[str, Agreed] = {}
    for group, specs in requests.items():
        rows = done[group].rows
        known = [row for row in rows if row.partition is not None]
        digests = array("q", [_agreed_digest(row, committed.get(group, {})) for row in known])
        unknown = [row for row in rows if row.partition is None]
        agreed[group] = Agreed(explicit[id(specs)], digests, unknown)
    described = [one.description for one in candidates.values()]
    members = {d.group: len(d.members) for d in described if d.error is None and not d.is_empty}
    return OffsetsPlan({g: done[g] for g in requests}, agreed, committed, members)


def ends_of(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> Operation[dict[TopicPartition, LogEnds]]:
    """Return the ends of logs for a plan's lags, without using up the time of the change."""
    return (yield from within(log_ends(cluster, partitions, starts=False), 0.3))


def delete_offsets(
    cluster: Cluster,
    requests: Requests,
    *,
    agreed: Mapping[str, Agreed] | None = None,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: BeforeChange | None = None,
    check: Check | None = None,
) -> Operation[Deletions]:
    """Delete committed offsets of groups; each partition has its own outcome.

    The offsets are read first: to distinguish "there was none" (which the broker reports as
    success) from "deleted", and to leave alone what can't be read or is about to be changed by a
    transaction (unless ``force``). A topic without partitions means all that the topic has now.

    :param agreed: from a plan: what has changed since is left alone.
    :param all_or_nothing: delete nothing if any of it must be left alone. Once deleting has begun,
        a failure does not revert the rest.
    :param before_change: called with the images of what is about to be deleted.
    :param check: called with each group as just read, and those of its offsets that were asked
        for; returns why it must be left alone.
    """
    done, candidates = yield from _judge(cluster, requests, agreed, force, check)
    if all_or_nothing:
        foreseen = _foresee_all(cluster, requests, done, candidates, agreed)
        if any(map(has_failed, foreseen.values())):
            return {one.group: one for one in skip(foreseen.values())}
    going = {group: one.open for group, one in candidates.items()}
    had = {group: one.committed for group, one in candidates.items()}
    if any(going.values()) and before_change is not None:
        values = [
            (one.description, offsets_of(one.committed, one.open)) for one in candidates.values()
        ]
        images = yield from take_images(cluster, values)
        before_change([GroupChange(image, dict.fromkeys(image.offsets)) for image in images])
    answers = yield from delete_partitions(cluster, going, had)
    for group, one in candidates.items():
        done[group] = _outcome(one, answers[group])
    return _in_order(requests, done, agreed)


def look_again(
    cluster: Cluster, requests: Requests, agreed: Mapping[str, Agreed] | None, force: bool
) -> Operation[Deletions]:
    """Foresee the deletion as of now, compared with the plan if there is one."""
    done, candidates = yield from _judge(cluster, requests, agreed, force, None)
    return _foresee_all(cluster, requests, done, candidates, agreed)


def _foresee_all(
    cluster: Cluster,
    groups: Iterable[str],
    done: Deletions,
    candidates: Mapping[str, _Candidate],
    agreed: Mapping[str, Agreed] | None,
) -> Deletions:
    foreseen = {group: _foresee(cluster, one) for group, one in candidates.items()}
    return _in_order(groups, {**done, **foreseen}, agreed)


def _in_order(
    groups: Iterable[str], done: Deletions, agreed: Mapping[str, Agreed] | None
) -> Deletions:
    """Return the groups in the order asked, with the topics that their plan could not find."""
    if agreed is None:
        return {group: done[group] for group in groups}
    return {
        group: done[group]._replace(rows=[*done[group].rows, *agreed[group].unknown])
        for group in groups
    }


def _judge(
    cluster: Cluster,
    requests: Requests,
    agreed: Mapping[str, Agreed] | None,
    force: bool,
    check: Check | None,
) -> Operation[tuple[Deletions, dict[str, _Candidate]]]:
    """Separate groups of which nothing can be deleted from the candidates.

    The one place that decides: for the plan, and again for the change under the lock.
    """
    if agreed is not None:
        requests = {group: agreed[group].specs for group in requests}
    done: Deletions = {}
    candidates: dict[str, _Candidate] = {}
    for description, committed, error in (yield from _read_all(cluster, requests, force)):
        group = description.group
        partitions, missing = expand(cluster, requests[group])
        unknown = [_failed_topic(group, topic, missing[topic]) for topic in sorted(missing)]
        problem = check(description, committed) if check is not None else None
        problem = problem or _refusal(description, committed, force) or error
        if problem is not None or isinstance(committed, KgError):
            assert problem is not None
            done[group] = _all_failed(group, partitions, unknown, problem)
            continue
        one = candidates[group] = _Candidate(description, partitions, committed, {}, unknown)
        for at, why in _refused(cluster, one, force).items():
            one.settled[at] = _failed(one, at, why)
        if agreed is not None:
            _leave_changed(cluster, one, agreed[group].digests)
    return done, candidates


def _explicit(cluster: Cluster, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
    """Name the current partitions of topics, so that the change asks for no others."""
    return [
        spec
        if spec.partitions is not None
        else TopicSpec(spec.topic, tuple(cluster.topics[spec.topic].leaders))
        for spec in specs
    ]


def _agreed_digest(row: OffsetDeletion, committed: Committed) -> int:
    """Return what is kept of a row of the plan until the change."""
    if row.status == "would-delete":
        return value_digest(committed.get(TopicPartition(row.topic, row.partition or 0)))
    return 0 if row.status == "no-offset" else FAILED


def _leave_changed(cluster: Cluster, one: _Candidate, digests: Sequence[int]) -> None:
    """Settle everything but the offsets that are as the plan has shown them."""
    rows = _foresee(cluster, one).rows
    for at, digest, row in zip(one.partitions, digests, rows, strict=False):
        now = value_digest(one.committed.get(at))
        if now and now == digest:
            continue
        if row.status == "would-delete":
            row = _failed(one, at, NotDone() if digest == FAILED else CHANGED_SINCE)
        one.settled[at] = row


def _read_all(
    cluster: Cluster, requests: Requests, force: bool
) -> Operation[list[tuple[GroupDescription, Committed | KgError, ItemError | None]]]:
    """Read groups and their offsets of the topics, and what their coordinators can't do."""
    names = sorted({spec.topic for specs in requests.values() for spec in specs})
    both = gather([describe_with_type(cluster, list(requests)), fetch_metadata(cluster, names)])
    described, _ = yield from within(both, READING_SHARE)
    living = [d for d in described if _refusal(d, {}, force=True) is None]
    wanted = {d.group: expand(cluster, requests[d.group])[0] for d in living}
    homes = {d.group: d.coordinator.id for d in living if d.coordinator}
    can_delete = find_unsupported(cluster, homes, offset_delete.Request)
    both = gather([fetch_selected(cluster, wanted), can_delete])
    committed, too_old = yield from within(both, READING_SHARE)
    errors = {group: ItemError.of(error, Target(group)) for group, error in too_old.items()}
    if not force:
        able = {group: values for group, values in committed.items() if group not in errors}
        yield from mark_pending(cluster, able)
    return [(d, committed.get(d.group, {}), errors.get(d.group)) for d in described]


def _refused(cluster: Cluster, one: _Candidate, force: bool) -> dict[TopicPartition, KgError]:
    pending = [] if force else pending_partitions(one.committed, one.partitions)
    refused: dict[TopicPartition, KgError] = {at: pending_error(one.group) for at in pending}
    for at in one.partitions:
        value = one.committed.get(at)
        if isinstance(value, KgError):
            refused[at] = denied.explain(value, denied.DESCRIBE, topic=at.topic)
        elif value is None and (missing := _missing(cluster, at)) is not None:
            refused[at] = missing
    return refused


def _missing(cluster: Cluster, at: TopicPartition) -> KgError | None:
    """Return why there is no such partition; None where there is one."""
    topic = cluster.topics[at.topic]
    if topic.error is None and at.partition in topic.leaders:
        return None
    return topic.error or broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)


def _refusal(
    description: GroupDescription, committed: Committed | KgError, force: bool
) -> ItemError | None:
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


# ---------------------------------------------------------------------------------------------
# Rows


def _foresee(cluster: Cluster, one: _Candidate) -> GroupOffsetDeletions:
    """Return what the broker would answer, without asking it."""
    rows = []
    for at in one.partitions:
        if at in one.settled:
            rows.append(one.settled[at])
            continue
        outcome: int | KgError = _missing(cluster, at) or codes.NONE
        if not outcome and any(is_held(member, at.topic) for member in one.description.members):
            outcome = codes.GROUP_SUBSCRIBED_TO_TOPIC
        rows.append(_row(one, at, outcome, "would-delete"))
    return GroupOffsetDeletions(one.group, rows + one.unknown)


def _outcome(one: _Candidate, answer: Any) -> GroupOffsetDeletions:
    """Return the rows of a group after the coordinator's ``answer``."""
    if isinstance(answer, KgError):
        answer = denied.explain(answer, denied.DELETE_OFFSETS, group=one.group)
        if not one.settled:
            error = ItemError.of(answer, Target(group=one.group))
            return _all_failed(one.group, one.partitions, one.unknown, error)
        answer = dict.fromkeys(one.open, answer)
    rows = {at: _row(one, at, outcome, "deleted") for at, outcome in answer.items()}
    rows.update(one.settled)
    return GroupOffsetDeletions(one.group, [rows[at] for at in sorted(rows)] + one.unknown)


def _all_failed(
    group: str,
    partitions: Iterable[TopicPartition],
    unknown: Iterable[OffsetDeletion],
    error: ItemError,
) -> GroupOffsetDeletions:
    rows = [OffsetDeletion(group, *at, error.status, error) for at in partitions]
    rows += [row._replace(status=error.status, error=error) for row in unknown]
    return GroupOffsetDeletions(group, rows, error)


def _row(
    one: _Candidate, at: TopicPartition, outcome: int | KgError, success: str
) -> OffsetDeletion:
    if outcome:
        return _failed(one, at, outcome)
    had = offsets_of(one.committed, [at])
    return OffsetDeletion(one.group, *at, success if had else "no-offset")


def _failed(one: _Candidate, at: TopicPartition, outcome: int | KgError) -> OffsetDeletion:
    if isinstance(outcome, int):
        is_subscribed = outcome == codes.GROUP_SUBSCRIBED_TO_TOPIC
        hint = holders_hint(one.description, at.topic) if is_subscribed else None
        outcome = broker_error(outcome, hint=hint)
    reason = denied.explain(outcome, denied.DELETE_OFFSETS, topic=at.topic)
    error = ItemError.of(reason, Target(one.group, *at))
    return OffsetDeletion(one.group, *at, error.status, error)


def _failed_topic(group: str, topic: str, error: KgError) -> OffsetDeletion:
    return OffsetDeletion(group, topic, None, "failed", ItemError.of(error, Target(group, topic)))
