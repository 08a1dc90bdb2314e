"""``kgtool list``: the groups of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool import columns as columns_of
from kgtool.cli.app import exits
from kgtool.cli.app.kafka_refusals import ALL_TYPES, STATES, TYPES, parse_choices
from kgtool.cli.commands import NOUNS
from kgtool.cli.describe import expiry
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, glob, no_match
from kgtool.cli.options.shared import (
    cluster_options,
    filter_options,
    line_of,
    open_session,
    positions,
    rows_options,
)
from kgtool.cli.options.types import Name
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.tables import show_table
from kgtool.clock import now_ms
from kgtool.columns import Column, Order
from kgtool.columns.groups import EXPIRING, LIST, LIST_TEXT
from kgtool.errors import KgError
from kgtool.model import GroupDescription, GroupListing, ItemError, Target
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.text import counted, java_order
from kgtool.timespec import span_ms

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import GroupExpiry, Question

ALL_STATES = (*STATES, "NotReady")


class Line(NamedTuple):
    """What a command line asks for, in its own words; ``limit`` and the next: Kafka's form only."""

    selection: Selection
    state: str | None
    type_: str | None
    columns: str | None
    sort: str | None
    expiring_within: str | None
    quiet: bool = False
    limit: int | None = None
    no_headers: bool = False


