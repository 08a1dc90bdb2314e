"""The retention that the brokers had, which may have changed while the log was written."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Ints
from kgtool.retention.rules import RuleSet


class Wrote(NamedTuple):
    """From when on which retention counted, in the order of time."""

    phases: tuple[tuple[int, int], ...]

    def at(self, at_ms: Ints) -> Ints:
        """The retention at each of these times."""
        starts = np.array([start for start, _ in self.phases])
        retentions = np.array([retention for _, retention in self.phases])
        found = np.searchsorted(starts, at_ms, side="right") - 1
        return np.asarray(retentions[np.maximum(found, 0)], dtype=np.int64)


def verdict(rules: RuleSet, group: rc.Group, offset: rc.Offset, wrote: Wrote) -> tuple[Ints, Ints]:
    """``rules_columns.verdict``: when a broker may first remove each offset.

    A retention that has changed counts for what is there, but to brokers up to 2.0, which fix an
    offset's time when it is committed.
    """
    if rules.fixed_at_commit or len(wrote.phases) == 1:
        return rc.verdict(rules, group, offset, wrote.at(offset.commit_ms))
    due = np.full(len(offset.commit_ms), NONE)
    ends = [start for start, _ in wrote.phases[1:]] + [MAX]
    for (start, retention), end in zip(wrote.phases, ends, strict=True):
        at_ms, rule = rc.verdict(rules, group, offset, retention)
        first = np.maximum(at_ms, start)
        counts = (due == NONE) & (at_ms != NONE) & ((first < end) | (end == MAX))
        due = np.where(counts, np.where(start == wrote.phases[0][0], at_ms, first), due)
    return due, rule
