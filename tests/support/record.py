"""What became of each test, and how long it took, as JSON: for tools/run_tests.py.

The process that pytest was started in hears of the tests of all of xdist's workers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "KGTOOL_TEST_RECORD"
"""Where the record goes; without it there is none."""


class Record:
    """A pytest plugin: a test has failed if its setup, call or teardown has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.left = {"thorough": 0, "soak": 0}
        """How many of the tests that there are only ``make test-all`` runs, or ``make soak``."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        found = getattr(node, "workeroutput", {}).get("left", {})
        self.left = {name: max(count, found.get(name, 0)) for name, count in self.left.items()}

    def pytest_sessionfinish(self) -> None:
        slowest = sorted(self.seconds.items(), key=lambda item: -item[1])
        seconds = {test: round(took, 3) for test, took in slowest}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(
            json.dumps(
                {"failed": sorted(self.failed), "seconds": seconds, "left": self.left}, indent=1
            ),
            encoding="utf-8",
        )


def register(config: pytest.Config) -> None:
    """Keep a record of this run, if one is wanted."""
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(Record(Path(path)), "kgtool-record")
