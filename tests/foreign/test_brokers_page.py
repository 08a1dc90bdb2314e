"""docs/brokers.rst has the table of capabilities."""

from __future__ import annotations

import re
from pathlib import Path

from kgtool.queries.cluster.capabilities import CAPABILITIES

PAGE = Path(__file__).parents[2] / "docs/brokers.rst"


def test_the_page_has_the_table() -> None:
    table = PAGE.read_text().split("What was run where")[0].split("missing  ")[1]
    assert re.findall(r"^``(\w+)`` ", table, flags=re.M) == [each.name for each in CAPABILITIES]
    for each in CAPABILITIES:
        words = re.findall(r"[\w-]+", each.commands)
        assert all(word in table for word in words), each
