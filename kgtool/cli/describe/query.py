"""Queries the cluster for ``describe``, and passes each group on as soon as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kgtool.cli.describe import expiry, rates
from kgtool.cli.describe.sums import sum_of
from kgtool.cli.describe.view import View
from kgtool.cli.options.group_selection import Chosen, Selection, choose
from kgtool.cli.output import rows
from kgtool.cli.output.output import Output
from kgtool.clock import now_ms
from kgtool.columns import Row, keys, pick
from kgtool.columns.groups import BY_GROUP, BY_GROUP_TEXT, OFFSETS
from kgtool.model import GroupDescription, GroupOffsets, ItemError, OffsetRow, TopicPartition
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import Expiry


class DescribedGroup:
    """One group: its rows, and errors about parts of it.

    :param records: all its rows; in the offsets view domain records.
    :param make_row: makes a row of such a record; called only for rows that are shown.
    :param view: its ``--lagging`` or ``--lag`` hides rows.
    """

    def __init__(
        self,
        description: GroupDescription,
        errors: list[ItemError],
        records: Sequence[Any],
        make_row: Callable[[OffsetRow], Row] | None = None,
        view: View | None = None,
    ) -> None:
        self.description, self.errors = description, errors
        self.records = self.shown = records
        if view is not None and view.narrows:
            self.shown = [record for record in records if view.shows(record)]
        self._make_row = make_row
        self._is_summed = view is not None and view.by == "group"
        self._has_topics = view is not None and bool(view.topics)
        self._has_rates = view is not None and view.rates_over_ms is not None

    def rows(self, *, hidden_too: bool = False) -> Sequence[Row]:
        """Return the rows that the view shows (``--by group``: their sum), or all.

        A group without an offset in the topics that were asked for has no sum.
        """
        records = self.records if hidden_too else self.shown
        rows = records if self._make_row is None else [self._make_row(each) for each in records]
        if not self._is_summed or hidden_too or (self._has_topics and not rows):
            return rows
        about = {"group": self.description.group, "state": self.description.state}
        sums = sum_of(rows, **about, members=len(self.description.members))
        if self._has_rates:
            return [pick(sums | rates.sum_of(rows), BY_GROUP_TEXT)]
        return [pick(sums, BY_GROUP)]


_KEYS = keys(OFFSETS)
Show = Callable[[DescribedGroup], None]
Expiries = dict[tuple[str, TopicPartition], "Expiry"]


def query_groups(
    session: Session, output: Output, selection: Selection, view: View, show: Show, *, ordered: bool
) -> dict[str, ItemError]:
    """Describe the chosen groups; those that can't be described do not hide the others.

    :param show: called with each group.
    :param ordered: in the order of Kafka's tool, instead of as they become known.
    :return: the named groups that seem to be missing: they may be share or streams groups.
    """
    chosen = choose(session, output, selection, view.row_keys)
    missing: dict[str, ItemError] = {}

    def emit(group: DescribedGroup) -> None:
        name, error = group.description.group, group.description.error
        if error is None:
            show(group)
        elif error.code != GROUP_ID_NOT_FOUND:
            output.failed(error)
        elif (
            name in selection.groups or name in chosen.others
        ):  # one deleted since it was listed is not a failure
            missing[name] = error

    if chosen.groups and view.name == "offsets":
        _offsets(session, output, chosen, view, emit, ordered)
    elif chosen.groups and view.name == "topology":
        _refuse_topology(session, output, chosen, emit)
    elif chosen.groups:
        _members_or_state(session, chosen, view, emit)
    return missing


def _offsets(
    session: Session, output: Output, chosen: Chosen, view: View, show: Show, ordered: bool
) -> None:
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.offsets.describe import describe_offsets

    expiries: Expiries = {}
    moving: rates.Rates = {}
    is_read_later = view.expiry or view.rates_over_ms is not None

    def emit(group: GroupOffsets) -> None:
        make_row = partial(offset_row, view=view, expiries=expiries, moving=moving)
        show(DescribedGroup(group.description, group.errors, group.rows, make_row, view))

    when_known = _in_order(chosen.groups, emit) if ordered else emit
    everything = session.run(
        describe_offsets(
            session.cluster,
            chosen.groups,
            list(view.topics) or None,
            None if is_read_later else when_known,
            kinds=chosen.kinds,
            committed=view.read_committed,
            clock=now_ms if view.time_lag else None,
            whole=not view.kafka_form,
            share=READING_SHARE if is_read_later else 1.0,
        )
    )
    if not is_read_later:
        return
    # The logs are read once for all groups.
    if view.expiry:
        expiries.update(expiry.of_groups(session, output, everything))
    if view.rates_over_ms is not None:
        moving = rates.find(session, output, everything, view.rates_over_ms)
    for group in everything:
        emit(group)


def offset_row(
    row: OffsetRow, view: View, expiries: Expiries, moving: rates.Rates
) -> dict[str, Any]:
    """Return a row of ``describe --offsets`` with what the view's options add."""
    fields = dict(zip(_KEYS, rows.offset_values(row), strict=True))
    if view.read_committed:
        fields["last_stable_offset"] = row.last_stable_offset
    if view.expiry:
        fields.update(expiry.as_row(expiries.get((row.group, row.topic_partition))))
    if view.rates_over_ms is not None:
        fields.update(rates.as_row(moving.get((row.group, row.topic_partition))))
    return fields


def _in_order(
    groups: list[str], show: Callable[[GroupOffsets], None]
) -> Callable[[GroupOffsets], None]:
    """Return a ``show`` that holds groups back until all those before them are known."""
    waiting: dict[str, GroupOffsets] = {}
    left = groups[::-1]

    def emit(group: GroupOffsets) -> None:
        waiting[group.description.group] = group
        while left and left[-1] in waiting:
            show(waiting.pop(left.pop()))

    return emit


def _refuse_topology(session: Session, output: Output, chosen: Chosen, show: Show) -> None:
    """Refuse consumer groups; groups of other types seem to be missing here."""
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.groups.topology import no_topology

    for group in session.run(describe_groups(session.cluster, chosen.groups, chosen.kinds)):
        if group.error is not None:
            show(DescribedGroup(group, [], []))
        else:
            output.failed(no_topology(group.group, group.type or "classic"))


def _members_or_state(session: Session, chosen: Chosen, view: View, show: Show) -> None:
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.groups.listings import mark_unlisted

    described = session.run(describe_groups(session.cluster, chosen.groups, chosen.kinds))
    for group in session.run(mark_unlisted(described, chosen.kinds)):
        found = rows.member_rows(group) if view.name == "members" else [rows.state_row(group)]
        show(DescribedGroup(group, [], found))
