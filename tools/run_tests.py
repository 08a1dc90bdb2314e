"""``make test``: the linters and all tests, slow parts first and side by side.

Prints how long each part took, and ends with pytest's own count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


class Part(NamedTuple):
    """Something that runs beside the others."""

    name: str
    command: list[str]


LINT = [
    Part("ruff check", [str(BIN / "ruff"), "check", "."]),
    Part("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
    Part("mypy", [str(BIN / "mypy")]),
]
WORKERS = os.environ.get("KGTOOL_TEST_WORKERS", str(max(2, os.cpu_count() or 2)))
PYTEST = Part(
    "pytest",
    [
        str(BIN / "python"), "-m", "pytest", "-q", "-n", WORKERS, "--dist", "worksteal",
        "--durations=15", "--durations-min=2", *sys.argv[1:],
    ],
)  # fmt: skip


def start(part: Part, log: IO[str] | None) -> subprocess.Popen[str]:
    """Start a part; its output goes to ``log``, or to the screen."""
    return subprocess.Popen(
        part.command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT if log else None, text=True
    )


def lint(took: dict[str, float]) -> bool:
    """Run the linters one after the other; show what they say only if they complain."""
    good = True
    for part in LINT:
        began = time.monotonic()
        with tempfile.TemporaryFile("w+") as log:
            failed = start(part, log).wait()
            if failed:
                good = False
                log.seek(0)
                print(f"\n{part.name} failed:\n{log.read()}", flush=True)
        took[part.name] = time.monotonic() - began
    return good


def main() -> int:
    """Run everything; 0 if all of it passed."""
    took: dict[str, float] = {}
    began = time.monotonic()
    print("Running the tests on a real Kafka and a real Spark, and the linters beside.", flush=True)
    with tempfile.TemporaryFile("w+") as log:
        tests = start(PYTEST, log)
        clean = lint(took)
        failed = tests.wait()
        took["pytest"] = time.monotonic() - began
        log.seek(0)
        output = log.read()
    rows = output.rstrip().splitlines()
    print("\n".join(rows[:-1]))
    print("\nTime of each part:")
    for name, seconds in took.items():
        print(f"  {name:<14}{seconds:7.1f} s")
    if not clean:
        print("  the linters complained, see above")
    print(rows[-1] if rows else "no output from pytest", flush=True)
    return 1 if failed or not clean else 0


if __name__ == "__main__":
    sys.exit(main())
