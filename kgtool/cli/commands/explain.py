"""``kgtool explain``: why a group is as it is, what expires when, and what to type next."""

from __future__ import annotations

from kgtool.changes.explain import explain_group
from kgtool.cli.options.declare import declare
from kgtool.cli.options.group_selection import Selection, as_named
from kgtool.cli.options.shared import cluster_options, group_arguments, open_session
from kgtool.cli.output.output import Output
from kgtool.cli.reports import explain
from kgtool.clock import now_ms
from kgtool.columns.groups import EXPLAIN
from kgtool.config import Settings


@declare("explain", "kgtool explain billing", "kgtool explain billing -o json")
@group_arguments
@cluster_options()
def command(settings: Settings, output: Output, selection: Selection) -> int:
    """Show why a group is as it is, what expires when, and what to do next.

    Who is a member and holds which topic; why the group can't be deleted or reset; what expires
    when, by which rule, and what would change that; what the broker has removed, and why, also of
    groups that are gone; and which ACL is missing.
    """
    with open_session(settings) as session:
        groups = as_named(session, output, selection, EXPLAIN)
        output.page()
        for number, group in enumerate(groups):
            found = session.run(explain_group(session.cluster, group, now_ms()))
            output.text("\n" if number else "", end="")
            output.text(explain.text(found, now_ms(), output.table_width), end="")
            output.row(explain.row(found))
            error = found.description.error
            if error is not None and not found.was_there:
                output.failed(error)
                continue
            output.done += 1
            for problem in found.errors:
                output.failed(problem)
    return output.finish()
