"""Raw requests from JSON, sent as they stand: the only change without a journal.

A request goes to the coordinator, the leader or any broker, as its API demands; if its groups or
partitions live on different brokers, it is split. Nothing is sent again and no answer is
interpreted: the user of a raw request wants the answer itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from kgtool import __version__
from kgtool.client.cluster import (
    Cluster,
    call_any,
    ensure_brokers,
    ensure_topics,
    fetch_metadata,
    find_coordinators,
    too_old,
)
from kgtool.client.ops import ANY, READING_SHARE, Call, Operation, Versions, gather, grouped, within
from kgtool.errors import EncodeError, KgError, UnsupportedVersion, UsageError
from kgtool.model import TopicPartition
from kgtool.protocol.api import find_coordinator, load, names
from kgtool.protocol.as_json import carries, from_json
from kgtool.protocol.codes import broker_error
from kgtool.protocol.plan import encode

_OURS: dict[tuple[str, str], Any] = {
    ("ListOffsets", "replica_id"): -1,
    ("Metadata", "allow_auto_topic_creation"): False,
    ("ApiVersions", "client_software_name"): "kgtool",
    ("ApiVersions", "client_software_version"): __version__,
}
"""Defaults that differ from the schema's: a client is not a replica, looking at a topic must not
create it, and brokers refuse clients without a name (KIP-511)."""


def find_api(word: str) -> str:
    """Return Kafka's name of an API, given in any case.

    :raises UsageError: there is no such API; the nearest one is named.
    """
    by_name = {name.lower(): name for name in names()}
    plain = word.lower().removesuffix("request")
    if plain in by_name:
        return by_name[plain]
    near = get_close_matches(plain, by_name, n=1)
    more = f"did you mean {by_name[near[0]]}?" if near else "kgtool request --list shows them"
    raise UsageError(f"No such API '{word}' ({more}).")


def schema_of(api: str) -> Any:
    """Return the request's class."""
    return load(api).Request


def check_version(api: str, version: int | None) -> None:
    """Check that the schema has a version; None is any.

    :raises UsageError: it does not.
    """
    known = schema_of(api).VERSIONS
    if version is not None and version not in known:
        raise UsageError(f"{api} has versions {known} here, and no {version}.")


def make_request(api: str, version: int, body: Mapping[str, Any]) -> Any:
    """Build the message; defaults are filled in.

    :raises UsageError: an unknown name, or a value of the wrong type.
    """
    cls = schema_of(api)
    request = from_json(cls, version, body)
    given = {str(key).replace("_", "").lower() for key in body}
    for field in cls.FIELDS:
        is_named = field.name.replace("_", "") in given
        if (api, field.name) in _OURS and not is_named and carries(field, version, True):
            request = request.replace(**{field.name: _OURS[api, field.name]})
    if api == "Produce" and request.acks == 0:
        raise UsageError("acks: brokers never answer a Produce request with acks 0: use 1 or -1.")
    try:
        encode(request, version)
    except EncodeError as error:
        raise UsageError(error.message) from error
    return request


# ---------------------------------------------------------------------------------------------
# Routing

TRANSACTION = 1
"""FindCoordinator's ``key_type`` for transactional ids."""

_BROKER_RESOURCES = (4, 8)
"""``ConfigResource.Type``: a broker, and a broker's loggers; each answers for itself only."""


class RoutedRequest(NamedTuple):
    """A request, or a part of one, and its broker (``ANY``: any of them)."""

    to: int
    request: Any


class Answer(NamedTuple):
    """The reply (or ``KgError``) to a part; ``broker`` is None where any broker was asked."""

    part: RoutedRequest
    reply: Any

    @property
    def broker(self) -> int | None:
        """The id of the broker that was asked."""
        return None if self.part.to == ANY else self.part.to


