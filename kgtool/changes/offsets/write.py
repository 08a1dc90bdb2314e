"""Writing offsets: compare, commit, verify. The only place that sends OffsetCommit.

OffsetCommit has no compare-and-set. So just before each commit, first or repeated, the coordinator
is asked for the current offset: only what still has the value seen before is sent, what already
has the new value is done, and anything else is another client's and left alone
(``ChangedMeanwhile``). A window of one round trip remains.

A commit whose answer is lost or unclear may have been made. Before it is looked up, its
connection is closed, so that it can't reach the broker later. What is read back at the end
decides; where that can't be read either, the outcome is unknown (``OutcomeUnknown``).

What may be written is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kgtool.changes.offsets.commit import (
    NAMES_VERSION,
    CommitIdentity,
    Outcome,
    TopicIds,
    commit_on,
)
from kgtool.changes.offsets.delete_request import delete_partitions
from kgtool.changes.offsets.verify import HINT, Write, Writes, changed_meanwhile, read_back
from kgtool.client.cluster import Cluster, by_coordinator, ensure_topics, fetch_metadata, version_of
from kgtool.client.lost_replies import UNSETTLED
from kgtool.client.ops import DeadlineExceeded, HangUp, Operation, gather, within
from kgtool.errors import (
    BrokerError,
    ChangedMeanwhile,
    KgError,
    NetworkError,
    OutcomeUnknown,
    TopicRecreated,
)
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
) -> Operation[dict[str, Outcome]]:
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
    work = _Commits(cluster, commits, identities or {}, ids)
    _, deleted = yield from within(gather([work.run(), _delete(cluster, deletions)]), WRITING_SHARE)
    outcomes = {group: {**work.outcomes[group], **deleted[group]} for group in wanted}
    for group, outcome in deleted.items():
        # What was sent and not answered may reach the broker after all reads.
        work.lost[group].update(p for p, e in outcome.items() if e is not None and e.maybe_done)
    doubtful = {
        group: {p for p, e in outcomes[group].items() if p in work.doubtful[group] or _is_open(e)}
        for group in wanted
    }
    yield from work.hang_up(wanted)
    yield from read_back(cluster, wanted, outcomes, doubtful, verify, refresh)
    return {group: _mark_late(outcomes[group], work.lost[group]) for group in wanted}


def _chosen(writes: Writes, *, delete: bool) -> dict[TopicPartition, Write]:
    return {p: write for p, write in writes.items() if (write.new is None) == delete}


def _mark_late(outcome: Outcome, lost: set[TopicPartition]) -> Outcome:
    """Mark failures that may yet succeed: a request for them was never answered."""
    marked = dict(outcome)
    for partition in lost:
        error = outcome.get(partition)
        if error is not None:
            marked[partition] = late = error.after_sending()
            if isinstance(error, ChangedMeanwhile):
                late.hint = f"{LATE} {HINT}"
    return marked


def _is_open(error: KgError | None) -> bool:
    """Whether the change may have been made in spite of this answer."""
    return error is not None and (
        error.maybe_done
        or isinstance(error, OutcomeUnknown)
        or error.code in (*UNSETTLED, codes.UNKNOWN_SERVER_ERROR)
    )


# ---------------------------------------------------------------------------------------------
# Commits


class _Commits:
    """The commits of one call: those still to send, and the outcomes."""

    def __init__(
        self,
        cluster: Cluster,
        writes: Mapping[str, Writes],
        identities: Mapping[str, CommitIdentity],
        ids: TopicIds,
    ) -> None:
        self.outcomes: dict[str, Outcome] = {group: {} for group in writes}
        self.doubtful: dict[str, set[TopicPartition]] = {group: set() for group in writes}
        """What was sent and may have been made, whatever the answers to later tries."""
        self.lost: dict[str, set[TopicPartition]] = {group: set() for group in writes}
        """What was sent once without an answer, whatever the answers to later tries."""
        self._cluster = cluster
        self._left = {group: dict(parts) for group, parts in writes.items()}
        self._identities = identities
        self._ids = ids
        self._silent: dict[str, int] = {}
        """The broker that owes an answer about each group."""
        self._tries = dict.fromkeys(writes, 0)

    def run(self) -> Operation[None]:
        """Compare and commit until all is settled, or time is up."""
        groups = [group for group, left in self._left.items() if left]
        answers = yield from by_coordinator(self._cluster, groups, self._work)
        for group, answer in answers.items():
            if isinstance(answer, KgError):
                for partition in self._left[group]:
                    if not isinstance(self.outcomes[group].get(partition), BrokerError):
                        self.outcomes[group][partition] = answer

    def hang_up(self, groups: Iterable[str]) -> Operation[None]:
        """Close the connections on which an answer about these groups is still owed."""
        for broker in {self._silent.pop(group) for group in groups if group in self._silent}:
            yield HangUp(broker)

    def _work(self, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        """Compare, and commit what has not changed: once for these groups of one coordinator."""
        yield from self.hang_up(groups)
        answers: dict[str, Any] = yield from self._look(broker, groups)
        asked = {
            group: {p: write.new for p, write in self._left[group].items() if write.new}
            for group in groups
            if group not in answers and self._left[group]
        }
        outcomes = yield from commit_on(self._cluster, broker, asked, self._identities, self._ids)
        refused = yield from self._refused(outcomes)
        for group, outcome in outcomes.items():
            for partition, error in outcome.items():
                if _is_unknown_id(error):
                    error = refused.get(partition.topic, error)
                self._take(broker, group, partition, error)
        return {group: answers.get(group) or self._worth_another_try(group) for group in groups}

    # -- comparing ------------------------------------------------------------------------

    def _look(self, broker: int, groups: Sequence[str]) -> Operation[dict[str, KgError]]:
        """Settle what has changed meanwhile; return the groups that can't be read."""
        wanted = {group: list(self._left[group]) for group in groups if self._left[group]}
        looks = [selected_on(self._cluster, broker, wanted, self._ids), self._compare_ids(broker)]
        found, refused = yield from gather(looks)
        refused.update((yield from self._refused(found)))
        yield from self._look_by_name(broker, found, refused)
        for group, now in found.items():
            for partition, write in list(self._left[group].items()):
                if partition.topic in refused:
                    self._settle(group, partition, refused[partition.topic])
                elif not isinstance(now, KgError):
                    self._compare(group, partition, write, now.get(partition))
        return {group: now for group, now in found.items() if isinstance(now, KgError)}

    def _look_by_name(
        self, broker: int, found: dict[str, Any], refused: Mapping[str, KgError]
    ) -> Operation[None]:
        """Ask by name for what can't be found by id.

        It may have been committed for an earlier topic of that name, or the coordinator does not
        know an unchanged topic yet.
        """
        missing = {
            group: [
                p
                for p, write in self._left[group].items()
                if self._ids.get(p.topic)
                and p.topic not in refused
                and (_is_unknown_id(now.get(p)) or (write.old and _is_nothing(now.get(p))))
            ]
            for group, now in found.items()
            if isinstance(now, dict)
        }
        missing = {group: parts for group, parts in missing.items() if parts}
        if missing:
            again = yield from selected_on(self._cluster, broker, missing, {})
            for group, now in again.items():
                found[group] = {**found[group], **now} if isinstance(now, dict) else now

    def _compare(
        self,
        group: str,
        partition: TopicPartition,
        write: Write,
        now: CommittedOffset | KgError | None,
    ) -> None:
        if isinstance(now, KgError):
            self._settle(group, partition, now)
        elif not same_commit(now, write.old):
            self.doubtful[group].discard(partition)
            is_done = same_commit(now, write.new)
            self._settle(group, partition, None if is_done else changed_meanwhile(write.old, now))

    def _settle(self, group: str, partition: TopicPartition, error: KgError | None) -> None:
        self.outcomes[group][partition] = error
        del self._left[group][partition]

    # -- sending --------------------------------------------------------------------------

    def _take(
        self, broker: int, group: str, partition: TopicPartition, error: KgError | None
    ) -> None:
        self.outcomes[group][partition] = error
        if error is None:
            self.doubtful[group].discard(partition)
        elif _is_open(error):
            self.doubtful[group].add(partition)
            if error.maybe_done:
                self.lost[group].add(partition)
                self._silent[group] = broker
        if error is None or not (_is_transient(error) or error.maybe_done):
            del self._left[group][partition]

    def _worth_another_try(self, group: str) -> KgError | None:
        """Return a failure that ``by_coordinator`` knows how to overcome, if there is one."""
        errors = [self.outcomes[group].get(partition) for partition in self._left[group]]
        for error in errors:
            if error is None or isinstance(error, DeadlineExceeded):
                continue
            if error.code not in _SAME_COORDINATOR:
                return error
            if self._tries[group] < TRIES:
                self._tries[group] += 1
                return broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS)
        return None

    # -- topic ids ------------------------------------------------------------------------

    def _compare_ids(self, broker: int) -> Operation[dict[str, KgError]]:
        """Return the re-created topics where the coordinator does not check that (before v10)."""
        version = yield from version_of(broker, offset_commit.Request)
        if isinstance(version, KgError) or version > NAMES_VERSION:
            return {}
        return (yield from self._recreated([name for name, known in self._ids.items() if known]))

    def _refused(self, found: Mapping[str, Any]) -> Operation[dict[str, KgError]]:
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
            yield from fetch_metadata(self._cluster, names)
        except KgError as error:
            return dict.fromkeys(names, error)
        refused: dict[str, KgError] = {}
        for name in names:
            then, topic = self._ids[name], self._cluster.topics[name]
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


def _is_transient(error: KgError) -> bool:
    if isinstance(error, BrokerError):
        return error.code in (*_COORDINATOR_MOVES, *_SAME_COORDINATOR)
    return isinstance(error, NetworkError) and not isinstance(error, DeadlineExceeded)


# ---------------------------------------------------------------------------------------------
# Deletions


def _delete(cluster: Cluster, deletions: Mapping[str, Writes]) -> Operation[dict[str, Outcome]]:
    """Delete offsets that have not changed; those that are gone already are done."""
    found = yield from fetch_selected(cluster, {g: list(w) for g, w in deletions.items()})
    outcomes: dict[str, Outcome] = {group: {} for group in deletions}
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


def _deleted(partitions: list[TopicPartition], answer: Any) -> Outcome:
    if isinstance(answer, KgError):
        # A group that is gone took its offsets with it.
        gone = answer.code == codes.GROUP_ID_NOT_FOUND
        return dict.fromkeys(partitions, None if gone else answer)
    found = {p: answer[p] for p in partitions}  # an error code, or what took its place
    return {
        p: code if isinstance(code, KgError) else broker_error(code) if code else None
        for p, code in found.items()
    }
