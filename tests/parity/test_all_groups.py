"""42, 56, 57: ``--all-groups`` where it changes all, on a broker of its own.

One test after the other on the same broker: what one leaves behind is the next one's as well.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.parity.behaviours import Kg, Offsets, behaviour
from tests.parity.conftest import Parity, Spares
from tests.parity.test_reset import thrice
from tests.support import clients

pytestmark = pytest.mark.broker

Tool = Callable[..., subprocess.CompletedProcess[str]]
Filled = Callable[..., str]
Empty = Callable[[Offsets], str]


def _names(text: str) -> set[str]:
    """What is in the parentheses."""
    return set(text.partition("(")[2].rpartition(")")[0].replace("'", "").split(", "))


@pytest.fixture(scope="module")
def parity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parity]:
    """A broker for this file alone: on the others' there are living groups."""
    with Sandbox.start("alone", root=tmp_path_factory.mktemp("alone")) as cluster:
        ready.wait_for_coordinators(cluster.state)
        yield Parity(cluster, "", 0, 0)


@pytest.fixture(scope="module")
def spares(parity: Parity) -> Spares:
    return Spares(parity.cluster.bootstrap)


@pytest.fixture
def nobody(address: str, kg: Kg, spares: Spares) -> Iterator[None]:
    """No group but those that a test makes for itself."""
    for name in clients.group_ids(address):
        assert kg("--delete", "--group", name).status == 0
    spares.forget()
    yield
    spares.forget()


@pytest.fixture
def groups(nobody: None, filled: Filled, empty: Empty) -> tuple[str, str, list[str]]:
    """Two topics and the only groups with offsets; others there are have none."""
    first, second = filled(10, 10), filled(10)
    names = [
        empty({(first, 0): 4, (first, 1): 5, (second, 0): 6}),
        empty({(first, 0): 7, (second, 0): 8}),
    ]
    return first, second, names


@behaviour(56)
def test_all_groups_one_topic(
    groups: tuple[str, str, list[str]], address: str, kg: Kg, protocol: str
) -> None:
    first, second, names = groups
    everybody = clients.group_ids(address)
    rows = {(name, first, partition): 0 for name in everybody for partition in (0, 1)}
    thrice(kg, address, ["--all-groups", "--topic", first, "--to-earliest"], rows)
    assert clients.committed(address, names[1])[second, 0] == 8


@behaviour(57)
def test_all_groups_all_topics(
    groups: tuple[str, str, list[str]], address: str, kg: Kg, protocol: str
) -> None:
    first, second, names = groups
    rows = {(names[0], first, 0): 10, (names[0], first, 1): 10, (names[0], second, 0): 10}
    rows |= {(names[1], first, 0): 10, (names[1], second, 0): 10}
    thrice(kg, address, ["--all-groups", "--all-topics", "--to-latest"], rows)


@behaviour(42)
def test_delete_all_groups(
    groups: tuple[str, str, list[str]], address: str, kg: Kg, tool: Tool, protocol: str
) -> None:
    everybody = clients.group_ids(address)
    assert everybody >= set(groups[2])
    result = kg("--delete", "--all-groups")
    assert result.status == 0
    assert result.out.startswith("Deletion of requested consumer groups (")
    assert result.out.endswith(") was successful.\n")
    assert _names(result.out) == everybody
    assert clients.group_ids(address) == set()
    assert kg("--delete", "--all-groups").out == tool("--delete", "--all-groups").stdout
