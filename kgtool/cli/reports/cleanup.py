"""What ``cleanup apply`` says: the plan before, each item's result, and the sum at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kgtool.changes.cleanup.apply import Result
from kgtool.changes.cleanup.plan_file import DELETE_OFFSETS, Plan, PlanItem
from kgtool.cli.flows.change import NOT_ALL_COMES_BACK
from kgtool.cli.flows.cleanup_plan import say_left_out, summary
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import draw_for
from kgtool.columns import shown
from kgtool.columns.changes import APPLIED, CLEANUP_APPLY
from kgtool.text import counted, escape


def row_of(result: Result) -> dict[str, Any]:
    """Return a result as a row."""
    item, error = result.item, result.error
    return {
        "action": item.action,
        "group": item.group,
        "offsets": len(item.offsets),
        "status": result.status,
        "reason": None if error is None else error.message,
        "error": None if error is None else error_object(error),
    }


def show_plan(output: Output, plan: Plan, left: Sequence[PlanItem]) -> None:
    """Say on stderr what is about to happen."""
    header = plan.header
    output.note(escape(f"Plan {header.id}, made {header.made_at} by {header.made_by}."))
    for action, count in Counter(item.action for item in left).items():
        output.note(f"  {action}: {counted(count, 'group')}")
    output.note(f"Total: {summary(left)}")
    say_left_out(output, plan.left_out)
    living = [
        i.group for i in left if i.action == DELETE_OFFSETS and i.state not in (None, "Empty")
    ]
    if living:
        output.note(
            f"Warning: {len(living)} of them had members: what is deleted there can be undone "
            "only while they are empty."
        )
    output.note(NOT_ALL_COMES_BACK)


def report_table(output: Output, results: Sequence[Result]) -> None:
    """Put out what came of each item, and the sum."""
    rows = [row_of(result) for result in results]
    if rows and output.is_text:
        output.text(draw_for(output, shown(CLEANUP_APPLY), rows), end="")
    by_word = Counter(APPLIED[result.status] for result in results)
    said = ", ".join(f"{count} {words}" for words, count in by_word.items())
    output.note(f"{said or 'Nothing is in the plan'}.")
