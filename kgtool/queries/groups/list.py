"""Which groups there are, with type and state; what brokers don't list of them is described."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, within
from kgtool.model import GroupListing, ItemError, Listing
from kgtool.protocol import codes
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.groups.listings import ask_all, ask_until_stable, may_match


def list_groups(
    cluster: Cluster,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    *,
    complete: bool = False,
    share: float = 1.0,
) -> Operation[Listing]:
    """Ask every broker for the groups that it coordinates.

    A broker that fails is an error of its own; the others' groups are still there. Filters are
    case-insensitive; where a broker is too old to filter (states before ListGroups v4, types
    before v5) its groups are described to learn what it doesn't list.

    :param complete: learn the states that old brokers don't list, without a filter too.
    :param share: of the time that is left; a broker that is down leaves the rest to what follows.
    """
    return (yield from within(_list(cluster, states, types, complete), share))


def _list(
    cluster: Cluster, states: Sequence[str], types: Sequence[str], complete: bool
) -> Operation[Listing]:
    answers = yield from ask_all(cluster, states, types)
    if answers.is_suspect:
        answers = yield from ask_until_stable(cluster, answers, states, types)
    rows = {row.group: row for part in answers.rows.values() for row in part}
    errors = [error for _, error in sorted(answers.errors().items())]
    for row in rows.values():
        cluster.coordinators[row.group] = row.coordinator
    yield from _add_details(cluster, rows, states, types, complete, errors)
    return Listing(sorted(rows.values()), errors)


def _add_details(
    cluster: Cluster,
    rows: dict[str, GroupListing],
    states: Sequence[str],
    types: Sequence[str],
    complete: bool,
    errors: list[ItemError],
) -> Operation[None]:
    """Describe the groups whose type or state was not listed, and keep those that match."""
    unknown = {
        name: row
        for name, row in rows.items()
        if row.type is None or (row.state is None and (states or complete))
    }
    if not unknown:
        return
    kinds = {name: row.type or "" for name, row in unknown.items()}
    for found in (yield from describe_groups(cluster, list(unknown), kinds)):
        row = rows.pop(found.group)
        if found.error is None:
            row = row._replace(state=found.state, type=row.type or found.type)
            if may_match(row, states, types):
                rows[found.group] = row
        elif found.error.code != codes.GROUP_ID_NOT_FOUND:
            errors.append(found.error)
            if not (states or types):
                rows[found.group] = row
