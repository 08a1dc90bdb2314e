"""``kgtool list``: which groups there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kgtool.cli import render, rows
from kgtool.cli.checks import STATES, parse_choices
from kgtool.cli.options import connection_options, output_options
from kgtool.cli.output import Output
from kgtool.cli.selection import Selection, is_listed_by_kafka, java_order
from kgtool.model import GroupListing

if TYPE_CHECKING:
    from kgtool.config import Settings

ALL_STATES = (*STATES, "NotReady")
ALL_TYPES = ("Consumer", "Classic", "Share", "Streams")


@click.command("list")
@click.option("--state", is_flag=False, flag_value="", metavar="[STATES]",
              help="Only groups in these states (Stable,Empty,...; any case).")  # fmt: skip
@click.option("--type", "type_", is_flag=False, flag_value="", metavar="[TYPES]",
              help="Only groups of these types (classic,consumer,share,streams).")  # fmt: skip
@click.option("--match", multiple=True, metavar="GLOB",
              help="Only groups whose name matches, with * ? [a-z]; repeatable.")  # fmt: skip
@click.option("--regex", metavar="RE", help="Only groups whose whole name matches (RE2).")
@click.option("--exclude", multiple=True, metavar="GLOB",
              help="But not groups whose name matches; repeatable.")  # fmt: skip
@connection_options()
@output_options
def command(
    settings: Settings,
    output: Output,
    state: str | None,
    type_: str | None,
    match: tuple[str, ...],
    regex: str | None,
    exclude: tuple[str, ...],
) -> int:
    """Show the groups with type, state and coordinator."""
    states = parse_choices(state, "state", ALL_STATES)
    types = parse_choices(type_, "types", ALL_TYPES)
    groups = fetch(
        settings, output, states, types, Selection(match=match, regex=regex, exclude=exclude)
    )
    headers = ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR")
    if groups:
        output.text(render.table(headers, [_cells(group) for group in groups]), end="")
    return output.finish()


def _cells(group: GroupListing) -> tuple[object, ...]:
    return (
        group.group, render.type_name(group.type), group.state or "Unknown",
        group.protocol_type or None, group.coordinator,
    )  # fmt: skip


def kafka_form(
    settings: Settings, output: Output, state: str | None, type_: str | None, selection: Selection
) -> int:
    """List as ``kafka-consumer-groups.sh --list`` does: the groups that it would show."""
    states = parse_choices(state, "state", STATES)
    types = parse_choices(type_, "types", ALL_TYPES[:2])
    shows_state = state is not None or not output.is_text
    found = fetch(settings, output, states, types, selection, True, shows_state)
    output.text(render.listing(found, type_ is not None, state is not None), end="")
    return output.finish()


def fetch(
    settings: Settings,
    output: Output,
    states: tuple[str, ...],
    types: tuple[str, ...],
    selection: Selection,
    consumer_only: bool = False,
    complete: bool = True,
) -> list[GroupListing]:
    """Ask the cluster, and put out rows and failures; return the groups sorted by name.

    :param complete: states are shown, so that old brokers have to be asked for them.
    """
    from kgtool.admin.listing import list_groups
    from kgtool.net.session import Session

    test = selection.predicate()
    with Session(settings) as session:
        wire_types = tuple(name.lower() for name in types)
        found = session.run(list_groups(session.cluster, states, wire_types, complete=complete))
        output.begin(rows.LIST, session.cluster_id)
    groups = [
        group
        for group in sorted(found.groups, key=lambda group: java_order(group.group))
        if test(group.group) and (not consumer_only or is_listed_by_kafka(group))
    ]
    output.done += len(groups)
    for group in groups:
        output.row(rows.listing(group))
    for error in found.errors:
        output.failed(error)
    return groups
