"""Writing offsets: compare, commit, verify. The only place that sends OffsetCommit.

Each commit is compared with the offset before, and looked up where its answer did not come: see
``kgtool.changes.doubt``. What is read back at the end decides; where that can't be read either,
the outcome is unknown (``OutcomeUnknown``).

What may be written is for the caller to decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.doubt import AS_BEFORE, Attempt, Doubts, Items, Outcome, Seen, is_in_doubt
from kgtool.changes.offsets.commit import (
    NAMES_VERSION,
    CommitIdentity,
    Outcomes,
    TopicIds,
    commit_on,
)
from kgtool.changes.offsets.delete_request import Answer, delete_partitions
from kgtool.changes.offsets.verify import HINT, Write, Writes, changed_meanwhile, read_back
from kgtool.client.cluster import Cluster, ensure_topics, fetch_metadata, version_of
from kgtool.client.ops import DeadlineExceeded, Operation, gather, within
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError, NetworkError, TopicRecreated
from kgtool.model import CommittedOffset, TopicPartition, same_commit
from kgtool.protocol import codes
from kgtool.protocol.api import offset_commit
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import fetch_selected, selected_on

WRITING_SHARE = 0.7
"""Of the time that is left: the rest is for reading back what was written."""

TRIES = 10
"""How often a commit is repeated that the coordinator itself does not store: while a member's group
rebalances (27), while its log lags (7, 20), while it does not know a topic yet (100)."""

_COORDINATOR_MOVES = (
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
)
_SAME_COORDINATOR = (
    codes.REBALANCE_IN_PROGRESS,
    codes.REQUEST_TIMED_OUT,
    codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    codes.UNKNOWN_TOPIC_ID,
)

LATE = "The answer to kgtool's own request was lost: it may still be carried out."


def write_offsets(
    cluster: Cluster,
    wanted: Mapping[str, Writes],
    identities: Mapping[str, CommitIdentity] | None = None,
    *,
    verify: bool = True,
    refresh: bool = False,
) -> Operation[dict[str, Outcomes]]:
    """Write these offsets, and no others; each partition has its own outcome.

    An administrator's commit to a group that has members is answered with UNKNOWN_MEMBER_ID (25);
    a group that does not exist is created. Topics are those that the cluster knows now: one that
    is re-created before its commit arrives is refused (``TopicRecreated``).

    :param identities: the members in whose name to commit for groups that have some.
    :param verify: read back what was written; a difference is a ``NotVerified``. What is in doubt
        is read back in any case.
    :param refresh: the values are unchanged, so reading them back does not prove a commit.
    """
    commits = {g: _chosen(writes, delete=False) for g, writes in wanted.items()}
    deletions = {g: _chosen(writes, delete=True) for g, writes in wanted.items()}
    names = sorted({partition.topic for writes in commits.values() for partition in writes})
    yield from ensure_topics(cluster, names)
    ids = {name: cluster.topics[name].topic_id for name in names}
    requests = _Commits(cluster, commits, identities or {}, ids)
    work = Attempt(cluster, commits, requests, _Tries().next)
    both = gather([work.run(), _delete(cluster, deletions)])
    _, deleted = yield from within(both, WRITING_SHARE)
    outcomes = {group: {**work.outcomes[group], **deleted[group]} for group in wanted}
    for group, outcome in deleted.items():
        # What was sent and not answered may reach the broker after all reads.
        work.lost[group].update(p for p, e in outcome.items() if e is not None and e.maybe_done)
    doubtful = {
        group: {p for p, e in outcomes[group].items() if p in work.doubts[group] or is_in_doubt(e)}
        for group in wanted
    }
    yield from work.hang_up(wanted)
    yield from read_back(cluster, wanted, outcomes, doubtful, verify, refresh)
    return {group: _mark_late(outcomes[group], work.lost[group]) for group in wanted}


def _chosen(writes: Writes, *, delete: bool) -> dict[TopicPartition, Write]:
    return {p: write for p, write in writes.items() if (write.new is None) == delete}


def _mark_late(outcome: Outcomes, lost: set[TopicPartition]) -> Outcomes:
    """Mark failures that may yet succeed: a request for them was never answered."""
    marked = dict(outcome)
    for partition in lost:
        error = outcome.get(partition)
        if error is not None:
            marked[partition] = late = error.after_sending()
            if isinstance(error, ChangedMeanwhile):
                late.hint = f"{LATE} {HINT}"
    return marked


# ---------------------------------------------------------------------------------------------
# Commits


class _Tries(defaultdict[str, int]):
    """How often each group was asked again for what its coordinator will overcome by itself."""

    def __init__(self) -> None:
        super().__init__(int)

    def next(self, group: str, errors: Sequence[KgError]) -> KgError | None:
        """Return a failure that ``by_coordinator`` knows how to overcome, if there is one."""
        for error in errors:
            if error.code not in _SAME_COORDINATOR:
                return error
            if self[group] < TRIES:
                self[group] += 1
                return broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS)
        return None


class _Commits(NamedTuple):
    """OffsetCommit, of topics that are what they were."""

    cluster: Cluster
    writes: Mapping[str, Writes]
    identities: Mapping[str, CommitIdentity]
    ids: TopicIds

    def look(
        self, broker: int, items: Items[TopicPartition], _doubts: Doubts[TopicPartition]
    ) -> Operation[dict[str, KgError | dict[TopicPartition, Seen]]]:
        """Compare offsets with those before, and topics."""
        looks = [selected_on(self.cluster, broker, items, self.ids), self._compare_ids(broker)]
        found, refused = yield from gather(looks)
        refused.update((yield from self._refused(found)))
        yield from self._look_by_name(broker, items, found, refused)
        seen: dict[str, KgError | dict[TopicPartition, Seen]] = {}
        for group, parts in items.items():
            now, writes = found[group], self.writes[group]
            known = {at: refused[at.topic] for at in parts if at.topic in refused}
            if not isinstance(now, KgError):
                known.update(
                    (at, _judge(writes[at], now.get(at))) for at in parts if at not in known
                )
            elif len(known) < len(parts):
                seen[group] = now
                continue
            seen[group] = known
        return seen

    def send(
        self, broker: int, items: Items[TopicPartition]
    ) -> Operation[dict[str, dict[TopicPartition, Outcome]]]:
        """Commit; what may be committed again later is not final."""
        asked = {
            group: {at: new for at in parts if (new := self.writes[group][at].new)}
            for group, parts in items.items()
        }
        found = yield from commit_on(self.cluster, broker, asked, self.identities, self.ids)
        refused = yield from self._refused(found)
        answers: dict[str, dict[TopicPartition, Outcome]] = {}
        for group, outcomes in found.items():
            errors = {
                at: refused.get(at.topic, error) if _is_unknown_id(error) else error
                for at, error in outcomes.items()
            }
            answers[group] = {at: Outcome(e, not _is_transient(e)) for at, e in errors.items()}
        return answers

    def _look_by_name(
        self,
        broker: int,
        items: Items[TopicPartition],
        found: dict[str, Any],
        refused: Mapping[str, KgError],
    ) -> Operation[None]:
        """Ask by name for what can't be found by id.

        It may have been committed for an earlier topic of that name, or the coordinator does not
        know an unchanged topic yet.
        """
        missing = {
            group: [
                p
                for p in items[group]
                if self.ids.get(p.topic)
                and p.topic not in refused
                and (
                    _is_unknown_id(now.get(p))
                    or (self.writes[group][p].old and _is_nothing(now.get(p)))
                )
            ]
            for group, now in found.items()
            if isinstance(now, dict)
        }
        missing = {group: parts for group, parts in missing.items() if parts}
        if missing:
            again = yield from selected_on(self.cluster, broker, missing, {})
            for group, now in again.items():
                found[group] = {**found[group], **now} if isinstance(now, dict) else now

    # -- topic ids ------------------------------------------------------------------------

    def _compare_ids(self, broker: int) -> Operation[dict[str, KgError]]:
        """Return the re-created topics where the coordinator does not check that (before v10)."""
        version = yield from version_of(broker, offset_commit.Request)
        if isinstance(version, KgError) or version > NAMES_VERSION:
            return {}
        return (yield from self._recreated([name for name, known in self.ids.items() if known]))

    def _refused(
        self, found: Mapping[str, Mapping[TopicPartition, object] | KgError]
    ) -> Operation[dict[str, KgError]]:
        """Return the re-created topics among those whose id the coordinator does not know (100)."""
        names = {
            partition.topic
            for answers in found.values()
            if not isinstance(answers, KgError)
            for partition, answer in answers.items()
            if _is_unknown_id(answer)
        }
        return (yield from self._recreated(sorted(names)))

    def _recreated(self, names: Sequence[str]) -> Operation[dict[str, KgError]]:
        """Return the topics that are re-created or can't be read, with their errors."""
        if not names:
            return {}
        try:
            yield from fetch_metadata(self.cluster, names)
        except KgError as error:
            return dict.fromkeys(names, error)
        refused: dict[str, KgError] = {}
        for name in names:
            then, topic = self.ids[name], self.cluster.topics[name]
            if topic.error is not None:
                refused[name] = topic.error
            elif topic.topic_id not in (None, then):
                refused[name] = TopicRecreated(
                    f"Topic '{name}' was re-created meanwhile (another topic id): its offsets "
                    "mean other records.",
                    hint="Run the command again to see what would be written now.",
                )
        return refused


