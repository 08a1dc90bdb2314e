"""Draws README.rst's picture: what a terminal shows, as an SVG made by rich."""

from __future__ import annotations

import io
import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

COMMANDS = (
    "kgtool lag 'report*' --by group",
    "kgtool delete-offsets reporting-old --topic payments:0,1 --yes",
    "kgtool undo last --yes",
)
WIDTH = 100


def draw(path: Path, environ: Mapping[str, str]) -> None:
    """Run the commands on a terminal, and write what it shows."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(_terminal(command, environ).strip("\n")))
        console.print()
    path.write_text(console.export_svg(title="kgtool"), encoding="utf-8")


def _terminal(command: str, environ: Mapping[str, str]) -> str:
    ours, theirs = pty.openpty()
    settings = {**environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "KGTOOL_PAGER": "cat"}
    with subprocess.Popen(
        ["bash", "-c", command], env=settings, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # the other side is closed
            pass
    os.close(ours)
    return b"".join(parts).decode("utf-8", "replace").replace("\r", "")
