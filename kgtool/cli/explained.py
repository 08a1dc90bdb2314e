"""What ``explain`` has found out, as text for people and as a row of the contract's kind."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kgtool.cli import expiry as expiry_of
from kgtool.cli.columns import NAME, Column, duration
from kgtool.cli.escape import escape
from kgtool.cli.expiry import moment
from kgtool.cli.output import error_object
from kgtool.cli.table import draw
from kgtool.model import GroupDescription, ItemError, Member
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.retention import rules as r

if TYPE_CHECKING:
    from kgtool.admin.explain import Explanation, TopicUse
    from kgtool.retention.audit import Removal

KEYS = (
    "group", "exists", "type", "state", "state_since_ms", "protocol_type", "coordinator",
    "offsets_partition", "members", "topics", "offsets", "actions", "retention_ms",
    "check_interval_ms", "rules", "next_expires_at_ms", "removals", "removals_since_ms",
    "missing_acls", "next",
)  # fmt: skip

_MOST = 40
"""So many lines of a table are shown to people; the rest is counted."""

RULES = {
    r.RULE_COMMIT: (
        "counts from the time of its own commit",
        "a new commit for the partition (kgtool keep makes one)",
    ),
    r.RULE_EMPTY_SINCE: (
        "counts, like all others of the group, from the time since which the group is Empty",
        "a member that joins, even if it leaves again (kgtool keep --join); no commit does",
    ),
    r.RULE_EXPLICIT: (
        "was committed with a retention time of its own",
        "a new commit without one",
    ),
    r.RULE_SUBSCRIBED: (
        "is kept, because a member subscribes to the topic",
        "the end of the last such subscription",
    ),
    r.RULE_LIVE_GROUP: (
        "is kept, because the group is alive and this broker keeps all that such a group has",
        "the end of its last membership",
    ),
    r.RULE_REBALANCING: (
        "is kept as long as the group rebalances",
        "the end of the rebalance",
    ),
    r.RULE_PENDING: (
        "is kept as long as an open transaction holds a commit for the partition",
        "the end of the transaction",
    ),
    r.RULE_ORPHAN: (
        "is left over from a group that the coordinator does not know, so nobody ever looks at it",
        "a new commit in the name of the group, which puts it to the clock again",
    ),
    r.RULE_SHARE: ("belongs to a share group, which brokers never clean", "nothing"),
}
"""Of each rule: what it says of an offset, and what would change it."""

CAUSES = {
    r.CAUSE_EXPIRED: "expired: its time had come",
    r.CAUSE_GROUP_EMPTY: "the group was Empty and had nothing left",
    r.CAUSE_CONVERTED: "the group became one of another type",
    r.CAUSE_EXPLICIT: "somebody deleted it, or its topic",
    None: "unknown: the log does not have any more what was removed",
}


def text(found: Explanation, now_ms: int) -> str:
    """Return everything, for people."""
    sections = [
        _head(found, now_ms),
        _members(found.description),
        _topics(found),
        _expiry(found, now_ms),
        _actions(found),
        _past(found),
        _missing(found),
        _next(found),
    ]
    return "\n".join(section for section in sections if section)


# ---------------------------------------------------------------------------------------------
# Text


def _head(found: Explanation, now_ms: int) -> str:
    group = found.description
    name = escape(group.group)
    where = ""
    if group.coordinator is not None:
        where = f", coordinated by broker {group.coordinator.id}"
    if found.partition is not None:
        where += f", in partition {found.partition} of __consumer_offsets"
    if not found.exists:
        return f"Group {name} {_absence(found)}{where}.\n"
    kind = group.type or "classic"
    if kind == r.TYPE_CLASSIC:
        protocol = escape(group.protocol_type)
        kind = f"classic group ({protocol})" if protocol else "place for standalone commits"
    else:
        kind = f"{kind} group"
    since = found.snapshot.state_since_ms if found.snapshot is not None else None
    for_ = "" if since is None else f" since {moment(since)} ({_span(now_ms - since)})"
    return f"Group {name} is a {kind}, {group.state}{for_}{where}.\n"


def _absence(found: Explanation) -> str:
    error = found.description.error
    if error is not None and error.code == GROUP_ID_NOT_FOUND:
        return "does not exist any more" if found.was_there else "does not exist"
    return "may not be seen"


def _span(ms: int) -> str:
    return duration(max(ms, 0))


def _members(group: GroupDescription) -> str:
    if not group.members:
        return ""
    columns = (
        Column("client_id", "CLIENT-ID", NAME), Column("host", "HOST", NAME),
        Column("instance_id", "GROUP-INSTANCE-ID", NAME), Column("owns", "#PARTITIONS"),
        Column("subscribes", "SUBSCRIBES-TO", NAME),
    )  # fmt: skip
    rows = [
        {
            "client_id": member.client_id,
            "host": member.host,
            "instance_id": member.instance_id,
            "owns": member.partition_count,
            "subscribes": _subscription(member),
        }
        for member in group.members
    ]
    return f"Members:\n{_table(columns, rows)}"


def _subscription(member: Member) -> str:
    if member.subscribed is None:
        return "(can't be read)"
    regex = [f"/{member.subscribed_regex}/"] if member.subscribed_regex else []
    return ", ".join([*member.subscribed, *regex]) or "(nothing)"


def _topics(found: Explanation) -> str:
    columns = (
        Column("topic", "TOPIC", NAME), Column("offsets", "OFFSETS"),
        Column("held", "HELD-BY", NAME), Column("delete", "DELETE-OFFSETS", NAME),
    )  # fmt: skip
    rows = [
        {
            "topic": use.topic,
            "offsets": use.offsets,
            "held": _held(use),
            "delete": _verdict(use.refusal) if use.offsets else None,
        }
        for use in found.topics
    ]
    return f"Topics:\n{_table(columns, rows)}" if rows else ""


def _held(use: TopicUse) -> str:
    names = ", ".join(sorted({member.client_id for member in use.holders}))
    if names:
        return names
    return {True: "(by a regular expression)", None: "(unknown)"}.get(use.subscribed, "nobody")


def _verdict(error: ItemError | None) -> str:
    return "possible" if error is None else f"refused: {error.message}"


def _expiry(found: Explanation, now_ms: int) -> str:
    if not found.committed:
        return "It has no committed offsets.\n" if found.exists else ""
    rows = [_offset(found, partition) for partition in found.committed]
    columns = (
        Column("topic", "TOPIC", NAME), Column("partition", "PARTITION"),
        Column("current_offset", "OFFSET"), *expiry_of.COLUMNS,
    )  # fmt: skip
    broker = [found.broker] if found.broker is not None else []
    lines = expiry_of.explain_rules(broker)
    lines += [f"- {line}" for line in _reasons(found)]
    if _loses_at_once(found, now_ms):
        lines.append(
            "- When its last member leaves, a group of this type is judged by its commits alone: "
            "those that are older than the retention then go within one check."
        )
    said = "".join(f"{line}\n" for line in lines)
    return f"Committed offsets:\n{_table(columns, rows)}{said}"


def _offset(found: Explanation, partition: Any) -> dict[str, Any]:
    value = found.committed[partition]
    expiry = found.expiries.get(partition)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "current_offset": value.offset,
        **expiry_of.as_row(expiry),
    }


def _reasons(found: Explanation) -> Iterable[str]:
    """Say what each rule means that decides over one of the offsets, and what would change it."""
    used = [expiry.rule for expiry in found.expiries.values()]
    for rule in r.RULES:
        if rule in used:
            count = used.count(rule)
            what, change = RULES[rule]
            which = "one offset" if count == 1 else f"{count} offsets, each"
            yield f"{rule}: {which} {what}. What would change it: {change}."


def _loses_at_once(found: Explanation, now_ms: int) -> bool:
    """Whether offsets that are protected now would be overdue without members."""
    retention_ms = found.broker.retention_ms if found.broker is not None else None
    if found.description.type != r.TYPE_CONSUMER or retention_ms is None:
        return False
    return any(
        expiry.rule == r.RULE_SUBSCRIBED
        and (expiry.committed_at_ms is None or expiry.committed_at_ms < now_ms - retention_ms)
        for expiry in found.expiries.values()
    )


def _actions(found: Explanation) -> str:
    if not found.exists:
        return ""
    lines = []
    for name, error in (("delete", found.delete_refusal), ("reset-offsets", found.reset_refusal)):
        hint = f" {error.hint}" if error is not None and error.hint else ""
        lines.append(f"  {name}: {escape(_verdict(error) + hint)}\n")
    return f"What kgtool could do now:\n{''.join(lines)}"


def _past(found: Explanation) -> str:
    past = found.past
    if past is None:
        return ""
    since = "" if past.begin_ms is None else f" since {moment(past.begin_ms)}"
    if not past.removals:
        return "" if found.exists else f"Its log says nothing of it{since}.\n"
    columns = (
        Column("at", "REMOVED-AT"), Column("what", "WHAT", NAME), Column("cause", "WHY", NAME),
    )  # fmt: skip
    rows = [
        {"at": moment(row.removed_at_ms), "what": _what(row), "cause": CAUSES[row.cause]}
        for row in reversed(past.removals)
    ]
    left = ""
    if not found.exists and past.left:
        count = len(past.left)
        left = (
            f"{count} offset{'' if count == 1 else 's'} of it {'is' if count == 1 else 'are'} "
            f"left in the log: {RULES[r.RULE_ORPHAN][0]}.\n"
        )
    return f"Removed by the broker{since}:\n{_table(columns, rows)}{left}"


def _what(row: Removal) -> str:
    return "the group" if row.topic is None else f"{row.topic}-{row.partition}"


def _missing(found: Explanation) -> str:
    lines = [
        f"  {acl.operation} on {acl.resource_type} {escape(acl.resource)} ({acl.purpose})\n"
        for acl in found.missing
    ]
    return f"Missing ACLs of this login:\n{''.join(lines)}" if lines else ""


def _next(found: Explanation) -> str:
    commands = next_commands(found)
    lines = "".join(f"  {escape(command)}\n" for command in commands)
    return f"Next:\n{lines}" if lines else ""


def _table(columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> str:
    drawn = draw(columns, rows[:_MOST]).splitlines()
    if len(rows) > _MOST:
        drawn.append(f"and {len(rows) - _MOST} more; -o json shows all")
    return "".join(f"  {line}\n" for line in drawn)


# ---------------------------------------------------------------------------------------------
# What to type next


def next_commands(found: Explanation) -> list[str]:
    """Return commands that make sense now, the most likely one first."""
    name = shlex.quote(found.description.group)
    commands = [_acl(acl.operation, acl.resource_type, acl.resource) for acl in found.missing]
    if not found.exists:
        return [*commands, *_after_the_end(found, name)]
    if found.description.is_empty:
        if any(expiry.expires_at_ms is not None for expiry in found.expiries.values()):
            join = " --join" if found.description.protocol_type and _is_classic(found) else ""
            commands.append(f"kgtool keep {name}{join}")
        if found.committed and found.reset_refusal is None:
            commands.append(f"kgtool reset-offsets --group {name} --all-topics --to-earliest")
        if found.delete_refusal is None:
            commands.append(f"kgtool delete --group {name}")
    else:
        commands.append(f"kgtool describe --group {name} --members --verbose")
        for use in found.topics:
            if use.offsets and use.subscribed is False and use.refusal is None:
                topic = shlex.quote(use.topic)
                commands.append(f"kgtool delete-offsets --group {name} --topic {topic}")
    return commands


def _is_classic(found: Explanation) -> bool:
    return found.description.type in (None, r.TYPE_CLASSIC)


def _after_the_end(found: Explanation, name: str) -> list[str]:
    if not found.was_there:
        return ["kgtool list"]
    return [
        "kgtool history",
        f"kgtool reset-offsets --group {name} --topic TOPIC --to-datetime TIME --create",
    ]


def _acl(operation: str, kind: str, resource: str) -> str:
    where = "--cluster" if kind == "cluster" else f"--{kind} {shlex.quote(resource)}"
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
        "members": [_member_row(member) for member in group.members],
        "topics": [_topic_row(use) for use in found.topics],
        "offsets": [_offset(found, partition) for partition in found.committed],
        "actions": {
            "delete": _action(found.delete_refusal),
            "reset-offsets": _action(found.reset_refusal),
        },
        "retention_ms": broker.retention_ms if broker else None,
        "check_interval_ms": broker.interval_ms if broker else None,
        "rules": broker.rules.name if broker else None,
        "next_expires_at_ms": min(times, default=None),
        "removals": [_removal_row(item) for item in past.removals] if past else None,
        "removals_since_ms": past.begin_ms if past else None,
        "missing_acls": [acl._asdict() for acl in found.missing],
        "next": next_commands(found),
    }


def _member_row(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": member.partition_count,
        "subscribed": None if member.subscribed is None else list(member.subscribed),
        "subscribed_regex": member.subscribed_regex,
    }


def _topic_row(use: TopicUse) -> dict[str, Any]:
    return {
        "topic": use.topic,
        "offsets": use.offsets,
        "subscribed": use.subscribed,
        "holders": [member.member_id for member in use.holders],
        "delete-offsets": _action(use.refusal),
    }


def _action(error: ItemError | None) -> dict[str, Any]:
    return {"allowed": error is None, "error": None if error is None else error_object(error)}


def _removal_row(item: Removal) -> dict[str, Any]:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "removed_at_ms": item.removed_at_ms,
        "cause": item.cause,
        "expires_at_ms": item.expires_at_ms,
        "latency_ms": item.latency_ms,
    }
