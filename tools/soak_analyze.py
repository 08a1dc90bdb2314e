"""``make soak``: analyze a log of 100 M records, 80 % of them one group's, in 2 GiB of memory.

Prints how fast it was, the peak memory of the processes, how much was spilled, and the largest
stages. Fails if a number in the summary is wrong, or if the processes took more than 2 GiB.

::

    .venv/bin/python tools/soak_analyze.py [RECORDS [FOLDER]]

takes 7 GB of disk for 100 M records, and as much again while Spark runs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import biglog, eventlog  # noqa: E402
from tests.support.memory import Watch  # noqa: E402

MOST_MIB = 2048
"""Resident memory of all processes."""
RECORDS = 100_000_000


def main() -> int:
    """Run it in a folder that is removed again, unless one is named."""
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    given = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    folder = given or Path(tempfile.mkdtemp(prefix="kgtool-soak-"))
    try:
        return soak(folder, records)
    finally:
        if given is None:
            shutil.rmtree(folder, ignore_errors=True)


def soak(folder: Path, records: int) -> int:
    """Write, analyze, compare; the exit status."""
    began = time.monotonic()
    expected = biglog.write(folder / "log", records)
    print(f"wrote {expected.records:,} records in {time.monotonic() - began:.0f} s", flush=True)
    events, spill = folder / "events", folder / "spill"
    for path in (events, spill):
        path.mkdir()
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "kgtool.cli",
        "analyze",
        str(folder / "log"),
        "-o",
        "json",
        "--conf",
        f"spark.local.dir={spill}",
        *eventlog.options(events),
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        watch = Watch(process.pid)
        out, _ = process.communicate()
    seconds = time.monotonic() - began
    peak = watch.stop()
    print(
        f"analyzed in {seconds:.0f} s ({expected.records / seconds:,.0f} records/s); at most "
        f"{peak.jvm} MiB in the JVM, {peak.one_worker} MiB in a worker, {peak.in_all} MiB in all"
    )
    for stage in sorted(eventlog.stages(events), key=lambda stage: -stage.seconds)[:8]:
        print(f"  {stage.line()}")
    if peak.in_all > MOST_MIB:
        print(f"FAILED: more than {MOST_MIB} MiB")
    return check(process.returncode, out, expected) or int(peak.in_all > MOST_MIB)


def check(status: int, out: str, expected: biglog.Expected) -> int:
    """Compare the summary with what was written."""
    if status:
        print(f"FAILED: exit status {status}")
        return 1
    (summary,) = json.loads(out)["results"]
    found = {
        "records": summary["quality"]["records"],
        "live_offsets": summary["live_offsets"],
        "live_groups": summary["live_groups"],
        "removals": sum(row["removals"] for row in summary["removals"]),
    }
    wanted = {name: getattr(expected, name) for name in found}
    print(f"{'as written' if found == wanted else 'WRONG'}: {found}")
    if found != wanted:
        print(f"expected: {wanted}")
    return int(found != wanted)


if __name__ == "__main__":
    sys.exit(main())
