"""Which groups of a file are meant: the options of ``choose``, without a cluster to ask."""

from __future__ import annotations

from collections.abc import Callable

from kgtool.cli.options.group_selection import Selection
from kgtool.errors import UsageError


def chooser(selection: Selection) -> Callable[[str], bool]:
    """Return the test that a group's name in a file has to pass; every name does without options.

    :raises UsageError: the options contradict each other, or the pattern is invalid.
    """
    if selection.groups and selection.all_groups:
        raise UsageError('Option "[group]" can\'t be used with option "[all-groups]"')
    matches = selection.predicate()
    allowed = Selection(exclude=selection.exclude).predicate()
    names = set(selection.groups)
    by_pattern = selection.all_groups or bool(selection.match) or selection.regex is not None
    if not names and not by_pattern:
        return allowed
    return lambda name: (name in names and allowed(name)) or (by_pattern and matches(name))
