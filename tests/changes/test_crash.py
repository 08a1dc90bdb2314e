"""kill -9 at any step of a change, and of its undo: nothing is lost, nothing is done twice.

Every run is killed at one exact step (``tests.changes.crash``). Here those are taken where it
matters; ``make soak`` kills at counted requests of every command.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.changes.killed_change import CHANGES, KilledChange

pytestmark = pytest.mark.broker


@pytest.fixture
def killed(bootstrap: str, tmp_path: Path) -> Callable[[str], KilledChange]:
    return lambda name: KilledChange(bootstrap, tmp_path, name)


STEPS = (
    "write ready/1",  # in the middle of what was there before
    "after request {api}/1",  # the journal is on the disk, the request is on its way
    "write result/1",  # in the middle of what the broker answered
)
APIS = {"delete": 42, "delete-offsets": 47, "reset-offsets": 8}
"""The requests that change something; an undo commits (8)."""


@pytest.mark.parametrize("name", CHANGES)
def test_killed_while_changing(killed: Callable[[str], KilledChange], name: str) -> None:
    found = killed(name)
    for step in STEPS:
        found.kill_change(step.format(api=APIS[name]))


@pytest.mark.parametrize("name", CHANGES)
def test_killed_while_undoing(killed: Callable[[str], KilledChange], name: str) -> None:
    found = killed(name)
    for step in STEPS:
        found.kill_undo(step.format(api=8))


def test_the_request_leaves_after_the_journal_is_on_the_disk(
    killed: Callable[[str], KilledChange],
) -> None:
    """Killed before the request, nothing has happened; when the answer is there, something has."""
    found = killed("delete-offsets")
    assert found.kill_change("before fsync journal/1") == "unchanged"
    assert found.kill_change("after fsync folder/1") == "unchanged"
    assert found.kill_change("before request 47/1") == "unchanged"
    assert found.kill_change("answer 47/1") == "changed"
