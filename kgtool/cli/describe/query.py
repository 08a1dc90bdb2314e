"""One look at groups: asks the cluster and hands over what is found, group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kgtool.cli.describe import expiry
from kgtool.cli.describe.view import View
from kgtool.cli.options.group_selection import Chosen, Selection, choose
from kgtool.cli.output import rows
from kgtool.cli.output.output import Output
from kgtool.clock import now_ms
from kgtool.columns import Row, keys
from kgtool.columns.groups import OFFSETS
from kgtool.model import GroupDescription, GroupOffsets, ItemError, OffsetRow, TopicPartition
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import Expiry


class Found:
    """One group: what there is to show of it, and what could not be found out.

    :param every: all its rows: domain records in the offsets view.
    :param make: makes a row of such a record; called for the rows that somebody looks at.
    :param view: its ``--lagging`` or ``--lag`` leaves out rows.
    """

    def __init__(
        self, description: GroupDescription, errors: list[ItemError], every: Sequence[Any],
        make: Callable[[OffsetRow], Row] | None = None, view: View | None = None,
    ) -> None:  # fmt: skip
        self.description, self.errors = description, errors
        self.every = every
        self.shown = every
        if view is not None and view.narrows:
            self.shown = [row for row in every if view.shows(row)]
        self._make = make

    def rows(self, *, every: bool = False) -> Sequence[Row]:
        """Return the rows that the view shows, or ``every`` one."""
        found = self.every if every else self.shown
        return found if self._make is None else [self._make(row) for row in found]


Show = Callable[[Found], None]
Expiries = dict[tuple[str, TopicPartition], "Expiry"]


def look(
    session: Session, output: Output, selection: Selection, view: View, show: Show, *, ordered: bool
) -> dict[str, ItemError]:
    """Ask for the chosen groups; those that can't be described do not hide the others.

    :param show: called with each group that was found.
    :param ordered: in the order of Kafka's tool, instead of as they become known.
    :return: the named groups that seem to be missing: of another type they have other APIs.
    """
    chosen = choose(session, output, selection, view.row_keys)
    missing: dict[str, ItemError] = {}

    def emit(found: Found) -> None:
        name, error = found.description.group, found.description.error
        if error is None:
            show(found)
        elif error.code != GROUP_ID_NOT_FOUND:
            output.failed(error)
        elif name in selection.groups:
            missing[name] = error  # one that was listed and is gone a moment later is no failure

    if chosen.groups and view.name == "offsets":
        _offsets(session, output, chosen, view, emit, ordered)
    elif chosen.groups:
        _members_or_state(session, chosen, view, emit)
    return missing


def _offsets(
    session: Session, output: Output, chosen: Chosen, view: View, show: Show, ordered: bool
) -> None:
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.offsets.describe import describe_offsets

    expiries: Expiries = {}

    def emit(found: GroupOffsets) -> None:
        make = partial(offset_row, view=view, expiries=expiries)
        show(Found(found.description, found.errors, found.rows, make, view))

    when_known = _in_order(chosen.groups, emit) if ordered else emit
    everything = session.run(
        describe_offsets(
            session.cluster,
            chosen.groups,
            list(view.topics) or None,
            None if view.expiry else when_known,
            kinds=chosen.kinds,
            committed=view.committed,
            clock=now_ms if view.time_lag else None,
            share=READING_SHARE if view.expiry else 1.0,  # the logs are read afterwards
        )
    )
    if view.expiry:  # groups share the reading of a log, so that nothing is known before the end
        expiries.update(expiry.of_groups(session, output, everything))
        for group in everything:
            emit(group)


def offset_row(row: OffsetRow, view: View, expiries: Expiries) -> dict[str, Any]:
    """Return a row of ``describe --offsets`` with what the view's options add."""
    fields = dict(zip(keys(OFFSETS), rows.offset_values(row), strict=True))
    if view.committed:
        fields["last_stable_offset"] = row.last_stable_offset
    if view.expiry:
        at = TopicPartition(row.topic, row.partition)
        fields.update(expiry.as_row(expiries.get((row.group, at))))
    return fields


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


def _members_or_state(session: Session, chosen: Chosen, view: View, show: Show) -> None:
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.groups.list import mark_unlisted

    described = session.run(describe_groups(session.cluster, chosen.groups, chosen.kinds))
    for group in session.run(mark_unlisted(described, chosen.kinds)):
        found = rows.member_rows(group) if view.name == "members" else [rows.state_row(group)]
        show(Found(group, [], found))
