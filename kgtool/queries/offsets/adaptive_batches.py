"""Groups some at a time, so that the offsets of a million partitions are never held at once."""

from __future__ import annotations

from collections.abc import Sequence

FIRST = 250
"""How many groups are asked about before anything is known of their size."""
OFFSETS = 50_000
"""About how many offsets are held at a time: some tens of MB."""


class Waves:
    """Deals groups out; the next wave is as large as those before say that it may be."""

    def __init__(self, groups: Sequence[str], offsets: int = OFFSETS) -> None:
        self._groups = groups
        self._most = offsets
        self._dealt = 0
        self._seen = (0, 0)

    @property
    def are_many(self) -> bool:
        """Whether it may take more than one."""
        return len(self._groups) > FIRST

    def next(self) -> Sequence[str]:
        """Return the next groups; none when all have had their turn."""
        groups, offsets = self._seen
        size = FIRST
        if groups:
            size = max(1, min(8 * FIRST, self._most * groups // max(offsets, 1)))
        part = self._groups[self._dealt : self._dealt + size]
        self._dealt += len(part)
        return part

    def learn(self, groups: int, offsets: int) -> None:
        """Hear how many offsets the groups of a wave had."""
        self._seen = (self._seen[0] + groups, self._seen[1] + offsets)
