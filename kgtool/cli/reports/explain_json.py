"""What ``explain`` has found out, as a row of the contract's kind, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kgtool.cli.describe import expiry as expiry_of
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.rows import of
from kgtool.columns.groups import EXPLAIN_MEMBER, EXPLAIN_REMOVAL, EXPLAIN_TOPIC
from kgtool.model import ItemError
from kgtool.retention import rules as r

if TYPE_CHECKING:
    from kgtool.changes.explain import Explanation


def offset_row(found: Explanation, partition: Any) -> dict[str, Any]:
    """Return one committed offset with what becomes of it."""
    value = found.committed[partition]
    expiry = found.expiries.get(partition)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "current_offset": value.offset,
        **expiry_of.as_row(expiry),
    }


# ---------------------------------------------------------------------------------------------
# What to type next


def next_commands(found: Explanation, quote: Callable[[str], str] = shlex.quote) -> list[str]:
    """Return commands that make sense now, the most likely one first."""
    group, name = found.description, quote(found.description.group)
    commands = [
        _acl(acl.operation, acl.resource_type, quote(acl.resource)) for acl in found.missing
    ]
    if not found.exists:
        return [*commands, *_after_the_end(found, name)]
    if group.is_empty:
        # keep leaves alone what a transaction is about to change.
        if any(e.expires_at_ms is not None and not e.is_pending for e in found.expiries.values()):
            is_classic = group.type in (None, r.TYPE_CLASSIC)
            join = " --join" if group.protocol_type and is_classic else ""
            commands.append(f"kgtool keep --group {name}{join}")
        if found.committed and found.reset_refusal is None:
            commands.append(f"kgtool reset-offsets --group {name} --all-topics --to-earliest")
        if found.delete_refusal is None:
            commands.append(f"kgtool delete --group {name}")
    else:
        commands.append(f"kgtool describe --group {name} --members --verbose")
        for use in found.topics:
            if use.offsets and use.subscribed is False and use.refusal is None:
                topic = quote(use.topic)
                commands.append(f"kgtool delete-offsets --group {name} --topic {topic}")
    return commands


def _after_the_end(found: Explanation, name: str) -> list[str]:
    if not found.was_there:
        return ["kgtool list"]
    return [
        "kgtool history",
        f"kgtool reset-offsets --group {name} --topic TOPIC --to-datetime TIME --create",
    ]


def _acl(operation: str, kind: str, resource: str) -> str:
    where = "--cluster" if kind == "cluster" else f"--{kind} {resource}"
    name = "".join(part.capitalize() for part in operation.split("_"))
    return f"kafka-acls.sh --add --allow-principal User:YOU --operation {name} {where}"


# ---------------------------------------------------------------------------------------------
# JSON


def row(found: Explanation) -> dict[str, Any]:
    """Return the row of the machine formats: the same keys always, None where unknown."""
    group, broker, past = found.description, found.broker, found.past
    times = [e.expires_at_ms for e in found.expiries.values() if e.expires_at_ms is not None]
    return {
        "group": group.group,
        "exists": found.exists,
        "type": group.type,
        "state": group.state if found.exists else None,
        "state_since_ms": found.snapshot.state_since_ms if found.snapshot else None,
        "protocol_type": group.protocol_type if found.exists else None,
        "coordinator": group.coordinator.id if group.coordinator else None,
        "offsets_partition": found.partition,
        "members": [
            of(member, EXPLAIN_MEMBER, partitions=member.partition_count)
            for member in group.members
        ],
        "topics": [
            of(use, EXPLAIN_TOPIC, holders=[member.member_id for member in use.holders],
               **{"delete-offsets": _action(use.refusal)})
            for use in found.topics
        ],
        "offsets": [offset_row(found, partition) for partition in found.committed]
        if found.committed or found.is_read
        else None,
        "actions": {
            "delete": _action(found.delete_refusal),
            "reset-offsets": _action(found.reset_refusal),
        },
        "retention_ms": broker.retention_ms if broker else None,
        "check_interval_ms": broker.interval_ms if broker else None,
        "rules": broker.rules.name if broker else None,
        "next_expires_at_ms": min(times, default=None),
        "removals": [of(item, EXPLAIN_REMOVAL) for item in past.removals] if past else None,
        "removals_since_ms": past.begin_ms if past else None,
        "missing_acls": [acl._asdict() for acl in found.missing],
        "next": next_commands(found),
    }  # fmt: skip


def _action(error: ItemError | None) -> dict[str, Any]:
    return {"allowed": error is None, "error": None if error is None else error_object(error)}
