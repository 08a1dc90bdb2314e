"""Findings about groups as such: rebalances, stuck members, piles of dead groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kgtool.model import GroupDescription, GroupOffsets, Member
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.doctor.facts import SETTLE_S, Facts, is_behind, is_settled
from kgtool.queries.doctor.finding import (
    IDLE,
    NOTE,
    PROBLEM,
    WARNING,
    Finding,
    file_name,
    idle_step,
)
from kgtool.queries.groups.describe import UNKNOWN_TO_COORDINATOR
from kgtool.text import counted

PILE = 20
"""The number of Empty groups of one family that are a pile."""
_OWN_PARTS = re.compile(
    r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}|\d+(?:[-_.:T]\d+)*"
)
"""The parts in which names of one family differ: UUIDs, numbers, dates and times."""


def find_lost(facts: Facts) -> Iterator[Finding]:
    """Find groups whose records are in a partition that is not their name's."""
    for found in facts.groups:
        group, error = found.description.group, found.description.error
        if error is not None and error.name == UNKNOWN_TO_COORDINATOR:
            size = facts.brokers.offsets_topic.size
            number = offsets_partition(group, size) if size else None
            evidence = {"offsets_partition": number, "of": size or None}
            detail = f"its name's partition is {number} of {size}" if size else "it is listed"
            yield Finding("unknown-to-coordinator", PROBLEM, detail, evidence, group=group)


def find_in_members(facts: Facts, found: GroupOffsets) -> Iterator[Finding]:
    """Find what did not settle between two descriptions."""
    before = found.description
    after = facts.later.get(before.group)
    if after is None or after.error is not None or is_settled(after):
        return
    behind = list(_behind(before, after))
    yield from behind
    is_stuck = after.is_rebalancing and _progress(before) == _progress(after)
    if is_stuck and not behind:
        yield _rebalancing(before, after)


def _progress(group: GroupDescription) -> tuple[object, ...]:
    return group.state, group.group_epoch, {m.member_id: m.epoch for m in group.members}


def _rebalancing(before: GroupDescription, after: GroupDescription) -> Finding:
    waited = round(SETTLE_S * 1000)
    who = counted(len(after.members), "member")
    # No command: the coordinator itself evicts members that have not rejoined when the rebalance
    # timeout is over, and no API tells when that is.
    detail = f"{after.state}, {who}, no progress in {SETTLE_S:.0f} s"
    evidence = {
        "state": after.state,
        "members": len(after.members),
        "waited_ms": waited,
        "group_epoch": after.group_epoch,
    }
    return Finding("rebalancing", WARNING, detail, evidence, group=before.group)


def _behind(before: GroupDescription, after: GroupDescription) -> Iterator[Finding]:
    """KIP-848: a member whose assignment, target and epoch did not change."""
    known = {m.member_id: (m.epoch, m.assignment, m.target) for m in before.members}
    for member in after.members:
        same = (member.epoch, member.assignment, member.target)
        if is_behind(member, after) and known.get(member.member_id) == same:
            yield _member(after, member)


def _member(group: GroupDescription, member: Member) -> Finding:
    wanted = sum(len(partitions) for _, partitions in member.target or ())
    detail = (
        f"{member.client_id} at {member.host}: epoch {member.epoch} of {group.group_epoch}, "
        f"has {member.partition_count} of {counted(wanted, 'partition')}"
    )
    evidence = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "member_epoch": member.epoch,
        "group_epoch": group.group_epoch,
        "partitions": member.partition_count,
        "target_partitions": wanted,
    }
    return Finding("member-behind", WARNING, detail, evidence, group=group.group)


# ---------------------------------------------------------------------------------------------


def find_piles(facts: Facts) -> Iterator[Finding]:
    """Count Empty groups by family; many of one are a pile.

    A family that is only recognised by numbers is a note: consumers of ``shard-17`` may well be
    started again.
    """
    made: dict[str, list[GroupOffsets]] = {}
    alike: dict[str, list[GroupOffsets]] = {}
    for found in facts.groups:
        group = found.description
        if group.error is not None or not group.is_empty:
            continue
        family = facts.options.family(group.group)
        if family is not None:
            made.setdefault(family, []).append(found)
            continue
        folded = _OWN_PARTS.sub("*", group.group)
        if folded != group.group:
            alike.setdefault(folded, []).append(found)
    for piles, severity in ((made, WARNING), (alike, NOTE)):
        for family, groups in sorted(piles.items()):
            if len(groups) >= PILE:
                yield _pile(facts, family, groups, severity)


def _pile(facts: Facts, family: str, groups: Sequence[GroupOffsets], severity: str) -> Finding:
    offsets = sum(row.current_offset is not None for found in groups for row in found.rows)
    detail = f"{family}: {counted(len(groups), 'group')} without members, {offsets:,} offsets"
    # Nobody starts a generated name again; what is only alike may be a job that runs every day.
    steps = tuple(IDLE) if severity == WARNING else tuple(IDLE)[:1]
    times = [
        facts.idle_ms(found.description.group)
        for found in groups
        if any(row.current_offset is not None for row in found.rows)
    ]
    idle = idle_step(times, steps)
    count = sum(ms is not None and ms >= IDLE[idle] for ms in times) if idle is not None else 0
    if idle is None:
        detail += f", none of them known to be idle for {steps[-1]}"
    elif count < len(groups):
        detail += f", {count} of them idle for {idle}"
    evidence = {"family": family, "groups": len(groups), "offsets": offsets, "idle_groups": count}
    if idle is None:
        return Finding("piling-up", severity, detail, evidence)
    # A family's name may contain what a glob would take for a wildcard.
    glob = re.sub(r"[\[?]", "[\\g<0>]", family)
    out = file_name(family, "groups")
    fix = (
        "kgtool",
        "cleanup",
        "plan",
        "--match",
        glob,
        "--state",
        "Empty",
        *(("--generated",) if severity == WARNING else ()),
        "--idle",
        idle,
        "--out",
        out,
    )
    return Finding("piling-up", severity, detail, evidence, fix)
