"""Every row of ``make bench`` still does its work: each part once, on the smallest worlds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = {"startup": 2, "groups": 10, "streams": 2, "delete": 1, "recover": 1, "top": 2, "size": 10}
"""How many rows each part has; those of ``analyze`` are in tests/spark/test_bench_rows.py."""


@pytest.mark.broker
@pytest.mark.parametrize("part", ROWS)
def test_a_part(part: str, tmp_path: Path) -> None:
    """A part fails where a result is not what it has to be."""
    out = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--smoke", "--json", str(out), part],
        cwd=ROOT,
        env={**os.environ, "KGTOOL_BENCH_ENV": sys.prefix},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["results"]
    assert len(rows) == ROWS[part]
    assert all(row["ratio"] != 0 and row["seconds"] > 0 for row in rows), rows
