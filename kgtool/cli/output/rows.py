"""Domain records as rows, which have the same keys in every format."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from kgtool.cli.output.errors import error_object
from kgtool.columns import Column, keys
from kgtool.columns.groups import OFFSETS
from kgtool.model import Assignment, GroupDescription, ItemError
from kgtool.text import escape, java_order

offset_values = attrgetter(*keys(OFFSETS))
"""Returns the values of a row of ``describe --offsets``, in the order of its keys."""


def member_rows(group: GroupDescription) -> list[dict[str, Any]]:
    """Return the rows of ``describe --members``; assignments as Kafka's tool writes them."""
    is_mixed = {True, False} <= {member.is_classic for member in group.members}
    return [
        {
            "group": group.group,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": None if member.is_unread else member.partition_count,
            "current_epoch": member.epoch,
            "current_assignment": assignment(member.assignment),
            "target_epoch": group.assignment_epoch if member.target is not None else None,
            "target_assignment": assignment(member.target or ()),
            "upgraded": member.is_classic is False if is_mixed else None,
            "subscribed_topics": None if member.subscribed is None else list(member.subscribed),
            "subscribed_regex": member.subscribed_regex,
            "assignor": group.assignor or None,
            "rack": member.rack,
        }
        for member in group.members
    ]


def assignment(topics: Assignment) -> str | None:
    """Return ``t1:0;t2:0,1``, sorted as the text that it becomes, as Kafka does."""
    parts = [f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in topics]
    return escape(";".join(sorted(parts, key=java_order))) or None


def state_row(group: GroupDescription) -> dict[str, Any]:
    """Return the row of ``describe --state``."""
    broker = group.coordinator
    return {
        "group": group.group,
        "coordinator": f"{broker.host}:{broker.port}" if broker else None,
        "coordinator_id": broker.id if broker else None,
        "assignment_strategy": group.assignor or None,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }


def moved_row(item: Any, columns: Iterable[Column]) -> dict[str, Any]:
    """Return the row of an item that has committed offsets ``old`` and ``new``, or None."""
    old, new = (value and value.offset for value in (item.old, item.new))
    return build_row(item, columns, old_offset=old, new_offset=new)


def build_row(item: Any, columns: Iterable[Column], **others: Any) -> dict[str, Any]:
    """Return an item's row: a value for each column, its attribute or one of ``others``."""
    row = {key: others[key] if key in others else getattr(item, key) for key in keys(columns)}
    if isinstance(row.get("error"), ItemError):
        row["error"] = error_object(row["error"])
    return row
