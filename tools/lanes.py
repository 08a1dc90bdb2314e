"""``make lanes``: the oldest and the newest Python, and the oldest dependencies that are allowed.

Each has an environment of its own in build/lanes, and runs a few tests of each room there, with a
real broker and a real Spark too. ``make lanes LANES=lowest`` runs only that one; ``LANES=kafka``
every command once on every Kafka (``tools/kafka_lane.py``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import kafka_lane  # noqa: E402 - the path above makes it importable
from tools.check import SMOKE  # noqa: E402

OLDEST = (3, 10)
KAFKA = "kafka"
"""The lane of every Kafka, which needs no environment of its own."""
UV = Path(sys.executable).with_name("uv")
EXTRAS = "analyze,msk,exporter,remote,mcp"
TESTS = (
    *SMOKE,
    "tests/cli/test_tables.py",
    "tests/queries/test_on_a_broker.py",
    "tests/exporter/test_exporter.py",
    "tests/mcp/test_server.py",
    "tests/spark/test_truth.py",
)
LEFT_OPEN = ["-W", "ignore:unclosed <socket:ResourceWarning"]
"""PySpark 4.0 leaves the sockets of its results to the garbage collector, on purpose."""


class Lane(NamedTuple):
    """A Python, and whether the dependencies are the oldest that kgtool allows."""

    name: str
    python: Path
    is_lowest: bool = False


def pythons() -> Iterator[tuple[tuple[int, int], Path]]:
    """Every Python 3 that is installed here: on the PATH or by pyenv, each with its version."""
    found = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    found += sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin"))
    for folder in found:
        for program in sorted(folder.glob("python3.*")):
            match = re.fullmatch(r"python3\.(\d+)", program.name)
            works = (
                match
                and not subprocess.run(
                    [program, "-c", "import venv"], capture_output=True, check=False
                ).returncode
            )
            if match and works:
                yield (3, int(match[1])), program


def lanes() -> list[Lane]:
    """The lanes that this machine can run."""
    known = dict(pythons())
    newest = max(known)
    if OLDEST not in known:
        sys.exit("make lanes needs Python 3.10 (pyenv install 3.10, or the system's packages)")
    return [
        Lane("oldest", known[OLDEST]),
        Lane("newest", known[newest]),
        Lane("lowest", known[OLDEST], is_lowest=True),
    ]


def install(lane: Lane) -> Path:
    """Make the lane's environment; return its Python."""
    folder = ROOT / "build" / "lanes" / lane.name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([UV, "venv", "--quiet", "--python", lane.python, folder], check=True)
    pip = [UV, "pip", "install", "--quiet", "--python", folder / "bin" / "python"]
    if lane.is_lowest:
        lowest = ["--resolution", "lowest-direct", "--editable", f"{ROOT}[{EXTRAS}]"]
        subprocess.run([*pip, *lowest], check=True)
    # What only the tests need is the newest that fits.
    subprocess.run([*pip, "--editable", f"{ROOT}[dev]", "pandas<3"], check=True)
    return folder / "bin" / "python"


def main() -> int:
    """Return 1 if a test failed in one of them."""
    failed = []
    is_kafka_wanted = not sys.argv[1:] or KAFKA in sys.argv[1:]
    if is_kafka_wanted and not kafka_lane.main():
        failed.append(KAFKA)
    for lane in lanes() if sys.argv[1:] != [KAFKA] else ():
        if sys.argv[1:] and lane.name not in sys.argv[1:]:
            continue
        print(f"{lane.name}: {lane.python}", flush=True)
        began = time.monotonic()
        python = install(lane)
        installed = time.monotonic() - began
        # kio, an oracle of the wire formats, needs Python 3.11.
        oracle = ["-k", "not kio"] if lane.python.name == "python3.10" else []
        warnings = LEFT_OPEN if lane.is_lowest else []
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *oracle, *warnings]
        if subprocess.run([python, *words, *TESTS], cwd=ROOT, check=False).returncode:
            failed.append(lane.name)
        took = time.monotonic() - began
        print(f"{lane.name}: {took:.0f} s, {installed:.0f} s of them to install", flush=True)
    print(f"FAILED: {', '.join(failed)}" if failed else "All lanes pass.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
