"""The MCP server: each call runs a kgtool process, so that none waits for another.

The result is its JSON, exit status and stderr. It has no terminal to ask on, so that changes need a
plan.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from kgtool import __version__
from kgtool.changes.policy import check_words
from kgtool.errors import KgError, UsageError
from kgtool.mcp import tools
from kgtool.mcp.plans import (
    NOTHING,
    Committed,
    Plans,
    build_change,
    committed_offsets,
    parse,
    planned_rows,
    planning_words,
    with_rules,
)
from kgtool.mcp.tools import APPLY, CHANGES, READS, REQUEST, Rights, Tool

_READS = {tool.name: tool for tool in READS}
_CHANGES = {tool.name: tool for tool in CHANGES}
_COMPARED = ("delete-offsets", "recover", "reset-offsets")
"""Changes that compare the committed offsets with those of the plan here, not in the command."""
_HAS_RESULTS = (0, 3, 5)
"""Exit statuses with results: all done, partly done, an alert condition was met."""


class Service:
    """Runs the tools.

    :param connection: the connection options of every command.
    :param cluster_id: the cluster of these options.
    :param rights: called before each plan and each change, because policies may change.
    """

    def __init__(
        self, connection: Sequence[str], cluster_id: str | None, rights: Callable[[], Rights]
    ) -> None:
        self._connection = list(connection)
        self._cluster_id = cluster_id
        self._rights = rights
        self._plans = Plans(time.monotonic)

    def tools(self) -> list[types.Tool]:
        """Return the tools that policies allow now."""
        names = self._rights().commands
        changes = [tool for tool in CHANGES if tool.name in names]
        shown = [(tool.name, tool) for tool in (*READS, REQUEST)]
        shown += [(f"plan_{tool.name}", tool) for tool in changes]
        if changes:
            shown.append((APPLY.name, APPLY))
        return [_tool(name, tool) for name, tool in shown]

    async def call(self, name: str, given: Mapping[str, Any]) -> types.CallToolResult:
        """Run a tool; a refusal is a result, too."""
        try:
            if name in _READS:
                return await self._read(_READS[name].words(given))
            if name == REQUEST.name:
                return _result(await self._run(tools.request_words(given)))
            if name.startswith("plan_"):
                return await self._plan(name.removeprefix("plan_"), given)
            if name == APPLY.name:
                return await self._apply(given)
            raise UsageError(f"There is no tool '{name}'.")
        except KgError as error:
            return _refusal(error)

    async def _read(self, words: Sequence[str]) -> types.CallToolResult:
        with tempfile.TemporaryDirectory(prefix="kgtool-mcp-") as folder:
            return _result(await self._run(with_rules(words, Path(folder))))

    def _check(self, command: str, words: Sequence[str]) -> Rights:
        """Return the rights of now; a policy judges the words that the agent has chosen.

        What carries out a plan has other words: rows in a file instead of a strategy.
        """
        rights = self._rights()
        if command not in rights.commands:
            raise UsageError(
                f'No policy lets an agent do {command}: a policy with mcp = ["{command}"] '
                "(KGTOOL_POLICY, or the context's) does."
            )
        check_words(rights.policies, words)
        return rights

    async def _plan(self, command: str, given: Mapping[str, Any]) -> types.CallToolResult:
        if command not in _CHANGES:
            raise UsageError(f"There is no tool 'plan_{command}'.")
        words = _CHANGES[command].words(given)
        self._check(command, words)
        committed = NOTHING
        if command in _COMPARED:
            committed = await self._committed(given["group"])
        with tempfile.TemporaryDirectory(prefix="kgtool-mcp-") as folder:
            file = Path(folder, "plan.json")
            done = await self._run(planning_words(command, given, words, file))
            document = parse(done.stdout)
            change = None
            is_same_cluster = document.get("cluster_id") == self._cluster_id
            if done.returncode in _HAS_RESULTS and is_same_cluster:
                change = build_change(command, given, document, file, words)
        if change is None:
            return _result(done, plan_id=None)
        if command in _COMPARED:
            rows = planned_rows(document)
            committed = committed.only((row["topic"], row["partition"]) for row in rows)
        return _result(done, plan_id=self._plans.keep(command, change, committed))

    async def _apply(self, given: Mapping[str, Any]) -> types.CallToolResult:
        APPLY.words(given)
        plan = self._plans.take(given["plan_id"])
        rights = self._check(plan.command, plan.change.planned)
        if plan.command in _COMPARED:
            plan.committed.check(await self._committed(plan.committed.group))
        more = [f"--reason={given['reason']}"] if "reason" in given else []
        with tempfile.TemporaryDirectory(prefix="kgtool-mcp-") as folder:
            file = Path(folder, "plan")
            if plan.change.text is not None:
                file.write_text(plan.change.text, encoding="utf-8")
            words = plan.change.command_line(file)
            return _result(await self._run([*words, "--yes", *rights.binding, *more]))

    async def _committed(self, group: str) -> Committed:
        done = await self._run(["describe", f"--group={group}"])
        return committed_offsets(group, parse(done.stdout))

    async def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kgtool", *words, "--output=json", *self._connection]
        done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False)
        return subprocess.CompletedProcess(
            command,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )


def _tool(name: str, tool: Tool) -> types.Tool:
    reads = name != APPLY.name
    return types.Tool(
        name=name,
        description=tool.help,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads),
    )


def _result(done: subprocess.CompletedProcess[str], **more: Any) -> types.CallToolResult:
    """Return the command's JSON document, exit status and stderr."""
    shown = {**parse(done.stdout), "exit_status": done.returncode, "said": done.stderr, **more}
    text = json.dumps(shown, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=shown,
        is_error=done.returncode not in _HAS_RESULTS,
    )


def _refusal(error: KgError) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(error))], is_error=True
    )


def serve(service: Service) -> None:
    """Serve on stdin and stdout until stdin ends."""

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=service.tools())

    async def call_tool(_context: Any, params: Any) -> types.CallToolResult:
        return await service.call(params.name, params.arguments or {})

    async def main() -> None:
        server: Any = Server(
            "kgtool", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool
        )
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(main)
