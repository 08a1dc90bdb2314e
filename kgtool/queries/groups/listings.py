"""Which groups there are (ListGroups, asked of every broker).

Each broker lists the groups that it coordinates, without those that are moving. The metadata lags
behind the death of a broker: on three brokers with 600 groups the survivors listed 399 for 9.5 s,
without any error, and then 597 for a moment. So wherever a broker failed, a partition of
``__consumer_offsets`` has no living leader, or replicas are out of sync, the brokers are asked
again until every partition has a living leader and two listings a second apart agree. A broker
that has not answered by then is an error, whatever else is known; one that will never answer (not
authorized, too old) is an error at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kgtool.client.answers import is_permanent, refused
from kgtool.client.cluster import Cluster, ask_metadata, version_of
from kgtool.client.ops import (
    Call,
    DeadlineExceeded,
    Operation,
    Pause,
    Versions,
    call,
    gather,
    grouped,
    pipelined,
)
from kgtool.errors import KgError, UnsupportedVersion
from kgtool.model import GroupDescription, GroupListing, ItemError, Listing, Target
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_describe, metadata
from kgtool.protocol.api import list_groups as list_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.text import listed

SECONDS_BETWEEN = 1.0
COMPLETE_ROUNDS = 5
"""Complete listings after which differences don't matter: groups may come and go all the time."""
BLIND_ROUNDS = 12
"""The most listings while a broker fails and the topic's leaders are unknown."""
HOPELESS_ROUNDS = 3
"""The most listings while partitions wait for a replica that is down."""


def list_once(cluster: Cluster) -> Operation[Listing]:
    """Ask every broker once, and describe nothing: which groups are listed now?"""
    answers = yield from ask_all(cluster, (), ())
    rows = {row.group: row for part in answers.rows.values() for row in part}
    return Listing(sorted(rows.values()), [e for _, e in sorted(answers.errors().items())])


class Answers(NamedTuple):
    """One listing by all brokers, by broker id."""

    rows: dict[int, list[GroupListing]]
    failures: dict[int, KgError]
    leaders: dict[int, int] | None
    """Partition of ``__consumer_offsets`` → broker id; None where the topic is hidden or does not
    exist (brokers that are not Apache Kafka keep offsets elsewhere)."""
    is_degraded: bool
    is_hopeless: bool

    @property
    def leaderless(self) -> list[int]:
        """The partitions whose groups no broker can have listed."""
        leaders = self.leaders or {}
        return [number for number, leader in leaders.items() if leader not in self.rows]

    @property
    def passing(self) -> set[int]:
        """The brokers that failed and may answer later."""
        return {broker for broker, error in self.failures.items() if not is_permanent(error)}

    @property
    def is_suspect(self) -> bool:
        """Whether another listing may have more."""
        refusing = self.failures.keys() - self.passing
        leaders = self.leaders or {}
        waiting = [number for number in self.leaderless if leaders[number] not in refusing]
        return bool(self.passing or waiting or self.is_degraded)

    @property
    def is_complete(self) -> bool:
        """Whether every group has a broker that may have listed it."""
        return not (self.failures if self.leaders is None else self.leaderless)

    @property
    def names(self) -> set[str]:
        """The names of all groups."""
        return {row.group for part in self.rows.values() for row in part}

    def errors(self) -> dict[int, ItemError]:
        """Return the errors of brokers, and of partitions without a leader (-1)."""
        failures = self.failures.values()
        if not self.rows and all(isinstance(error, UnsupportedVersion) for error in failures):
            from kgtool.protocol.capabilities import no_broker_offers

            return {-1: ItemError.of(no_broker_offers(list_groups_api.Request.NAME), Target())}
        found = {b: ItemError.of(e, Target(broker=b)) for b, e in self.failures.items()}
        lost = [n for n in self.leaderless if (self.leaders or {})[n] not in found]
        if lost:
            found[-1] = _leaderless(lost, len(self.leaders or ()))
        return found


def _leaderless(partitions: list[int], of: int) -> ItemError:
    shown = listed(partitions, 5)
    error = broker_error(
        codes.COORDINATOR_NOT_AVAILABLE,
        f"{len(partitions)} of {of} partitions of {TOPIC} have no leader ({shown}): "
        "the groups in them are missing here.",
        hint="Start the brokers that hold them.",
    )
    return ItemError.of(error, Target(topic=TOPIC))


def ask_until_stable(
    cluster: Cluster, first: Answers, states: Sequence[str], types: Sequence[str]
) -> Operation[Answers]:
    """Ask all brokers again until two listings agree, and every group may have been listed."""
    before, complete = first, 0
    attempt = 0
    while True:
        yield Pause(SECONDS_BETWEEN)
        attempt += 1
        now = yield from ask_all(cluster, states, types)
        if any(isinstance(error, DeadlineExceeded) for error in now.failures.values()):
            return _with_earlier(now, before)
        complete += now.is_complete
        # A coordinator that has just taken over doesn't list what it still loads: missing the
        # same groups twice is no agreement.
        agree = before.is_complete == now.is_complete and now.names == before.names
        if now.is_complete and (agree and not now.passing or complete >= COMPLETE_ROUNDS):
            return now
        if agree and not now.is_suspect:
            return now
        if now.is_hopeless and agree and attempt >= HOPELESS_ROUNDS:
            return now
        if now.leaders is None and attempt >= BLIND_ROUNDS:
            return now
        before = now


