"""Everything that ``doctor`` judges, gathered with as few requests as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, Pause, gather, within
from kgtool.errors import KgError
from kgtool.model import (
    GroupDescription,
    GroupOffsets,
    ItemError,
    Member,
    OffsetRow,
    Target,
    TopicPartition,
)
from kgtool.protocol import codes
from kgtool.protocol.wire import id_text
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.cluster.transactions import Transactions, open_transactions
from kgtool.queries.doctor.broker_facts import BrokerFacts, fetch_broker_facts
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.groups.share_and_streams import OtherGroup, describe_missing
from kgtool.queries.log.commit_times import CommitTime, CommitTimes, commit_times, read_log
from kgtool.queries.log.expiry import (
    SLACK_MS,
    USUAL_RETENTION_MS,
    Expiries,
    Expiry,
    Question,
    find_expiries,
)
from kgtool.queries.offsets.at_risk import AtRisk, find_at_risk
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.retention.rules import RULES_4_1
from kgtool.text import shell_word

SETTLE_S = 6.0
"""Between two descriptions of a group that rebalances: more than the 5 s between the heartbeats
of KIP-848 members (``group.consumer.heartbeat.interval.ms``)."""

GROUPS_SHARE, LOG_SHARE = 0.7, 0.9
"""Of the time that is left, for the groups themselves, then for the log: a broker that does not
answer leaves time for the rest."""


class DoctorOptions(NamedTuple):
    """Times in ms; ``everywhere``: examine the whole cluster, not only some groups."""

    now_ms: int
    within_ms: int
    everywhere: bool
    family: Callable[[str], str | None]
    """Returns the family of a generated group name; None for other names."""
    waiting: Callable[[int], None] | None = None
    """Called with the number of rebalancing groups before a pause of ``SETTLE_S``."""
    clock: Callable[[], int] | None = None
    """Find ``lag_ms`` too, by this clock."""


class Facts(NamedTuple):
    """What was found. ``groups`` without those that were deleted since they were listed.

    ``times`` and ``expiries`` are empty where no group has offsets; ``later``: groups that were
    not settled, described some seconds later; ``topic_ids``: the current ones. ``errors``: all but
    those of the groups themselves.
    """

    options: DoctorOptions
    groups: list[GroupOffsets]
    brokers: BrokerFacts
    times: Mapping[str, CommitTimes | KgError]
    expiries: Expiries
    transactions: Transactions
    later: Mapping[str, GroupDescription]
    topic_ids: Mapping[str, str | None]
    errors: list[ItemError]
    at_risk: Mapping[tuple[str, TopicPartition], AtRisk] = {}

    def commit_time(self, row: OffsetRow) -> CommitTime | None:
        """Return when a row was committed; None where the log does not tell."""
        times = self.times.get(row.group)
        return None if not isinstance(times, CommitTimes) else times.at.get(row.topic_partition)

    def idle_ms(self, group: str) -> int | None:
        """Return for how long a group with offsets has not been used, at least; None: unknown."""
        times = self.times.get(group)
        if not isinstance(times, CommitTimes) or not (times.at or times.before_ms):
            return None
        commits = (at.at_ms for at in times.at.values())
        return self.options.now_ms - max(*commits, times.before_ms or 0, times.changed_ms or 0)

    def expiry(self, row: OffsetRow) -> Expiry | None:
        """Return when a row expires; None where it was not asked for, or was deleted."""
        known = self.expiries.groups.get(row.group)
        return known.offsets.get(row.topic_partition) if known is not None else None


def gather_facts(
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str], options: DoctorOptions
) -> Operation[Facts]:
    """Ask the cluster.

    :param kinds: the types of groups that were listed; it is no error if those are deleted now.
    """
    described, brokers = yield from gather(
        [
            within(
                describe_offsets(cluster, groups, kinds=kinds, clock=options.clock, whole=True),
                GROUPS_SHARE,
            ),
            within(
                fetch_broker_facts(cluster, groups, options.now_ms, everywhere=options.everywhere),
                GROUPS_SHARE,
            ),
        ]
    )
    found = [g for g in described if not (_is_missing(g) and g.description.group in kinds)]
    found = yield from _name_types(cluster, found)
    topic_ids = {
        name: id_text(topic.topic_id) for name, topic in cluster.topics.items() if not topic.error
    }
    (times, expiries, errors), transactions, later, at_risk = yield from gather(
        [
            within(_log_facts(cluster, found, brokers, options), LOG_SHARE),
            within(_transactions(cluster, found, brokers), LOG_SHARE),
            _describe_again(cluster, found, kinds, options),
            within(find_at_risk(cluster, found, options.now_ms, options.within_ms), LOG_SHARE),
        ]
    )
    return Facts(
        options, found, brokers, times, expiries, transactions, later, topic_ids, errors, at_risk
    )


def _is_missing(found: GroupOffsets) -> bool:
    error = found.description.error
    return error is not None and error.code == codes.GROUP_ID_NOT_FOUND


def _name_types(cluster: Cluster, groups: list[GroupOffsets]) -> Operation[list[GroupOffsets]]:
    """Replace "not found" where it is a share or streams group, or one that is lost."""
    missing = [found.description.group for found in groups if _is_missing(found)]
    if not missing:
        return groups
    others = yield from describe_missing(cluster, missing)
    return [_with_type(found, others.get(found.description.group)) for found in groups]


def _with_type(found: GroupOffsets, other: OtherGroup | ItemError | None) -> GroupOffsets:
    if other is None:
        return found
    error = other if isinstance(other, ItemError) else _other_type(other.description)
    return found._replace(description=found.description._replace(error=error))


def _other_type(group: GroupDescription) -> ItemError:
    said = f"Group '{group.group}' is a {group.type} group, and only consumer groups are examined."
    hint = f"kgtool describe --group {shell_word(group.group)} shows it."
    return ItemError(Target(group=group.group), None, "WRONG_GROUP_TYPE", said, hint)


_Log = tuple[dict[str, "CommitTimes | KgError"], Expiries, list[ItemError]]


def _log_facts(
    cluster: Cluster, groups: Sequence[GroupOffsets], brokers: BrokerFacts, options: DoctorOptions
) -> Operation[_Log]:
    """Find when offsets were committed, for which topic, and when they expire."""
    asked = [Question.of_rows(found) for found in groups if found.description.error is None]
    questions = [question for question in asked if question.pending]
    if not questions:
        return {}, Expiries({}, []), []
    wanted = {question.description.group: question.pending for question in questions}
    since_ms = options.now_ms - (brokers.retention_ms or USUAL_RETENTION_MS) - SLACK_MS
    try:
        log = yield from read_log(cluster, list(wanted), since_ms)
        times = commit_times(log, wanted)
        expiries = yield from find_expiries(
            cluster, questions, options.now_ms, all_times=False, log=log
        )
    except KgError as error:
        return {}, Expiries({}, []), [ItemError.of(error, Target())]
    return times, expiries, expiries.errors


def _transactions(
    cluster: Cluster, groups: Sequence[GroupOffsets], brokers: BrokerFacts
) -> Operation[Transactions]:
    """Find the transactions that hold back commits of groups."""
    rows, count = brokers.offsets_topic.partitions, brokers.offsets_topic.size
    homes = {
        found.description.group: offsets_partition(found.description.group, count)
        for found in groups
        if count and any(row.is_pending for row in found.rows)
    }
    numbers = set(homes.values())
    leaders = {n: rows[n].leader_id for n in numbers if n in rows and rows[n].leader_id >= 0}
    known = (each.rules for each in brokers.rules.values() if isinstance(each, BrokerRules))
    return open_transactions(cluster, homes, leaders, next(known, RULES_4_1))


def _describe_again(
    cluster: Cluster, groups: Sequence[GroupOffsets], kinds: dict[str, str], options: DoctorOptions
) -> Operation[dict[str, GroupDescription]]:
    """Describe groups that are not settled again, some seconds later."""
    names = [found.description.group for found in groups if not is_settled(found.description)]
    if not names:
        return {}
    if options.waiting is not None:
        options.waiting(len(names))
    yield Pause(SETTLE_S)
    later = yield from describe_groups(cluster, names, kinds)
    return {found.group: found for found in later}


def errors_of(found: GroupOffsets) -> list[ItemError]:
    """Return why something of a group is not known."""
    error = found.description.error
    return found.errors if error is None or found.errors else [error]


def is_abandoned(facts: Facts, group: GroupDescription) -> bool:
    """Whether a group is unknown, or Empty with a generated name: part of a pile at most."""
    if group.error is not None:
        return True
    return group.is_empty and facts.options.family(group.group) is not None


def is_behind(member: Member, group: GroupDescription) -> bool:
    """Whether a member of a KIP-848 group has partitions to revoke, or no heartbeat since.

    A member that waits for partitions of others is at the group's epoch.
    """
    if member.epoch is None or group.group_epoch is None:
        return False
    return member.epoch < group.group_epoch


def is_settled(group: GroupDescription) -> bool:
    """Whether no member has to act before all of them can read."""
    if group.error is not None:
        return True
    return not (group.is_rebalancing or any(is_behind(m, group) for m in group.members))