def offered(cluster: Cluster, to: int, request: Any) -> Operation[tuple[int, int]]:
    """Return the lowest and highest version of an API that a broker offers.

    :raises KgError: it can't be reached, or doesn't offer the API.
    """
    if to != ANY:
        yield from ensure_brokers(cluster)
    versions = yield Versions(to)
    if isinstance(versions, KgError):
        raise versions
    error = yield from too_old(cluster, to, request)
    if error is not None:
        raise error
    found: tuple[int, int] = versions[request.KEY]
    return found


def common_version(cluster: Cluster, to: int, request: Any) -> Operation[int]:
    """Return the highest version of an API that both sides speak.

    :param request: its class.
    :raises KgError: there is none, or the broker can't be reached.
    """
    low, high = yield from offered(cluster, to, request)
    ours = request.VERSIONS
    if max(low, ours.low) > min(high, ours.high):
        raise KgError(f"The broker speaks {request.NAME} {low} to {high}, kgtool {ours}.")
    return min(high, int(ours.high))


def route(cluster: Cluster, request: Any) -> Operation[list[RoutedRequest]]:
    """Find the brokers of a request.

    :raises KgError: they can't be found.
    """
    yield from ensure_brokers(cluster)
    if request.ROUTE == "all":
        parts = [RoutedRequest(broker, request) for broker in sorted(cluster.brokers)]
    elif request.ROUTE == "controller":
        parts = [RoutedRequest(cluster.controller, request)]
    elif request.ROUTE == "leader":
        parts = yield from _to_leaders(cluster, request)
    elif request.ROUTE == "coordinator":
        parts = yield from _to_coordinators(cluster, request)
    else:
        parts = _to_described_brokers(request)
    known = [part for part in parts if part.to == ANY or part.to in cluster.brokers]
    return known or [RoutedRequest(ANY, request)]


def _to_described_brokers(request: Any) -> list[RoutedRequest]:
    """Send what is about a broker's own configs to that broker."""
    parts: dict[int, list[Any]] = {}
    for row in getattr(request, "resources", None) or ():
        own = row.resource_type in _BROKER_RESOURCES and row.resource_name.isdecimal()
        parts.setdefault(int(row.resource_name) if own else ANY, []).append(row)
    if len(parts) < 2:
        return [RoutedRequest(next(iter(parts), ANY), request)]
    return [RoutedRequest(to, request.replace(resources=rows)) for to, rows in parts.items()]


# ---------------------------------------------------------------------------------------------
# Coordinators

_LISTS = ("groups", "group_ids", "transactional_ids")
_ABOUT_TRANSACTIONS = ("InitProducerId", "EndTxn", "AddOffsetsToTxn", "DescribeTransactions")


def _to_coordinators(cluster: Cluster, request: Any) -> Operation[list[RoutedRequest]]:
    named = next((name for name in _LISTS if getattr(request, name, None)), None)
    is_transaction = request.NAME in _ABOUT_TRANSACTIONS
    if named is None:
        key = getattr(request, "transactional_id" if is_transaction else "group_id", None)
        if key is None:
            return [RoutedRequest(ANY, request)]
        nodes = yield from _coordinators(cluster, [key], is_transaction)
        return [RoutedRequest(nodes[key], request)]
    rows = getattr(request, named)
    keys = [row if isinstance(row, str) else row.group_id for row in rows]
    nodes = yield from _coordinators(cluster, keys, is_transaction)
    parts = grouped((nodes[key], row) for row, key in zip(rows, keys, strict=True))
    return [RoutedRequest(to, request.replace(**{named: part})) for to, part in parts.items()]


def _coordinators(
    cluster: Cluster, keys: Sequence[str], is_transaction: bool
) -> Operation[dict[str, int]]:
    """Return the coordinator of each group or transactional id.

    :raises KgError: one of them can't be found.
    """
    if is_transaction:
        unique = list(dict.fromkeys(keys))
        asked = [call_any(find_coordinator.Request(key=k, key_type=TRANSACTION), 3) for k in unique]
        found = {
            key: broker_error(reply.error_code, reply.error_message)
            if not isinstance(reply, KgError) and reply.error_code
            else reply
            for key, reply in zip(unique, (yield from gather(asked)), strict=True)
        }
    else:
        found = yield from within(find_coordinators(cluster, keys), READING_SHARE)
    nodes: dict[str, int] = {}
    for key, node in found.items():
        if isinstance(node, KgError):
            raise node
        nodes[key] = node if isinstance(node, int) else int(node.node_id)
    return nodes


