"""A pause counts until the offset's expiry, or until the log ends: somebody will lower the
retention to that figure. Siblings: simple, classic, KIP-848; expired, still live, deleted by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from tests.analysis.test_unknown import Rest, _line, write_lines
from tests.retention.logs import Log

MINUTE_MS, START_MS = 60_000, 1_700_000_000_000


def gaps(folder: Path, log: Log) -> dict[str, Any]:
    write_lines(folder, Rest([_line(entry) for entry in log.entries]))
    basis = broker_settings.settings_from(None, "4.1", MINUTE_MS, 5_000)
    files = find_inputs([str(folder)]).files
    analysis = Analysis(LocalEngine(1), files, basis, None, TableOptions(gaps=True))
    return {row["family"]: row for row in analysis.rows("gaps")}


def test_until_it_expires_or_the_log_ends(tmp_path: Path) -> None:
    log = Log()
    for at in (0, 5_000):
        log.commit(START_MS + at, group="assigned")
        log.commit(START_MS + at, group="by-hand")
        log.commit(START_MS + at, group="live")
    log.member(START_MS + 1, "m", ["t1"], group="kip-848")
    log.commit(START_MS + 2, group="kip-848")
    log.forget(START_MS + 6_000, group="by-hand")
    log.member(START_MS + 10_000, "m", None, group="kip-848")
    log.forget(START_MS + 66_000, group="assigned")
    log.forget(START_MS + 71_000, group="kip-848")
    log.commit(START_MS + 90_000, group="end")
    found = gaps(tmp_path, log)
    assert found["assigned"]["longest_gap_ms"] == 61_000
    assert found["assigned"]["safe_retention_ms"] > MINUTE_MS
    assert found["kip-848"]["safe_retention_ms"] > MINUTE_MS
    assert found["live"]["longest_gap_ms"] == 85_000
    assert 80_000 < found["live"]["safe_retention_ms"] <= 85_001
    assert found["by-hand"]["longest_gap_ms"] == 5_000
