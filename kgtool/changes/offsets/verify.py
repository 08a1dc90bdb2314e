"""Reading back what was written: the current offset decides.

A commit without a clear answer may have been made; where the current offset can't be read either,
the outcome is unknown (``OutcomeUnknown``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.changes.offsets.commit import Outcomes
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import ChangedMeanwhile, KgError, NotVerified, OutcomeUnknown
from kgtool.model import CommittedOffset, TopicPartition, same_commit
from kgtool.queries.offsets.fetch import fetch_selected

HINT = "Check who commits (kgtool describe), then repeat the command."


class Write(NamedTuple):
    """The offset of a partition when it was read, and its new one; None: no offset."""

    old: CommittedOffset | None
    new: CommittedOffset | None


Writes = Mapping[TopicPartition, Write]


def changed_meanwhile(before: CommittedOffset | None, now: CommittedOffset | None) -> KgError:
    """Return the error that another client changed an offset since it was read."""
    return ChangedMeanwhile(
        f"Another client has committed meanwhile: {shown(before)} was there, {shown(now)} is "
        "there now, and is left alone.",
        hint=HINT,
    )


def shown(value: CommittedOffset | None) -> str:
    """Describe a commit in a few words."""
    if value is None or value.offset is None:
        return "no offset"
    epoch = "" if value.leader_epoch is None else f", leader epoch {value.leader_epoch}"
    metadata = f", metadata {value.metadata!r}" if value.metadata else ""
    return f"offset {value.offset}{epoch}{metadata}"


def read_back(
    cluster: Cluster,
    wanted: Mapping[str, Writes],
    outcomes: dict[str, Outcomes],
    doubtful: Mapping[str, set[TopicPartition]],
    verify: bool,
    refresh: bool,
) -> Operation[None]:
    """Update outcomes by the current offsets, of what was written and of what is in doubt."""
    asked = {
        group: [p for p, e in outcome.items() if p in doubtful[group] or (verify and e is None)]
        for group, outcome in outcomes.items()
    }
    found = yield from fetch_selected(cluster, asked)
    for group, now in found.items():
        for partition in asked[group]:
            write, error = wanted[group][partition], outcomes[group][partition]
            value = now if isinstance(now, KgError) else now.get(partition)
            if partition not in doubtful[group]:
                outcomes[group][partition] = _verified(write, value)
            else:
                assert error is not None
                outcomes[group][partition] = _decided(write, error, value, refresh)


def _verified(write: Write, now: CommittedOffset | KgError | None) -> KgError | None:
    """Judge what the coordinator has accepted; where it can't be read, the answer stands."""
    if isinstance(now, KgError) or same_commit(now, write.new):
        return None
    return NotVerified(
        f"The coordinator accepted {shown(write.new)}, but {shown(now)} is read back.",
        hint="Another client has committed right after: kgtool describe shows who.",
    )


def _decided(
    write: Write, error: KgError, now: CommittedOffset | KgError | None, refresh: bool
) -> KgError | None:
    """Judge what was sent and never acknowledged by the current offset."""
    is_same = same_commit(write.old, write.new)
    if isinstance(now, KgError) or (refresh and is_same and same_commit(now, write.new)):
        return OutcomeUnknown(
            f"{error.message.rstrip('.')}: it is not known whether the offset was written.",
            hint="Check with kgtool describe.",
        )
    if same_commit(now, write.new):
        return None
    return error if same_commit(now, write.old) else changed_meanwhile(write.old, now)
