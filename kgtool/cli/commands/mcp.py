"""``kgtool mcp``: the tools for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import CONNECTION, cluster_options, open_session
from kgtool.cli.output.output import Output
from kgtool.errors import KgError

if TYPE_CHECKING:
    from kgtool.config import Settings


@declare("mcp", "kgtool mcp --context prod")
@cluster_options()
def command(settings: Settings, output: Output) -> int:
    """Serve reads and planned changes to an agent (MCP on stdio).

    A server of the Model Context Protocol for one cluster. The reads are tools, named like the
    commands, with their JSON. Changes are tools only where a policy names them
    (mcp = ["cleanup", "undo"]; KGTOOL_POLICY, or the context's), and take two
    steps: plan_NAME changes nothing and returns an id, apply takes it once, within 15 minutes, and
    sends the planned rows only, with the usual checks, locks and journal. Raw requests only read.

    Needs pip install 'kgtool[mcp]'.
    """
    try:
        from kgtool.mcp import server
    except ImportError as error:
        if error.name is None or error.name.startswith("kgtool"):
            raise
        raise KgError(
            "kgtool mcp needs the package mcp.", hint="pip install 'kgtool[mcp]'"
        ) from None
    from kgtool.config.policy import rules_of
    from kgtool.mcp.tools import Rights, rights

    with open_session(settings) as session:
        session.connect()
        cluster_id = session.cluster_id

    def may() -> Rights:
        return rights(rules_of(cluster_id, settings.context), cluster_id)

    may()  # a policy that can't be read is said now
    connection = _typed(click.get_current_context(), settings)
    server.serve(server.Service(connection, cluster_id, may))
    return 0


def _typed(context: click.Context, settings: Settings) -> list[str]:
    """Return the connection options; what the environment says is the children's too."""
    words = []
    for name in CONNECTION:
        given = context.params.get(name) or context.find_root().params.get(name)
        if name == "context" and given is None and settings.context is not None:
            given = settings.context.name  # the one in use may be another one tomorrow
        if given is not None:
            words.append(f"--{name.replace('_', '-')}={given}")
    return words
