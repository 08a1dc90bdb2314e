"""Putting offsets where they were: commits and deletions side by side, then read back.

What may be put there is for the caller to decide (``kgtool.safety.putback``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgtool.admin.commit import Identity, Outcome, commit_offsets
from kgtool.admin.committed import Committed, fetch_committed
from kgtool.admin.offset_delete import delete_partitions
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather
from kgtool.errors import KgError, NetworkError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error

Wanted = Mapping[TopicPartition, "CommittedOffset | None"]
"""What each partition is to have; None: nothing."""


class NotVerified(KgError):
    """The coordinator said yes, but something else is there now."""

    name = "NOT_VERIFIED"


def put_offsets(
    cluster: Cluster,
    wanted: Mapping[str, Wanted],
    identities: Mapping[str, Identity] | None = None,
    *,
    had: Mapping[str, Committed] | None = None,
    verify: bool = True,
) -> Operation[dict[str, Outcome]]:
    """Give groups exactly these offsets; each partition has its own outcome.

    :param identities: the members in whose name living groups are written to.
    :param had: what is there now; it tells, where an answer got lost, what has been deleted.
    :param verify: read back what was written; what is not there is a ``NotVerified``.
    """
    commits = {
        group: {p: value for p, value in parts.items() if value is not None}
        for group, parts in wanted.items()
    }
    deletions = {
        group: gone
        for group, parts in wanted.items()
        if (gone := [partition for partition, value in parts.items() if value is None])
    }
    committed, deleted = yield from gather(
        [
            commit_offsets(cluster, commits, identities),
            delete_partitions(cluster, deletions, had),
        ]
    )
    outcomes: dict[str, Outcome] = {group: dict(committed[group]) for group in wanted}
    for group, answer in deleted.items():
        outcomes[group].update(_deletions(deletions[group], answer))
    if not verify:
        return outcomes
    found = yield from fetch_committed(cluster, list(wanted))
    return {
        group: {p: _judged(wanted[group][p], error, found[group], p) for p, error in parts.items()}
        for group, parts in outcomes.items()
    }


def _deletions(partitions: list[TopicPartition], answer: Any) -> Outcome:
    if isinstance(answer, KgError):
        # A group that went away took its offsets with it.
        gone = answer.code == codes.GROUP_ID_NOT_FOUND
        return dict.fromkeys(partitions, None if gone else answer)
    return {p: _outcome(answer[p]) for p in partitions}


def _outcome(code: Any) -> KgError | None:
    """Return the failure of one deletion: an error code, or what took its place."""
    if isinstance(code, KgError):
        return code
    return broker_error(code) if code else None


def _judged(
    wanted: CommittedOffset | None,
    error: KgError | None,
    found: Committed | KgError,
    partition: TopicPartition,
) -> KgError | None:
    """Compare what was to be there with what is there.

    That decides where an answer got lost; where the coordinator refused, its reason stands.
    """
    now = found if isinstance(found, KgError) else found.get(partition)
    if isinstance(now, KgError):
        return error or now
    is_there = _is_same(now if now is not None and now.offset is not None else None, wanted)
    if error is None and not is_there:
        return NotVerified(
            f"The coordinator accepted it, but read back is {_shown(now)} instead of "
            f"{_shown(wanted)}.",
            hint="Somebody else has committed right after: kgtool describe shows who.",
        )
    if is_there and isinstance(error, NetworkError):
        return None
    return error


def _is_same(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.offset, one.leader_epoch, one.metadata or "") == (
        other.offset, other.leader_epoch, other.metadata or "",
    )  # fmt: skip


def _shown(value: CommittedOffset | None) -> str:
    return "no offset" if value is None else f"offset {value.offset}"
