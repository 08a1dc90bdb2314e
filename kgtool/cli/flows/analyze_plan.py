"""``kgtool analyze --plan``: what the log says could go, as a plan for ``kgtool cleanup apply``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgtool.changes.cleanup.plan_file import LeftOut, Plan, PlanItem, write
from kgtool.cli.flows.change import now_ms
from kgtool.cli.flows.cleanup_plan import WRITTEN, header, say_left_out, summary
from kgtool.cli.output.output import Output


def write_plan(analysis: Any, output: Output, path: Path, idle_ms: int | None) -> None:
    """Write the plan, and say what is in it."""
    from kgtool.analysis.tables.cleanup import decisions

    items: list[PlanItem] = []
    left_out: list[LeftOut] = []
    for found in decisions(analysis.decisions()):
        if isinstance(found, PlanItem):
            items.append(found)
        else:
            left_out.append(found)
    criteria = {} if idle_ms is None else {"idle_ms": idle_ms}
    head = header(output.cluster_id, now_ms(), "analyze", criteria, analysis.end_ms)
    write(Plan(head, tuple(items), tuple(left_out)), path)
    output.note(f"Cleanup: {summary(items)}")
    say_left_out(output, left_out)
    output.note(WRITTEN.format(path))
