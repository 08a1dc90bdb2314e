"""``describe`` for share and streams groups, which have APIs and tables of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kgtool.cli.describe import epochs, expiry, rates
from kgtool.cli.describe.present import arrange, write_table
from kgtool.cli.describe.query import DescribedGroup, offset_row
from kgtool.cli.describe.view import View
from kgtool.cli.output import kafka_tables, rows
from kgtool.cli.output.output import Output
from kgtool.columns.groups import TOPOLOGY
from kgtool.errors import KgError
from kgtool.model import Assignment, ItemError, OffsetRow, Target
from kgtool.net.session import Session
from kgtool.queries.groups import share_and_streams as queries
from kgtool.queries.groups import topology
from kgtool.queries.groups.share_and_streams import OtherGroup
from kgtool.text import escape, shell_word

KINDS = ("share", "streams")

Row = dict[str, Any]


def query(
    session: Session, output: Output, missing: Mapping[str, ItemError], view: View
) -> list[DescribedGroup]:
    """Describe the share and streams groups among those that no API of consumer groups knows.

    The errors of all others go to ``output``.
    """
    if not missing:
        return []
    answers = session.run(queries.describe_missing(session.cluster, list(missing)))
    others = [one for one in answers.values() if isinstance(one, OtherGroup)]
    for name, error in missing.items():
        other = answers.get(name, error)
        if isinstance(other, ItemError):
            output.failed(other)
        elif view.kafka_form:
            kind = other.description.type
            hint = f"It is a {kind} group: kgtool describe --group {shell_word(name)} shows it."
            output.failed(error._replace(hint=hint))
    if view.kafka_form:
        return []
    if view.name == "offsets":
        return _query_offsets(session, output, view, others)
    if view.name == "topology":
        return _query_topologies(session, output, others)
    make = _member_rows if view.name == "members" else _state_rows
    return [DescribedGroup(other.description, [], make(other)) for other in others]


def _query_topologies(
    session: Session, output: Output, others: Sequence[OtherGroup]
) -> list[DescribedGroup]:
    described = {one.description.group: one.description for one in others}
    for name, one in described.items():
        if one.type != "streams":
            output.failed(topology.no_topology(name, str(one.type)))
    names = [name for name, one in described.items() if one.type == "streams"]
    answers = session.run(topology.describe_topologies(session.cluster, names)) if names else {}
    found: list[DescribedGroup] = []
    for name, answer in answers.items():
        if isinstance(answer, KgError):
            output.failed(ItemError.of(answer, Target(group=name)))
            continue
        made = [rows.build_row(row, TOPOLOGY) for row in answer.rows]
        found.append(DescribedGroup(described[name], [], made))
        if not answer.rows:
            output.note(f"Streams group {escape(name)} has no topology yet: no member has sent it.")
        if answer.is_unreadable:
            output.note(
                f"The broker could not read the stored topology description of {escape(name)}: its "
                "nodes are missing here."
            )
    return found


def show(output: Output, groups: Sequence[DescribedGroup], view: View) -> None:
    """Show groups: offsets one by one, members and states in one table for each type."""
    if view.name == "offsets":
        for group in groups:
            _show_offsets(output, view, group)
        if groups and view.narrows and not any(group.shown for group in groups):
            output.note("No lag to show.")
        return
    for kind in KINDS:
        of_kind = [group for group in groups if group.description.type == kind]
        for group in of_kind:
            output.done += 1
            epochs.note(output, group.description)
        if of_kind:
            _show_table(output, view, kind, [row for group in of_kind for row in group.rows()])


def _show_table(output: Output, view: View, kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    arranged = arrange(rows, view)
    write_table(output, view, view.text_columns(arranged, kind), arranged, "\n")


def _query_offsets(
    session: Session, output: Output, view: View, others: Sequence[OtherGroup]
) -> list[DescribedGroup]:
    everything = session.run(queries.describe_other_offsets(session.cluster, others))
    expiries = expiry.of_groups(session, output, everything) if view.expiry else {}
    moving: rates.Rates = {}
    if view.rates_over_ms is not None:  # share groups don't commit
        streams = [one for one in everything if one.description.type == "streams"]
        moving = rates.find(session, output, streams, view.rates_over_ms)

    def as_row(row: OffsetRow, kind: str | None) -> Row:
        start = row.current_offset if kind == "share" else None
        return offset_row(row, view, expiries, moving) | {"type": kind, "start_offset": start}

    return [
        DescribedGroup(
            one.description,
            one.errors,
            [
                row
                for row in one.rows
                if not view.topics
                or any(spec.covers(row.topic, row.partition) for spec in view.topics)
            ],
            partial(as_row, kind=one.description.type),
            view,
        )
        for one in everything
    ]


def _show_offsets(output: Output, view: View, group: DescribedGroup) -> None:
    kind = str(group.description.type)
    note = kafka_tables.group_note(group.description)
    if note is not None and output.is_text:
        output.note(note.replace("Consumer group", f"{kind.capitalize()} group"))
    if not group.records and not group.errors:
        what = "start offsets" if kind == "share" else "committed offsets"
        output.note(f"{kind.capitalize()} group {escape(group.description.group)} has no {what}.")
    _show_table(output, view, kind, group.rows())
    for error in group.errors:
        output.failed(error)
    output.done += bool(group.records or not group.errors)


def _member_rows(other: OtherGroup) -> list[Row]:
    found: list[Row] = []
    for row in rows.member_rows(other.description):
        one = other.streams.get(row["consumer_id"])
        row |= {"type": other.description.type, "process_id": None, "topology_epoch": None}
        if one is not None:
            row |= {
                "process_id": one.process_id,
                "topology_epoch": one.topology_epoch,
                "current_assignment": _tasks(one.tasks),
                "target_assignment": _tasks(one.target),
            }
        found.append(row)
    return found


def _tasks(tasks: Sequence[Assignment]) -> str | None:
    """Return ``active 0:0,1; standby 1:2``; None without any task."""
    kinds = zip(("active", "standby", "warmup"), tasks, strict=True)
    return "; ".join(f"{kind} {rows.assignment(part)}" for kind, part in kinds if part) or None


def _state_rows(other: OtherGroup) -> list[Row]:
    kind = other.description.type
    own = {
        "type": kind,
        "topology_epoch": other.topology_epoch,
        "subtopologies": len(other.topics) if kind == "streams" else None,
    }
    return [rows.state_row(other.description) | own]
