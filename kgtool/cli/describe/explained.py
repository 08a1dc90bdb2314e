"""The text of ``explain``: a group in sections, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kgtool.cli.describe import expiry as expiry_of
from kgtool.cli.describe.findings import message_of
from kgtool.cli.output.errors import hint_of
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw, fit
from kgtool.cli.output.terminal import fold
from kgtool.columns import NAME, TEXT, Column, duration
from kgtool.columns.groups import EXPLAIN_OFFSET
from kgtool.model import GroupDescription, ItemError, Member, TopicPartition
from kgtool.protocol.codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
)
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.explain import Explanation, TopicUse
from kgtool.queries.groups.describe import UNKNOWN_TO_COORDINATOR
from kgtool.retention import rules as r
from kgtool.text import counted, escape, moment, shell_word

_MOST = 40
"""Rows of a table in the text format; the rest is counted."""

RULES = {
    r.RULE_COMMIT: (
        "counts from the time of its own commit",
        "a new commit for the partition (kgtool keep makes one)",
    ),
    r.RULE_EMPTY_SINCE: (
        "counts, like all others of the group, from when it became Empty",
        "a member that joins, even if it leaves again (kgtool keep --join); no commit does",
    ),
    r.RULE_EXPLICIT: ("was committed with a retention time of its own", "a new commit without one"),
    r.RULE_SUBSCRIBED: (
        "is kept, because a member subscribes to the topic",
        "the end of the last such subscription",
    ),
    r.RULE_LIVE_GROUP: (
        "is kept, because the group is alive and this broker keeps all that such a group has",
        "the end of its last membership",
    ),
    r.RULE_REBALANCING: ("is kept as long as the group rebalances", "the end of the rebalance"),
    r.RULE_PENDING: (
        "is kept as long as an open transaction holds a commit for the partition",
        "the end of the transaction",
    ),
    r.RULE_ORPHAN: (
        "is left over from a group that the coordinator does not know, so it is never checked",
        "a new commit in the name of the group, which restarts its expiry clock",
    ),
    r.RULE_SHARE: ("belongs to a share group, which brokers never clean up", "nothing"),
}
"""What each rule says of an offset, and what would change it."""

CAUSES = {
    r.CAUSE_EXPIRED: "expired: its retention had passed",
    r.CAUSE_GROUP_EMPTY: "the group was Empty and had nothing left",
    r.CAUSE_CONVERTED: "the group was converted to another type",
    r.CAUSE_EXPLICIT: "it, or its topic, was deleted",
    None: "unknown: the log does not tell",
}


def offset_row(found: Explanation, partition: TopicPartition) -> dict[str, Any]:
    """Return one committed offset with its expiry."""
    value = found.committed[partition]
    expiry = found.expiries.get(partition)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "current_offset": value.offset,
        **expiry_of.as_row(expiry),
    }


def explained(
    found: Explanation, now_ms: int, width: int | None, following: Callable[..., list[str]]
) -> str:
    """Return the text format.

    :param width: columns of the terminal; None: nothing is cut or folded.
    :param following: returns what to type next.
    """
    sections = [
        fold(_head(found, now_ms), width),
        fold(_section("Findings", map(_finding, found.findings)), width),
        _members(found.description, width),
        _topics(found, width),
        _expiry(found, now_ms, width),
        fold(_actions(found), width),
        _past(found, width),
        _missing(found),
        _section("Next", map(escape, following(quote=shell_word))),
    ]
    return "\n".join(section for section in sections if section)


def _head(found: Explanation, now_ms: int) -> str:
    group = found.description
    name = escape(group.group)
    where = "" if group.coordinator is None else f"broker {group.coordinator.id}"
    if found.partition is not None:
        log = f"__consumer_offsets-{found.partition}"
        where = f"{where} ({log})" if where else f"the leader of {log}"
    where = f" Coordinator: {where}." if where else ""
    if not found.exists:
        return f"Group {name}{_absence(found)}.{where}\n"
    kind = group.type or "classic"
    if kind == r.TYPE_CLASSIC:
        protocol = escape(group.protocol_type)
        what = f"is a classic group ({protocol})" if protocol else ""
    else:
        what = f"is a {kind} group"
    since = found.snapshot.state_since_ms if found.snapshot is not None else None
    for_ = "" if since is None else f" since {moment(since)} ({duration(max(now_ms - since, 0))})"
    if not what:
        return f"Group {name} has no members, only standalone commits{for_}.{where}\n"
    return f"Group {name} {what}, {group.state}{for_}.{where}\n"


def _finding(finding: Finding) -> str:
    return f"{finding.severity.upper()} {finding.kind}: {escape(message_of(finding))}"


def _absence(found: Explanation) -> str:
    """What is to be said of it that its error does not say: that is on stderr."""
    error = found.description.error
    if error is not None and error.code == GROUP_ID_NOT_FOUND:
        return " does not exist any more" if found.was_there else ""
    if error is not None and error.name == UNKNOWN_TO_COORDINATOR:
        return " is listed, and its coordinator does not know it"
    if error is not None and error.code == COORDINATOR_NOT_AVAILABLE:
        return " has no coordinator"
    return " can't be described"


def _members(group: GroupDescription, width: int | None) -> str:
    columns = (
        Column("client_id", "CLIENT-ID", NAME),
        Column("host", "HOST", NAME),
        Column("instance_id", "GROUP-INSTANCE-ID", NAME),
        Column("owns", "#PARTITIONS"),
        Column("subscribes", "SUBSCRIBES-TO", NAME),
    )
    rows = [
        build_row(member, columns, owns=member.partition_count, subscribes=_subscription(member))
        for member in group.members
    ]
    return _section("Members", _table(columns, rows, width))


def _subscription(member: Member) -> str:
    if member.subscribed is None:
        return "(can't be read)"
    regex = [f"/{member.subscribed_regex}/"] if member.subscribed_regex else []
    return ", ".join([*member.subscribed, *regex]) or "(nothing)"


def _topics(found: Explanation, width: int | None) -> str:
    columns = (
        Column("topic", "TOPIC", NAME),
        Column("offsets", "OFFSETS"),
        Column("held", "HELD-BY", NAME),
        Column("delete", "DELETE-OFFSETS", TEXT),
    )
    rows = []
    for use in found.topics:
        verdict = _topic_verdict(use.refusal) if use.offsets else None
        rows.append(build_row(use, columns, held=_held(use), delete=verdict))
    return _section("Topics", _table(columns, rows, width))


def _held(use: TopicUse) -> str:
    names = ", ".join(sorted({member.client_id for member in use.holders}))
    if names:
        return names
    return {True: "(by a regular expression)", None: "(unknown)"}.get(use.subscribed, "no one")


def _verdict(error: ItemError | None) -> str:
    return "possible" if error is None else f"refused: {error.message}"


def _topic_verdict(error: ItemError | None) -> str:
    is_held = error is not None and error.code == GROUP_SUBSCRIBED_TO_TOPIC
    return "refused: subscribed" if is_held else _verdict(error)


def _expiry(found: Explanation, now_ms: int, width: int | None) -> str:
    is_share = found.description.type == r.TYPE_SHARE
    kind = "start" if is_share else "committed"
    if not found.committed:
        return f"It has no {kind} offsets.\n" if found.exists and found.is_read else ""
    rows = [offset_row(found, partition) for partition in found.committed]
    if is_share:
        shown = _section("Start offsets", _table(EXPLAIN_OFFSET[:3], rows, width))
        return f"{shown}They do not expire: brokers never clean up share groups.\n"
    lines = expiry_of.explain_rules([found.broker])
    lines += [f"- {line}" for line in _reasons(found)]
    if _loses_at_once(found, now_ms):
        lines.append(
            "- When its last member leaves, a group of this type is judged by its commits alone: "
            "those older than the retention then expire at the next check."
        )
    said = "".join(f"{fold(line, width)}\n" for line in lines)
    return _section("Committed offsets", _table(EXPLAIN_OFFSET, rows, width)) + said


def _reasons(found: Explanation) -> Iterable[str]:
    """Explain each rule that applies to any of the offsets, and what would change it."""
    used = [expiry.rule for expiry in found.expiries.values()]
    for rule in r.RULES:
        if rule in used:
            count = used.count(rule)
            what, change = RULES[rule]
            which = "one offset" if count == 1 else f"{count} offsets, each"
            yield f"{rule}: {which} {what}. Changed by: {change}."


def _loses_at_once(found: Explanation, now_ms: int) -> bool:
    """Whether offsets that the members protect would expire as soon as they leave."""
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
    refusals = {"delete": found.delete_refusal, "reset-offsets": found.reset_refusal}
    return _section(
        "What kgtool can do now",
        [
            f"{name}: {escape(_verdict(error) + ('' if error is None else hint_of(error)))}"
            for name, error in refusals.items()
        ],
    )


def _past(found: Explanation, width: int | None) -> str:
    past = found.past
    if past is None:
        return ""
    since = "" if past.begin_ms is None else f" since {moment(past.begin_ms)}"
    if not past.removals:
        return "" if found.exists else f"The log has no trace of it{since}.\n"
    columns = (
        Column("at", "REMOVED-AT"),
        Column("what", "WHAT", NAME),
        Column("offset", "OFFSET"),
        Column("committed", "COMMITTED-AT", spare=2),
        Column("cause", "WHY", NAME),
        Column("rule", "RULE", spare=1),
    )
    newest = sorted(
        past.removals, key=lambda row: (-row.removed_at_ms, row.topic or "", row.partition or 0)
    )
    rows = [
        {
            "at": moment(row.removed_at_ms),
            "cause": CAUSES[row.cause],
            "what": "the group" if row.topic is None else f"{row.topic}:{row.partition}",
            "offset": row.offset,
            "committed": None if row.stored is None else moment(row.commit_timestamp_ms or 0),
            "rule": row.rule,
        }
        for row in newest
    ]
    left = ""
    if not found.exists and past.left:
        count = len(past.left)
        left = (
            f"{counted(count, 'offset')} of it {'is' if count == 1 else 'are'} "
            f"left in the log: {RULES[r.RULE_ORPHAN][0]}.\n"
        )
    return _section(f"Removed by the broker{since}", _table(columns, rows, width)) + left


def _missing(found: Explanation) -> str:
    lines = (
        f"{acl.operation} on {acl.resource_type} {escape(acl.resource)} ({acl.purpose})"
        for acl in found.missing
    )
    return _section("Missing ACLs of this login", lines)


def _section(title: str, lines: Iterable[str]) -> str:
    text = "".join(f"  {line}\n" for line in lines)
    return f"{title}:\n{text}" if text else ""


def _table(columns: tuple[Column, ...], rows: list[dict[str, Any]], width: int | None) -> list[str]:
    if not rows:
        return []
    shown = rows[:_MOST]
    sizes = fit(columns, shown, None if width is None else width - 2).sizes
    drawn = draw(columns, shown, sizes=sizes).splitlines()
    if len(rows) > _MOST:
        drawn.append(f"and {len(rows) - _MOST} more; -o json shows all")
    return drawn
