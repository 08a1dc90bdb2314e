"""tests/flaky.toml names tests that there are, with a reason, and none for long."""

from __future__ import annotations

from datetime import date

import pytest

from tests.support import flaky
from tests.support.flaky import Entry

HERE = "tests/test_flaky.py::test_the_list"
GOOD = Entry("tests/a.py::test_b", date(2026, 11, 22), "It waits for two clocks at once.")


def test_the_list(request: pytest.FixtureRequest) -> None:
    """Entries of files that this run did not collect are looked up by the file and the name."""
    known = flaky.entries()
    collected = {item.nodeid for item in request.session.items}
    for entry in known:
        path, _, name = entry.test.partition("::")
        file = request.config.rootpath / path
        bare = name.split("::")[-1].split("[")[0]
        if file.exists() and f"def {bare}(" in file.read_text(encoding="utf-8"):
            collected.add(entry.test)
    assert flaky.complaints(known, collected, date.today()) == []


@pytest.mark.parametrize(
    ("entry", "today", "wrong"),
    [
        (GOOD, date(2027, 1, 21), []),
        (GOOD, date(2027, 1, 22), [f"{GOOD.test} is on the list for more than 60 days: mend it"]),
        (GOOD._replace(test="tests/a.py::test"), GOOD.since, ["tests/a.py::test is no test"]),
        (GOOD._replace(reason="flaky"), GOOD.since, [f"{GOOD.test} has no reason"]),
    ],
)
def test_what_is_refused(entry: Entry, today: date, wrong: list[str]) -> None:
    assert flaky.complaints([entry], ["tests/a.py::test_b[x-1]"], today) == wrong
