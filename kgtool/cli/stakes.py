"""What is at stake, said in one line before a question: groups, offsets, lag, youngest commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.journaled import now_ms
from kgtool.cli.output import Output
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.words import counted, moment

if TYPE_CHECKING:
    from kgtool.cli.selection import Selection
    from kgtool.net.session import Session

RECENT_MS = 86_400_000
"""What was committed within the last day counts as in use: its name is to be typed."""
_SHARE = 0.3
"""Of the command's time: what is only said must not take the time of what is to be done."""

Partitions = Mapping[str, "Collection[TopicPartition] | None"]
"""Which offsets of which groups go; None: all of them."""


class Stakes(NamedTuple):
    """The sum. ``lag`` and ``youngest_ms`` are of what is known; ``used`` is the group whose
    commit is the youngest, and how long ago that was, if it was not long ago."""

    groups: int
    offsets: int
    lag: int
    lag_unknown: int
    youngest_ms: int | None
    used: tuple[str, str] | None

    def __str__(self) -> str:
        unknown = f" ({self.lag_unknown} unknown)" if self.lag_unknown else ""
        youngest = "unknown" if self.youngest_ms is None else moment(self.youngest_ms)
        return (
            f"All in all {counted(self.groups, 'group')}, "
            f"{counted(self.offsets, 'offset')}, lag {self.lag}{unknown}, "
            f"youngest commit {youngest}."
        )


def say(
    session: Session, output: Output, going: Partitions, selection: Selection
) -> tuple[str, str] | None:
    """Say what is at stake; return the group whose name is to be typed, if there is one.

    Whoever has named every group has typed the names already.
    """
    from kgtool.admin.survey import survey
    from kgtool.client.ops import within

    at_ms = now_ms()
    looked = survey(session.cluster, list(going), {}, at_ms, at_ms - 2 * RECENT_MS)
    try:
        found = session.run(within(looked, _SHARE))
    except KgError:
        return None  # what can't be told now is no reason not to ask
    times: dict[str, int] = {}
    offsets, lag, unknown = 0, 0, 0
    for group in found.groups:
        wanted = going[group.description.group]
        for partition, offset in group.offsets.items():
            if wanted is not None and partition not in wanted:
                continue
            offsets += 1
            lag += offset.lag or 0
            unknown += offset.lag is None
            if offset.committed_at is not None:
                name, then = group.description.group, offset.committed_at.at_ms
                times[name] = max(then, times.get(name, 0))
    stakes = Stakes(
        len(going), offsets, lag, unknown, max(times.values(), default=None), used(times, at_ms)
    )
    output.note(str(stakes))
    return None if set(going) <= set(selection.groups) else stakes.used


def used(times: Mapping[str, int], at_ms: int) -> tuple[str, str] | None:
    """Return the group that committed last, and when, if it was within the last day.

    >>> used({"a": 1_000, "b": 61_000}, 121_000)
    ('b', '1m ago')
    """
    if not times:
        return None
    from kgtool.cli.columns import duration

    group = max(times, key=lambda name: times[name])
    ago_ms = max(at_ms - times[group], 0)
    return None if ago_ms > RECENT_MS else (group, f"{duration(ago_ms) or '0s'} ago")
