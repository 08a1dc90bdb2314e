"""What is at stake, said in one line before a question: groups, offsets, lag, latest commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.flows.change import now_ms
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.text import counted, escape, moment

if TYPE_CHECKING:
    from kgtool.changes.cleanup.facts import GroupFacts, OffsetFacts
    from kgtool.cli.options.group_selection import Selection
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
    used: tuple[str, str | None] | None

    def __str__(self) -> str:
        unknown = f" ({self.lag_unknown} unknown)" if self.lag_unknown else ""
        youngest = "unknown" if self.youngest_ms is None else moment(self.youngest_ms)
        return (
            f"Total: {counted(self.groups, 'group')}, "
            f"{counted(self.offsets, 'offset')}, lag {self.lag}{unknown}, "
            f"latest commit {youngest}."
        )


def say(
    session: Session, output: Output, going: Partitions, selection: Selection
) -> tuple[str, str | None] | None:
    """Say what is at stake; return the group whose name is to be typed, if there is one.

    A user who has named every group has typed the names already. A group whose last use is
    unknown counts as used: its name is to be typed too.
    """
    from kgtool.changes.cleanup.facts import survey
    from kgtool.client.ops import within

    at_ms = now_ms()
    looked = survey(session.cluster, list(going), {}, at_ms, at_ms - 2 * RECENT_MS)
    is_named = set(going) <= set(selection.groups)
    try:
        found = session.run(within(looked, _SHARE))
    except KgError as error:
        output.note(sentence(error, "Warning: when these groups were last used is unknown: "))
        return None if is_named else (next(iter(going)), None)
    stakes = _sum(found.groups, going, at_ms)
    output.note(str(stakes))
    unseen = _unseen(found.groups, going, at_ms - RECENT_MS)
    if unseen is not None:
        group, why = unseen
        output.note(escape(f"Warning: when group {group} was last used is unknown{why}."))
    if is_named:
        return None
    return stakes.used or (None if unseen is None else (unseen[0], None))


def _sum(found: Sequence[GroupFacts], going: Partitions, at_ms: int) -> Stakes:
    times: dict[str, int] = {}
    offsets, lag, unknown = 0, 0, 0
    for name, offset in _going(found, going):
        offsets += 1
        lag += offset.lag or 0
        unknown += offset.lag is None
        if offset.committed_at is not None:
            times[name] = max(offset.committed_at.at_ms, times.get(name, 0))
    youngest = max(times.values(), default=None)
    return Stakes(len(going), offsets, lag, unknown, youngest, used(times, at_ms))


def _going(
    found: Sequence[GroupFacts], going: Partitions
) -> Iterator[tuple[str, OffsetFacts]]:  # fmt: skip
    for group in found:
        name = group.description.group
        wanted = going[name]
        for partition, offset in group.offsets.items():
            if wanted is None or partition in wanted:
                yield name, offset


def _unseen(
    found: Sequence[GroupFacts], going: Partitions, since_ms: int
) -> tuple[str, str] | None:
    """Return a group that may have been used since a time, for all that can be seen, and why."""
    seen = {group.description.group for group in found if group.error is None}
    for name in going:
        if name not in seen:
            return name, ""
    for group in found:
        if group.times_error is not None:
            return group.description.group, f": {group.times_error.message.rstrip('.')}"
        is_old = group.committed_before_ms is not None and group.committed_before_ms <= since_ms
        if not is_old and any(offset.committed_at is None for _, offset in _going([group], going)):
            return group.description.group, ": __consumer_offsets no longer has its commits"
    return None


def used(times: Mapping[str, int], at_ms: int) -> tuple[str, str] | None:
    """Return the group that committed last, and when, if it was within the last day.

    >>> used({"a": 1_000, "b": 61_000}, 121_000)
    ('b', '1m ago')
    """
    if not times:
        return None
    from kgtool.columns import duration

    group = max(times, key=lambda name: times[name])
    ago_ms = max(at_ms - times[group], 0)
    return None if ago_ms > RECENT_MS else (group, f"{duration(ago_ms) or '0s'} ago")
