"""Groups that ListGroups has and that their coordinator does not know (69).

Stands for: what a listing has is never passed over as "deleted since". Siblings: every read that
lists first, groups that are named, every change, one deleted between the looks, several brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from kgtool import GroupAdmin
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.cli.run import Result
from tests.support import clients
from tests.support.doctor import rows_of

BEFORE, AFTER = 3, 7
NAMES = [f"team-{number}" for number in range(6)]
LOST = sorted(n for n in NAMES if offsets_partition(n, BEFORE) != offsets_partition(n, AFTER))
KEPT = sorted(set(NAMES) - set(LOST))
UNKNOWN = "UNKNOWN_TO_COORDINATOR"


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker that was restarted with more partitions of ``__consumer_offsets``.

    The coordinator before 4.0 has one map for all partitions: it takes several brokers there.
    """
    root = tmp_path_factory.mktemp("raised")
    config = {"offsets.topic.num.partitions": str(BEFORE)}
    with Sandbox.start("raised", root=root, config=config) as cluster:
        clients.create_topic(cluster.bootstrap, "orders", 2)
        for name in NAMES:
            clients.commit(cluster.bootstrap, name, {("orders", 0): 0})
        more = [NewPartitions("__consumer_offsets", AFTER)]
        admin = clients.admin(cluster.bootstrap)
        for done in admin.create_partitions(more).values():
            done.result()
        cluster.restart(cluster.nodes[0].id)
        ready.wait_for_coordinators(cluster.state)
        yield cluster


@pytest.fixture
def kgtool(raised: Sandbox, journaled: Callable[[Sandbox], Kgtool]) -> Kgtool:
    return journaled(raised)


def lost_in(result: Result) -> list[str]:
    """The groups with an error row."""
    errors = result.json["errors"]
    return sorted(e["target"]["group"] for e in errors if e["name"] == UNKNOWN)


@pytest.mark.parametrize(
    "command",
    [
        ("describe", "--all-groups"),
        ("describe", "team-*", "--members"),
        ("describe", "--match", "team-*", "--state"),
        ("describe", *NAMES),
        ("describe", "--all-groups", "--expiry"),
        ("lag",),
        ("list", "--expiring-within", "1s"),
        ("coordinator", "team-*"),
        ("backup", "--all-groups", "--out"),
        ("cleanup", "plan", "--all-groups", "--idle", "1s", "--out"),
        ("explain", "team-*"),
        ("--describe", "--all-groups"),
    ],
    ids=" ".join,
)
def test_every_read_has_an_error_row(
    kgtool: Kgtool, command: tuple[str, ...], tmp_path: Path
) -> None:
    assert LOST and KEPT
    files = (str(tmp_path / "out.json"),) if command[-1] == "--out" else ()
    result = kgtool(*command, *files, "-o", "json")
    assert lost_in(result) == LOST, result
    assert result.status == 3


def test_doctor_has_a_finding(kgtool: Kgtool) -> None:
    result = kgtool("doctor", "-o", "json", "--fail-on", "none")
    rows = [row for row in rows_of(result) if row["finding"] == "unknown-to-coordinator"]
    assert sorted(row["group"] for row in rows) == LOST
    assert (lost_in(result), result.status) == (LOST, 3)
    named = kgtool("doctor", LOST[0], "-o", "json")
    assert [row["finding"] for row in rows_of(named)] == ["unknown-to-coordinator"]


@pytest.mark.parametrize(
    "command",
    [
        ("delete",),
        ("reset-offsets", "--topic", "orders", "--to-earliest", "--create", "--execute"),
        ("delete-offsets", "--topic", "orders"),
        ("keep",),
    ],
    ids=lambda command: command[0],
)
def test_changes_leave_it_alone(kgtool: Kgtool, command: tuple[str, ...]) -> None:
    result = kgtool(command[0], LOST[0], *command[1:], "--yes", "-o", "json")
    assert lost_in(result) == LOST[:1]
    assert result.status == 1
    assert LOST[0] in kgtool("list", "-o", "json").out


def test_python_says_it_too(raised: Sandbox) -> None:
    with GroupAdmin(raised.bootstrap) as admin:
        described = admin.describe_groups(NAMES)
        offsets = admin.describe_offsets(NAMES)
        places = admin.coordinators(NAMES)
    for found in (
        {name: one.error for name, one in described.items()},
        {name: one.description.error for name, one in offsets.items()},
        {name: one.error for name, one in places.items()},
    ):
        assert sorted(name for name, error in found.items() if error) == LOST
        assert {error.name for error in found.values() if error} == {UNKNOWN}
