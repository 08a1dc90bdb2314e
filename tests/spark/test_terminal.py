"""``kgtool analyze`` on a terminal: it tells how far it is, and what it says fits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kgtool.cli.output.terminal import columns_of
from tests.analysis.writer import Raw, batch, offset_key, offset_value, segment
from tests.cli.pseudo import Terminal
from tests.spark.test_analyze_command import HOUR_MS, NOW_MS, RUN
from tests.support import biglog

pytestmark = pytest.mark.spark
LONG = ["g" * 255, "日本" * 42, "nightly-" + "x" * 200]


def test_a_summary_on_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    raws = [
        Raw(offset_key(name), offset_value(5, NOW_MS - at * HOUR_MS), NOW_MS - at * HOUR_MS)
        for at, name in enumerate(reversed([*LONG, *[f"job-{n}" for n in range(1000, 1030)]]))
    ]
    raws.append(Raw(b"\x00\x63", b"", NOW_MS))  # of a type that nobody knows
    folder = tmp_path / ("a-folder-with-a-long-name-" * 4)
    segment(folder, batch(0, raws))
    report = tmp_path / "report.html"
    command = [sys.executable, "-c", RUN, "analyze", str(folder), "--retention", "3d"]
    more = ["--rules", "4.1", "--check-interval", "10m", "--report", str(report)]
    with Terminal([*command, *more], columns=80, lines=60) as shown:
        assert shown.read_all(timeout=500) == 0, shown.output
    assert "Starting Spark" in shown.output
    assert re.search(r"Computing with \d\.\d kB, 34 records, \d+:\d\d", shown.output)
    # Only lines of results remain, none of them folded: nothing of progress, Spark or Java.
    lines = [line for line in shown.screen if line]
    at = next(number for number, line in enumerate(lines) if line.startswith("Log"))
    wrote = next(number for number, line in enumerate(lines) if line.startswith("Wrote"))
    assert (at, "".join(lines[wrote:])) == (0, f"Wrote {report}")
    lines = lines[:wrote]
    assert lines[at].endswith("1 file, 2.6 kB, 34 records, until 2026-11-21T12:43:20Z")
    assert lines[at + 2] == "Live     33 offsets of 33 groups"
    assert lines[at + 3].startswith("Growth   ") and lines[at + 3].endswith("most 33 offsets")
    assert lines[at + 4].startswith("Expires  0 within 24 h, 33 within 7 d, 0 never")
    assert "job-*" in " ".join(lines)
    written = [line.rpartition("\x1b[K")[2] for line in shown.output.splitlines()]
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in written]
    assert max(columns_of(line) for line in plain if not line.startswith("Wrote")) <= 80
    names = [line.split()[0] for line in lines if "…" in line]
    assert {name[0] for name in names} >= {"g", "日", "n", "…"}
    assert lines[-2].startswith("Quality  33 of 34 records decoded")
    assert lines[-1].strip().endswith(".log: unknown key type 99, 1 record")
    assert lines[-1].startswith("  …")
    assert "Committed offsets" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize("moment", ["Starting Spark", "Reading", "Computing"])
def test_control_c_is_an_interruption_and_no_story(tmp_path: Path, moment: str) -> None:
    """Neither Spark's handler nor py4j's log show where they were."""
    if moment == "Reading":
        biglog.write(tmp_path, 80_000)  # less is read before Spark has started
    else:
        segment(tmp_path, batch(0, [Raw(offset_key("g"), offset_value(5, NOW_MS), NOW_MS)]))
    command = [sys.executable, "-c", RUN, "analyze", str(tmp_path), "--rules", "4.1"]
    known = ["--retention", "3d", "--check-interval", "10m"]
    with Terminal([*command, *known], columns=80, lines=40) as shown:
        shown.read_until(moment, timeout=300)
        if moment == "Reading":
            shown.read_until("MB", timeout=10)
            assert re.search(r"Reading .* 0 B of \d\.\d MB", shown.output), shown.output
        shown.type("\x03")
        assert shown.read_all(timeout=120) == 130
    assert [line for line in shown.screen if line] == ["Error: Interrupted."]
