"""kill -9 in the second wave of a change of many groups: undo puts everything back."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgtool.queries.offsets.fetch import FIRST
from tests.broker.test_cleanup import commit_all
from tests.changes import world
from tests.support import clients

pytestmark = pytest.mark.broker

COMMANDS = (["delete"], ["delete-offsets", "--topic", "{topic}"])
STEPS = (
    "before fsync/3/1",  # the first wave is done, the second is not on the disk
    "after send/4/1",  # the second wave's first request has left
    "after recv/4/1",  # and was answered
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_killed_in_the_second_wave(bootstrap: str, tmp_path: Path, command: list[str]) -> None:
    topic = clients.create_topic(bootstrap, clients.unique("waves"), 2)
    for partition in range(2):
        clients.produce(bootstrap, topic, 10, partition=partition)
    prefix = clients.unique("waves")
    groups = [f"{prefix}-{number:03}" for number in range(FIRST + 30)]
    commit_all(bootstrap, groups, topic)
    before = world.seen(bootstrap, *groups)
    argv = [word.format(topic=topic) for word in command]
    argv += ["--bootstrap-server", bootstrap, "--match", f"{prefix}-*", "--yes"]
    for step in STEPS:
        journal = tmp_path / step.replace("/", "-")
        killed = world.crash(journal, step, argv)
        assert killed.status == -9, (step, killed.err)
        left = {group for group, offsets in world.seen(bootstrap, *groups).items() if offsets}
        assert left <= set(groups[FIRST:]), step
        assert left or step != STEPS[0], "the second wave is not on the disk yet"
        undo = ["undo", "last", "--bootstrap-server", bootstrap, "--yes", "-o", "json"]
        undone = world.kgtool(journal, *undo)
        assert undone.status == 0, undone.err
        assert world.seen(bootstrap, *groups) == before, step
