"""``kgtool coordinator``: the coordinator and the offsets partition of groups."""

from __future__ import annotations

from kgtool.cli.options.declare import declare
from kgtool.cli.options.group_selection import Selection, choose_in_order
from kgtool.cli.options.shared import cluster_options, group_arguments, open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw_for
from kgtool.columns.tools import COORDINATOR, COORDINATOR_TEXT
from kgtool.config import Settings
from kgtool.queries.cluster.coordinators import Placement, locate_groups
from kgtool.queries.groups.describe import find_lost
from kgtool.text import escape


@declare("coordinator", "kgtool coordinator billing shipping", "kgtool coordinator billing -o json")
@group_arguments
@cluster_options()
def command(settings: Settings, output: Output, selection: Selection) -> None:
    """Show which broker coordinates a group, and its offsets partition.

    PARTITION is the one of __consumer_offsets that holds all of the group: abs(Java's hash of the
    name) % partitions. The group need not exist. The leader of that partition is the coordinator;
    where the two differ, it is moving. LOADING: it is still reading the partition, and answers
    nothing about the group until it is done. In JSON also the hash and the leader's epoch. A group
    that is listed, and that its coordinator does not know, is an error: it is in another partition.
    """
    with open_session(settings) as session:
        groups = choose_in_order(session, output, selection, COORDINATOR)
        found = session.run(locate_groups(session.cluster, groups))
        lost = session.run(find_lost(session.cluster, found.absent))
    rows = []
    for placement in found.placements:
        broker = placement.coordinator
        row = build_row(
            placement,
            COORDINATOR,
            loading=placement.is_loading,
            coordinator=broker and broker.id,
            host=broker and broker.host,
            port=broker and broker.port,
        )
        rows.append(row)
        output.item(row, placement.error or lost.get(placement.group))
    for error in found.errors:
        output.failed(error)
    output.text(draw_for(output, COORDINATOR_TEXT, rows), end="")
    for placement in found.placements:
        _note(output, placement)


def _note(output: Output, placement: Placement) -> None:
    broker, name = placement.coordinator, escape(placement.group)
    replicas = placement.replicas or ()
    if broker is not None and placement.leader not in (None, broker.id):
        output.note(f"The coordinator of {name} is moving: ask again in a moment.")
    elif placement.isr is not None and len(placement.isr) < len(replicas):
        output.note(
            f"Partition {placement.partition} of __consumer_offsets ({name}) has "
            f"{len(placement.isr)} of {len(replicas)} replicas in sync."
        )
