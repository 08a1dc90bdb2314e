"""What was agreed to: short digests of what groups had when their plan was shown.

Between the question and the change the world moves. A plan of ten thousand groups can't hold
their offsets, and need not: a digest tells whether what is there now is what was shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgtool.errors import KgError
from kgtool.model import CommittedOffset, OffsetDeletion, TopicPartition, TopicSpec
from kgtool.queries.offsets.fetch import Committed

FAILED = -1
"""Instead of the digest of an offset that nobody could agree to delete; ``hash`` never is -1."""


def value_digest(value: CommittedOffset | KgError | None) -> int:
    """Return the digest of one offset; 0 where there is none.

    Equal means offset and metadata: some brokers don't tell the leader epoch.
    """
    if not isinstance(value, CommittedOffset) or value.offset is None:
        return 0
    return hash((value.offset, value.metadata)) or 1


def group_digest(committed: Committed | KgError) -> int:
    """Return the digest of all offsets of a group; 0 where they can't be read."""
    if isinstance(committed, KgError):
        return 0
    digests = ((partition, value_digest(value)) for partition, value in committed.items())
    return hash(tuple(sorted(item for item in digests if item[1])))


class Agreed(NamedTuple):
    """What was shown of one group: the partitions, and a digest of what each had (0: nothing;
    FAILED: it could not go, or not be told).

    ``unknown`` are the rows of topics without partitions that can't be looked up.
    """

    specs: Sequence[TopicSpec]
    digests: Sequence[int]
    unknown: Sequence[OffsetDeletion]

    @property
    def offsets(self) -> int:
        """How many offsets are to go."""
        return sum(digest not in (0, FAILED) for digest in self.digests)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions whose offsets are to go."""
        known = sorted({TopicPartition(s.topic, p) for s in self.specs for p in s.partitions or ()})
        return [
            at for at, digest in zip(known, self.digests, strict=True) if digest not in (0, FAILED)
        ]
