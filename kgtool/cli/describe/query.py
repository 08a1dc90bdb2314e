"""One look at groups: asks the cluster and hands over what is found, group by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kgtool.cli.describe import expiry
from kgtool.cli.describe.view import View
from kgtool.cli.options.choose import Chosen, choose
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.output import rows
from kgtool.cli.output.output import Sink
from kgtool.columns import Row
from kgtool.model import GroupDescription, GroupOffsets, ItemError, OffsetRow, TopicPartition
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import Expiry


class Found:
    """One group: what there is to show of it, and what could not be found out.

    :param make: makes a row of a domain record; called for the rows that somebody looks at.
    """

    def __init__(
        self,
        description: GroupDescription,
        rows: Sequence[Row],
        errors: list[ItemError],
        *,
        found: Sequence[OffsetRow] | None = None,
        make: Callable[[OffsetRow], Row] | None = None,
        is_shown: Callable[[OffsetRow], bool] | None = None,
        is_plain: bool = False,
    ) -> None:
        self.description = description
        self.errors = errors
        self._rows, self._found, self._make = rows, found, make
        self.is_plain = is_plain
        """Whether rows have just the contract's columns of an offset."""
        self.shown = found
        """The rows as domain records, in the offsets view."""
        if found is not None and is_shown is not None:
            self.shown = [row for row in found if is_shown(row)]

    @property
    def has_rows(self) -> bool:
        """Whether the view shows any row."""
        return bool(self._rows if self.shown is None else self.shown)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows that the view shows."""
        if self.shown is not None and self._make is not None:
            return [self._make(row) for row in self.shown]
        return self._rows

    @property
    def records(self) -> Sequence[Sequence[object]]:
        """The values of ``rows``, where they are plain."""
        return list(map(rows.offset_values, self.shown or ()))

    @property
    def partitions(self) -> set[TopicPartition]:
        """Those of all rows, also of the ones that ``--lagging`` leaves out."""
        return {TopicPartition(row.topic, row.partition) for row in self._found or ()}

    @property
    def every(self) -> Sequence[Row] | None:
        """``rows`` with those that ``--lagging`` leaves out; None in the other views."""
        if self._found is None or self._make is None:
            return None
        return [self._make(row) for row in self._found]


Show = Callable[[Found], None]
Expiries = dict[tuple[str, TopicPartition], "Expiry"]


def look(
    session: Session, sink: Sink, selection: Selection, view: View, show: Show, *, ordered: bool
) -> None:
    """Ask for the chosen groups; those that can't be described do not hide the others.

    :param show: called with each group that was found.
    :param ordered: in the order of Kafka's tool, instead of as they become known.
    """
    chosen = choose(session, sink, selection, view.row_keys)
    if not chosen.groups:
        return
    ask = _offsets if view.name == "offsets" else _members_or_state
    ask(session, sink, selection, chosen, view, show, ordered)


def _offsets(
    session: Session, sink: Sink, selection: Selection, chosen: Chosen, view: View, show: Show,
    ordered: bool,
) -> None:  # fmt: skip
    from kgtool.client.ops import READING_SHARE
    from kgtool.queries.offsets.describe import describe_offsets

    expiries: Expiries = {}

    def as_row(row: OffsetRow) -> Row:
        return _offset_row(row, view, expiries)

    def emit(found: GroupOffsets) -> None:
        if not _failed(sink, selection, found.description):
            show(
                Found(
                    found.description, [], found.errors, found=found.rows, make=as_row,
                    is_shown=view.row_test, is_plain=not (view.committed or view.expiry),
                )
            )  # fmt: skip

    when_known = _in_order(chosen.groups, emit) if ordered else emit
    everything = session.run(
        describe_offsets(
            session.cluster,
            chosen.groups,
            list(view.topics) or None,
            None if view.expiry else when_known,
            kinds=chosen.kinds,
            committed=view.committed,
            clock=expiry.now_ms if view.time_lag else None,
            share=READING_SHARE if view.expiry else 1.0,  # the logs are read afterwards
        )
    )
    if view.expiry:  # groups share the reading of a log, so that nothing is known before the end
        expiries.update(expiry.of_groups(session, sink, everything))
        for group in everything:
            emit(group)


def _offset_row(row: OffsetRow, view: View, expiries: Expiries) -> dict[str, Any]:
    fields = rows.offset(row)
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


def _members_or_state(
    session: Session, sink: Sink, selection: Selection, chosen: Chosen, view: View, show: Show,
    ordered: bool,
) -> None:  # fmt: skip
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.groups.list import proven

    described = session.run(describe_groups(session.cluster, chosen.groups, chosen.kinds))
    for group in session.run(proven(described, chosen.kinds)):
        if not _failed(sink, selection, group):
            found = rows.members(group) if view.name == "members" else [rows.state(group)]
            show(Found(group, list(found), []))


def _failed(sink: Sink, selection: Selection, group: GroupDescription) -> bool:
    """Report a group that can't be described."""
    error = group.error
    if error is None:
        return False
    is_gone = error.code == GROUP_ID_NOT_FOUND and group.group not in selection.groups
    if not is_gone:  # one that was listed and is gone a moment later is no failure
        sink.failed(error)
    return True


class HeldBack:
    """A sink that holds back the news that a group is missing: it may be of another type, which has
    other APIs."""

    def __init__(self, sink: Sink, names: Sequence[str]) -> None:
        self._errors: dict[str, ItemError] = {}
        self._sink = sink
        self._names = set(names)

    def begin(self, columns: Sequence[str] = (), cluster_id: str | None = None) -> None:
        """Pass it on."""
        self._sink.begin(columns, cluster_id)

    def failed(self, error: ItemError) -> None:
        """Keep the news that a group is missing; pass on everything else."""
        name = error.target.group
        if name in self._names and error.target.topic is None and error.code == GROUP_ID_NOT_FOUND:
            self._errors[str(name)] = error
        else:
            self._sink.failed(error)

    def note(self, text: str) -> None:
        """Pass it on."""
        self._sink.note(text)

    def find(self, session: Session, view: View) -> list[Found]:
        """Find those that are share or streams groups; let go of what was held back."""
        if not self._errors:
            return []
        from kgtool.cli.describe import share_and_streams

        return share_and_streams.find(session, self._sink, self._errors, view)