class ListOptions(NamedTuple):
    """Which groups to list, and with which columns."""

    selection: Selection
    columns: tuple[Column, ...] = ()
    sort: Order | None = None
    complete: bool = True
    """States are shown: old brokers need a request of its own for them."""
    horizon_ms: int | None = None
    """Only groups that lose offsets within that time."""
    kafka_columns: tuple[bool, bool] | None = None
    """In Kafka's form: whether its table has types and states."""

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns asked for, or all."""
        return self.columns or (LIST if self.horizon_ms is None else EXPIRING)


@declare(
    "list",
    "kgtool list",
    "kgtool list --state Empty --match 'console-consumer-*'",
    "kgtool list --type consumer,share --exclude 'test-*' -o json",
    "kgtool list --columns group,state --sort state",
    "kgtool list --expiring-within 48h -o csv > expiring.csv",
)
@option(
    "--state",
    "[STATES]",
    "Only groups in these states (Stable,Empty,...; any case).",
    is_flag=False,
    flag_value="",
)
@option(
    "--type type_",
    "[TYPES]",
    "Only groups of these types (classic,consumer,share,streams).",
    is_flag=False,
    flag_value="",
)
@repeatable("--group", "GROUP", "Only this group, by its exact name; repeatable.", type=Name())
@filter_options
@positions
@option(
    "--expiring-within",
    "TIME",
    "Only groups that lose offsets within that time (48h, 7d): exit status 5 if there is any.",
)
@option("--columns", "NAME,...", "Only these columns, in this order.")
@option("--sort", "NAME", "Sort by a column (default: group); -NAME: the other way.")
@rows_options
@flag("--all-groups", "All groups, as without it.", hidden=True)
@flag("--quiet", "Only the names, one a line (-o name).")
@cluster_options()
@line_of(Line)
def command(settings: Settings, output: Output, line: Line) -> int:
    """Show the groups with type, state, members and coordinator."""
    selection = line.selection
    if line.quiet:
        output.format = "name"
    if len(selection.groups) == 1 and selection.groups[0] in NOUNS:  # kgtool list groups
        selection = selection._replace(groups=(), noun=selection.groups)
    line = line._replace(selection=selection)
    return _run(settings, output, _options(line, ALL_STATES, ALL_TYPES))


def kafka_form(settings: Settings, output: Output, line: Line) -> int:
    """List as ``kafka-consumer-groups.sh --list`` does."""
    output.limit, output.no_headers = line.limit, line.no_headers
    shows_state = line.state is not None or not output.is_text or line.columns is not None
    options = _options(line, STATES, TYPES)._replace(
        complete=shows_state, kafka_columns=(line.type_ is not None, line.state is not None)
    )
    return _run(settings, output, options)


def _options(line: Line, states: Sequence[str], types: Sequence[str]) -> ListOptions:
    """Read the line; these states and types may be named.

    :raises UsageError: a value is invalid.
    """
    selection = line.selection._replace(
        states=parse_choices(line.state, "state", states),
        types=parse_choices(line.type_, "types", types),
    )
    columns, sort, within = line.columns, line.sort, line.expiring_within
    known = LIST_TEXT if within is None else EXPIRING
    chosen = columns_of.parse(columns, known, "--columns") if columns is not None else ()
    by = columns_of.parse_order(sort, known) if sort is not None else None
    horizon_ms = span_ms(within, "expiring-within") if within is not None else None
    return ListOptions(selection, chosen, by, horizon_ms=horizon_ms)


def _run(settings: Settings, output: Output, options: ListOptions) -> int:
    with open_session(settings) as session:
        groups = _listed(session, output, options)
        if options.horizon_ms is None:
            output.done += len(groups)
            found = _with_members(session, output, groups, options)
        else:
            with looking(output, session):
                found = _expiring(session, output, groups, options.horizon_ms)
    if options.sort is not None:
        found = columns_of.sort(found, options.sort)
    for row in found:
        output.row(columns_of.pick(row, options.shown))
    _show(output, found, options, len(groups))
    status = output.finish()
    return exits.FOUND if found and options.horizon_ms is not None else status


def _show(
    output: Output, found: Sequence[dict[str, Any]], options: ListOptions, looked_at: int
) -> None:
    if options.horizon_ms is not None:
        if not found:
            what = "Nothing" if not output.errors else "Nothing that could be checked"
            within, of = columns_of.duration(options.horizon_ms), counted(looked_at, "group")
            output.note(f"{what} expires within {within}. Checked {of}.")
        show_table(output, options.shown, found)
    elif options.kafka_columns is not None and not options.columns:
        text = kafka_tables.listing(found[: output.limit], *options.kafka_columns)
        has_header = any(options.kafka_columns) and output.no_headers
        output.text(text.partition("\n")[2] if has_header else text, end="")
    else:
        has_filter = options.selection.has_filter
        if not (found or output.errors or options.kafka_columns is not None):
            output.note("No group matches." if has_filter else "There are no groups.")
        table = [
            column
            for column in options.columns or LIST_TEXT
            if options.columns or column.key != "protocol_type" or _is_worth_showing(column, found)
        ]
        show_table(output, table, found, page=True)


def _is_worth_showing(column: Column, rows: Sequence[dict[str, Any]]) -> bool:
    return any(column.cell(row) != "-" for row in rows)


def _with_members(
    session: Session, output: Output, groups: Sequence[GroupListing], options: ListOptions
) -> list[dict[str, Any]]:
    """Return the rows, with how many members groups have where that is shown; null: not known."""
    is_own_table = output.is_text and not options.columns and options.kafka_columns is None
    asked = (*options.columns, *([options.sort.column] if options.sort else ()))
    if not is_own_table and all(column.key != "members" for column in asked):
        return [group._asdict() for group in groups]
    from kgtool.queries.groups.share_and_streams import count_members

    counts = session.run(count_members(session.cluster, groups))
    return [{**group._asdict(), "members": counts.get(group.group)} for group in groups]


def _listed(session: Session, output: Output, options: ListOptions) -> list[GroupListing]:
    """Return the chosen groups by name; report brokers that failed."""
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.groups.list import list_groups

    selection = options.selection
    # Expiry is read after the list.
    share = 1.0 if options.horizon_ms is None else READING_SHARE
    types = tuple(name.lower() for name in selection.types)
    found = session.run(
        list_groups(
            session.cluster, selection.states, types, complete=options.complete, share=share
        )
    )
    output.begin(options.shown, session.cluster_id)
    for error in found.errors:
        output.failed(error)
    test = selection.name_test({group.group for group in found.groups})
    groups = [
        group
        for group in sorted(found.groups, key=lambda group: java_order(group.group))
        if test(group.group) and (options.kafka_columns is None or group.is_consumer_group)
    ]
    names = {group.group for group in groups}
    for word in (*selection.groups, *selection.ambiguous) if not found.errors else ():
        if not (word in names or (word in selection.ambiguous and any(map(glob(word), names)))):
            output.failed(no_match(word, [row.group for row in found.groups]))
    return groups


# ---------------------------------------------------------------------------------------------
# ``--expiring-within``


def _expiring(
    session: Session, output: Output, groups: Sequence[GroupListing], horizon_ms: int
) -> list[dict[str, Any]]:
    """Return a row for each group with offsets that expire within the horizon, by time."""
    questions = _questions(session, output, groups)
    until = now_ms() + horizon_ms
    found = expiry.find(session, output, questions, all_times=False)
    listed = {group.group: group for group in groups}
    answers = found.groups.values() if found is not None else ()
    output.done += sum(answer.is_known for answer in answers)
    due = [row for answer in answers for row in _row(listed[answer.group], answer, until)]
    return sorted(due, key=lambda row: row["expires_at_ms"] or until)


def _row(group: GroupListing, answer: GroupExpiry, until_ms: int) -> Iterable[dict[str, Any]]:
    due = [
        (found.expires_at_ms, found.rule)
        for found in answer.offsets.values()
        for latest_ms in (found.expires_at_ms, found.latest_ms)
        if latest_ms is not None and latest_ms <= until_ms
    ]
    if due:  # a date that a restart decides on is in time, but not told
        first, rule = min(due, key=lambda pair: pair[0] or until_ms + 1)
        yield {
            **group._asdict(),
            "expiring_offsets": len(due),
            "expires_at_ms": first,
            "rule": rule,
        }


def _questions(session: Session, output: Output, groups: Sequence[GroupListing]) -> list[Question]:
    """Describe the groups and fetch their offsets; report those where that fails."""
    from kgtool.client.ops import READING_SHARE, gather, within
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.log.expiry import Question
    from kgtool.queries.offsets.fetch import fetch_committed

    # Share groups keep their offsets elsewhere, and DescribeGroups does not know streams groups.
    asked = [group for group in groups if group.type != "share"]
    known = [group.group for group in asked if group.type != "streams"]
    kinds = {group.group: group.type or "" for group in asked}
    cluster, names = session.cluster, [group.group for group in asked]
    both = gather([describe_groups(cluster, known, kinds), fetch_committed(cluster, names)])
    # A coordinator that doesn't answer must leave time for reading the logs.
    found, committed = session.run(within(both, READING_SHARE))
    described = {description.group: description for description in found}
    questions = []
    for group in asked:
        description = described.get(group.group) or GroupDescription(
            group.group, group.type, group.state or "Unknown", group.protocol_type, "", None, ()
        )
        values = committed[group.group]
        error = description.error
        if error is None and isinstance(values, KgError):
            error = ItemError.of(values, Target(group=group.group))
        if error is not None and error.code == GROUP_ID_NOT_FOUND:
            continue  # deleted since it was listed
        if error is not None:
            output.failed(error)
        else:
            questions.append(Question.of(description, values))
    return questions
