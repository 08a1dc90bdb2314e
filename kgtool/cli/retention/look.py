"""What ``kgtool retention`` looks at, and what all of its commands say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kgtool.changes.journal.kept import Clock, Memory, Place, first_times
from kgtool.changes.retention.decide import REFUSALS, RetentionRow
from kgtool.changes.retention.look import Looked, LookedGroup, Remember, look
from kgtool.cli.change.journaled import journal_folder
from kgtool.cli.describe.expiry import explain_rules
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.clock import now_ms
from kgtool.columns import Row, duration
from kgtool.columns.changes import RETENTION, RETENTION_GROUPS
from kgtool.config.retention import RetentionRules
from kgtool.model import Target
from kgtool.net.session import Session
from kgtool.text import counted, escape, listed, moment

NAMES = 3


class Found(NamedTuple):
    """What was looked at, and when."""

    looked: Looked
    now_ms: int
    remember: Remember

    @property
    def rows(self) -> list[RetentionRow]:
        """All rows."""
        return [row for group in self.looked.groups for row in group.rows]


def find(session: Session, output: Output, rules: RetentionRules) -> Found:
    """Connect, begin the output, look at all groups and report what could not be read."""
    session.connect()
    output.begin(RETENTION, session.cluster_id)

    def remember(clocks: Mapping[Place, Clock]) -> Memory:
        return first_times(journal_folder(), session.cluster_id, clocks)

    at_ms = now_ms()
    with looking(output, session):
        found = session.run(look(session.cluster, rules, at_ms, remember))
    for error in found.errors:
        output.failed(error)
    for group in found.groups:
        if group.error is not None:
            output.failed(group.error)
    _say(output, found)
    return Found(found, at_ms, remember)


def _say(output: Output, found: Looked) -> None:
    for line in explain_rules(found.brokers):
        output.note(line)
    if found.broker_ms is not None:
        half = duration(found.broker_ms // 2)
        output.note(
            f"Run kgtool retention apply at least every {half}: what is kept longer is committed "
            "again once less than half of the broker's retention is left."
        )
    if found.others:
        names = listed(found.others, NAMES, " and {} more")
        output.note(
            escape(
                f"Note: left to the broker, as no rule is about groups of their type: {names}. "
                'A rule with type = "share" or "streams" is about such groups.'
            )
        )
    if found.counts and not found.memory.has_journals:
        output.note(
            escape(
                f"Note: {journal_folder()} has no earlier run on this cluster: a longer retention "
                "with an end counts from the last commit, even if kgtool made it elsewhere."
            )
        )


def say_join(output: Output, found: Looked, *, join: bool) -> None:
    """Say which groups can be kept only with ``--join``."""
    if found.needs_join and not join:
        names = listed(found.needs_join, NAMES, " and {} more")
        output.note(
            escape(
                f"Note: the clocks of {names} run from when they became Empty: apply takes --join "
                "to keep them."
            )
        )


def row_of(row: RetentionRow) -> Row:
    """Return a row for the machine formats."""
    return build_row(row, RETENTION)


# ---------------------------------------------------------------------------------------------
# ``show``


def show(session: Session, output: Output, file: RetentionRules) -> None:
    """Show every group with its rule, and what happens when."""
    found = find(session, output, file)
    say_join(output, found.looked, join=False)
    output.done += len(found.looked.groups)
    for row in found.rows:
        output.row(row_of(row))
    for group in found.looked.groups:
        _explain(output, group)
    lines = [_line(group, found.now_ms) for group in found.looked.groups if group.error is None]
    show_table(output, RETENTION_GROUPS, lines, page=True)
    output.close_pager()
    unmatched = sum(group.matched is None for group in found.looked.groups)
    output.note(
        f"Checked {counted(len(found.looked.groups), 'group')}, {unmatched} without a rule."
    )


def _explain(output: Output, group: LookedGroup) -> None:
    """Say why something of a group is refused or unknown, each reason once."""
    errors = [row.error for row in group.rows if row.error is not None]
    for error in {each.message: each for each in errors}.values():
        output.note(sentence(error._replace(target=Target(group=group.group)), prefix="Note: "))


def _line(group: LookedGroup, at_ms: int) -> Row:
    rule = group.matched
    retention = "-"
    if rule is not None:
        ms = rule.rule.retention_ms
        retention = "never" if ms is None else duration(ms)
    return {
        "group": group.group,
        "rule": None if rule is None else rule.glob,
        "retention": retention,
        "offsets": len(group.rows) if group.facts is not None else None,
        "next": _next(group.rows, at_ms),
    }


_WORDS = {"keep": "kept again", "delete-offsets": "offsets go", "delete-group": "group goes"}
_STILL = {
    "has-members": "has members",
    "not-expiring": "does not expire",
    "left-to-broker": "left to the broker",
}


def _next(rows: list[RetentionRow], at_ms: int) -> str:
    """Say what happens next to a group, and to how many of its offsets."""
    if not rows:
        return "no offsets"
    bad = [row for row in rows if row.status in REFUSALS]
    due = [row for row in rows if row.status == "due"]
    later = [row for row in rows if row.status == "waiting"]
    if bad:
        first = bad[0]
        name = first.error.name if first.error is not None else ""
        said = "unknown" if first.status == "unknown" else f"refused: {name}"
        return said + _part(bad, rows)
    if due:
        return f"{_WORDS[due[0].action]} now" + _part(due, rows)
    if later:
        first = min(later, key=lambda row: row.at_ms or 0)
        same = [row for row in later if row.at_ms == first.at_ms]
        left = duration(max((first.at_ms or 0) - at_ms, 1000))
        return f"{_WORDS[first.action]} in {left}" + _part(same, rows)
    said = min((row.status for row in rows), key=list(_STILL).index)
    times = [row.expires_at_ms for row in rows if row.expires_at_ms is not None]
    until = f" ({moment(min(times))})" if said == "left-to-broker" and times else ""
    return _STILL[said] + until


def _part(some: list[RetentionRow], rows: list[RetentionRow]) -> str:
    return "" if len(some) == len(rows) else f" ({len(some)} of {len(rows)})"
