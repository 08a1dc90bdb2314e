"""``kgtool lag``: how far groups are behind, the worst first; a view of ``describe``."""

from __future__ import annotations

from typing import Any

from kgtool.cli.commands import describe
from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import get_output
from kgtool.errors import UsageError


@declare(
    "lag",
    "kgtool lag",
    "kgtool lag billing",
    "kgtool lag --lag '>1000' --time-lag",
    "kgtool lag --rates --over 1h",
    "kgtool lag --by partition 'payments-*' --limit 20",
    "kgtool lag --watch",
)
def command(**given: Any) -> Any:
    """Show how far groups are behind, worst first; --rates too.

    One row a group. Of groups that are named, or with --by partition: the partitions with
    something left to read, the largest lag first.
    """
    view = given["view"] or ("state" if "" in given["states"] else "offsets")
    if view != "offsets":
        raise UsageError(f"lag shows offsets: --{view} goes with kgtool describe.")
    if not any(given[name] for name in ("words", "group", "match", "regex")):
        given["all_groups"] = True
    is_named = any(given[name] for name in ("words", "group"))
    given["by"] = given["by"] or ("partition" if is_named or given["expiry"] else "group")
    if given["totals"]:
        given["by"] = None
    given["lagging"] = given["lagging"] or given["by"] in (None, "partition")
    given["sort"] = given["sort"] or "lag"
    get_output().command = "describe"
    assert describe.command.callback is not None
    return describe.command.callback(**given)


command.params = describe.command.params
