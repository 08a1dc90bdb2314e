"""When committed offsets expire on a living cluster, and by which rule.

Three sources: DescribeGroups has a group's state and members; the brokers' configuration and
release tell which rules hold; when something was committed, and since when a classic group is
Empty, is only in ``__consumer_offsets``. Of that only the group's own partition is read, and only
the last stretch of one retention and one check: what was committed before is protected or
removed. Where something has lost its protection since, an earlier stretch is read, as far back as
necessary.

What is unknown has no ``rule``, and an error with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.client import denied
from kgtool.client.cluster import Cluster, TopicInfo, fetch_topic, find_coordinators
from kgtool.client.ops import Operation, gather, grouped
from kgtool.errors import KgError
from kgtool.model import GroupDescription, GroupOffsets, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.group_state import GroupState, state_of
from kgtool.queries.log.reader import Stretch
from kgtool.queries.log.scan import GroupLog, scan
from kgtool.queries.offsets.fetch import Committed, offsets_of
from kgtool.retention import rules as r
from kgtool.retention.rules import CommittedOffset, GroupSnapshot, verdict
from kgtool.retention.unseen_loads import after_load, one_date
from kgtool.text import counted, moment

SLACK_MS = 3_600_000
"""How much earlier reading begins: clocks differ, and a check may be late."""
USUAL_RETENTION_MS = 7 * 86_400_000
"""Kafka's default since 2.0: where to begin to read if the broker's own is unknown."""
FURTHER_BACK = 4
"""The second stretch is this many times as long as the first; the third is the whole log."""


class Expiry(NamedTuple):
    """When one offset expires; times in ms since the epoch.

    ``expires_at_ms``: the earliest moment at which the broker may remove it, which it does within
    one check after that; None: never as things stand. ``rule`` is one of ``retention.rules.RULES``,
    None where it is unknown. Where the commit was not read because nothing depends on it,
    ``committed_before_ms`` is the time at which reading began. ``is_pending``: an open transaction
    is about to change it. ``latest_ms``: of two dates of which a restart decides, the later.
    """

    committed_at_ms: int | None = None
    expires_at_ms: int | None = None
    rule: str | None = None
    committed_before_ms: int | None = None
    is_pending: bool = False
    latest_ms: int | None = None


class Question(NamedTuple):
    """A group, and its committed offsets: whether a transaction is pending for each."""

    description: GroupDescription
    pending: Mapping[TopicPartition, bool]

    @classmethod
    def of(cls, description: GroupDescription, committed: Committed | KgError) -> Question:
        """Make one of what OffsetFetch has answered for a group."""
        return cls(description, {p: v.is_pending for p, v in offsets_of(committed).items()})

    @classmethod
    def of_rows(cls, found: GroupOffsets) -> Question:
        """Make one of what ``describe_offsets`` has found of a group."""
        rows = (row for row in found.rows if row.current_offset is not None)
        pending = {row.topic_partition: row.is_pending for row in rows}
        return cls(found.description, pending)


class GroupExpiry(NamedTuple):
    """One group's answers; ``snapshot`` is the group as the rules see it, None if unknown.

    Offsets that were deleted after they were asked for are not among them.
    """

    group: str
    broker: BrokerRules | None
    snapshot: GroupSnapshot | None
    offsets: dict[TopicPartition, Expiry]

    @property
    def is_known(self) -> bool:
        """Whether every offset has a rule."""
        return all(expiry.rule is not None for expiry in self.offsets.values())

    def subscribes(self, topic: str) -> bool | None:
        """Whether the group's coordinator counts a topic as subscribed; None: unknown."""
        if self.broker is None or self.snapshot is None:
            return None
        loaded = after_load(self.broker.rules, self.snapshot, topic).subscribed_topics
        known = self.snapshot.subscribed_topics
        if known is None or loaded is None or (topic in known) != (topic in loaded):
            return None
        return topic in known


class Expiries(NamedTuple):
    """The answers by group, and why something of them is unknown, each reason once."""

    groups: dict[str, GroupExpiry]
    errors: list[ItemError]


