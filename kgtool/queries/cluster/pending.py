"""Transactions that are about to change committed offsets (KIP-447).

A deletion or a reset that comes before the end of the transaction is undone by it: the offsets
that it commits are stored after the tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.errors import BrokerError, KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import Committed


def pending_error(group: str) -> BrokerError:
    """Say why an offset had better be left alone."""
    return broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change this offset of group '{group}'.",
        hint="Wait until it has ended, or give --force.",
    )


def pending_partitions(
    committed: Committed | KgError, partitions: Iterable[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Return the partitions (of these, or of all) that a pending transaction is about to change."""
    if isinstance(committed, KgError):
        return []
    return [
        partition
        for partition in (committed if partitions is None else partitions)
        if isinstance(value := committed.get(partition), CommittedOffset) and value.is_pending
    ]


def pending_transaction(group: str, committed: Committed | KgError) -> ItemError | None:
    """Return why a whole group had better be left alone; None where nothing is pending."""
    pending = pending_partitions(committed)
    if not pending:
        return None
    shown = ", ".join(map(str, pending[:3])) + (", …" if len(pending) > 3 else "")
    error = broker_error(
        codes.UNSTABLE_OFFSET_COMMIT,
        f"A transaction is about to change offsets of group '{group}' ({shown}).",
        hint="Wait until it has ended, or give --force.",
    )
    return ItemError.of(error, Target(group=group))
