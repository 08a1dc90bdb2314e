"""What was shown is what is done: the world moves while the question stands on the terminal."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.queries.offsets.fetch import FIRST
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_cleanup import commit_all
from tests.changes import world
from tests.cli import run
from tests.cli.pseudo import Terminal
from tests.support import clients, faulty
from tests.support.proxy import Fault, Plan

OFFSET_FETCH, OFFSET_DELETE = 9, 47


class Asked:
    """Runs a command on a terminal; between plan and answer something happens."""

    def __init__(self, bootstrap: str, journal: Path) -> None:
        self.bootstrap, self.journal = bootstrap, journal

    def run(self, *argv: str, meanwhile: Callable[[], object]) -> tuple[int, str]:
        command = run.command_line(*argv, "--bootstrap-server", self.bootstrap)
        env = {"KGTOOL_JOURNAL_DIR": str(self.journal)}
        with Terminal(command, columns=200, lines=60, env=env) as terminal:
            terminal.read_until(r"\[y/N\]: ")
            meanwhile()
            terminal.type("y\n")
            status = terminal.read_all()
            return status, terminal.output.replace("\r", "")

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """The lines of that kind in all journals."""
        texts = [path.read_text() for path in self.journal.glob("*.jsonl")]
        rows = [json.loads(line) for text in texts for line in text.splitlines()]
        return [row for row in rows if row["kind"] == kind]


@pytest.fixture
def asked(bootstrap: str, tmp_path: Path) -> Asked:
    return Asked(bootstrap, tmp_path / "journal")


class Groups:
    """Two groups with offsets in a topic of three partitions, the third without."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = clients.create_topic(bootstrap, clients.unique("agreed"), 3)
        self.one, self.two = clients.unique("agreed-a"), clients.unique("agreed-b")
        for group in (self.one, self.two):
            self.commit(group, {0: 0, 1: 0})

    def commit(self, group: str, offsets: dict[int, int], metadata: str = "") -> None:
        places = {(self.topic, number): offset for number, offset in offsets.items()}
        clients.commit(self.bootstrap, group, places, metadata)

    def offsets(self, group: str) -> dict[int, tuple[int, str]]:
        """What confluent-kafka sees of a group: offset and metadata by partition."""
        found = world.seen(self.bootstrap, group)[group]
        return {number: (offset, text) for (_, number), (offset, text, _) in found.items()}


@pytest.fixture
def groups(bootstrap: str) -> Groups:
    return Groups(bootstrap)


MOVES: list[tuple[dict[int, int], str]] = [
    ({0: 7}, ""),  # another offset
    ({0: 0}, "note"),  # another metadata
    ({2: 1}, ""),  # another partition
]


@pytest.mark.parametrize(("commits", "metadata"), MOVES)
def test_delete_leaves_a_group_that_has_changed(
    asked: Asked, groups: Groups, commits: dict[int, int], metadata: str
) -> None:
    argv = ["delete", "--group", groups.one, "--group", groups.two]
    status, said = asked.run(*argv, meanwhile=lambda: groups.commit(groups.one, commits, metadata))
    assert status == 3, said
    expected = {0: (0, ""), 1: (0, "")} | {n: (o, metadata) for n, o in commits.items()}
    assert groups.offsets(groups.one) == expected
    assert groups.two not in clients.group_ids(groups.bootstrap)
    left_alone = f"Group {groups.one} has other commits than the plan shows: it is not deleted."
    assert left_alone in said
    assert [row["group"] for row in asked.lines("group")] == [groups.two]


def test_delete_of_nothing_but_changed_groups(asked: Asked, groups: Groups) -> None:
    status, said = asked.run(
        "delete", "--group", groups.one, meanwhile=lambda: groups.commit(groups.one, {1: 9})
    )
    assert status == 1, said
    assert groups.offsets(groups.one) == {0: (0, ""), 1: (9, "")}
    assert not list(asked.journal.glob("*.jsonl"))


def test_delete_offsets_leaves_what_has_changed(asked: Asked, groups: Groups) -> None:
    def meanwhile() -> None:
        groups.commit(groups.one, {1: 9, 2: 5})

    argv = ["delete-offsets", "--group", groups.one, "--topic", groups.topic]
    status, said = asked.run(*argv, meanwhile=meanwhile)
    assert status == 3, said
    assert groups.offsets(groups.one) == {1: (9, ""), 2: (5, "")}
    for number in (1, 2):
        assert re.search(rf"{groups.topic} +{number}  failed: CHANGED_MEANWHILE\n", said)
    assert said.count("CHANGED_MEANWHILE") == 2
    assert [row["partition"] for row in asked.lines("offset")] == [0]


