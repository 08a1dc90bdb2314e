"""``kgtool list``: which groups there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool import columns as columns_of
from kgtool.cli.app import exits
from kgtool.cli.app.kafka_refusals import STATES, parse_choices
from kgtool.cli.describe import expiry
from kgtool.cli.options.declare import declare, option, repeatable
from kgtool.cli.options.group_selection import Selection, glob, java_order, no_match
from kgtool.cli.options.shared import cluster_options, filter_options, open_session, positions
from kgtool.cli.options.types import Name
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import show_table
from kgtool.clock import now_ms
from kgtool.columns import Column
from kgtool.columns.groups import EXPIRING, LIST
from kgtool.errors import KgError
from kgtool.model import GroupDescription, GroupListing, ItemError, Target
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.text import counted
from kgtool.timespec import span_ms

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import GroupExpiry, Question

Row = dict[str, Any]

ALL_STATES = (*STATES, "NotReady")
ALL_TYPES = ("Consumer", "Classic", "Share", "Streams")


class Wanted(NamedTuple):
    """Which groups to list, and how."""

    selection: Selection
    columns: tuple[Column, ...] = ()
    sort: Column | None = None
    complete: bool = True
    """States are shown, so that old brokers have to be asked for them."""
    horizon_ms: int | None = None
    """Only groups that lose offsets within that time."""
    kafkas: tuple[bool, bool] | None = None
    """Kafka's form, which lists what Kafka's tool lists: whether its table has types and states."""

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns asked for, or all that there are."""
        return self.columns or (LIST if self.horizon_ms is None else EXPIRING)


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
@repeatable("--group", "GROUP", "Only this group, by its exact name; repeatable.", type=Name())
@filter_options
@positions
@option("--expiring-within", "TIME", "Only groups that lose offsets within that time (48h, 7d): "
        "exit status 5 if there is any.")  # fmt: skip
@option("--columns", "NAME,...", "Only these columns, in this order.")
@option("--sort", "NAME", "Sort by a column (default: group).")
@cluster_options()
def command(settings: Settings, output: Output, selection: Selection, **given: Any) -> int:
    """Show the groups with type, state and coordinator."""
    states = parse_choices(given["state"], "state", ALL_STATES)
    types = parse_choices(given["type_"], "types", ALL_TYPES)
    return _run(settings, output, _wanted(selection, states, types, given))


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int:
    """List as ``kafka-consumer-groups.sh --list`` does: the groups that it would show."""
    state, type_ = given["state"], given["type"]
    states = parse_choices(state, "state", STATES)
    types = parse_choices(type_, "types", ALL_TYPES[:2])
    shows_state = state is not None or not output.is_text or given["columns"] is not None
    wanted = _wanted(selection, states, types, given)._replace(
        complete=shows_state, kafkas=(type_ is not None, state is not None)
    )
    return _run(settings, output, wanted)


def _wanted(
    selection: Selection, states: tuple[str, ...], types: tuple[str, ...], given: dict[str, Any]
) -> Wanted:
    selection = selection._replace(states=states, types=types)
    columns, sort, within = given["columns"], given["sort"], given["expiring_within"]
    known = LIST if within is None else EXPIRING
    chosen = columns_of.parse(columns, known, "--columns") if columns is not None else ()
    by = columns_of.parse(sort, known, "--sort")[0] if sort is not None else None
    horizon_ms = span_ms(within, "expiring-within") if within is not None else None
    return Wanted(selection, chosen, by, horizon_ms=horizon_ms)


def _run(settings: Settings, output: Output, wanted: Wanted) -> int:
    """Ask the cluster, put out rows, failures and the table; 5 if any group loses offsets."""
    with open_session(settings) as session:
        groups = _listed(session, output, wanted)
        if wanted.horizon_ms is None:
            output.done += len(groups)
            found = [group._asdict() for group in groups]
        else:
            found = _expiring(session, output, groups, wanted.horizon_ms)
    if wanted.sort is not None:
        found = columns_of.sort(found, wanted.sort)
    for row in found:
        output.row(columns_of.pick(row, wanted.shown))
    _show(output, found, wanted, len(groups))
    status = output.finish()
    return exits.FOUND if found and wanted.horizon_ms is not None else status


