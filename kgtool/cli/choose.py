"""Turns ``--group``, ``--all-groups``, ``--match`` and so on into names, with the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.escape import escape
from kgtool.cli.output import Sink
from kgtool.cli.selection import Selection
from kgtool.model import Listing

if TYPE_CHECKING:
    from kgtool.net.session import Session


SHARE = 0.5
"""Of the command's time: what is done with the groups needs some too."""


class Chosen(NamedTuple):
    """The groups a command is about, and the types of those that were listed."""

    groups: list[str]
    kinds: dict[str, str]


def choose(session: Session, output: Sink, selection: Selection, columns: Sequence[str]) -> Chosen:
    """Reach the cluster, begin the output and resolve the selection.

    Brokers that could not be asked are failures of their own: their groups are missing then.
    """
    if not selection.needs_listing:
        session.connect()
        output.begin(columns, session.cluster_id)
        return Chosen(selection.resolve(None), {})
    from kgtool.admin.listing import list_groups

    types = [name.lower() for name in selection.types]
    listing = session.run(list_groups(session.cluster, selection.states, types, share=SHARE))
    output.begin(columns, session.cluster_id)
    for error in listing.errors:
        output.failed(error)
    left_out = _left_out(session, output, selection, listing)
    groups = selection.resolve(listing, left_out)
    if not groups and not listing.errors and selection.has_filter:
        output.note("No group matches.")
    kinds = {row.group: row.type.lower() for row in listing.groups if row.type}
    return Chosen(groups, kinds)


def _left_out(session: Session, output: Sink, selection: Selection, listing: Listing) -> set[str]:
    """Tell groups that were named and are of another state or type from those that don't exist."""
    missing = set(selection.groups) - {row.group for row in listing.groups}
    if not missing or not (selection.states or selection.types):
        return set()
    from kgtool.admin.listing import list_groups

    found = session.run(list_groups(session.cluster)).groups
    for row in found:
        if row.group in missing:
            what = f"{row.state or 'of unknown state'}, {row.type or 'classic'}"
            output.note(f"Group {escape(row.group)} is left out: it is {what}.")
    return {row.group for row in found} & missing
