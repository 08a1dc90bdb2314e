"""``kgtool mcp``: the MCP server."""

from __future__ import annotations

from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import cluster_options, given_connection, open_session
from kgtool.cli.output.output import Output
from kgtool.config import Settings
from kgtool.errors import KgError


@declare("mcp", "kgtool mcp --context prod")
@cluster_options()
def command(settings: Settings, output: Output) -> int:
    """Serve reads and planned changes to an agent (MCP on stdio).

    A server of the Model Context Protocol for one cluster. The reads are tools, named like the
    commands, with their JSON. Changes are tools only where a policy names them
    (mcp = ["cleanup", "undo"]; KGTOOL_POLICY, or the context's), and take two
    steps: plan_NAME changes nothing and returns an id, apply takes it once, within 15 minutes, and
    sends the planned rows only, with the usual checks, locks and journal. Raw requests only read.

    Needs pip install 'kafka-kgtool[mcp]'.
    """
    try:
        from kgtool.mcp import server
    except ImportError as error:
        if error.name is None or error.name.startswith("kgtool"):
            raise
        raise KgError(
            "kgtool mcp needs the package mcp.", hint="pip install 'kafka-kgtool[mcp]'"
        ) from None
    from kgtool.config.policy import policy_rules
    from kgtool.mcp.tools import Rights, rights

    with open_session(settings) as session:
        session.connect()
        cluster_id = session.cluster_id

    def may() -> Rights:
        return rights(policy_rules(cluster_id, settings.context), cluster_id)

    may()  # an invalid policy is refused now
    connection = given_connection()
    if settings.context is not None:
        # The default context may change while the server runs.
        connection.setdefault("context", settings.context.name)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in connection.items()]
    server.serve(server.Service(words, cluster_id, may))
    return 0
