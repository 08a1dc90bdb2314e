"""``make check``: what the files that changed reach, in less than a minute.

Changed is what git tells apart from the last commit, or else that commit itself; ``make check
SINCE=main`` names another one. Tests that import these files run, the nearest first, without
brokers and Spark, until a minute is over; and one test of each room, for what no import shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.imports import FAST, Graph  # noqa: E402 - the path above makes it importable

BIN = Path(sys.executable).parent
SECONDS = 40
"""What the chosen tests may take together, by the times that ``make test`` has kept."""
MOST_FILES = 12
SMOKE = (
    "tests/test_layers.py",
    "tests/analysis/test_crc32c.py",
    "tests/changes/test_journal.py",
    "tests/cli/test_slips.py",
    "tests/client/test_cluster.py",
    "tests/config/test_security.py",
    "tests/net/test_login_nonsense.py",
    "tests/protocol/test_wire.py",
    "tests/queries/test_expiry.py",
    "tests/records/test_batch.py",
    "tests/retention/test_rules.py",
    "tests/sandbox/test_java.py",
)
"""One file a room; each takes a second or two."""


def changed(since: str | None) -> list[Path]:
    """The Python files that differ, new ones too."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    names = git("diff", "--name-only", since or "HEAD")
    names += git("ls-files", "--others", "--exclude-standard")
    names = names or git("diff", "--name-only", "HEAD~1")
    return [ROOT / name for name in names if name.endswith(".py") and (ROOT / name).is_file()]


def times() -> dict[str, float]:
    """Seconds of each file of tests, as far as the last ``make test`` kept them."""
    found: dict[str, float] = {}
    for path in (ROOT / "build" / "tests").glob("*tests.json"):
        for test, seconds in json.loads(path.read_text(encoding="utf-8"))["seconds"].items():
            name = test.split("::")[0]
            found[name] = found.get(name, 0) + seconds
    return found


def within(names: Iterable[str], seconds: float) -> Iterator[str]:
    """The first of the names that take no longer than that together."""
    known = times()
    for name in names:
        seconds -= known.get(name, SECONDS / MOST_FILES)
        if seconds < 0:
            return
        yield name


def main() -> int:
    """Run ruff and the tests; 0 if all is well."""
    began = time.monotonic()
    files = changed(sys.argv[1] if len(sys.argv) > 1 else None)
    ours = [path for path in files if path.relative_to(ROOT).parts[0] in ("kgtool", "tests")]
    near = [str(path.relative_to(ROOT)) for path in Graph().tests(ours)] if ours else []
    quick = f"{FAST} and not thorough"
    chosen = list(dict.fromkeys([*within(near, SECONDS), *SMOKE]))
    print(f"{len(files)} changed files reach {len(near)} files of tests; {len(chosen)} run")
    commands = [
        [str(BIN / "ruff"), "check", "-q", "."],
        [str(BIN / "python"), "-m", "pytest", "-q", "-m", quick, "--timeout=60", *chosen],
    ]
    statuses = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
