"""kill -9 at any step of a change, and of its undo: nothing is lost, nothing is done twice.

Every run is killed at one exact step (``tests.safety.crash``). Here a dozen of them are taken,
those where it matters and some more; ``make soak`` takes all of them, and kills at random times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.safety import soak
from tests.safety.soak import Scene

pytestmark = pytest.mark.broker

CHANGES = list(soak.CHANGES)


@pytest.fixture
def scene(bootstrap: str, tmp_path: Path) -> Callable[[str], Scene]:
    return lambda name: Scene(bootstrap, tmp_path, name)


def _interesting(steps: list[str]) -> list[int]:
    """The steps around the journal's fsyncs and the request that changes something."""
    synced = [number for number, step in enumerate(steps, 1) if step == "after fsync"]
    sent = [n for n, step in enumerate(steps, 1) if step == "after send" and n > synced[1]]
    torn = [number for number, step in enumerate(steps, 1) if step == "write"]
    return [synced[0] - 2, synced[1], sent[0], torn[-1]]


@pytest.mark.parametrize("name", CHANGES)
def test_killed_while_changing(scene: Callable[[str], Scene], name: str) -> None:
    found = scene(name)
    for step in _interesting(found.steps_of_change()):
        found.kill_change(step)


@pytest.mark.parametrize("name", CHANGES)
def test_killed_while_undoing(scene: Callable[[str], Scene], name: str) -> None:
    found = scene(name)
    for step in _interesting(found.steps_of_undo()):
        found.kill_undo(step)


def test_the_request_leaves_after_the_journal_is_on_the_disk(
    scene: Callable[[str], Scene],
) -> None:
    """Killed just before the fsync, nothing has happened; just after the send, it can be undone."""
    found = scene("delete-offsets")
    steps = found.steps_of_change()
    synced = [number for number, step in enumerate(steps, 1) if step == "after fsync"]
    assert found.kill_change(synced[0] - 1) == "unchanged"
    assert found.kill_change(synced[1]) == "unchanged"
    sent = [n for n, step in enumerate(steps, 1) if step == "after recv" and n > synced[1]]
    assert found.kill_change(sent[0]) == "changed"
