"""What is at stake, said in one line before a question: groups, offsets, lag, latest commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kgtool.changes.cleanup.facts import GroupFacts, OffsetFacts, survey
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, within
from kgtool.clock import now_ms
from kgtool.columns import duration
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.net.session import Session
from kgtool.queries.log.reader import by_log
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.text import counted, escape, moment

RECENT_MS = 86_400_000
"""What was committed within the last day counts as in use: its name is to be typed."""
_SHARE = 0.3
"""Of the command's time: what is only said must not take the time of what is to be done."""

Going = Callable[[str], "Collection[TopicPartition] | None"]
"""Which offsets of a group go; None: all of them."""


class Stakes:
    """The sum, wave by wave. ``lag`` and ``youngest`` are of what is known.

    ``youngest`` is the group that committed last, and when (ms); ``unseen`` the first group whose
    last use is unknown, and why.
    """

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.groups = self.offsets = self.lag = self.lag_unknown = 0
        self.youngest: tuple[str, int] | None = None
        self.unseen: tuple[str, str] | None = None

    def __str__(self) -> str:
        unknown = f" ({self.lag_unknown} unknown)" if self.lag_unknown else ""
        youngest = "unknown" if self.youngest is None else moment(self.youngest[1])
        return (
            f"Total: {counted(self.groups, 'group')}, "
            f"{counted(self.offsets, 'offset')}, lag {self.lag}{unknown}, "
            f"latest commit {youngest}."
        )

    @property
    def used(self) -> tuple[str, str | None] | None:
        """The group that was used not long ago, and when (None: unknown); None if none was."""
        recent = used({} if self.youngest is None else dict([self.youngest]), self.at_ms)
        return recent or (None if self.unseen is None else (self.unseen[0], None))

    def add(self, names: Sequence[str], found: Sequence[GroupFacts], going: Going) -> int:
        """Add some groups, of which those that are gone were not found; return their offsets."""
        self.groups += len(names)
        before = self.offsets
        seen = {group.description.group for group in found if group.error is None}
        for name in names:
            if name not in seen:
                self.unseen = self.unseen or (name, "")
        for group in found:
            wanted = going(group.description.group)
            self._add(group, [o for p, o in group.offsets.items() if wanted is None or p in wanted])
        return self.offsets - before

    def _add(self, group: GroupFacts, offsets: Sequence[OffsetFacts]) -> None:
        name, since_ms = group.description.group, self.at_ms - RECENT_MS
        self.offsets += len(offsets)
        self.lag += sum(offset.lag or 0 for offset in offsets)
        self.lag_unknown += sum(offset.lag is None for offset in offsets)
        times = [offset.committed_at.at_ms for offset in offsets if offset.committed_at is not None]
        if times and (self.youngest is None or max(times) > self.youngest[1]):
            self.youngest = name, max(times)
        is_old = group.committed_before_ms is not None and group.committed_before_ms <= since_ms
        if group.times_error is not None:
            why = f": {group.times_error.message.rstrip('.')}"
            self.unseen = self.unseen or (name, why)
        elif not is_old and len(times) < len(offsets):
            why = ": __consumer_offsets no longer has its commits"
            self.unseen = self.unseen or (name, why)


def say(
    session: Session, output: Output, groups: Sequence[str], selection: Selection,
    going: Going = lambda _: None,
) -> tuple[str, str | None] | None:  # fmt: skip
    """Say what is at stake; return the group whose name is to be typed, if there is one.

    A user who has named every group has typed the names already. A group whose last use is
    unknown counts as used: its name is to be typed too.
    """
    is_named = {*groups} <= {*selection.groups}
    stakes = Stakes(now_ms())
    try:
        session.run(within(_look(session.cluster, groups, going, stakes), _SHARE))
    except KgError as error:
        output.note(sentence(error, "Warning: when these groups were last used is unknown: "))
        return None if is_named else (groups[0], None)
    output.note(str(stakes))
    if stakes.unseen is not None:
        group, why = stakes.unseen
        output.note(escape(f"Warning: when group {group} was last used is unknown{why}."))
    return None if is_named else stakes.used


def _look(cluster: Cluster, groups: Sequence[str], going: Going, stakes: Stakes) -> Operation[None]:
    """Look at groups in waves, each partition of their log once or twice."""

    waves = AdaptiveBatches(groups)
    if waves.are_many:
        waves = AdaptiveBatches((yield from by_log(cluster, groups)))
    while names := waves.next():
        found = yield from survey(cluster, names, {}, stakes.at_ms, stakes.at_ms - 2 * RECENT_MS)
        waves.learn(len(names), stakes.add(names, found.groups, going))


def used(times: Mapping[str, int], at_ms: int) -> tuple[str, str] | None:
    """Return the group that committed last, and when, if it was within the last day.

    >>> used({"a": 1_000, "b": 61_000}, 121_000)
    ('b', '1m ago')
    """
    if not times:
        return None
    group = max(times, key=lambda name: times[name])
    ago_ms = max(at_ms - times[group], 0)
    return None if ago_ms > RECENT_MS else (group, f"{duration(ago_ms) or '0s'} ago")
