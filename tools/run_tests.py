"""``make test``: the linters and all tests, slow parts first and side by side.

Prints how long each part took, and ends with pytest's own count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

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
AGAIN = [
    str(BIN / "python"),
    "-m",
    "pytest",
    "-q",
    "--last-failed",
    "--last-failed-no-failures=none",
]
MOST_TRIED_AGAIN = 40


def run(part: Part) -> tuple[int, list[str]]:
    """Run a part and show its output as it comes; return the exit status and the lines."""
    lines: list[str] = []
    with subprocess.Popen(
        part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            print(line, end="", flush=True)
    return process.returncode, lines


def lint(took: dict[str, float], complaints: list[str]) -> None:
    """Run the linters one after the other; keep what they say only if they complain."""
    for part in LINT:
        began = time.monotonic()
        done = subprocess.run(part.command, cwd=ROOT, capture_output=True, text=True, check=False)
        took[part.name] = time.monotonic() - began
        if done.returncode:
            complaints.append(f"{part.name} failed:\n{done.stdout}{done.stderr}")


def count(lines: list[str], what: str) -> int:
    """Read a number out of pytest's closing line."""
    found = re.search(rf"(\d+) {what}", lines[-1]) if lines else None
    return int(found.group(1)) if found else 0


def tests(took: dict[str, float]) -> tuple[int, int]:
    """Run pytest; return how many tests passed and failed.

    Two cores run brokers, Spark and two tests at a time, and a test with a time limit may lose.
    So what failed is run once more, alone, and named: what then passes was only out of breath.
    """
    began = time.monotonic()
    status, lines = run(PYTEST)
    took["pytest"] = time.monotonic() - began
    passed, failed = count(lines, "passed"), count(lines, "failed") + count(lines, "error")
    if status != 1 or failed > MOST_TRIED_AGAIN:
        return passed, max(failed, 1 if status else 0)
    print(f"\n{failed} failed beside others; once more, alone:", flush=True)
    began = time.monotonic()
    status, lines = run(Part("again", AGAIN))
    took["the failed again"] = time.monotonic() - began
    still = count(lines, "failed") + count(lines, "error")
    return passed + count(lines, "passed"), max(still, 1 if status else 0)


def main() -> int:
    """Run everything; 0 if all of it passed."""
    took: dict[str, float] = {}
    complaints: list[str] = []
    print("Running the tests on a real Kafka and a real Spark, and the linters beside.", flush=True)
    linters = threading.Thread(target=lint, args=(took, complaints))
    linters.start()
    passed, failed = tests(took)
    linters.join()
    print("\nTime of each part:")
    for name, seconds in took.items():
        print(f"  {name:<18}{seconds:7.1f} s")
    for complaint in complaints:
        print(f"\n{complaint}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
