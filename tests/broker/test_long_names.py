"""A group whose name does not fit an error message (32,740 bytes), which any client may make.

Stands for: one item that spoils the answer for all of a request. Siblings: every command of many
groups, a change of the group itself, and its undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result, call
from tests.support import clients

LONG = "x" * 32_740
OTHERS = [f"team-{number}" for number in range(5)]
Kgtool = Callable[..., Result]


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox.start("long", root=tmp_path_factory.mktemp("long")) as cluster:
        ready.wait_for_coordinators(cluster.state)
        clients.create_topic(cluster.bootstrap, "orders", 1)
        for name in (LONG, *OTHERS):
            clients.commit(cluster.bootstrap, name, {("orders", 0): 0})
        yield cluster


@pytest.fixture
def kgtool(
    spoiled: Sandbox,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kgtool:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return lambda *argv: call(capsys, "--bootstrap-server", spoiled.bootstrap, *argv)


def test_it_does_not_stop_the_others(kgtool: Kgtool, tmp_path: Path) -> None:
    for command in (
        ("describe", "--all-groups"),
        ("backup", "--all-groups", "--out", str(tmp_path / "saved.jsonl")),
        ("keep", LONG, *OTHERS, "--dry-run"),
        ("reset-offsets", "--all-groups", "--topic", "orders", "--to-latest", "--dry-run"),
        ("delete-offsets", "--match", "*", "--topic", "orders", "--dry-run"),
        ("delete", "--match", "*", "--dry-run"),
        ("explain", LONG),
    ):
        result = kgtool(*command, "-o", "json")
        assert (result.status, result.json["errors"]) == (0, []), command[0]


def test_it_can_be_deleted_and_brought_back(kgtool: Kgtool, spoiled: Sandbox) -> None:
    assert kgtool("delete", LONG, "--yes").status == 0
    assert clients.group_ids(spoiled.bootstrap) == set(OTHERS)
    assert kgtool("undo", "last", "--yes").status == 0
    assert clients.group_ids(spoiled.bootstrap) == {LONG, *OTHERS}
