"""``list --expiring-within 48h``: the groups that are about to lose offsets. For cron: 5 if any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool import columns as columns_of
from kgtool.cli.app import exits
from kgtool.cli.describe import expiry
from kgtool.cli.output import rows
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import show_table
from kgtool.columns import Column, duration
from kgtool.columns.groups import EXPIRING
from kgtool.errors import KgError
from kgtool.model import GroupDescription, GroupListing, ItemError, Target
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.text import counted
from kgtool.timespec import span_ms

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.log.expiry import GroupExpiry, Question

Row = dict[str, Any]


class Horizon(NamedTuple):
    """How far to look: from now on, in ms, and the words of it."""

    within_ms: int
    shown: str

    @classmethod
    def parse(cls, text: str) -> Horizon:
        """Read the option's value; UsageError if it is no time."""
        within_ms = span_ms(text, "expiring-within")
        return cls(within_ms, duration(within_ms))


def find(
    session: Session, output: Output, groups: Sequence[GroupListing], horizon: Horizon
) -> list[Row]:
    """Return a row for each group that loses offsets within the horizon, the first one first."""
    questions = _questions(session, output, groups)
    until = expiry.now_ms() + horizon.within_ms
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
        yield {**rows.listing(group), "expiring_offsets": len(due), "expires_at_ms": first,
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
        description = described.get(group.group) or _as_listed(group)
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


def _as_listed(group: GroupListing) -> GroupDescription:
    state = group.state or "Unknown"
    return GroupDescription(group.group, group.type, state, group.protocol_type, "", None, ())


def show(
    output: Output, found: Sequence[Row], wanted: Sequence[Column], horizon: Horizon, groups: int
) -> int:
    """Put out the groups; return the exit status."""
    for row in found:
        output.row(columns_of.pick(row, wanted) if wanted else row)
    if not found:
        what = "Nothing" if not output.errors else "Nothing that could be checked"
        of = counted(groups, "group")
        output.note(f"{what} expires within {horizon.shown} ({of} looked at).")
    show_table(output, wanted or EXPIRING, found)
    status = output.finish()
    return exits.FOUND if found else status
