"""The topology of streams groups: subtopologies, topics, tasks, and what the broker stores of it.

StreamsGroupDescribe has the topics (KIP-1071); from v1 on also the nodes, where a plugin of the
broker stores them (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kgtool.client import denied
from kgtool.client.answers import left_out
from kgtool.client.cluster import Cluster, ensure_topics, version_of
from kgtool.client.ops import Operation
from kgtool.client.routing import by_coordinator
from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.protocol.api import streams_group_describe as api
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.describe import rows_by_group
from kgtool.text import shell_word

UNREADABLE = 2
"""Status of a stored description that the broker could not read."""
_NODES = {1: "source-node", 2: "processor-node", 3: "sink-node"}


class TopologyRow(NamedTuple):
    """A topic, the tasks of a member, or a node, of a subtopology.

    ``partitions`` and ``replication_factor`` are a topic's, None where it does not exist; ``tasks``
    are partition numbers.
    """

    group: str
    topology_epoch: int | None
    subtopology: str
    role: str
    topic: str | None = None
    partitions: int | None = None
    replication_factor: int | None = None
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    tasks: list[int] | None = None
    node: str | None = None
    topics: list[str] | None = None
    stores: list[str] | None = None
    successors: list[str] | None = None


class Topology(NamedTuple):
    """A group's topology; ``is_unreadable``: the broker could not read its stored description."""

    rows: list[TopologyRow]
    internal: tuple[str, ...]
    """Repartition and changelog topics, which belong to the group alone."""
    is_unreadable: bool = False


def no_topology(group: str, kind: str) -> ItemError:
    """Return the refusal of a group that is not a streams group."""
    return ItemError(
        Target(group=group),
        None,
        "WRONG_GROUP_TYPE",
        f"Group '{group}' is a {kind} group: only streams groups (KIP-1071) have a topology on the "
        "broker.",
        f"kgtool describe --group {shell_word(group)} shows its offsets.",
    )


def describe_topologies(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Topology | KgError]]:
    """Return the topology of streams groups, by group; without rows where there is none."""

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        version = yield from version_of(broker, api.Request)
        if isinstance(version, KgError):
            return dict.fromkeys(ids, version)
        more = {"include_topology_description": True} if version >= 1 else {}

        def make(part: list[str]) -> Any:
            return api.Request(group_ids=part, **more)

        rows = yield from rows_by_group(broker, [(make, ids)])
        return {one: rows.get(one, [left_out(api.Request, f"group {one}")])[0] for one in ids}

    answers = yield from by_coordinator(cluster, groups, work)
    known = {g: row for g, row in answers.items() if not isinstance(row, KgError)}
    topics = {t for row in known.values() for part in _parts(row) for t, _ in _topics(part)}
    yield from ensure_topics(cluster, topics)
    return {g: _topology(cluster, row) if g in known else row for g, row in answers.items()}


def _parts(row: Any) -> Sequence[Any]:
    return () if row.topology is None else row.topology.subtopologies or ()


def _topics(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the topics of a subtopology, each with its role."""
    for name in sorted(part.source_topics):
        yield name, "source"
    for info in sorted(part.repartition_source_topics, key=lambda info: str(info.name)):
        yield info.name, "repartition-source"
    for name in sorted(part.repartition_sink_topics):
        yield name, "repartition-sink"
    for info in sorted(part.state_changelog_topics, key=lambda info: str(info.name)):
        yield info.name, "changelog"


def _topology(cluster: Cluster, row: Any) -> Topology | KgError:
    if row.error_code:
        error = broker_error(row.error_code, row.error_message)
        return denied.explain(error, denied.DESCRIBE, group=row.group_id)
    found: list[TopologyRow] = []
    nodes = _nodes(row)
    epoch = None if row.topology is None else row.topology.epoch
    for part in _parts(row):
        blank = TopologyRow(row.group_id, epoch, part.subtopology_id, "")
        factors = {
            info.name: info.replication_factor
            for info in (*part.repartition_source_topics, *part.state_changelog_topics)
        }
        for name, role in _topics(part):
            leaders = cluster.topics[name].leaders if name in cluster.topics else {}
            found.append(
                blank._replace(
                    role=role,
                    topic=name,
                    partitions=len(leaders) or None,
                    replication_factor=factors.get(name) or None,
                )
            )
        found += _tasks(blank, row.members)
        found += nodes.pop(part.subtopology_id, ())
    found += [one for rest in nodes.values() for one in rest]
    roles = ("repartition-source", "repartition-sink", "changelog")
    internal = {one.topic for one in found if one.topic is not None and one.role in roles}
    unreadable = row.topology_description_status == UNREADABLE
    return Topology(found, tuple(sorted(internal)), unreadable)


def _tasks(blank: TopologyRow, members: Sequence[Any]) -> Iterator[TopologyRow]:
    for role in ("active", "standby", "warmup"):
        for member in members:
            parts = getattr(member.assignment, f"{role}_tasks")
            own = {n for p in parts if p.subtopology_id == blank.subtopology for n in p.partitions}
            if own:
                yield blank._replace(
                    role=role,
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    tasks=sorted(own),
                )


def _nodes(row: Any) -> dict[str, list[TopologyRow]]:
    """Return the nodes of the stored description by subtopology; global stores belong to none."""
    stored = row.topology_description
    if stored is None:
        return {}
    epoch = None if row.topology is None else row.topology.epoch

    def make(part: str, node: Any, prefix: str = "") -> TopologyRow:
        return TopologyRow(
            row.group_id,
            epoch,
            part,
            prefix + _NODES.get(node.node_type, "node"),
            node=node.name,
            topics=[*node.source_topics, *([node.sink_topic] if node.sink_topic else [])],
            stores=list(node.stores),
            successors=list(node.successors),
        )

    found = {
        part.subtopology_id: [make(part.subtopology_id, node) for node in part.nodes]
        for part in stored.subtopologies
    }
    for store in stored.global_stores:
        found.setdefault("", []).extend(
            make("", node, "global-") for node in (store.source, store.processor)
        )
    return found
