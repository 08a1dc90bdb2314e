"""``kgtool lag``: how far groups are behind, the worst first; a view of ``describe``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kgtool.cli.commands import describe
from kgtool.cli.describe.view import Line
from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import get_output
from kgtool.cli.output.output import Output
from kgtool.errors import UsageError

if TYPE_CHECKING:
    from kgtool.config import Settings


def _worst_first(line: Line) -> Line:
    """Return the line of ``describe`` that shows the same; UsageError for another view."""
    if line.view_name != "offsets":
        raise UsageError(f"lag shows offsets: --{line.view_name} goes with kgtool describe.")
    get_output().command = "describe"
    chosen = line.selection
    is_named = bool(chosen.groups or chosen.ambiguous)
    if not (is_named or chosen.match or chosen.regex):
        chosen = chosen._replace(all_groups=True)
    by = line.by or ("partition" if is_named or line.expiry else "group")
    by_row = None if line.totals else by
    return line._replace(
        selection=chosen,
        by=by_row,
        lagging=line.lagging or by_row in (None, "partition"),
        sort=line.sort or "lag",
    )


@declare(
    "lag",
    "kgtool lag",
    "kgtool lag billing",
    "kgtool lag --lag '>1000' --time-lag",
    "kgtool lag --rates --over 1h",
    "kgtool lag --by partition 'payments-*' --limit 20",
    "kgtool lag --watch",
)
@describe.options(_worst_first)
def command(settings: Settings, output: Output, line: Line) -> int | None:
    """Show how far groups are behind, worst first; --rates too.

    One row a group. Of groups that are named, or with --by partition: the partitions with
    something left to read, the largest lag first.
    """
    return describe.show(settings, output, line)
