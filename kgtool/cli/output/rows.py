"""Domain records as the rows of the contract's section 4: the same keys in every format."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from kgtool.cli.options.group_selection import java_order
from kgtool.cli.output.errors import error_object
from kgtool.columns import Column, keys
from kgtool.columns.groups import OFFSETS
from kgtool.model import (
    Assignment,
    GroupDeletion,
    GroupDescription,
    ItemError,
    OffsetDeletion,
    OffsetRow,
)
from kgtool.text import escape

_OFFSETS = keys(OFFSETS)
offset_values = attrgetter(*_OFFSETS)
"""Returns the values of a row of ``describe --offsets``, in the order of its keys."""


def offset(row: OffsetRow) -> dict[str, Any]:
    """Return a row of ``describe --offsets``."""
    return dict(zip(_OFFSETS, offset_values(row), strict=True))


def members(group: GroupDescription) -> list[dict[str, Any]]:
    """Return the rows of ``describe --members``; assignments as Kafka's tool writes them."""
    is_mixed = {True, False} <= {member.is_classic for member in group.members}
    return [
        {
            "group": group.group,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": member.partition_count,
            "current_epoch": member.epoch,
            "current_assignment": assignment(member.assignment),
            "target_epoch": group.assignment_epoch if member.target is not None else None,
            "target_assignment": assignment(member.target or ()),
            "upgraded": member.is_classic is False if is_mixed else None,
        }
        for member in group.members
    ]


def assignment(topics: Assignment) -> str | None:
    """Return ``t1:0;t2:0,1``, sorted as the text that it becomes, as Kafka does."""
    parts = [f"{topic}:{','.join(map(str, partitions))}" for topic, partitions in topics]
    return escape(";".join(sorted(parts, key=java_order))) or None


def state(group: GroupDescription) -> dict[str, Any]:
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


def deletion(row: GroupDeletion | OffsetDeletion) -> dict[str, Any]:
    """Return a row of ``delete`` or ``delete-offsets``."""
    return {**row._asdict(), "error": error_object(row.error) if row.error else None}


def moved(item: Any, columns: Iterable[Column]) -> dict[str, Any]:
    """Return a row of an item with ``old`` and ``new``, of which the offsets are shown."""
    old, new = (value and value.offset for value in (item.old, item.new))
    return of(item, columns, old_offset=old, new_offset=new)


def of(item: Any, columns: Iterable[Column], **others: Any) -> dict[str, Any]:
    """Return an item as a row: its fields by the columns' keys, but for ``others``."""
    row = {key: others[key] if key in others else getattr(item, key) for key in keys(columns)}
    if isinstance(row.get("error"), ItemError):
        row["error"] = error_object(row["error"])
    return row
