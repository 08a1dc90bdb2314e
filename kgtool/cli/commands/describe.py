"""``kgtool describe``: committed offsets and lag, members, or state of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from kgtool.cli import render, rows
from kgtool.cli.choose import choose
from kgtool.cli.options import (
    TopicSpecType,
    connection_options,
    name_options,
    output_options,
)
from kgtool.cli.output import Output
from kgtool.cli.selection import Selection
from kgtool.errors import UsageError
from kgtool.model import GroupDescription, GroupOffsets, OffsetRow, TopicSpec
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session

VIEWS = ("offsets", "members", "state")


class View(NamedTuple):
    """What of the groups is to be shown, and how."""

    name: str = "offsets"
    verbose: bool = False
    topics: tuple[TopicSpec, ...] = ()
    lagging: bool = False
    sort: str | None = None
    kafka_form: bool = False


@click.command("describe")
@name_options
@click.option("--offsets", "view", flag_value="offsets", help="Committed offsets (default).")
@click.option("--members", "view", flag_value="members", help="The members.")
@click.option("--state", "view", flag_value="state", help="The state of each group.")
@click.option("--verbose", is_flag=True, help="More columns.")
@click.option("--topic", "topics", multiple=True, type=TopicSpecType(), metavar="TOPIC[:0,1]",
              help="Only these topics or partitions; repeatable.")  # fmt: skip
@click.option("--lagging", is_flag=True, help="Only partitions with something left to read.")
@click.option("--sort", type=click.Choice(["lag"]), help="Largest lag first.")
@connection_options()
@output_options
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    view: str | None,
    verbose: bool,
    topics: tuple[TopicSpec, ...],
    lagging: bool,
    sort: str | None,
) -> int:
    """Show groups: committed offsets and lag, members, or state."""
    name = view or "offsets"
    if name != "offsets" and (topics or lagging or sort):
        raise UsageError(
            "--topic, --lagging and --sort are about offsets, not --members or --state."
        )
    return run(settings, output, selection, View(name, verbose, topics, lagging, sort))


def run(settings: Settings, output: Output, selection: Selection, view: View) -> int:
    """Describe the chosen groups; those that can't be described do not hide the others."""
    from kgtool.net.session import Session

    selection.check("describe")
    columns = {"offsets": rows.OFFSETS, "members": rows.MEMBERS, "state": rows.STATE}[view.name]
    with Session(settings) as session:
        chosen = choose(session, output, selection, columns)
        if chosen.groups:
            show = _offsets if view.name == "offsets" else _members_or_state
            show(session, output, selection, chosen.groups, chosen.kinds, view)
    return output.finish()


def _offsets(
    session: Session,
    output: Output,
    selection: Selection,
    groups: list[str],
    kinds: dict[str, str],
    view: View,
) -> None:
    from kgtool.admin.offsets import describe_offsets

    def show(found: GroupOffsets) -> None:
        if not _failed(output, selection, found.description):
            _show_offsets(output, found, view)

    # Text keeps Kafka's order of groups; the rest leaves as it arrives.
    emit = _in_order(groups, show) if output.format != "ndjson" else show
    topics = list(view.topics) or None
    session.run(describe_offsets(session.cluster, groups, topics, emit, kinds=kinds))


def _in_order(
    groups: list[str], show: Callable[[GroupOffsets], None]
) -> Callable[[GroupOffsets], None]:
    """Hold results back until all that come before them, in the order asked, are there."""
    waiting: dict[str, GroupOffsets] = {}
    left = iter(groups)
    state = {"next": next(left, None)}

    def emit(found: GroupOffsets) -> None:
        waiting[found.description.group] = found
        while state["next"] in waiting:
            show(waiting.pop(state["next"] or ""))
            state["next"] = next(left, None)

    return emit


def _show_offsets(output: Output, found: GroupOffsets, view: View) -> None:
    shown = [row for row in found.rows if not view.lagging or (row.lag or 0) > 0]
    if view.sort == "lag":
        shown.sort(key=_by_lag)
    _note(output, found.description)
    output.text(render.offsets(shown, view.verbose, status=not view.kafka_form), end="")
    for row in shown:
        output.row(rows.offset(row))
    for error in found.errors:
        output.failed(error)
    if not found.errors or found.rows:
        output.done += 1
    if output.reader_gone:
        raise BrokenPipeError


def _by_lag(row: OffsetRow) -> tuple[bool, int]:
    return row.lag is None, -(row.lag or 0)


def _members_or_state(
    session: Session,
    output: Output,
    selection: Selection,
    groups: list[str],
    kinds: dict[str, str],
    view: View,
) -> None:
    from kgtool.admin.groups import describe_groups

    for group in session.run(describe_groups(session.cluster, groups, kinds)):
        if _failed(output, selection, group):
            continue
        output.done += 1
        _note(output, group)
        if view.name == "members":
            output.text(render.members(group, view.verbose), end="")
            for row in rows.members(group):
                output.row(row)
        else:
            output.text(render.state(group, view.verbose), end="")
            output.row(rows.state(group))


def _note(output: Output, group: GroupDescription) -> None:
    note = render.group_note(group)
    if note is not None and output.is_text:
        output.note(note)


def _failed(output: Output, selection: Selection, group: GroupDescription) -> bool:
    """Report a group that can't be described."""
    error = group.error
    if error is None:
        return False
    is_gone = error.code == GROUP_ID_NOT_FOUND and group.group not in selection.groups
    if not is_gone:  # one that was listed and is gone a moment later is no failure
        output.failed(error)
    return True
