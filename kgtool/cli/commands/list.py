"""``kgtool list``: which groups there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from kgtool.cli import columns as columns_of
from kgtool.cli import render, rows
from kgtool.cli.checks import STATES, parse_choices
from kgtool.cli.columns import Column
from kgtool.cli.help import examples
from kgtool.cli.options import connection_options, output_options
from kgtool.cli.output import Output
from kgtool.cli.selection import Selection, is_listed_by_kafka, java_order
from kgtool.cli.table import draw_for
from kgtool.model import GroupListing

if TYPE_CHECKING:
    from kgtool.config import Settings

ALL_STATES = (*STATES, "NotReady")
ALL_TYPES = ("Consumer", "Classic", "Share", "Streams")


class Wanted(NamedTuple):
    """Which groups to list, and how."""

    selection: Selection
    columns: tuple[Column, ...] = ()
    sort: Column | None = None
    consumer_only: bool = False
    """Only what Kafka's tool for consumer groups lists."""
    complete: bool = True
    """States are shown, so that old brokers have to be asked for them."""


@click.command(
    "list",
    epilog=examples(
        "kgtool list",
        "kgtool list --state Empty --match 'console-consumer-*'",
        "kgtool list --type consumer,share --exclude 'test-*' -o json",
        "kgtool list --columns group,state --sort state",
    ),
)
@click.option("--state", is_flag=False, flag_value="", metavar="[STATES]",
              help="Only groups in these states (Stable,Empty,...; any case).")  # fmt: skip
@click.option("--type", "type_", is_flag=False, flag_value="", metavar="[TYPES]",
              help="Only groups of these types (classic,consumer,share,streams).")  # fmt: skip
@click.option("--match", multiple=True, metavar="GLOB",
              help="Only groups whose name matches, with * ? [a-z]; repeatable.")  # fmt: skip
@click.option("--regex", metavar="RE", help="Only groups whose whole name matches (RE2).")
@click.option("--exclude", multiple=True, metavar="GLOB",
              help="But not groups whose name matches; repeatable.")  # fmt: skip
@click.option("--columns", metavar="NAME,...", help="Only these columns, in this order.")
@click.option("--sort", metavar="NAME", help="Sorted by a column (default: group).")
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
    columns: str | None,
    sort: str | None,
) -> int:
    """Show the groups with type, state and coordinator."""
    selection = Selection(
        match=match, regex=regex, exclude=exclude,
        states=parse_choices(state, "state", ALL_STATES),
        types=parse_choices(type_, "types", ALL_TYPES),
    )  # fmt: skip
    found = fetch(settings, output, _wanted(selection, columns, sort))
    _table(output, found, _columns(columns) or columns_of.LIST)
    return output.finish()


def _columns(text: str | None) -> tuple[Column, ...]:
    return () if text is None else columns_of.parse(text, columns_of.LIST, "--columns")


def _wanted(selection: Selection, columns: str | None, sort: str | None) -> Wanted:
    by = columns_of.parse(sort, columns_of.LIST, "--sort") if sort is not None else (None,)
    return Wanted(selection, _columns(columns), by[0])


def _table(output: Output, found: list[GroupListing], wanted: tuple[Column, ...]) -> None:
    if found and output.is_text:
        output.page()
        output.text(draw_for(output, wanted, [rows.listing(group) for group in found]), end="")


def kafka_form(
    settings: Settings,
    output: Output,
    state: str | None,
    type_: str | None,
    selection: Selection,
    columns: str | None = None,
    sort: str | None = None,
) -> int:
    """List as ``kafka-consumer-groups.sh --list`` does: the groups that it would show."""
    selection = selection._replace(
        states=parse_choices(state, "state", STATES),
        types=parse_choices(type_, "types", ALL_TYPES[:2]),
    )
    wanted = _wanted(selection, columns, sort)
    shows_state = state is not None or not output.is_text or columns is not None
    found = fetch(settings, output, wanted._replace(consumer_only=True, complete=shows_state))
    if wanted.columns:
        _table(output, found, wanted.columns)
    else:
        output.text(render.listing(found, type_ is not None, state is not None), end="")
    return output.finish()


def fetch(settings: Settings, output: Output, wanted: Wanted) -> list[GroupListing]:
    """Ask the cluster, and put out rows and failures; return the groups in order."""
    from kgtool.admin.listing import list_groups
    from kgtool.net.session import Session

    selection = wanted.selection
    with Session(settings) as session:
        types = tuple(name.lower() for name in selection.types)
        found = session.run(
            list_groups(session.cluster, selection.states, types, complete=wanted.complete)
        )
        output.begin([column.key for column in wanted.columns] or rows.LIST, session.cluster_id)
    groups = _arranged(found.groups, wanted)
    output.done += len(groups)
    for group in groups:
        row = rows.listing(group)
        output.row(columns_of.pick(row, wanted.columns) if wanted.columns else row)
    for error in found.errors:
        output.failed(error)
    return groups


def _arranged(groups: list[GroupListing], wanted: Wanted) -> list[GroupListing]:
    test = wanted.selection.predicate()
    chosen = [
        group
        for group in sorted(groups, key=lambda group: java_order(group.group))
        if test(group.group) and (not wanted.consumer_only or is_listed_by_kafka(group))
    ]
    if wanted.sort is None:
        return chosen
    return columns_of.sort(chosen, wanted.sort, rows.listing)
