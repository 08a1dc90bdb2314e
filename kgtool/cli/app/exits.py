"""Exit statuses (contract, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.model import ItemError

DONE = 0
NOTHING_DONE = 1
USAGE = 2
PARTLY_DONE = 3
UNREACHABLE = 4
FOUND = 5
INTERRUPTED = 130
TERMINATED = 143


def status(done: int, errors: Sequence[ItemError]) -> int:
    """Return the exit status of a command that did ``done`` items and failed on ``errors``.

    >>> status(2, [])
    0
    """
    if not errors:
        return DONE
    if done:
        return PARTLY_DONE
    if all(error.unreachable for error in errors):
        return UNREACHABLE
    return NOTHING_DONE