# ---------------------------------------------------------------------------------------------
# Leaders


def _to_leaders(cluster: Cluster, request: Any) -> Operation[list[RoutedRequest]]:
    """Divide partitions among their leaders; those without one go to any broker."""
    if request.NAME == "WriteTxnMarkers":
        return (yield from _markers_to_leaders(cluster, request))
    if not request.topics:
        return [RoutedRequest(ANY, request)]
    parts = yield from _by_leader(cluster, request.topics)
    return [RoutedRequest(to, request.replace(topics=topics)) for to, topics in parts.items()]


def _markers_to_leaders(cluster: Cluster, request: Any) -> Operation[list[RoutedRequest]]:
    parts: dict[int, list[Any]] = {}
    for marker in request.markers:
        for to, topics in (yield from _by_leader(cluster, marker.topics)).items():
            parts.setdefault(to, []).append(marker.replace(topics=topics))
    found = [RoutedRequest(to, request.replace(markers=rows)) for to, rows in parts.items()]
    return found or [RoutedRequest(ANY, request)]


def _by_leader(cluster: Cluster, wanted: Sequence[Any]) -> Operation[dict[int, list[Any]]]:
    """Return topics by the leader of their partitions (``ANY``: there is none)."""
    names = yield from _topic_names(cluster, wanted)
    parts: dict[int, list[Any]] = {}
    for topic, name in zip(wanted, names, strict=True):
        rows: dict[int, list[Any]] = {}
        for row in topic.partitions:
            number = row if isinstance(row, int) else row.partition
            leader = -1 if name is None else cluster.leader(TopicPartition(name, number))
            rows.setdefault(leader if leader in cluster.brokers else ANY, []).append(row)
        for to, some in rows.items() or ((ANY, []),):
            parts.setdefault(to, []).append(topic.replace(partitions=some))
    return parts


def _topic_names(cluster: Cluster, topics: Iterable[Any]) -> Operation[list[str | None]]:
    """Return the names of topics, some of which may be given by id; None for an unknown id."""
    known = [getattr(topic, "name", "") or getattr(topic, "topic", "") for topic in topics]
    if all(known):
        yield from ensure_topics(cluster, known)
        return list(known)
    yield from fetch_metadata(cluster, None)
    by_id = {info.topic_id: name for name, info in cluster.topics.items()}
    return [name or by_id.get(topic.topic_id) for name, topic in zip(known, topics, strict=True)]


# ---------------------------------------------------------------------------------------------
# Sending


def send_parts(
    cluster: Cluster, parts: Sequence[RoutedRequest], version: int
) -> Operation[list[Answer]]:
    """Send the parts in exactly this version, each once; what fails is its answer."""
    replies = yield from gather([_send(cluster, part, version) for part in parts])
    return [Answer(part, reply) for part, reply in zip(parts, replies, strict=True)]


def _send(cluster: Cluster, part: RoutedRequest, version: int) -> Operation[Any]:
    try:
        low, high = yield from offered(cluster, part.to, part.request)
    except KgError as error:
        return error
    if not low <= version <= high:
        broker = cluster.brokers.get(part.to)
        name = "The broker" if part.to == ANY else f"Broker {part.to}"
        if broker is not None:
            name = f"{broker.host}:{broker.port}"
        return UnsupportedVersion(
            f"{name} speaks {part.request.NAME} {low} to {high}, and this is version {version}.",
            hint="--version chooses another one.",
        )
    replies = yield [Call(part.to, part.request, version)]
    return replies[0]