def find_expiries(
    cluster: Cluster,
    questions: Sequence[Question],
    now_ms: int,
    *,
    all_times: bool = True,
    log: Mapping[str, Stretch | KgError] | None = None,
) -> Operation[Expiries]:
    """Find when every offset expires; groups in one partition share the reading of it.

    :param now_ms: only decides where reading begins, and the time of what is overdue.
    :param all_times: read the log also where only commit times depend on it.
    :param log: what was read of the groups' log already; more is read where that is not enough.
    """
    search = _Search(now_ms, all_times)
    located = yield from find_coordinators(cluster, [q.description.group for q in questions])
    brokers = [node for node in located.values() if isinstance(node, int)]
    rules, topic = yield from gather([rules_of(cluster, brokers), fetch_topic(cluster, TOPIC)])
    for question in questions:
        node = located[question.description.group]
        search.add(question, rules[node] if isinstance(node, int) else node, node)
    for group in search.groups:
        if topic.leaders:
            group.partition = offsets_partition(group.name, len(topic.leaders))
        group.epoch = topic.epochs.get(group.partition, -1)
        stretch = (log or {}).get(group.name)
        if isinstance(stretch, Stretch):
            group.learn(stretch)
        elif stretch is not None:  # it is not tried again
            search.fail([group], stretch)
    streams = [g.name for g in search.groups if g.question.description.type == r.TYPE_STREAMS]
    if streams:
        from kgtool.queries.groups.share_and_streams import streams_topics

        search.shared.topologies.update((yield from streams_topics(cluster, streams)))
    yield from _read(cluster, search, topic)
    return search.finish()


# ---------------------------------------------------------------------------------------------
# Reading


def _read(cluster: Cluster, search: _Search, topic: TopicInfo) -> Operation[None]:
    """Read stretches of the partitions, each longer than the one before, until all is known."""
    if topic.error is not None:
        search.fail(search.groups, topic.error)
        return
    for step in (1, FURTHER_BACK, None):
        unread = search.unread()
        if not unread:
            break
        parts = grouped((group.partition, group) for group in unread)
        logs = {
            number: GroupLog(groups[0].rules, [group.name for group in groups])
            for number, groups in parts.items()
        }
        begin_ms = None if step is None else search.begin_ms(unread, step)
        found = yield from scan(cluster, {n: log.feed for n, log in logs.items()}, begin_ms)
        for number, groups in parts.items():
            part = found[number]
            if isinstance(part, KgError):
                search.fail(groups, part)
                continue
            for group in groups:
                group.learn(Stretch(logs[number], part.before_ms))


def denied_log(error: KgError, so: str = "so when offsets expire is unknown") -> KgError:
    """Name the ACL that is missing, and what follows."""
    if error.code != codes.TOPIC_AUTHORIZATION_FAILED:
        return error
    said = f"Not allowed to read {TOPIC}, {so}."
    return denied.needs(codes.TOPIC_AUTHORIZATION_FAILED, said, "READ", f"topic {TOPIC}")


# ---------------------------------------------------------------------------------------------
# Judging


class _Shared(NamedTuple):
    """What all groups of one call share. Not ``_Search`` itself: a cycle would keep the log in
    memory, as kgtool's collector of cycles hardly ever runs."""

    now_ms: int
    all_times: bool
    topologies: dict[str, frozenset[str] | None]


