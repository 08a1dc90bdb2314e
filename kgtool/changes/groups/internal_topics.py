"""The internal topics of streams groups: which are a group's own, and their deletion.

A topic is a group's own where its topology names it as repartition or changelog topic, no
subtopology reads it as a source, and it is called ``GROUP-…``. Without a topology its name decides:
``GROUP-…-changelog``, ``GROUP-…-repartition``. ``app-2-x-changelog`` may be app's or app-2's: it
is app-2's as long as a group ``app-2`` is listed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kgtool.changes.doubt import is_unsettled
from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, call_any, fetch_metadata
from kgtool.client.ops import Operation
from kgtool.errors import IncompleteAnswer, KgError, OutcomeUnknown
from kgtool.model import InternalTopic, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import delete_topics as api
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.listings import list_once
from kgtool.queries.groups.topology import Topology, describe_topologies

Found = dict[str, "tuple[InternalTopic, ...] | KgError"]
SUFFIXES = ("-changelog", "-repartition")
WAIT_MS = 30_000
"""How long the broker waits for its controller."""
TRIES = 3


def find_internal_topics(cluster: Cluster, groups: Sequence[str]) -> Operation[Found]:
    """Return the internal topics of streams groups that exist, by group; a KgError: unknown."""
    if not groups:
        return {}
    topologies = yield from describe_topologies(cluster, groups)
    listing = yield from list_once(cluster)
    known = {row.group for row in listing.groups}
    if listing.errors:
        error = listing.errors[0]
        why = IncompleteAnswer(
            f"Which internal topics are the group's own is unknown, as groups are missing: "
            f"{error.message}",
            hint=error.hint,
        )
        return dict.fromkeys(groups, why)
    try:
        named = {
            t for one in topologies.values() if isinstance(one, Topology) for t in one.internal
        }
        by_name = any(isinstance(one, Topology) and not one.rows for one in topologies.values())
        if named or by_name:
            yield from fetch_metadata(cluster, None if by_name else sorted(named))
    except KgError as error_:
        return dict.fromkeys(groups, error_)
    return {
        group: one if isinstance(one, KgError) else _own(cluster, group, one, known)
        for group, one in topologies.items()
    }


def _own(
    cluster: Cluster, group: str, topology: Topology, groups: Collection[str]
) -> tuple[InternalTopic, ...]:
    sources = {row.topic for row in topology.rows if row.role == "source"}
    names = topology.internal
    if not topology.rows:
        names = tuple(sorted(n for n in cluster.topics if n.endswith(SUFFIXES)))
    found = []
    for name in names:
        topic = cluster.topics.get(name)
        exists = topic is not None and topic.error is None and not topic.is_internal
        if topic is not None and exists and name not in sources and owner(name, groups) == group:
            found.append(InternalTopic(group, name, topic.topic_id, len(topic.leaders)))
    return tuple(found)


def owner(topic: str, groups: Collection[str]) -> str | None:
    """Return the group that an internal topic is called after: the longest name that fits.

    >>> owner("app-2-x-changelog", ["app", "app-2"]), owner("app-x-changelog", ["app", "app-2"])
    ('app-2', 'app')
    """
    return max((g for g in groups if topic.startswith(f"{g}-")), key=len, default=None)


def delete_internal_topics(
    cluster: Cluster, topics: Sequence[InternalTopic]
) -> Operation[list[InternalTopic]]:
    """Delete topics by their ids: one that was made again since it was shown stays.

    Needs DELETE on each topic. Where an answer was lost, the id tells whether it is gone.
    """
    left = {topic.topic_id: topic for topic in topics if topic.topic_id is not None}
    done = {topic.topic: topic for topic in topics}
    for _ in range(TRIES):
        asked = [api.RequestTopic(topic_id=one) for one in left]
        reply = yield from call_any(api.Request(topics=asked, timeout_ms=WAIT_MS))
        if isinstance(reply, KgError):
            done.update({t.topic: _failed(t, reply) for t in left.values()})
            if not reply.maybe_done:
                break
            continue
        answers = {row.topic_id: row for row in reply.topics}
        for topic_id, topic in left.items():
            row = answers.get(topic_id)
            if row is None:
                error: KgError | None = left_out(api.Request, f"topic {topic.topic}")
            elif row.error_code == codes.UNKNOWN_TOPIC_ID:
                error = None  # it is gone: an earlier request, or somebody else, deleted it
            else:
                error = _refusal(topic.topic, row) if row.error_code else None
            done[topic.topic] = topic._replace(status="deleted", error=None)
            if error is not None:
                done[topic.topic] = _failed(topic, error)
        break
    return [done[topic.topic] for topic in topics]


def _refusal(topic: str, row: api.Topic) -> KgError:
    if row.error_code == codes.TOPIC_AUTHORIZATION_FAILED:
        return denied.needs(row.error_code, row.error_message or "", "DELETE", f"topic {topic}")
    return broker_error(row.error_code, row.error_message)


def _failed(topic: InternalTopic, error: KgError) -> InternalTopic:
    if is_unsettled(error):
        error = OutcomeUnknown(
            f"{error.message.rstrip('.')}: it is not known whether the topic was deleted.",
            hint="Check with kafka-topics --list.",
        )
    said = ItemError.of(error, Target(group=topic.group, topic=topic.topic))
    return topic._replace(status=said.status, error=said)
