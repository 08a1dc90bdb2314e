"""Draws the pages' pictures: what a terminal shows, as an SVG made by rich, and the report."""

from __future__ import annotations

import asyncio
import html
import io
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

COMMANDS = (
    "kgtool lag 'report*' --by group",
    "kgtool delete-offsets reporting-old --topic payments:0,1 --yes",
    "kgtool undo last --yes",
)
WIDTH = 100
TOP = 120, 22
"""Columns and lines of the picture of ``kgtool top``."""
REPORT = 1200, 1075
"""Pixels of the report's picture."""
QUESTION = b" [y/N]: "
_PIECE = re.compile(r'<text[^>]* y="([\d.]+)"[^>]*clip-path="[^"]*line-\d+\)">([^<]*)</text>')


def draw(environ: Mapping[str, str]) -> str:
    """Run the commands on a terminal, and return a picture of what it shows."""
    from rich.console import Console
    from rich.text import Text

    settings = {**environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(terminal(command, settings).strip("\n")))
        console.print()
    return console.export_svg(title="kgtool")


def top(bootstrap: str) -> str:
    """Run ``kgtool top`` until it has looked at every group; return a picture of its screen."""
    from kgtool.config import Settings, parse_bootstrap
    from kgtool.queries.offsets.describe_listed import OTHERS
    from kgtool.top.app import TopApp

    app = TopApp(Settings(parse_bootstrap(bootstrap), 60_000), 1.0)

    def is_seen() -> bool:
        groups = list(app.poller.groups.values())
        found = [one.found_at_s for one in groups if one.listing.type not in OTHERS]
        return bool(groups) and None not in found and all(one.last for one in groups)

    async def main() -> str:
        async with app.run_test(size=TOP) as pilot:
            until = time.monotonic() + 120
            while not is_seen() and time.monotonic() < until:
                await pilot.pause(0.2)
            await pilot.pause(3)
            return app.export_screenshot(title="kgtool top")

    return asyncio.run(main())


def report(page: Path, target: Path) -> None:
    """Take a picture of the top of a report, in Chromium."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.browser import browser

    with browser() as chromium:
        chromium.open(page.as_uri(), *REPORT)
        chromium.screenshot(target)


def text_of(svg: str) -> str:
    """Return the lines of text in a picture."""
    lines: dict[str, str] = {}
    for y, piece in _PIECE.findall(svg):
        lines[y] = lines.get(y, "") + html.unescape(piece).replace("\xa0", " ")
    return "\n".join(lines.values())


def terminal(command: str, environ: Mapping[str, str], answers: Iterable[str] = ()) -> str:
    """Run a command on a terminal, and return what it shows.

    :param answers: to its questions, one after the other; then no.
    """
    ours, theirs = pty.openpty()
    settings = {**environ, "KGTOOL_PAGER": "cat"}
    left = iter(answers)
    with subprocess.Popen(
        ["bash", "-c", command], env=settings, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
                if part.endswith(QUESTION):
                    os.write(ours, f"{next(left, 'n')}\n".encode())
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    return b"".join(parts).decode("utf-8", "replace").replace("\r", "")
