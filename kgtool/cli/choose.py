"""Turns ``--group``, ``--all-groups``, ``--match`` and ``--regex`` into names, with the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.output import Output
from kgtool.cli.selection import Selection

if TYPE_CHECKING:
    from kgtool.net.session import Session


class Chosen(NamedTuple):
    """The groups a command is about, and the types of those that were listed."""

    groups: list[str]
    kinds: dict[str, str]


def choose(
    session: Session, output: Output, selection: Selection, columns: Sequence[str]
) -> Chosen:
    """Reach the cluster, begin the output and resolve the selection.

    Brokers that could not be asked are failures of their own: their groups are missing then.
    """
    if not selection.needs_listing:
        session.connect()
        output.begin(columns, session.cluster_id)
        return Chosen(selection.resolve(None), {})
    from kgtool.admin.groups import list_groups

    listing = session.run(list_groups(session.cluster))
    output.begin(columns, session.cluster_id)
    for error in listing.errors:
        output.failed(error)
    groups = selection.resolve(listing)
    if not groups and not listing.errors and selection.has_filter:
        output.note("No group matches.")
    kinds = {row.group: row.type.lower() for row in listing.groups if row.type}
    return Chosen(groups, kinds)
