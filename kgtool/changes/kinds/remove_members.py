"""Removing members from groups: the requests are ``kgtool.changes.groups.members``'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.groups.members import (
    GroupRemovals,
    MemberChoice,
    MemberRemoval,
    missing,
    no_member,
    recorded,
    refusals,
    remove_members,
)
from kgtool.changes.plan import each_open, failed, open_rows
from kgtool.changes.snapshot import GroupChange, image_of
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, gather
from kgtool.model import GroupDescription, ItemError
from kgtool.queries.groups.describe import describe_with_type


class RemoveMembers(NamedTuple):
    """Removes the chosen members; ``reason`` is what the brokers log."""

    choice: MemberChoice
    reason: str

    def weigh(self, group: GroupRemovals) -> int:
        """Return how many members a group has, with what they are assigned."""
        return sum(1 + len(member.assignment) for member in group.description.members)

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupRemovals]]:
        """Find the chosen members."""
        described = yield from describe_with_type(cluster, groups)
        refused = yield from refusals(cluster, described)
        return [self._plan(one, refused.get(one.group)) for one in described]

    def _plan(self, found: GroupDescription, error: ItemError | None) -> GroupRemovals:
        if error is not None:
            return GroupRemovals(found, [], error)
        group, chosen = found.group, filter(self.choice.fits, found.members)
        rows = [failed(MemberRemoval(group, None, ""), e) for e in missing(found, self.choice)]
        rows += [MemberRemoval(group, member, "would-remove") for member in chosen]
        return GroupRemovals(found, rows)

    def look_again(
        self, cluster: Cluster, plan: Sequence[GroupRemovals]
    ) -> Operation[list[GroupRemovals]]:
        """Find the members that have left since."""
        described = yield from describe_with_type(cluster, [group.group for group in plan])
        refused = yield from refusals(cluster, described)
        there = {d.group: {member.member_id for member in d.members} for d in described}

        def checked(row: MemberRemoval) -> MemberRemoval:
            error, member_id = refused.get(row.group), row.member and row.member.member_id
            if error is None and member_id not in there[row.group]:
                error = no_member(row.group, "member id", member_id)
            return row if error is None else failed(row, error)

        return [each_open(group, checked) for group in plan]

    def before(self, cluster: Cluster, going: Sequence[GroupRemovals]) -> Operation[Before]:
        """Return the members, and images without offsets, which stay as they are."""
        yield from ()
        images = [GroupChange(image_of(group.description, {}), {}) for group in going]
        return Before(images, list(map(recorded, open_rows(*going))))

    def send(
        self, cluster: Cluster, going: Sequence[GroupRemovals]
    ) -> Operation[list[GroupRemovals]]:
        """Remove the members of all groups at the same time."""
        leaving = [
            remove_members(
                cluster,
                group.group,
                [row.member for row in open_rows(group) if row.member is not None],
                self.reason[:255],
            )
            for group in going
        ]
        left = yield from gather(leaving)
        done = {(row.group, row.member.member_id): row for rows in left for row in rows}
        return [each_open(g, lambda row: done[row.group, row.member.member_id]) for g in going]