class _Group:
    """One group while its answers are being found."""

    def __init__(self, question: Question, broker: BrokerRules | None, shared: _Shared) -> None:
        self.name = question.description.group
        self.question = question
        self.broker = broker
        self.partition = self.epoch = -1
        """The group's partition of the log, and the epoch of its leader; -1: unknown."""
        self.log: GroupLog | None = None
        self.is_whole = False
        self._before_ms: int | None = None
        self._shared = shared
        self._known: dict[TopicPartition, Expiry] = {}
        self.by_load: list[tuple[r.Verdict, r.Verdict]] = []
        """Two verdicts each: with and without a load that no log shows."""

    @property
    def rules(self) -> r.RuleSet:
        assert self.broker is not None
        return self.broker.rules

    def learn(self, stretch: Stretch) -> None:
        """Take what a stretch of the log says."""
        self.log, self._before_ms = stretch
        self.log.reach(self.epoch)  # nothing may have been written since
        self.is_whole = self._before_ms is None
        self._known.clear()
        self.by_load.clear()

    def needs_log(self) -> bool:
        """Whether something depends on a part of the log that was not read yet."""
        if self.broker is None or self.is_whole or not self.question.pending:
            return False
        if self.log is None and self._shared.all_times:
            return True
        if self.log is not None and self.log.is_doubtful:
            return True
        if self.broker.retention_ms is None and self.log is not None:
            return False  # it stays unknown, however far back the log is read
        self._judge_all()
        return len(self._known) < len(self.question.pending)

    def _state(self) -> GroupState | None:
        """Return the group as the rules see it, as far as is known."""
        topics = self._shared.topologies.get(self.name)
        return state_of(self.question.description, self.log, self.is_whole, topics)

    def finish(self) -> GroupExpiry:
        """Judge every offset by what is known now."""
        if self.broker is None:
            blank = dict.fromkeys(self.question.pending, Expiry())
            return GroupExpiry(self.name, None, None, blank)
        self._judge_all()
        offsets: dict[TopicPartition, Expiry] = {}
        for partition, is_pending in self.question.pending.items():
            expiry = self._known.get(partition) or self._unjudged(partition)
            if expiry is not None:
                is_read = expiry.committed_at_ms is not None
                # Brokers before 2.5 don't report transactions; the log shows them.
                is_held = self.log is not None and self.log.is_pending(self.name, partition)
                offsets[partition] = expiry._replace(
                    committed_before_ms=None if is_read else self._before_ms,
                    is_pending=is_held or is_pending,
                )
        state = self._state()
        snapshot = None if state is None else state.snapshot
        return GroupExpiry(self.name, self.broker, snapshot, offsets)

    def _judge_all(self) -> None:
        """Judge what is not judged yet, as far as possible."""
        state = self._state()
        for partition in self.question.pending:
            if partition not in self._known:
                found = self._judge(partition, state)
                if found is not None:
                    self._known[partition] = found

    def _unjudged(self, partition: TopicPartition) -> Expiry | None:
        """Return what is known without a rule; None: it was deleted after it was fetched."""
        committed = self._commit(partition)
        if committed is not None:
            return Expiry(committed.commit_timestamp_ms)
        return None if self.is_whole and self._is_deleted(partition) else Expiry()

    def _commit(self, partition: TopicPartition) -> CommittedOffset | None:
        return None if self.log is None else self.log.commit(self.name, partition)

    def _is_deleted(self, partition: TopicPartition) -> bool:
        return self.log is not None and self.log.is_deleted(self.name, partition)

    def _judge(self, partition: TopicPartition, state: GroupState | None) -> Expiry | None:
        """Return when an offset expires; None: more of the log has to be known."""
        assert self.broker is not None
        if state is None or not self.broker.is_kafka:
            return None
        committed = self._commit(partition)
        if committed is None and self._is_deleted(partition):
            return None  # a transaction from before this stretch may have brought it back
        offset, is_pending = committed or CommittedOffset(0), self.question.pending[partition]
        rest = (offset, partition.topic, self.broker.retention_ms or 0, is_pending)
        said = verdict(self.broker.rules, state.snapshot, *rest)
        if said.rule != r.RULE_SUBSCRIBED and state.may_subscribe_more:
            return None
        loaded = state.snapshot and after_load(self.broker.rules, state.snapshot, partition.topic)
        other = said if loaded is state.snapshot else verdict(self.broker.rules, loaded, *rest)
        if committed is None and (said.expires_at_ms, other.expires_at_ms) != (None, None):
            return None
        at = None if committed is None else committed.commit_timestamp_ms
        said, other = (self._from_now_on(partition, each) for each in (said, other))
        if other != said:
            told = one_date(said, other, self._shared.now_ms, self.broker.interval_ms or 0)
            if told is None:
                self.by_load.append((other, said))
                dates = said.expires_at_ms, other.expires_at_ms
                return Expiry(at, latest_ms=None if None in dates else max(filter(None, dates)))
            said = told
        has_date = said.expires_at_ms is not None
        if has_date and self.broker.retention_ms is None and said.rule != r.RULE_EXPLICIT:
            return None
        return Expiry(at, *said)

    def _from_now_on(self, partition: TopicPartition, said: r.Verdict) -> r.Verdict:
        """The verdict; what is overdue became due when its protection ended, if that is later."""
        due_ms, now_ms = said.expires_at_ms, self._shared.now_ms
        if due_ms is None or due_ms >= now_ms or self.log is None:
            return said
        free_ms = self.log.free_since_ms(self.name, partition)
        return said._replace(expires_at_ms=max(due_ms, min(free_ms, now_ms)))


