"""The impact of a deletion, in one line before the question: groups, offsets, lag, last commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgtool.changes.cleanup.facts import GroupFacts, survey
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
from kgtool.queries.offsets.fetch import AdaptiveBatches
from kgtool.text import counted, escape, moment

RECENT_MS = 86_400_000
"""A group that committed within this time counts as in use: its name must be typed."""
_SHARE = 0.3
"""Of the command's time: the rest is for the deletion."""

Deleted = Callable[[str, TopicPartition], bool]
"""Whether an offset of a group is deleted."""


class Impact:
    """Totals over batches of groups; ``lag`` and ``last_commit`` cover what is known.

    ``last_commit`` is the group with the latest commit and its time (ms), ``unknown`` the first
    group whose last use is unknown, and why.
    """

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.groups = self.offsets = self.lag = self.unknown_lags = 0
        self.last_commit: tuple[str, int] | None = None
        self.unknown: tuple[str, str] | None = None

    def __str__(self) -> str:
        unknown = f" ({self.unknown_lags} unknown)" if self.unknown_lags else ""
        latest = "unknown" if self.last_commit is None else moment(self.last_commit[1])
        return (
            f"Total: {counted(self.groups, 'group')}, "
            f"{counted(self.offsets, 'offset')}, lag {self.lag:,}{unknown}, latest commit {latest}."
        )

    @property
    def used(self) -> tuple[str, str | None] | None:
        """A group in recent use, and when (None: unknown); None if no group is."""
        recent = used({} if self.last_commit is None else dict([self.last_commit]), self.at_ms)
        return recent or (None if self.unknown is None else (self.unknown[0], None))

    def add(self, names: Sequence[str], facts: Sequence[GroupFacts], deleted: Deleted) -> None:
        """Add a batch of groups; those without facts do not exist any more."""
        self.groups += len(names)
        known = {group.description.group for group in facts if group.error is None}
        for name in names:
            if name not in known:
                self.unknown = self.unknown or (name, "")
        for group in facts:
            self._add(group, deleted)

    def _add(self, group: GroupFacts, deleted: Deleted) -> None:
        name, since_ms = group.description.group, self.at_ms - RECENT_MS
        offsets = [o for at, o in group.offsets.items() if deleted(name, at)]
        self.offsets += len(offsets)
        self.lag += sum(offset.lag or 0 for offset in offsets)
        self.unknown_lags += sum(offset.lag is None for offset in offsets)
        times = [offset.committed_at.at_ms for offset in offsets if offset.committed_at is not None]
        if group.is_share and group.changed_ms is not None:  # it commits nothing
            times = [group.changed_ms] * max(len(offsets), 1)
        if times and (self.last_commit is None or max(times) > self.last_commit[1]):
            self.last_commit = name, max(times)
        is_old = group.committed_before_ms is not None and group.committed_before_ms <= since_ms
        if group.times_error is not None:
            why = f": {group.times_error.message.rstrip('.')}"
            self.unknown = self.unknown or (name, why)
        elif not is_old and len(times) < len(offsets):
            why = ": __consumer_offsets no longer has its commits"
            self.unknown = self.unknown or (name, why)


def show(
    session: Session,
    output: Output,
    groups: Sequence[str],
    selection: Selection,
    deleted: Deleted = lambda _group, _at: True,
) -> tuple[str, str | None] | None:
    """Show the impact; return the group whose name must be typed, as ``Impact.used``.

    No name must be typed if every group was named in full. A group whose last use is unknown
    counts as used.
    """
    is_named = {*groups} <= {*selection.groups}
    impact = Impact(now_ms())
    try:
        session.run(within(_measure(session.cluster, groups, deleted, impact), _SHARE))
    except KgError as error:
        output.note(sentence(error, "Warning: when these groups last committed is unknown: "))
        return None if is_named else (groups[0], None)
    output.note(str(impact))
    if impact.unknown is not None:
        group, why = impact.unknown
        output.note(escape(f"Warning: when group {group} last committed is unknown{why}."))
    return None if is_named else impact.used


def _measure(
    cluster: Cluster, groups: Sequence[str], deleted: Deleted, impact: Impact
) -> Operation[None]:
    """Look at groups in batches, reading each partition of their log once or twice."""
    batches = AdaptiveBatches(groups)
    if batches.are_many:
        batches = AdaptiveBatches((yield from by_log(cluster, groups)))
    while names := batches.next():
        found = yield from survey(cluster, names, {}, impact.at_ms, impact.at_ms - 2 * RECENT_MS)
        before = impact.offsets
        impact.add(names, found.groups, deleted)
        batches.learn(len(names), impact.offsets - before)


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
