"""Waiting until groups have no members (``--wait-empty``), so that they can be written to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, Pause
from kgtool.model import GroupDescription
from kgtool.queries.groups.describe import UNKNOWN_TYPES, describe_with_type

LOOK_AGAIN_SECONDS = 0.5


def wait_until_empty(
    cluster: Cluster,
    groups: Sequence[str],
    seconds: float,
    clock: Callable[[], float],
    waiting: Callable[[list[GroupDescription]], None] | None = None,
) -> Operation[list[GroupDescription]]:
    """Return the groups that still have members when all have none, or after ``seconds``.

    Groups that can't be described, or do not exist, are not waited for. The caller gives the
    session the time that it takes (``Loop.extend``).

    :param clock: a monotonic clock, in seconds.
    :param waiting: called once, with those that are waited for.
    """
    until = clock() + seconds
    left = list(groups)
    while True:
        described = yield from describe_with_type(cluster, left)
        busy = [
            group
            for group in described
            if group.error is None and group.type not in UNKNOWN_TYPES and not group.is_empty
        ]
        if not busy or clock() >= until:
            return busy
        if waiting is not None:
            waiting(busy)
            waiting = None
        left = [group.group for group in busy]
        yield Pause(min(LOOK_AGAIN_SECONDS, max(0.0, until - clock())))
