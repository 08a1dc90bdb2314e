"""Deletions that do not fit into one batch of the coordinator: in parts, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.offsets import batches
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from tests.broker.conftest import Kgtool
from tests.cli.run import Result
from tests.support import brokers, clients

BATCH = 20_000
PARTITIONS = 900
"""Their tombstones take more than a batch."""


@pytest.fixture(scope="module", params=["4.3.1", "3.9.1"])
def small(request: pytest.FixtureRequest) -> Sandbox:
    """A broker whose batches are small, so that few offsets fill one."""
    config = {"message.max.bytes": str(BATCH), "offsets.topic.num.partitions": "1"}
    return brokers.shared_broker(request.param, name=f"small-{request.param}", config=config)


@contextmanager
def used(small: Sandbox) -> Iterator[None]:
    """One test restarts the broker, which other workers of the tests have too."""
    with locked(Path(os.environ[brokers.VARIABLE], f"{small.state.name}.used"), timeout=600):
        yield


@pytest.fixture(scope="module")
def topic(small: Sandbox) -> str:
    with used(small):
        return clients.create_topic(small.bootstrap, clients.unique("large"), PARTITIONS)


@pytest.fixture(autouse=True)
def alone(small: Sandbox, topic: str) -> Iterator[None]:
    with used(small):
        yield


@pytest.fixture
def kgtool(small: Sandbox, journaled: Callable[[Sandbox], Kgtool]) -> Kgtool:
    return journaled(small)


def commit(cluster: Sandbox, group: str, topic: str, partitions: int) -> None:
    """Commit in requests that fit into a batch."""
    for at in range(0, partitions, 100):
        numbers = range(at, min(partitions, at + 100))
        clients.commit(cluster.bootstrap, group, {(topic, number): 0 for number in numbers})


def journal(folder: Path) -> list[dict[str, Any]]:
    (path,) = (folder / "journal").glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_groups_that_fit_one_by_one_only(
    small: Sandbox, topic: str, kgtool: Callable[..., Result], tmp_path: Path
) -> None:
    groups = [clients.unique("group") for _ in range(6)]
    for group in groups:
        commit(small, group, topic, 200)
    argv = [word for group in groups for word in ("--group", group)]
    result = kgtool("delete", *argv, "--yes")
    assert result.status == 0, result
    assert not set(groups) & clients.group_ids(small.bootstrap)
    assert sum(line["kind"] == "offset" for line in journal(tmp_path)) == 6 * 200


def test_a_group_larger_than_a_batch(
    small: Sandbox, topic: str, kgtool: Callable[..., Result], tmp_path: Path
) -> None:
    group, other = clients.unique("group"), clients.unique("group")
    commit(small, group, topic, PARTITIONS)
    commit(small, other, topic, 1)
    result = kgtool("delete", "--group", group, "--group", other, "--yes")
    assert result.status == 0, result
    assert not {group, other} & clients.group_ids(small.bootstrap)
    # The old coordinator forgets a group whose tombstones it could not write, until it is loaded
    # again; what counts is what is in the log.
    small.restart(small.nodes[0].id)
    ready.wait_for_coordinators(small.state)
    assert clients.committed(small.bootstrap, group) == {}
    assert sum(line["kind"] == "offset" for line in journal(tmp_path)) == PARTITIONS + 1


@pytest.mark.parametrize("small", ["4.3.1"], indirect=True)
def test_a_limit_that_is_not_told_is_found_by_halves(
    small: Sandbox, topic: str, kgtool: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the login may not describe the configs of __consumer_offsets."""
    monkeypatch.setattr(batches, "FEW_BYTES", 10**9)
    groups = [clients.unique("group") for _ in range(3)]
    for group, partitions in zip(groups, (PARTITIONS, 200, 200), strict=True):
        commit(small, group, topic, partitions)
    argv = [word for group in groups for word in ("--group", group)]
    result = kgtool("delete", *argv, "--yes")
    assert result.status == 0, result
    assert not set(groups) & clients.group_ids(small.bootstrap)


def test_offsets_of_a_group_larger_than_a_batch(
    small: Sandbox, topic: str, kgtool: Callable[..., Result]
) -> None:
    group = clients.unique("group")
    commit(small, group, topic, PARTITIONS)
    result = kgtool("delete-offsets", "--group", group, "--topic", topic, "--yes", "-o", "json")
    assert result.status == 0, result.err
    assert {row["status"] for row in result.json["results"]} == {"deleted"}
    assert clients.committed(small.bootstrap, group) == {}
