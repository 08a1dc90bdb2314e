"""Turns ``--group``, ``--all-groups``, ``--match`` and so on into names, with the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.options.group_selection import Selection
from kgtool.cli.output.output import Output
from kgtool.model import ItemError, Listing, Target
from kgtool.text import escape

if TYPE_CHECKING:
    from kgtool.net.session import Session


SHARE = 0.5
"""Of the command's time: what is done with the groups needs some too."""


class Chosen(NamedTuple):
    """The groups a command is about, and the types of those that were listed."""

    groups: list[str]
    kinds: dict[str, str]
    errors: Sequence[ItemError] = ()
    """The brokers whose groups are missing."""


def choose(
    session: Session, output: Output, selection: Selection, columns: Sequence[str]
) -> Chosen:
    """Reach the cluster, begin the output and resolve the selection.

    Brokers that could not be asked are failures of their own: their groups are missing then.
    """
    if not selection.needs_listing:
        session.connect()
        output.begin(columns, session.cluster_id)
        groups = selection.resolve(None)
        if not groups:
            output.note("No group matches.")
        return Chosen(groups, {})
    from kgtool.queries.groups.list import list_groups

    types = [name.lower() for name in selection.types]
    listing = session.run(list_groups(session.cluster, selection.states, types, share=SHARE))
    output.begin(columns, session.cluster_id)
    for error in listing.errors:
        output.failed(error)
    whole = listing
    if selection.open and (selection.states or types):
        whole = session.run(list_groups(session.cluster, share=SHARE))
    selection, missed = selection.closed(whole)
    for word in missed if not whole.errors else ():
        output.failed(no_match(word))
    left_out = _left_out(session, output, selection, listing)
    groups = selection.resolve(listing, left_out) if selection.is_given else []
    if not groups and not listing.errors and selection.has_filter and not missed:
        output.note("No group matches.")
    kinds = {row.group: row.type.lower() for row in listing.groups if row.type}
    return Chosen(groups, kinds, listing.errors)


def as_named(
    session: Session, output: Output, selection: Selection, columns: Sequence[str]
) -> list[str]:
    """Choose groups as ``choose`` does; return them in the order in which they were named."""
    order = {name: at for at, name in enumerate(selection.groups)}
    groups = choose(session, output, selection, columns).groups
    return sorted(groups, key=lambda name: order.get(name, len(order)))


def no_match(word: str) -> ItemError:
    """Return the failure of an argument that is no group's name and matches none."""
    hint = "kgtool list shows the groups; quote a pattern, so that the shell leaves it alone."
    return ItemError(Target(), None, "NO_MATCH", f"No group matches '{word}'.", hint)


def _left_out(session: Session, output: Output, selection: Selection, listing: Listing) -> set[str]:
    """Tell groups that were named and are of another state or type from those that don't exist."""
    missing = set(selection.groups) - {row.group for row in listing.groups}
    if not missing or not (selection.states or selection.types):
        return set()
    from kgtool.queries.groups.list import list_groups

    unknown: set[str] = set()
    whole = session.run(list_groups(session.cluster))
    found = whole.groups
    for error in (*listing.errors, *whole.errors)[:1]:
        # One that is not listed may be of any state: it is not taken for one that was asked for.
        for group in sorted(missing - {row.group for row in found}):
            said = f"Whether group '{group}' has that state and type is not known: "
            target = error.target._replace(group=group)
            output.failed(error._replace(target=target, message=said + error.message))
            missing.discard(group)
            unknown.add(group)
    for row in found:
        if row.group in missing:
            what = f"{row.state or 'of unknown state'}, {row.type or 'classic'}"
            output.note(f"Group {escape(row.group)} is left out: it is {what}.")
    return {row.group for row in found} & missing | unknown
