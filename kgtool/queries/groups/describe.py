"""The state and members of consumer groups.

A group is described by one of two APIs: ConsumerGroupDescribe (KIP-848 groups) and DescribeGroups
(classic ones). Each says of the other's groups that they don't exist (69), and before v6
DescribeGroups says "Dead" instead. So both are asked in the same round trip where the type is not
known from a listing, and a group is missing only when both say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kgtool.client import denied
from kgtool.client.answers import left_out, other_cluster
from kgtool.client.cluster import Cluster, call_any, version_of
from kgtool.client.ops import Call, Operation, pipelined, within
from kgtool.client.routing import by_coordinator
from kgtool.errors import BrokerError, KgError
from kgtool.model import GroupDescription, GroupListing, ItemError, Member, Target
from kgtool.protocol import codes
from kgtool.protocol.api import consumer_group_describe, metadata
from kgtool.protocol.api import describe_groups as describe_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.protocol.schema import Struct
from kgtool.queries.cluster.coordinators import explain_absence
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.groups.decode import classic_group, consumer_group
from kgtool.queries.groups.listings import list_once
from kgtool.text import shell_word

SHARE_TOOL = "kafka-share-groups.sh"
UNKNOWN_TYPES = {"share": SHARE_TOOL, "streams": "kafka-streams-groups.sh"}
"""Group types that are no consumer groups, and their Kafka tools."""


def wrong_type(group: str, kind: str, hint: str) -> ItemError:
    """Return the refusal of a group that is not a consumer group."""
    said = f"Group '{group}' is a {kind} group, not a consumer group."
    return ItemError(Target(group=group), None, "WRONG_GROUP_TYPE", said, hint)


def without_expiry(group: str) -> ItemError:
    """Return the refusal of a share group, whose start offsets never expire (KIP-932)."""
    return ItemError(
        Target(group=group),
        None,
        "WRONG_GROUP_TYPE",
        f"Group '{group}' is a share group: its start offsets are not in __consumer_offsets and do "
        "not expire, so there is nothing to keep or to recover.",
        f"kgtool backup --group {shell_word(group)} saves them.",
    )


# ---------------------------------------------------------------------------------------------
# Describe


def describe_groups(
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str] | None = None
) -> Operation[list[GroupDescription]]:
    """Describe groups of either protocol, in the order asked, each with its own ``error``.

    :param kinds: types of listed groups: only the type's own API is asked then, both where it is
        "". One of them that its coordinator does not know, and that is still listed, has the error
        UNKNOWN_TO_COORDINATOR.
    """
    described = yield from _ask(cluster, groups, kinds or {})
    if kinds and any(_is_gone(one) and one.group in kinds for one in described):
        return (yield from _look_again(cluster, described, kinds))
    return described


def _ask(
    cluster: Cluster, groups: Sequence[str], kinds: Mapping[str, str]
) -> Operation[list[GroupDescription]]:
    asked = partial(_describe_on, cluster, kinds=kinds)
    answers = yield from by_coordinator(cluster, groups, asked)
    return [
        answer if isinstance(answer, GroupDescription) else _undescribed(cluster, group, answer)
        for group, answer in answers.items()
    ]


def _undescribed(cluster: Cluster, group: str, error: KgError) -> GroupDescription:
    failed = ItemError.of(explain_absence(cluster, group, error), Target(group=group))
    return GroupDescription(group, None, "Unknown", "", "", None, (), error=failed)


def _describe_on(
    cluster: Cluster, broker: int, groups: list[str], kinds: Mapping[str, str]
) -> Operation[dict[str, Any]]:
    version = yield from version_of(broker, consumer_group_describe.Request)
    if isinstance(version, KgError):
        return dict.fromkeys(groups, version)
    modern = [group for group in groups if version >= 0 and kinds.get(group) != "classic"]
    classic = [group for group in groups if kinds.get(group) != "consumer"]
    asked: list[tuple[Callable[[list[str]], Struct], list[str]]] = [
        (lambda ids: consumer_group_describe.Request(group_ids=ids), modern),
        (lambda ids: describe_groups_api.Request(groups=ids), classic),
    ]
    rows = yield from rows_by_group(broker, asked, partial(_learn_topic_ids, cluster))
    answers = {group: _merge(cluster, broker, group, rows.get(group, [])) for group in groups}
    # A group may have been converted since it was listed (KIP-848): the other API knows it then.
    converted = [g for g in groups if g in kinds and _is_missing(answers[g])]
    if converted:
        answers.update((yield from _describe_on(cluster, broker, converted, {})))
    return answers


def rows_by_group(
    broker: int,
    asked: Iterable[tuple[Callable[[list[str]], Struct], list[str]]],
    learn: Callable[[list[Any]], Operation[None]] | None = None,
) -> Operation[dict[str, list[Any]]]:
    """Ask one broker about groups by several APIs, in one round trip.

    One group can spoil the answer for all (a name of 32 kB does not fit its error message): where
    a broker fails with UNKNOWN_SERVER_ERROR, it is asked again in halves.

    :param asked: what makes each request, with its groups; without any it is not sent.
    :param learn: called with the replies first.
    :return: by group, a row or a KgError of each API.
    """
    rows: dict[str, list[Any]] = {}
    sent = [(make, groups) for make, groups in asked if groups]
    while sent:
        requests = [make(groups) for make, groups in sent]
        replies = yield from pipelined([Call(broker, request) for request in requests])
        if learn is not None:
            yield from learn(replies)
        halves: list[tuple[Callable[[list[str]], Struct], list[str]]] = []
        for (make, groups), request, reply in zip(sent, requests, replies, strict=True):
            known = {} if isinstance(reply, KgError) else _by_group(reply.groups)
            if len(groups) > 1 and any(row.error_code == FAILED for row in known.values()):
                middle = len(groups) // 2
                halves += [(make, groups[:middle]), (make, groups[middle:])]
                continue
            error = reply if isinstance(reply, KgError) else None
            for group in groups:
                row = error or known.get(group) or left_out(request, f"group {group}")
                rows.setdefault(group, []).append(row)
        sent = halves
    return rows


def _by_group(rows: list[Any]) -> dict[str, Any]:
    """Return the answer for each group, the one that knows it where there are several.

    Kafka 3.9 with the new coordinator answers once for each partition of __consumer_offsets: all
    but the right one say GROUP_ID_NOT_FOUND.
    """
    known: dict[str, Any] = {}
    for row in rows:
        if row.group_id not in known or not row.error_code:
            known[row.group_id] = row
    return known


def _learn_topic_ids(cluster: Cluster, replies: list[Any]) -> Operation[None]:
    """Look up the topics of assignments that have an id and no name (some brokers send no name)."""
    nameless = {
        row.topic_id
        for reply in replies
        if isinstance(reply, consumer_group_describe.Response)
        for group in reply.groups
        for member in group.members
        for half in (member.assignment, member.target_assignment)
        for row in half.topic_partitions
        if not row.topic_name
    }
    unknown = nameless - {topic.topic_id for topic in cluster.topics.values()}
    if unknown:
        asked = [metadata.RequestTopic(topic_id=one, name=None) for one in unknown]
        reply = yield from call_any(metadata.Request(topics=asked, allow_auto_topic_creation=False))
        if isinstance(reply, KgError) or not reply.brokers or other_cluster(cluster, reply):
            return
        cluster.learn(reply)


def _is_missing(answer: Any) -> bool:
    return isinstance(answer, BrokerError) and answer.code == codes.GROUP_ID_NOT_FOUND


def _merge(cluster: Cluster, broker: int, group: str, rows: list[Any]) -> Any:
    """Return the answer of the API that knows the group, else the error that says most.

    Brokers that are not Apache Kafka may describe a group by both, with its members by one only.
    So a group without members counts only where the other API has not failed.
    """
    errors: list[KgError] = []
    known: list[GroupDescription] = []
    for row in rows:
        if isinstance(row, KgError):
            errors.append(row)
        elif row.error_code:
            error = broker_error(row.error_code, row.error_message)
            errors.append(denied.explain(error, denied.DESCRIBE, group=group))
        elif isinstance(row, consumer_group_describe.Group):
            known.append(consumer_group(cluster, broker, row))
        elif row.group_state == "Dead" and not row.members:
            errors.append(broker_error(codes.GROUP_ID_NOT_FOUND, f"Group {group} not found."))
        else:
            known.append(classic_group(cluster, broker, row))
    living = [one for one in known if one.members]
    failures = [error for error in errors if error.code not in NOT_THIS_TYPE]
    if len(group.encode("utf-8", "surrogatepass")) > LONGEST:
        # "Group … not found" does not fit an answer of the other API.
        failures = [error for error in failures if error.code != FAILED]
    if living or (known and not failures):
        return (living or known)[0]
    missing = [error for error in errors if error.code == codes.GROUP_ID_NOT_FOUND]
    not_found = broker_error(codes.GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    return [*failures, *missing, not_found][0]


FAILED = codes.UNKNOWN_SERVER_ERROR
LONGEST = 32_700
"""Bytes of a name beyond which an error message with it in it may not fit an answer (32,767)."""
NOT_THIS_TYPE = (codes.GROUP_ID_NOT_FOUND, codes.UNSUPPORTED_VERSION)
"""Errors that say no more than "no such group" or "not of my protocol"."""


def is_subscribed(members: Iterable[Member], topic: str) -> bool | None:
    """Whether a member owns partitions of a topic or subscribes to it; None where unknown.

    A KIP-848 regex is resolved by the coordinator and not shown, so for a topic that no member has
    by name or by assignment it is unknown as long as one of them subscribes by regex.
    """
    is_unknown = False
    for member in members:
        if topic in dict(member.assignment) or topic in (member.subscribed or ()):
            return True
        if member.subscribed is None or member.subscribed_regex is not None:
            is_unknown = True
    return None if is_unknown else False


def may_count_others(description: GroupDescription) -> bool:
    """Whether a static member has come back with other topics than its group shares out (KIP-345).

    Those that its coordinator goes by are in the log (``retention.groups.Group``).
    """
    members = description.members
    if description.type != "classic" or all(member.instance_id is None for member in members):
        return False
    named = {topic for member in members for topic in member.subscribed or ()}
    return named != {topic for member in members for topic, _ in member.assignment}


def describe_with_type(
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str] | None = None
) -> Operation[list[GroupDescription]]:
    """Describe groups, those that neither API knows by what a listing says of them.

    :param kinds: as for ``describe_groups``.

    A share or streams group has its ``type`` and ``state`` then instead of an error. Where the
    group's own broker did not answer ListGroups, its error replaces "no such group".
    """
    described = yield from _ask(cluster, groups, kinds or {})
    return (yield from _look_again(cluster, described))


def find_lost(cluster: Cluster, groups: Sequence[str]) -> Operation[dict[str, ItemError]]:
    """Return UNKNOWN_TO_COORDINATOR for each group that is listed, and not known."""
    described = (yield from describe_with_type(cluster, groups)) if groups else []
    errors = {one.group: one.error for one in described if one.error is not None}
    return {g: error for g, error in errors.items() if error.name == UNKNOWN_TO_COORDINATOR}


def _is_gone(one: GroupDescription) -> bool:
    return one.error is not None and one.error.code == codes.GROUP_ID_NOT_FOUND


def _look_again(
    cluster: Cluster, described: list[GroupDescription], suspects: Collection[str] | None = None
) -> Operation[list[GroupDescription]]:
    """List the groups that neither API knows; what is listed and still unknown is lost.

    A coordinator does not know the groups that it has in another partition than their names' since
    the partition count of ``__consumer_offsets`` was changed (``isGroupLocal`` goes by the name,
    ListGroups by what was loaded).

    :param suspects: only these; None: all of them.
    """
    gone = [d.group for d in described if _is_gone(d) and (suspects is None or d.group in suspects)]
    if not gone:
        return described
    listing = yield from within(list_once(cluster), 0.5)
    listed = {row.group: row for row in listing.groups}
    others = [g for g in gone if g in listed and listed[g].type not in UNKNOWN_TYPES]
    # It may have been created between the two looks.
    later = {one.group: one for one in (yield from _ask(cluster, others, {}))} if others else {}
    silent = {error.target.broker: error for error in listing.errors}
    for at, one in enumerate(described):
        if one.group in gone:
            row = listed.get(one.group)
            error = silent.get(cluster.coordinators.get(one.group))
            described[at] = _from_listing(cluster, later.get(one.group, one), row, error)
    return described


def _from_listing(
    cluster: Cluster, one: GroupDescription, row: GroupListing | None, silent: ItemError | None
) -> GroupDescription:
    """Return what a listing says of a group that was not found."""
    if not _is_gone(one):
        return one
    if row is None:
        if silent is None:
            return one
        return one._replace(error=silent._replace(target=silent.target._replace(group=one.group)))
    if row.type in UNKNOWN_TYPES:
        kind, state = row.type, row.state or "Unknown"
        return one._replace(type=kind, state=state, protocol_type=row.protocol_type, error=None)
    return one._replace(error=_lost(one.group, row, cluster.coordinators.get(one.group)))


UNKNOWN_TO_COORDINATOR = "UNKNOWN_TO_COORDINATOR"
"""The error of a group that is listed, and that its coordinator does not know."""


def _lost(group: str, row: GroupListing, coordinator: int | None) -> ItemError:
    where = "" if coordinator is None else f", broker {coordinator},"
    return ItemError(
        Target(group=group),
        None,
        UNKNOWN_TO_COORDINATOR,
        f"Broker {row.coordinator} lists the group, and its coordinator{where} does not know it: "
        f"its records are in another partition of {TOPIC} than its name's.",
        f"Was the partition count of {TOPIC} changed? kgtool doctor explains what follows.",
    )
