"""The topology of a streams group, of an answer as the broker gives it."""

from __future__ import annotations

from kgtool.client.cluster import Cluster
from kgtool.protocol.api import streams_group_describe as api
from kgtool.queries.groups.topology import Topology, _topology


def node(name: str, kind: int, *after: str, sink: str | None = None) -> api.Node:
    return api.Node(
        name=name,
        node_type=kind,
        source_topics=["orders"] if kind == 1 else [],
        sink_topic=sink,
        stores=["counts"] if kind == 2 else [],
        successors=list(after),
    )


def group(**more: object) -> api.Group:
    part = api.Subtopology(subtopology_id="0", source_topics=["orders"])
    topology = api.Topology(epoch=2, subtopologies=[part])
    return api.Group(group_id="app", group_state="Stable", topology=topology, **more)


def described(row: api.Group) -> Topology:
    found = _topology(Cluster(), row)
    assert isinstance(found, Topology)
    return found


def test_nodes_stand_below_their_subtopology() -> None:
    """What a plugin of the broker stores (KIP-1331); global stores belong to no subtopology."""
    nodes = [node("in", 1, "count"), node("count", 2, "out"), node("out", 3, sink="totals")]
    stored = api.TopologyDescription(
        subtopologies=[api.DescribedSubtopology(subtopology_id="0", nodes=nodes)],
        global_stores=[api.GlobalStore(source=node("g-in", 1, "g"), processor=node("g", 2))],
    )
    rows = described(group(topology_description=stored, topology_description_status=3)).rows
    assert [(row.subtopology, row.role, row.node, row.topics, row.successors) for row in rows] == [
        ("0", "source", None, None, None),
        ("0", "source-node", "in", ["orders"], ["count"]),
        ("0", "processor-node", "count", [], ["out"]),
        ("0", "sink-node", "out", ["totals"], []),
        ("", "global-source-node", "g-in", ["orders"], ["g"]),
        ("", "global-processor-node", "g", [], []),
    ]
    assert rows[2].stores == ["counts"]


def test_a_description_that_the_broker_could_not_read() -> None:
    assert described(group(topology_description_status=2)).is_unreadable
    assert not described(group(topology_description_status=1)).is_unreadable


def test_a_group_without_a_topology_has_no_rows() -> None:
    row = api.Group(group_id="app", group_state="Empty", topology=None)
    assert described(row) == Topology([], ())
