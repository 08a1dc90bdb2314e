"""Groups some at a time, so that the offsets of a million partitions are never held at once."""

from __future__ import annotations

from collections.abc import Sequence

FIRST = 250
"""Groups in the first batch, when nothing is known of their size."""
OFFSETS = 50_000
"""Offsets held at a time, about: some tens of MB."""


class AdaptiveBatches:
    """Batches of groups; each is as large as the offsets of those before allow.

    :param at_most: how many groups a batch may have.
    """

    def __init__(
        self, groups: Sequence[str], offsets: int = OFFSETS, *, at_most: int | None = None
    ) -> None:
        self._groups = groups
        self._at_most = at_most
        self._max_offsets = offsets
        self._next = 0
        self._seen_groups = self._seen_offsets = 0

    @property
    def are_many(self) -> bool:
        """Whether it may take more than one."""
        return len(self._groups) > FIRST

    def next(self) -> Sequence[str]:
        """Return the next groups; none at the end."""
        size = FIRST
        if self._seen_groups:
            fitting = self._max_offsets * self._seen_groups // max(self._seen_offsets, 1)
            size = max(1, min(8 * FIRST, fitting))
        size = size if self._at_most is None else min(size, self._at_most)
        part = self._groups[self._next : self._next + size]
        self._next += len(part)
        return part

    def learn(self, groups: int, offsets: int) -> None:
        """Count the offsets that the groups of a batch had."""
        self._seen_groups += groups
        self._seen_offsets += offsets
