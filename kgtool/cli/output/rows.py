"""Domain records as the rows of the contract's section 4: the same keys in every format."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import error_object
from kgtool.columns import Column, keys
from kgtool.columns.groups import OFFSETS
from kgtool.model import (
    GroupDeletion,
    GroupDescription,
    GroupListing,
    ItemError,
    OffsetDeletion,
    OffsetRow,
)

_OFFSETS = keys(OFFSETS)
offset_values = attrgetter(*_OFFSETS)
"""Returns the values of a row of ``describe --offsets``, in the order of its keys."""


def listing(group: GroupListing) -> dict[str, Any]:
    """Return a row of ``list``."""
    return group._asdict()


def offset(row: OffsetRow) -> dict[str, Any]:
    """Return a row of ``describe --offsets``."""
    return dict(zip(_OFFSETS, offset_values(row), strict=True))


def members(group: GroupDescription) -> list[dict[str, Any]]:
    """Return the rows of ``describe --members``; assignments as Kafka's tool writes them."""
    return [
        {
            "group": group.group,
            "consumer_id": member.member_id,
            "group_instance_id": member.instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partitions": member.partition_count,
            "current_epoch": member.epoch,
            "current_assignment": _assignment(member.assignment),
            "target_epoch": kafka_tables.target_epoch(group, member),
            "target_assignment": _assignment(member.target or ()),
            "upgraded": kafka_tables.upgrade(group, member),
        }
        for member in group.members
    ]


def _assignment(topics: Any) -> str | None:
    return kafka_tables.assignment(topics) if topics else None


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


def of(item: Any, columns: Iterable[Column], **others: Any) -> dict[str, Any]:
    """Return an item as a row: its fields by the columns' keys, but for ``others``."""
    row = {key: others[key] if key in others else getattr(item, key) for key in keys(columns)}
    if isinstance(row.get("error"), ItemError):
        row["error"] = error_object(row["error"])
    return row