class _Search:
    """All groups of one call, and what keeps their answers from being known."""

    def __init__(self, now_ms: int, all_times: bool) -> None:
        self.shared = _Shared(now_ms, all_times, {})
        self.groups: list[_Group] = []
        self._problems: list[tuple[_Group, ItemError]] = []
        self._failed: set[str] = set()

    def add(self, question: Question, broker: BrokerRules | KgError, node: int | KgError) -> None:
        known = broker if isinstance(broker, BrokerRules) else None
        group = _Group(question, known, self.shared)
        self.groups.append(group)
        error = broker if isinstance(broker, KgError) else broker.error
        if error is not None:
            target = Target(broker=node) if isinstance(node, int) else Target(group=group.name)
            target = Target() if known is not None and not known.is_kafka else target
            self._problems.append((group, ItemError.of(error, target)))

    def unread(self) -> list[_Group]:
        """Return the groups for which more of the log has to be read."""
        return [g for g in self.groups if g.name not in self._failed and g.needs_log()]

    def fail(self, groups: Sequence[_Group], error: KgError) -> None:
        """Note that a partition of the log can't be read."""
        self._failed.update(group.name for group in groups)
        item = ItemError.of(denied_log(error), Target(topic=TOPIC))
        self._problems += [(group, item) for group in groups if group.question.pending]

    def begin_ms(self, groups: Sequence[_Group], step: int) -> int:
        """Return where a stretch begins: before all that can still expire for these groups."""
        longest = max(
            (group.broker.retention_ms or USUAL_RETENTION_MS) + (group.broker.interval_ms or 0)
            for group in groups
            if group.broker is not None
        )
        return max(self.shared.now_ms - step * longest - SLACK_MS, 0)

    def finish(self) -> Expiries:
        """Judge everything; problems of groups whose rules are all known don't matter."""
        answers = {group.name: group.finish() for group in self.groups}
        unknown = [group for group in self.groups if not answers[group.name].is_known]
        names = {group.name for group in unknown}
        errors = [error for group, error in self._problems if group.name in names]
        for group in unknown:
            broker = group.broker
            if broker is not None and broker.error is None and group.name not in self._failed:
                error = _by_load(group, self.shared.now_ms) if group.by_load else _incomplete(group)
                errors.append(ItemError.of(error, Target(group=group.name)))
        return Expiries(answers, list(dict.fromkeys(errors)))


def _incomplete(group: _Group) -> KgError:
    error = KgError(
        f"{TOPIC} lacks what is needed to say when the offsets of group {group.name} expire.",
        hint="Ask again: it may have changed while it was read.",
    )
    error.name = "INCOMPLETE_LOG"
    return error


def _by_load(group: _Group, now_ms: int) -> KgError:
    """Say what a restart that no log shows decides: two dates, or topics (``unseen_loads``)."""
    restarted, not_restarted = (
        [each.expires_at_ms for each in verdicts] for verdicts in zip(*group.by_load, strict=True)
    )
    offsets = f"{counted(len(restarted), 'offset')} of group {group.name} may expire is unknown"
    if None in restarted + not_restarted:
        said = (
            f"Whether {offsets}: a static member is back with other topics. They count if the "
            "group's broker has restarted since, else those before."
        )
    else:
        said = (
            f"When {offsets}: {_earliest(restarted, now_ms)} if its broker has restarted since the "
            f"group changed, else {_earliest(not_restarted, now_ms)}."
        )
    error = KgError(said, hint="No log shows the restart of a single broker.")
    error.name = "UNSEEN_RESTART"
    return error


def _earliest(times: Iterable[int | None], now_ms: int) -> str:
    first = min(filter(None, times))
    return "at the next check" if first <= now_ms else f"from {moment(first)} on"
