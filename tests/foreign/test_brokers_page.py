"""docs/brokers.rst has the table of capabilities."""

from __future__ import annotations

import re
from pathlib import Path

from kgtool.protocol.capabilities import CAPABILITIES

PAGE = Path(__file__).parents[2] / "docs/brokers.rst"


def test_the_page_has_the_table() -> None:
    table = PAGE.read_text().split("What was run where")[0].split("missing  ")[1]
    rows = re.findall(r"^``(\w+)`` +(\d\.\d) ", table, flags=re.M)
    assert rows == [(each.name, each.since or "2.1") for each in CAPABILITIES]
    for each in CAPABILITIES:
        words = re.findall(r"[\w-]+", each.commands)
        assert all(word in table for word in words), each
