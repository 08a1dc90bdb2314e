"""The server: each call is a kgtool of its own, so that none waits for another.

Its JSON, its exit status and what it says on stderr are the result. It has no terminal, so that
whatever changes something is refused without a plan.
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
from kgtool.errors import KgError, UsageError
from kgtool.mcp import tools
from kgtool.mcp.plans import (
    NOTHING,
    Old,
    Plans,
    command_of,
    committed,
    parse,
    planned,
    what_to_send,
)
from kgtool.mcp.tools import APPLY, CHANGES, READS, REQUEST, Rights, Tool

_READS = {tool.name: tool for tool in READS}
_CHANGES = {tool.name: tool for tool in CHANGES}
_BLIND = ("delete-offsets", "reset-offsets")
"""Changes whose command does not know what the plan has seen."""
_FOUND = (0, 3, 5)
"""Exit statuses with something to show: all, some, and a condition that was met."""


class Service:
    """What the tools do.

    :param connection: the options that every command gets: always the same cluster and login.
    :param cluster_id: the cluster that all of it is about.
    :param rights: asked before each plan and each change, for a policy may be changed meanwhile.
    """

    def __init__(
        self, connection: Sequence[str], cluster_id: str | None, rights: Callable[[], Rights]
    ) -> None:
        self._connection = list(connection)
        self._cluster_id = cluster_id
        self._rights = rights
        self._plans = Plans(time.monotonic)

    def tools(self) -> list[types.Tool]:
        """Return the tools that there are now."""
        names = self._rights().commands
        changes = [tool for tool in CHANGES if tool.name in names]
        shown = [(tool.name, tool) for tool in (*READS, REQUEST)]
        shown += [(f"plan_{tool.name}", tool) for tool in changes]
        if changes:
            shown.append((APPLY.name, APPLY))
        return [_tool(name, tool) for name, tool in shown]

    async def call(self, name: str, given: Mapping[str, Any]) -> types.CallToolResult:
        """Run a tool; what can't be done is a result that says so."""
        try:
            if name in _READS:
                return _result(await self._run(_READS[name].words(given)))
            if name == REQUEST.name:
                return _result(await self._run(tools.request_words(given)))
            if name.startswith("plan_"):
                return await self._plan(name.removeprefix("plan_"), given)
            if name == APPLY.name:
                return await self._apply(given)
            raise UsageError(f"There is no tool '{name}'.")
        except KgError as error:
            return _refusal(error)

    def _check(self, command: str) -> Rights:
        rights = self._rights()
        if command not in rights.commands:
            raise UsageError(
                f'No policy lets an agent do {command}: a policy with mcp = ["{command}"] '
                "(KGTOOL_POLICY, or the context's) does."
            )
        return rights

    async def _plan(self, command: str, given: Mapping[str, Any]) -> types.CallToolResult:
        if command not in _CHANGES:
            raise UsageError(f"There is no tool 'plan_{command}'.")
        self._check(command)
        words = _CHANGES[command].words(given)
        old = NOTHING
        if command in _BLIND:
            old = await self._committed(given["group"])
        with tempfile.TemporaryDirectory(prefix="kgtool-mcp-") as folder:
            file = Path(folder, "plan.json")
            done = await self._run(command_of(command, given, words, file))
            document = parse(done.stdout)
            change = None
            is_here = document.get("cluster_id") == self._cluster_id
            if done.returncode in _FOUND and is_here:
                change = what_to_send(command, given, document, file)
            if command in _BLIND and change is not None:
                old = old.only((row["topic"], row["partition"]) for row in planned(document))
        key = None if change is None else self._plans.keep(command, *change, old)
        return _result(done, plan_id=key)

    async def _apply(self, given: Mapping[str, Any]) -> types.CallToolResult:
        APPLY.words(given)
        plan = self._plans.take(given["plan_id"])
        words = [*plan.words, "--yes", *self._check(plan.command).binding]
        if plan.command in _BLIND:
            plan.old.check(await self._committed(plan.old.group))
        if "reason" in given:
            words.append(f"--reason={given['reason']}")
        with tempfile.TemporaryDirectory(prefix="kgtool-mcp-") as folder:
            file = Path(folder, "plan")
            if plan.text is not None:
                file.write_text(plan.text, encoding="utf-8")
            return _result(await self._run([word.replace("{file}", str(file)) for word in words]))

    async def _committed(self, group: str) -> Old:
        done = await self._run(["describe", f"--group={group}"])
        return committed(group, parse(done.stdout))

    async def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kgtool", *words, "--output=json", *self._connection]
        done = await anyio.run_process(command, stdin=subprocess.DEVNULL, check=False)
        return subprocess.CompletedProcess(
            command, done.returncode,
            done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"),
        )  # fmt: skip


def _tool(name: str, tool: Tool) -> types.Tool:
    reads = name != APPLY.name
    return types.Tool(
        name=name, description=tool.help, input_schema=tool.schema,
        annotations=types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads),
    )  # fmt: skip


def _result(done: subprocess.CompletedProcess[str], **more: Any) -> types.CallToolResult:
    """Make a result: the command's document, its exit status, and what it said."""
    shown = {**parse(done.stdout), "exit_status": done.returncode, "said": done.stderr, **more}
    text = json.dumps(shown, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=shown,
        is_error=done.returncode not in _FOUND,
    )  # fmt: skip


def _refusal(error: KgError) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=str(error))], is_error=True
    )


def serve(service: Service) -> None:
    """Speak the protocol on stdin and stdout until stdin ends."""

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
