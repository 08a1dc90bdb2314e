"""Changes of one wave, as the driver makes them, without a session: for scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kgtool.changes.driver import Before, apply_part, look_and_carry_out
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.kinds.reset_offsets import ResetOffsets
from kgtool.changes.plan import settle
from kgtool.changes.reset.targets import ResetRequest, Strategy
from kgtool.changes.snapshot import GroupChange
from kgtool.client.ops import Operation
from kgtool.model import TopicSpec

OnGroups = Callable[[Sequence[GroupChange]], object]


def _ignore(_groups: Sequence[GroupChange]) -> None:
    pass


def _before(announce: OnGroups) -> Callable[[Before], None]:
    def before(wave: Before) -> None:
        announce(wave.groups)

    return before


def delete_groups(cluster: Any, groups: list[str], **options: Any) -> Operation[list[Any]]:
    """Delete groups that are there, as a door does that asks nothing."""
    kind = DeleteGroups(groups, **options)
    return look_and_carry_out(cluster, kind, groups, _before(_ignore))


def delete_offsets(
    cluster: Any, specs: dict[str, list[TopicSpec]], announce: OnGroups = _ignore
) -> Operation[list[Any]]:
    """Delete offsets, as a door does that asks nothing."""
    kind = DeleteOffsets(specs, asks_broker=True)
    return look_and_carry_out(cluster, kind, list(specs), _before(announce))


def execute_resets(
    cluster: Any,
    plan: Sequence[Any],
    *,
    force: bool = False,
    all_or_nothing: bool = False,
    before_change: OnGroups = _ignore,
) -> Operation[list[Any]]:
    """Apply the plan of a reset."""
    kind = ResetOffsets(ResetRequest((), Strategy("to-latest"), force=force))
    planned = settle(plan, all_or_nothing)
    before = _before(before_change)
    return apply_part(cluster, kind, planned, before, all_or_nothing=all_or_nothing)
