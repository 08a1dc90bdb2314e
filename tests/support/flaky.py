"""The tests that are known to fail now and then beside others: tests/flaky.toml."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIST = Path(__file__).parents[1] / "flaky.toml"
DAYS = 60
"""How long a test may be on the list."""


class Entry(NamedTuple):
    """One test, or all parameters of one."""

    test: str
    since: date
    reason: str

    def covers(self, test: str) -> bool:
        return test == self.test or test.startswith(f"{self.test}[")


def entries(path: Path = LIST) -> list[Entry]:
    """What is on the list."""
    found = tomllib.loads(path.read_text(encoding="utf-8")).get("flaky", [])
    return [Entry(**entry) for entry in found]


def entry(test: str) -> Entry | None:
    """What the list says of a test."""
    return next((known for known in entries() if known.covers(test)), None)


def complaints(known: Iterable[Entry], tests: Iterable[str], today: date) -> list[str]:
    """What is wrong with the list: old entries, unknown tests, no reason."""
    names = list(tests)
    wrong = []
    for listed in known:
        if (today - listed.since).days > DAYS:
            wrong.append(f"{listed.test} is on the list for more than {DAYS} days: mend it")
        if not any(listed.covers(name) for name in names):
            wrong.append(f"{listed.test} is no test")
        if len(listed.reason) < 20:
            wrong.append(f"{listed.test} has no reason")
    return wrong
