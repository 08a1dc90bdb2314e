"""Runs of ``--reset-offsets`` of Kafka's own tool 4.3.1, a broker of that release behind it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.cli.recorded import Run

FILE = Path(__file__).parents[1] / "data" / "cli" / "reset-offsets-4.3.1.jsonl"


def runs() -> list[Run]:
    """All runs; ``argv`` begins behind ``--bootstrap-server``."""
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        argv = shlex.split(row["command"])[3:]
        found.append(Run(row["name"], argv, row["exit"], row["stdout"], row["stderr"]))
    return found


def errors_and_output(stdout: str) -> tuple[list[str], str]:
    """Take the errors and warnings, which Kafka's tool mixes with its output, out of it."""
    said = [line for line in stdout.split("\n") if line.startswith(("Error:", "Warn:"))]
    for line in said:
        stdout = stdout.replace(f"\n{line}\n", "", 1)
    return said, stdout
