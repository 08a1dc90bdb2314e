"""``make test``: the linters and all tests, in two lanes, one after the other.

What has a time limit of its own (``timed``) runs after the rest, so that no Spark is beside it.
``make test-all`` (``--all``) also runs what tests/thorough.toml lists for it, and has a third lane,
Kafka's own tests, which starts JVMs of its own.
What failed runs again, alone, which tells a race from a bug; but no failure is forgotten: it is
named at the end, and where ``CI`` is set it fails the run, unless tests/flaky.toml lists it.
``build/tests`` keeps how each test went and how long it took (JSON, and JUnit's XML).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import flaky, record, seeds  # noqa: E402 - the path above makes them importable

BIN = Path(sys.executable).parent
KEPT = Path(os.environ.get("KGTOOL_TEST_RESULTS", ROOT / "build" / "tests"))


class Part(NamedTuple):
    """Something that runs beside the others."""

    name: str
    command: list[str]


LINT = [
    Part("ruff check", [str(BIN / "ruff"), "check", "."]),
    Part("ruff format", [str(BIN / "ruff"), "format", "--check", "."]),
    Part("mypy", [str(BIN / "mypy")]),
]
CORES = max(2, os.cpu_count() or 2)
WORKERS = os.environ.get("KGTOOL_TEST_WORKERS", str(CORES + 1))
"""One more than there are cores: many tests wait for a broker or for Spark."""
BESIDE = ["--dist", "worksteal", "--durations=15", "--durations-min=2"]
ALL = "--all"
MOST_TRIED_AGAIN = 40
NOTHING_TO_RUN = 5
"""pytest's exit status where no test was selected."""


class Ran(NamedTuple):
    """A run of pytest."""

    count: int
    failed: frozenset[str]
    is_broken: bool
    """It ended without having run its tests: nothing can be said of them."""
    left: Mapping[str, int] = MappingProxyType({})
    """How many tests have the mark of a longer run: ``thorough``, ``soak``."""


def lint(took: dict[str, float], complaints: list[str]) -> None:
    """Run the linters one after the other; keep what they say only if they complain."""
    for part in LINT:
        began = time.monotonic()
        done = subprocess.run(part.command, cwd=ROOT, capture_output=True, text=True, check=False)
        took[part.name] = time.monotonic() - began
        if done.returncode:
            complaints.append(f"{part.name} failed:\n{done.stdout}{done.stderr}")


def timed_files() -> list[str]:
    """Return the files that have timed tests: to collect all others takes half a minute."""
    paths = sorted(ROOT.glob("tests/**/test_*.py"))
    return [str(path) for path in paths if "mark.timed" in path.read_text(encoding="utf-8")]


def left_out(is_all: bool) -> str:
    """Return the mark of what a longer run is for."""
    return "soak" if is_all else "thorough"


def lanes(is_all: bool, given: list[str]) -> dict[str, list[str]]:
    """Return the arguments of each run of pytest, with those that were given to this program."""
    rest = f" and not {left_out(is_all)}"
    where = given or timed_files()
    found = {
        "tests": ["-m", f"not timed and not kafka_own{rest}", "-n", WORKERS, *BESIDE, *given],
        "timed tests": ["-m", f"timed{rest}", "-n", WORKERS, *BESIDE, *where],
    }
    if is_all:
        where = given or ["tests/kafka_own"]
        found["kafka's own tests"] = ["-m", "kafka_own", "--durations=15", *where]
    return found


def pytest(name: str, *arguments: str) -> Ran:
    """Run pytest, and read what it kept about each test."""
    kept = KEPT / name.replace(" ", "-")
    kept.with_suffix(".json").unlink(missing_ok=True)
    status = subprocess.run(
        [str(BIN / "python"), "-m", "pytest", "-q", f"--junitxml={kept}.xml", *arguments],
        cwd=ROOT,
        env={**os.environ, record.VARIABLE: f"{kept}.json"},
        check=False,
    ).returncode
    try:
        found = json.loads(kept.with_suffix(".json").read_text(encoding="utf-8"))
    except OSError:
        return Ran(0, frozenset(), is_broken=True)
    failed = frozenset(found["failed"])
    is_well = status in (0, NOTHING_TO_RUN) or (status == 1 and bool(failed))
    return Ran(len(found["seconds"]), failed, not is_well, found["left"])


def tests(took: dict[str, float], is_all: bool) -> tuple[Ran, frozenset[str]]:
    """Run every lane, and the failed once more, alone: return all runs as one, and which failed."""
    whole = Ran(0, frozenset(), is_broken=False)
    given = [word for word in sys.argv[1:] if word != ALL]
    for name, arguments in lanes(is_all, given).items():
        began = time.monotonic()
        ran = pytest(name, *arguments)
        took[name] = time.monotonic() - began
        is_broken = whole.is_broken or ran.is_broken
        left = whole.left or ran.left  # the first lane collects all files
        whole = Ran(whole.count + ran.count, whole.failed | ran.failed, is_broken, left)
    once = whole.failed
    if not once or whole.is_broken or len(once) > MOST_TRIED_AGAIN:
        return whole, once
    print(f"\n{len(once)} failed beside others; once more, alone:", flush=True)
    began = time.monotonic()
    again = pytest("again", *sorted(once))
    took["the failed again"] = time.monotonic() - began
    return whole._replace(is_broken=again.is_broken), again.failed


def verdict(once: frozenset[str], still: frozenset[str]) -> bool:
    """Name every test that failed; return whether the run is good all the same."""
    for test in sorted(still):
        print(f"FAILED {test}")
    is_good = not still
    for test in sorted(once - still):
        entry = flaky.entry(test)
        is_good = is_good and (entry is not None or not os.environ.get("CI"))
        known = f"on the list since {entry.since}: {entry.reason}" if entry else "not on the list"
        print(f"FAILED ONCE {test} (passed alone; {known})")
    return is_good


def main() -> int:
    """Run everything; 0 if all of it passed."""
    took: dict[str, float] = {}
    complaints: list[str] = []
    is_all = ALL in sys.argv
    # As in the Makefile: each worker and each kgtool would compile what it imports again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    KEPT.mkdir(parents=True, exist_ok=True)
    print("Running the tests on a real Kafka and a real Spark, and the linters beside.", flush=True)
    print(f"KGTOOL_SEED={seeds.seed()}", flush=True)
    linters = threading.Thread(target=lint, args=(took, complaints))
    linters.start()
    ran, still = tests(took, is_all)
    linters.join()
    print("\nTime of each part:")
    for name, seconds in took.items():
        print(f"  {name:<18}{seconds:7.1f} s")
    for complaint in complaints:
        print(f"\n{complaint}")
    is_good = verdict(ran.failed, still) and not complaints and not ran.is_broken
    if ran.is_broken:
        print("pytest broke off: not every test was run.")
    once = len(ran.failed - still)
    once_only = f", {once} failed once" if once else ""
    mark = left_out(is_all)
    where = "make soak" if is_all else "make test-all"
    print(f"{ran.left.get(mark, 0)} tests run only in {where} (tests/thorough.toml).")
    print(f"{ran.count - len(still)} passed, {len(still)} failed{once_only}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