def _show(output: Output, found: Sequence[Row], wanted: Wanted, looked_at: int) -> None:
    if wanted.horizon_ms is not None:
        if not found:
            what = "Nothing" if not output.errors else "Nothing that could be checked"
            within, of = columns_of.duration(wanted.horizon_ms), counted(looked_at, "group")
            output.note(f"{what} expires within {within} ({of} looked at).")
        show_table(output, wanted.shown, found)
    elif wanted.kafkas is not None and not wanted.columns:
        output.text(kafka_tables.listing(found, *wanted.kafkas), end="")
    else:
        has_filter = wanted.kafkas is None and wanted.selection.has_filter
        if has_filter and not found and not output.errors:
            output.note("No group matches.")
        show_table(output, wanted.shown, found, page=True)


def _listed(session: Session, output: Output, wanted: Wanted) -> list[GroupListing]:
    """Return the chosen groups by name; brokers that failed are failures of their own."""
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.groups.list import list_groups

    selection = wanted.selection
    # What expires is read afterwards.
    share = 1.0 if wanted.horizon_ms is None else READING_SHARE
    types = tuple(name.lower() for name in selection.types)
    found = session.run(
        list_groups(session.cluster, selection.states, types, complete=wanted.complete, share=share)
    )
    output.begin(wanted.shown, session.cluster_id)
    for error in found.errors:
        output.failed(error)
    test = selection.lists({group.group for group in found.groups})
    groups = [
        group
        for group in sorted(found.groups, key=lambda group: java_order(group.group))
        if test(group.group) and (wanted.kafkas is None or group.is_consumer_group)
    ]
    names = {group.group for group in groups}
    for word in (*selection.groups, *selection.open) if not found.errors else ():
        if not (word in names or (word in selection.open and any(map(glob(word), names)))):
            output.failed(no_match(word))
    return groups


# ---------------------------------------------------------------------------------------------
# ``--expiring-within``: for cron, 5 if there is any


def _expiring(
    session: Session, output: Output, groups: Sequence[GroupListing], horizon_ms: int
) -> list[Row]:
    """Return a row for each group that loses offsets within the horizon, the first one first."""
    questions = _questions(session, output, groups)
    until = now_ms() + horizon_ms
    found = expiry.find(session, output, questions, all_times=False) if questions else None
    listed = {group.group: group for group in groups}
    answers = found.groups.values() if found is not None else ()
    output.done += sum(answer.is_known for answer in answers)
    due = [row for answer in answers for row in _row(listed[answer.group], answer, until)]
    return sorted(due, key=lambda row: row["expires_at_ms"])


def _row(group: GroupListing, answer: GroupExpiry, until_ms: int) -> Iterable[Row]:
    due = [
        (found.expires_at_ms, found.rule)
        for found in answer.offsets.values()
        if found.expires_at_ms is not None and found.expires_at_ms <= until_ms
    ]
    if due:
        first, rule = min(due, key=lambda pair: pair[0])
        yield {**group._asdict(), "expiring_offsets": len(due), "expires_at_ms": first,
               "rule": rule}  # fmt: skip


def _questions(session: Session, output: Output, groups: Sequence[GroupListing]) -> list[Question]:
    """Learn what the groups are and have; those that can't be asked are failures of their own."""
    from kgtool.client.ops import READING_SHARE, gather, within
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.log.expiry import Question
    from kgtool.queries.offsets.fetch import fetch_committed

    # Share groups keep their offsets elsewhere, and DescribeGroups does not know streams groups.
    asked = [group for group in groups if group.type != "share"]
    known = [group.group for group in asked if group.type != "streams"]
    kinds = {group.group: group.type for group in asked if group.type is not None}
    cluster, names = session.cluster, [group.group for group in asked]
    both = gather([describe_groups(cluster, known, kinds), fetch_committed(cluster, names)])
    # A coordinator that doesn't answer must leave time for reading the logs of the others' groups.
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
            continue  # it was listed, and is gone a moment later
        if error is not None:
            output.failed(error)
        else:
            questions.append(Question.of(description, values))
    return questions
