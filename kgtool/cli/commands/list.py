"""``kgtool list``: which groups there are."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import click

from kgtool import columns as columns_of
from kgtool.cli.app.kafka_refusals import STATES, parse_choices
from kgtool.cli.flows import list_expiring
from kgtool.cli.flows.list_expiring import Horizon
from kgtool.cli.options.choose import no_match
from kgtool.cli.options.declare import declare, option, repeatable
from kgtool.cli.options.group_selection import Selection, glob, in_java_order
from kgtool.cli.options.shared import Name, cluster_options, filter_options
from kgtool.cli.output import kafka_tables, rows
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import show_table
from kgtool.columns import Column
from kgtool.columns.groups import EXPIRING, LIST
from kgtool.model import GroupListing

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session

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
    horizon: Horizon | None = None
    """Only groups that lose offsets within that time."""

    @property
    def row_keys(self) -> Sequence[str]:
        """The keys of the rows of the machine formats."""
        if self.columns:
            return columns_of.keys(self.columns)
        return columns_of.keys(LIST if self.horizon is None else EXPIRING)


@declare(
    "list",
    "kgtool list",
    "kgtool list --state Empty --match 'console-consumer-*'",
    "kgtool list --type consumer,share --exclude 'test-*' -o json",
    "kgtool list --columns group,state --sort state",
    "kgtool list --expiring-within 48h -o csv > expiring.csv",
)
@option("--state", "[STATES]", "Only groups in these states (Stable,Empty,...; any case).",
        is_flag=False, flag_value="")  # fmt: skip
@option("--type type_", "[TYPES]", "Only groups of these types (classic,consumer,share,streams).",
        is_flag=False, flag_value="")  # fmt: skip
@click.argument("words", nargs=-1, type=Name(), metavar="[GROUP]...")
@repeatable("--group", "GROUP", "Only this group, by its exact name; repeatable.", type=Name())
@filter_options
@option("--expiring-within", "TIME", "Only groups that lose offsets within that time (48h, 7d): "
        "exit status 5 if there is any.")  # fmt: skip
@option("--columns", "NAME,...", "Only these columns, in this order.")
@option("--sort", "NAME", "Sort by a column (default: group).")
@cluster_options()
def command(
    settings: Settings,
    output: Output,
    state: str | None,
    type_: str | None,
    words: tuple[str, ...],
    group: tuple[str, ...],
    match: tuple[str, ...],
    regex: str | None,
    exclude: tuple[str, ...],
    expiring_within: str | None,
    columns: str | None,
    sort: str | None,
) -> int:
    """Show the groups with type, state and coordinator."""
    selection = Selection(
        group, match=match, regex=regex, exclude=exclude,
        states=parse_choices(state, "state", ALL_STATES),
        types=parse_choices(type_, "types", ALL_TYPES),
    ).named(words)  # fmt: skip
    wanted = _wanted(selection, columns, sort, expiring_within)
    if wanted.horizon is not None:
        return _expiring(settings, output, wanted, wanted.horizon)
    found = fetch(settings, output, wanted)
    if not found and selection.has_filter and not output.errors:
        output.note("No group matches.")
    _table(output, found, wanted.columns or LIST)
    return output.finish()


def _wanted(
    selection: Selection, columns: str | None, sort: str | None, within: str | None
) -> Wanted:
    known = LIST if within is None else EXPIRING
    chosen = columns_of.parse(columns, known, "--columns") if columns is not None else ()
    by = columns_of.parse(sort, known, "--sort")[0] if sort is not None else None
    horizon = list_expiring.Horizon.parse(within) if within is not None else None
    return Wanted(selection, chosen, by, horizon=horizon)


def _expiring(settings: Settings, output: Output, wanted: Wanted, horizon: Horizon) -> int:
    """Show the groups that lose offsets soon; 5 if there are any."""
    from kgtool.net.session import Session

    with Session(settings) as session:
        groups = _listed(session, output, wanted)
        found = list_expiring.find(session, output, groups, horizon)
    if wanted.sort is not None:
        found = columns_of.sort(found, wanted.sort, lambda row: row)
    return list_expiring.show(output, found, wanted.columns, horizon, len(groups))


def _table(output: Output, found: list[GroupListing], wanted: tuple[Column, ...]) -> None:
    show_table(output, wanted, [rows.listing(group) for group in found], page=True)


def kafka_form(
    settings: Settings,
    output: Output,
    state: str | None,
    type_: str | None,
    selection: Selection,
    columns: str | None = None,
    sort: str | None = None,
    within: str | None = None,
) -> int:
    """List as ``kafka-consumer-groups.sh --list`` does: the groups that it would show."""
    selection = selection._replace(
        states=parse_choices(state, "state", STATES),
        types=parse_choices(type_, "types", ALL_TYPES[:2]),
    )
    wanted = _wanted(selection, columns, sort, within)._replace(consumer_only=True)
    if wanted.horizon is not None:
        return _expiring(settings, output, wanted, wanted.horizon)
    shows_state = state is not None or not output.is_text or columns is not None
    found = fetch(settings, output, wanted._replace(complete=shows_state))
    if wanted.columns:
        _table(output, found, wanted.columns)
    else:
        output.text(kafka_tables.listing(found, type_ is not None, state is not None), end="")
    return output.finish()


def fetch(settings: Settings, output: Output, wanted: Wanted) -> list[GroupListing]:
    """Ask the cluster, and put out rows and failures; return the groups in order."""
    from kgtool.net.session import Session

    with Session(settings) as session:
        groups = _listed(session, output, wanted)
    if wanted.sort is not None:
        groups = columns_of.sort(groups, wanted.sort, rows.listing)
    output.done += len(groups)
    for group in groups if not output.is_text else ():
        row = rows.listing(group)
        output.row(columns_of.pick(row, wanted.columns) if wanted.columns else row)
    return groups


def _listed(session: Session, output: Output, wanted: Wanted) -> list[GroupListing]:
    """Return the chosen groups by name; brokers that failed are failures of their own."""
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.groups.list import list_groups

    selection = wanted.selection
    # What expires is read afterwards.
    share = 1.0 if wanted.horizon is None else READING_SHARE
    types = tuple(name.lower() for name in selection.types)
    found = session.run(
        list_groups(session.cluster, selection.states, types, complete=wanted.complete, share=share)
    )
    output.begin(wanted.row_keys, session.cluster_id)
    for error in found.errors:
        output.failed(error)
    groups = _arranged(found.groups, wanted)
    names = {group.group for group in groups}
    for word in (*selection.groups, *selection.open) if not found.errors else ():
        if not (word in names or (word in selection.open and any(map(glob(word), names)))):
            output.failed(no_match(word))
    return groups


def _arranged(groups: list[GroupListing], wanted: Wanted) -> list[GroupListing]:
    test = wanted.selection.lists({group.group for group in groups})
    return [
        group
        for group in in_java_order(groups, attrgetter("group"))
        if test(group.group) and (not wanted.consumer_only or group.is_consumer_group)
    ]
