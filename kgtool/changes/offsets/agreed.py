"""What was agreed to: short digests of what groups had when their plan was shown.

Between the question and the change the world moves. A plan of ten thousand groups can't hold
their offsets, and need not: a digest tells whether what is there now is what was shown.
"""

from __future__ import annotations

from kgtool.errors import KgError
from kgtool.model import CommittedOffset
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
