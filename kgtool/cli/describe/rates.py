"""``--rates``: how fast records come and are read, known at the first look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.client.ops import grouped
from kgtool.clock import now_ms
from kgtool.columns import Row, keys
from kgtool.columns.groups import FIRST_RATES
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, ItemError, Target, TopicPartition
from kgtool.text import counted

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.offsets.rates import Rate

Rates = Mapping[tuple[str, TopicPartition], "Rate"]
KEYS = keys(FIRST_RATES)


def find(session: Session, output: Output, groups: Sequence[GroupOffsets], over_ms: int) -> Rates:
    """Query the cluster; a note says where ``out_per_s`` is of two looks."""
    from kgtool.queries.offsets.rates import LOOK_S, find_rates

    session.loop.extend(LOOK_S)
    try:
        found = session.run(find_rates(session.cluster, groups, now_ms(), over_ms))
    except KgError as error:
        output.failed(ItemError.of(error, Target()))
        return {}
    reasons = grouped((sentence(error, "Note: "), name) for name, error in found.unread.items())
    for reason, names in reasons.items():
        output.note(
            f"{reason} OUT/S of {counted(len(names), 'group')} is from two looks, {LOOK_S:g} s "
            "apart, and STUCK-SINCE is unknown."
        )
    return found.rows


def as_row(rate: Rate | None) -> dict[str, Any]:
    """Return the values of a row's rates, None where unknown."""
    return {key: getattr(rate, key, None) for key in KEYS}


def sum_of(rows: Iterable[Row]) -> dict[str, Any]:
    """Sum up the known rates; a group has caught up when its last partition has."""
    known = [row for row in rows if row["in_per_s"] is not None and row["out_per_s"] is not None]
    behind = [row["eta_ms"] for row in rows if (row["lag"] or 0) > 0]
    stuck = [row["stuck_since_ms"] for row in rows if row["stuck_since_ms"] is not None]
    return {
        "in_per_s": round(sum(row["in_per_s"] for row in known), 3) if known else None,
        "out_per_s": round(sum(row["out_per_s"] for row in known), 3) if known else None,
        "eta_ms": None if None in behind or not known else max(behind, default=0),
        "stuck_since_ms": min(stuck, default=None),
    }