def test_delete_offsets_knows_the_partitions_that_were_shown(asked: Asked, groups: Groups) -> None:
    """A topic that grows after the question does not lose what is committed there."""
    from confluent_kafka.admin import NewPartitions

    def meanwhile() -> None:
        client = clients.admin(groups.bootstrap)
        client.create_partitions([NewPartitions(groups.topic, 4)])[groups.topic].result(30)
        groups.commit(groups.one, {3: 5})

    argv = ["delete-offsets", "--group", groups.one, "--topic", groups.topic]
    status, said = asked.run(*argv, meanwhile=meanwhile)
    assert status == 0, said
    assert groups.offsets(groups.one) == {3: (5, "")}


def test_delete_offsets_shows_what_it_compares_with(asked: Asked, groups: Groups) -> None:
    groups.commit(groups.one, {0: 0, 1: 0, 2: 0})
    _, said = asked.run(
        "delete-offsets",
        "--group",
        groups.one,
        "--topic",
        f"{groups.topic}:0",
        meanwhile=lambda: groups.commit(groups.one, {0: 3}),
    )
    assert groups.offsets(groups.one)[0] == (3, "")
    assert "CHANGED_MEANWHILE" in said


SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"


def test_configs_leave_what_somebody_has_set(asked: Asked, kafka: Sandbox) -> None:
    group = clients.unique("agreed")

    def theirs() -> dict[str, str]:
        done = kafka.run_tool(
            "kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", group
        )
        lines = [line.split()[0] for line in done.stdout.splitlines() if "sensitive=" in line]
        return dict(line.split("=", 1) for line in lines)

    def meanwhile() -> None:
        kafka.run_tool(
            "kafka-configs",
            "--alter",
            "--entity-type",
            "groups",
            "--entity-name",
            group,
            "--add-config",
            f"{SESSION}=50000",
        )
        clients.wait_for(lambda: SESSION in theirs(), "the config")

    wanted = f"{SESSION}=60000,{HEARTBEAT}=6000"
    argv = ["configs", "--group", group, "--alter", "--add-config", wanted]
    status, said = asked.run(*argv, meanwhile=meanwhile)
    assert status == 3, said
    assert theirs() == {SESSION: "50000", HEARTBEAT: "6000"}
    assert "CHANGED_MEANWHILE" in said
    assert [row["name"] for row in asked.lines("config")] == [HEARTBEAT]


def test_many_groups_show_how_far_it_is(tmp_path: Path) -> None:
    """Each part is slow: there is a line on the terminal while it goes on, and none afterwards."""
    slow = [
        Fault("watch", broker, api=api, hook=lambda: time.sleep(2.0))
        for broker in (1, 2, 3)
        for api in (OFFSET_FETCH, OFFSET_DELETE)
    ]
    prefix = clients.unique("many")
    many = [f"{prefix}-{number:03}" for number in range(FIRST + 30)]
    kafka = faulty.shared()
    direct = kafka.cluster.bootstrap
    topic = clients.create_topic(direct, clients.unique("agreed"), 2)
    commit_all(direct, many, topic)
    with kafka.proxies() as proxies:
        argv = run.command_line(
            "delete-offsets",
            "--match",
            f"{prefix}-*",
            "--topic",
            f"{topic}:0",
            "--yes",
            "--bootstrap-server",
            proxies.bootstrap,
            "--command-config",
            faulty.client_config(tmp_path, prefix),
        )
        proxies.plans[prefix] = Plan(*slow)
        with Terminal(argv, env={"KGTOOL_JOURNAL_DIR": str(tmp_path / "journal")}) as terminal:
            assert terminal.read_all() == 0
    left = world.seen(direct, *many)
    for word in ("Looking", "Deleting"):
        assert re.search(rf"{word} .* of 280 groups", terminal.output)
    said = [line for line in terminal.screen if " of 280" in line]
    assert said == ["Deleted 280 offsets of 280 groups (-v shows all)."]
    assert {len(offsets) for offsets in left.values()} == {1}


def test_delete_offsets_leaves_what_nobody_could_agree_to(asked: Asked, groups: Groups) -> None:
    """The plan could not delete it, as a member reads the topic; then the member leaves."""
    member = clients.join(groups.bootstrap, groups.one, [groups.topic])
    argv = ["delete-offsets", "--group", groups.one, "--group", groups.two, "--topic", groups.topic]
    status, said = asked.run(*argv, meanwhile=member.close)
    assert status == 3, said
    assert groups.offsets(groups.one) == {0: (0, ""), 1: (0, "")}
    assert groups.offsets(groups.two) == {}
    assert "It could not be done when it was first looked at" in said
    assert "another offset" not in said
