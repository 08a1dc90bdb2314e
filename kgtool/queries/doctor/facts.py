"""Everything that ``doctor`` looks at, gathered with as few requests as that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, Pause, gather, within
from kgtool.errors import KgError
from kgtool.model import GroupDescription, GroupOffsets, ItemError, Member, Target
from kgtool.protocol import codes
from kgtool.protocol.wire import id_text
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.cluster.open_transactions import Transactions, open_transactions
from kgtool.queries.doctor.brokers import Brokers, look_at_brokers
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.log.commit_times import CommitTimes, commit_times, read_log
from kgtool.queries.log.expiry import (
    SLACK_MS,
    USUAL_RETENTION_MS,
    Expiries,
    Question,
    find_expiries,
)
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.retention.rules import RULES_4_1

SETTLE_S = 6.0
"""Between two looks at a group that rebalances: more than the 5 s between the heartbeats of
KIP-848 members (``group.consumer.heartbeat.interval.ms``)."""

GROUPS_SHARE, LOG_SHARE = 0.7, 0.9
"""Of the time that is left: what the groups themselves may take, then the log. Somebody who does
not answer leaves time for what was found to be judged."""

Family = Callable[[str], "str | None"]
"""Returns the family of a name that a tool has made up; None for other names."""


class Ask(NamedTuple):
    """What is asked for. Times in ms; ``everywhere``: of the whole cluster, not of some groups."""

    now_ms: int
    within_ms: int
    everywhere: bool
    family: Family
    waiting: Callable[[int], None] | None = None
    """Told before ``SETTLE_S`` are waited for, for how many groups."""
    clock: Callable[[], int] | None = None
    """Find out ``lag_ms`` too, by this clock."""


class Facts(NamedTuple):
    """What was found. ``groups`` without those that were deleted since they were listed.

    ``times`` and ``expiries`` are empty where no group has offsets; ``later``: how groups were,
    some seconds on, that did not look settled; ``topic_ids``: as they are now.
    """

    ask: Ask
    groups: list[GroupOffsets]
    brokers: Brokers
    times: Mapping[str, CommitTimes | KgError]
    expiries: Expiries
    transactions: Transactions
    later: Mapping[str, GroupDescription]
    topic_ids: Mapping[str, str | None]
    errors: list[ItemError]
    """What could not be looked at, but for the errors that groups have themselves."""


def gather_facts(
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str], ask: Ask
) -> Operation[Facts]:
    """Look at the cluster and at groups.

    :param kinds: the types of groups that were listed: those may go away unnoticed.
    """
    described, brokers = yield from gather(
        [
            within(describe_offsets(cluster, groups, kinds=kinds, clock=ask.clock), GROUPS_SHARE),
            within(look_at_brokers(cluster, groups, everywhere=ask.everywhere), GROUPS_SHARE),
        ]
    )
    found = [g for g in described if not (_is_gone(g) and g.description.group in kinds)]
    topic_ids = {
        name: id_text(topic.topic_id) for name, topic in cluster.topics.items() if not topic.error
    }
    (times, expiries, errors), transactions, later = yield from gather(
        [
            within(_of_the_log(cluster, found, brokers, ask), LOG_SHARE),
            within(_transactions(cluster, found, brokers), LOG_SHARE),
            _look_again(cluster, found, kinds, ask),
        ]
    )
    return Facts(ask, found, brokers, times, expiries, transactions, later, topic_ids, errors)


def _is_gone(found: GroupOffsets) -> bool:
    error = found.description.error
    return error is not None and error.code == codes.GROUP_ID_NOT_FOUND


_Log = tuple[dict[str, "CommitTimes | KgError"], Expiries, list[ItemError]]


def _of_the_log(
    cluster: Cluster, groups: Sequence[GroupOffsets], brokers: Brokers, ask: Ask
) -> Operation[_Log]:
    """Find out when offsets were committed, of which topic, and when they expire."""
    asked = [Question.of_rows(found) for found in groups if found.description.error is None]
    questions = [question for question in asked if question.pending]
    if not questions:
        return {}, Expiries({}, []), []
    wanted = {question.description.group: question.pending for question in questions}
    since_ms = ask.now_ms - (brokers.retention_ms or USUAL_RETENTION_MS) - SLACK_MS
    try:
        log = yield from read_log(cluster, list(wanted), since_ms)
        times = commit_times(log, wanted)
        expiries = yield from find_expiries(
            cluster, questions, ask.now_ms, all_times=False, log=log
        )
    except KgError as error:
        return {}, Expiries({}, []), [ItemError.of(error, Target())]
    return times, expiries, expiries.errors


def _transactions(
    cluster: Cluster, groups: Sequence[GroupOffsets], brokers: Brokers
) -> Operation[Transactions]:
    """Look for the transactions that hold back commits of groups."""
    rows, count = brokers.home.partitions, brokers.home.size
    homes = {
        found.description.group: offsets_partition(found.description.group, count)
        for found in groups
        if count and any(row.is_pending for row in found.rows)
    }
    numbers = set(homes.values())
    leaders = {n: rows[n].leader_id for n in numbers if n in rows and rows[n].leader_id >= 0}
    known = (each.rules for each in brokers.rules.values() if isinstance(each, BrokerRules))
    return open_transactions(cluster, homes, leaders, next(known, RULES_4_1))


def _look_again(
    cluster: Cluster, groups: Sequence[GroupOffsets], kinds: dict[str, str], ask: Ask
) -> Operation[dict[str, GroupDescription]]:
    """Describe groups that are not settled once more, some seconds later."""
    names = [found.description.group for found in groups if not is_settled(found.description)]
    if not names:
        return {}
    if ask.waiting is not None:
        ask.waiting(len(names))
    yield Pause(SETTLE_S)
    later = yield from describe_groups(cluster, names, kinds)
    return {found.group: found for found in later}


def errors_of(found: GroupOffsets) -> list[ItemError]:
    """Return why something of a group is not known."""
    error = found.description.error
    return found.errors if error is None or found.errors else [error]


def is_behind(member: Member, group: GroupDescription) -> bool:
    """Whether a member of a KIP-848 group has something to give up, or has not come back since.

    Whoever waits for what others are to give up is at the group's epoch.
    """
    if member.epoch is None or group.group_epoch is None:
        return False
    return member.epoch < group.group_epoch


def is_settled(group: GroupDescription) -> bool:
    """Whether nobody has to do anything before all of the group reads."""
    if group.error is not None:
        return True
    return not (group.is_rebalancing or any(is_behind(m, group) for m in group.members))
