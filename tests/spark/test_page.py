"""The Python of docs/analysis.rst does what it says."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.retention.truth import DATA

pytestmark = pytest.mark.spark
PAGE = Path(__file__).parents[2] / "docs" / "analysis.rst"
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"


def test_every_block_runs(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    blocks = PAGE.read_text(encoding="utf-8").split(".. code-block:: python\n")
    names: dict[str, Any] = {"spark": spark}
    run = 0
    for before, block in zip(blocks, blocks[1:], strict=False):
        if before.rstrip().endswith(".. norun"):
            continue
        body = takewhile(lambda line: not line or line.startswith("   "), block.splitlines())
        # Spark's own processes have a current folder of their own.
        code = "\n".join(line[3:] for line in body).replace('"offsets"', repr(str(SEGMENTS)))
        exec(code, names)
        run += 1
    assert run == 2
    assert {row["cause"] for row in names["causes"]} > {"expired", "explicit"}
    assert names["records"].count() > names["live"].count() > 0
    assert "Assumed: " in capfd.readouterr().out
