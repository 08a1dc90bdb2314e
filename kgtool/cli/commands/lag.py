"""``kgtool lag``: ``describe`` of partitions that lag, the largest lag first."""

from __future__ import annotations

from typing import Any

from kgtool.cli.commands import describe
from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import get_output
from kgtool.errors import UsageError


@declare(
    "lag",
    "kgtool lag",
    "kgtool lag billing 'payments-*' --lag '>1000'",
    "kgtool lag --by group --time-lag",
    "kgtool lag --watch 5s",
)
def command(**given: Any) -> Any:
    """Show lagging partitions, the largest lag first.

    The same as describe --lagging --sort lag, of all groups unless some are named.
    """
    view = given["view"] or ("state" if "" in given["states"] else "offsets")
    if view != "offsets":
        raise UsageError(f"lag shows offsets: --{view} goes with kgtool describe.")
    if not any(given[name] for name in ("words", "group", "match", "regex")):
        given["all_groups"] = True
    given["lagging"] = True
    given["sort"] = given["sort"] or "lag"
    get_output().command = "describe"
    assert describe.command.callback is not None
    return describe.command.callback(**given)


command.params = describe.command.params