def _is_unknown_id(answer: object) -> bool:
    return isinstance(answer, KgError) and answer.code == codes.UNKNOWN_TOPIC_ID


def _is_nothing(value: CommittedOffset | KgError | None) -> bool:
    return not isinstance(value, KgError) and same_commit(value, None)


def _judge(write: Write, now: CommittedOffset | KgError | None) -> Seen:
    if isinstance(now, KgError):
        return now
    if same_commit(now, write.old):
        return AS_BEFORE
    return None if same_commit(now, write.new) else changed_meanwhile(write.old, now)


def _is_transient(error: KgError | None) -> bool:
    if isinstance(error, BrokerError):
        return error.code in (*_COORDINATOR_MOVES, *_SAME_COORDINATOR)
    return isinstance(error, NetworkError) and not isinstance(error, DeadlineExceeded)


# ---------------------------------------------------------------------------------------------
# Deletions


def _delete(cluster: Cluster, deletions: Mapping[str, Writes]) -> Operation[dict[str, Outcomes]]:
    """Delete offsets that have not changed; those that are gone already are done."""
    found = yield from fetch_selected(cluster, {g: list(w) for g, w in deletions.items()})
    outcomes: dict[str, Outcomes] = {group: {} for group in deletions}
    open_: dict[str, list[TopicPartition]] = {}
    for group, now in found.items():
        for partition, write in deletions[group].items():
            value = now if isinstance(now, KgError) else now.get(partition)
            if isinstance(value, KgError):
                outcomes[group][partition] = value
            elif same_commit(value, None):
                outcomes[group][partition] = None
            elif same_commit(value, write.old):
                open_.setdefault(group, []).append(partition)
            else:
                outcomes[group][partition] = changed_meanwhile(write.old, value)
    had = {group: now for group, now in found.items() if isinstance(now, dict)}
    for group, answer in (yield from delete_partitions(cluster, open_, had)).items():
        outcomes[group].update(_deleted(open_[group], answer))
    return outcomes


def _deleted(partitions: list[TopicPartition], answer: Answer) -> Outcomes:
    if isinstance(answer, KgError):
        # A group that is gone took its offsets with it.
        gone = answer.code == codes.GROUP_ID_NOT_FOUND
        return dict.fromkeys(partitions, None if gone else answer)
    return answer