def _with_earlier(now: Answers, before: Answers) -> Answers:
    """Add the earlier answers of brokers for which no time was left."""
    late = {b for b, error in now.failures.items() if isinstance(error, DeadlineExceeded)}
    rows = {**{b: part for b, part in before.rows.items() if b in late}, **now.rows}
    failures = {
        b: before.failures.get(b, error) for b, error in now.failures.items() if b not in rows
    }
    return now._replace(rows=rows, failures=failures)


def ask_all(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> Operation[Answers]:
    """Ask all brokers once, at the same time.

    :raises KgError: no broker could be reached, and none is known from before.
    """
    reply = yield from ask_metadata(cluster, [TOPIC])
    if isinstance(reply, KgError):
        if not cluster.brokers:
            raise reply
        reply = metadata.Response()
    brokers = sorted(cluster.brokers)
    answers = yield from gather([_list_on(cluster, b, states, types) for b in brokers])
    rows = {b: a for b, a in zip(brokers, answers, strict=True) if not isinstance(a, KgError)}
    failures = {b: a for b, a in zip(brokers, answers, strict=True) if isinstance(a, KgError)}
    parts = [part for topic in reply.topics if not topic.error_code for part in topic.partitions]
    leaders = {part.partition: part.leader_id for part in parts}
    living = set(rows)
    return Answers(
        rows,
        failures,
        leaders or None,
        is_degraded=any(len(part.isr) < len(part.replicas) for part in parts),
        is_hopeless=all(
            part.leader_id in living or (part.leader_id < 0 and not living & set(part.isr))
            for part in parts
        ),
    )


def _list_on(
    cluster: Cluster, broker: int, states: Sequence[str], types: Sequence[str]
) -> Operation[list[GroupListing] | KgError]:
    version = yield from version_of(broker, list_groups_api.Request)
    if isinstance(version, KgError):
        return version
    request = list_groups_api.Request(
        states_filter=list(states) if version >= 4 else [],
        types_filter=list(types) if version >= 5 else [],
    )
    reply = yield from call(broker, request)
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return refused(cluster, broker, request, reply)
    # A broker that can't describe other types has only classic groups.
    kind = None if version >= 5 or (yield from _has_types(broker)) else "classic"
    rows = [
        GroupListing(
            row.group_id,
            row.group_type or kind,
            # Some brokers list "Unknown" instead of nothing.
            None if row.group_state in ("", "Unknown") else row.group_state,
            row.protocol_type,
            broker,
        )
        for row in reply.groups
    ]
    return [row for row in rows if may_match(row, states, types)]


def _has_types(broker: int) -> Operation[bool]:
    offered = yield Versions(broker)
    return isinstance(offered, KgError) or consumer_group_describe.Request.KEY in offered


def may_match(row: GroupListing, states: Sequence[str], types: Sequence[str]) -> bool:
    """Whether a group passes the filters, as far as is known."""
    if states and row.state and row.state.lower() not in {state.lower() for state in states}:
        return False
    return not (types and row.type) or row.type.lower() in {wanted.lower() for wanted in types}


# ---------------------------------------------------------------------------------------------
# Groups that do not exist, but are described: some brokers that are not Apache Kafka describe every
# name as an Empty group. Only the coordinator's list of groups tells whether it exists.


def find_unlisted(described: Iterable[GroupDescription]) -> Operation[dict[str, ItemError]]:
    """Return GROUP_ID_NOT_FOUND for the groups that their own coordinator does not list.

    :param described: groups without members and without offsets.
    """
    homes = grouped(
        (one.coordinator.id, one.group)
        for one in described
        if one.error is None and one.coordinator is not None
    )
    found: dict[str, ItemError] = {}
    for broker, groups in homes.items():
        names = yield from listed_on(broker)
        if not isinstance(names, KgError):
            missing = broker_error(codes.GROUP_ID_NOT_FOUND)
            found.update(
                {g: ItemError.of(missing, Target(group=g)) for g in groups if g not in names}
            )
    return found


def mark_unlisted(
    described: Sequence[GroupDescription],
    listed: Collection[str] | None,
    committed: Mapping[str, object] | None = None,
) -> Operation[list[GroupDescription]]:
    """Give groups that have nothing, and that their coordinator doesn't list, that error.

    :param listed: groups that a listing has named already.
    :param committed: what groups have committed, where that is known.
    """
    known, had = listed or (), committed or {}
    bare = [d for d in described if not d.members and d.group not in known and not had.get(d.group)]
    missing = yield from find_unlisted(bare)
    return [d._replace(error=missing.get(d.group, d.error)) for d in described]


def listed_on(broker: int) -> Operation[Collection[str] | KgError]:
    """Return the groups that a coordinator lists, or why it doesn't."""
    (reply,) = yield from pipelined([Call(broker, list_groups_api.Request())])
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    return {str(row.group_id) for row in reply.groups}
