"""``kgtool explain``: the state of a group, what expires when, and what to type next."""

from __future__ import annotations

from functools import partial
from typing import Any

from kgtool.changes.refusals import refusals
from kgtool.cli.change.journaled import journal_folder
from kgtool.cli.describe.explained import explained, offset_row
from kgtool.cli.describe.findings import FixConnection, finding_row, fix_connection
from kgtool.cli.describe.next_commands import next_commands, removed_by
from kgtool.cli.options.declare import declare, option
from kgtool.cli.options.group_selection import Selection, choose_in_order
from kgtool.cli.options.shared import cluster_options, group_arguments, open_session
from kgtool.cli.options.types import RuleNames
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.rows import build_row
from kgtool.clock import now_ms
from kgtool.columns.groups import EXPLAIN, EXPLAIN_MEMBER, EXPLAIN_REMOVAL, EXPLAIN_TOPIC
from kgtool.config import Settings
from kgtool.model import ItemError
from kgtool.queries.explain import Explanation, explain_group
from kgtool.queries.log.removals import OTHERS
from kgtool.retention import rules as r
from kgtool.retention.phases import RulePhases, rule_sets_over_time
from kgtool.text import escape

_LACKS_OTHERS = (
    f"explain leaves out other groups, as the log has more than {OTHERS:,} records of them, or "
    "part of it can't be read; kgtool analyze has all that tells why an offset went."
)


@declare("explain", "kgtool explain billing", "kgtool explain billing -o json")
@group_arguments
@option(
    "--rules",
    None,
    "The generation of the brokers that removed what is gone; auto: that of today's, as far back "
    "as records allow; 2.4@0,4.1@TIME: upgraded at TIME.",
    type=RuleNames(["auto", *r.RULE_SETS]),
    default="auto",
)
@cluster_options()
def command(
    settings: Settings, output: Output, selection: Selection, rules: str | RulePhases
) -> None:
    """Show why a group is as it is, and what to do next.

    Who is a member and holds which topic; why the group can't be deleted or reset; what expires
    when, by which rule, and what would change that; what the broker has removed, and why, also of
    groups that are gone; and which ACL is missing.
    """
    then = rule_sets_over_time(rules)
    with open_session(settings) as session:
        groups = choose_in_order(session, output, selection, EXPLAIN)
        output.page()
        connection = fix_connection(settings)
        for number, group in enumerate(groups):
            with looking(output, session):
                found = session.run(explain_group(session.cluster, group, now_ms(), refusals, then))
            undo = removed_by(found, journal_folder(), session.cluster_id)
            following = partial(next_commands, found, connection, undo)
            output.text("\n" if number else "", end="")
            output.text(explained(found, now_ms(), output.table_width, following), end="")
            output.row(_row(found, connection, following()))
            if found.past is not None and found.past.lacks_others and found.past.removals:
                output.note(escape(f"Note: {group}: {_LACKS_OTHERS}"))
            error = found.description.error
            if error is not None and not found.was_there:
                output.failed(error)
                continue
            output.done += 1
            for problem in found.errors:
                output.failed(problem)


def _row(found: Explanation, connection: FixConnection, following: list[str]) -> dict[str, Any]:
    """Return the row of the machine formats; None where unknown."""
    group, broker, past = found.description, found.broker, found.past
    times = [e.expires_at_ms for e in found.expiries.values() if e.expires_at_ms is not None]
    is_known = all(e.rule is not None for e in found.expiries.values())
    return {
        "group": group.group,
        "findings": [finding_row(finding, connection) for finding in found.findings],
        "exists": found.exists,
        "type": group.type,
        "state": group.state if found.exists else None,
        "state_since_ms": found.snapshot.state_since_ms if found.snapshot else None,
        "protocol_type": group.protocol_type if found.exists else None,
        "coordinator": group.coordinator.id if group.coordinator else None,
        "offsets_partition": found.partition,
        "members": [
            build_row(
                member,
                EXPLAIN_MEMBER,
                partitions=None if member.is_unread else member.partition_count,
            )
            for member in group.members
        ],
        "topics": [
            build_row(
                use,
                EXPLAIN_TOPIC,
                holders=[member.member_id for member in use.holders],
                **{"delete-offsets": _action(use.refusal)},
            )
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
        "next_expires_at_ms": min(times, default=None) if is_known else None,
        "removals": [build_row(item, EXPLAIN_REMOVAL) for item in past.removals] if past else None,
        "removals_since_ms": past.begin_ms if past else None,
        "missing_acls": [acl._asdict() for acl in found.missing],
        "next": following,
    }


def _action(error: ItemError | None) -> dict[str, Any]:
    return {"allowed": error is None, "error": None if error is None else error_object(error)}
