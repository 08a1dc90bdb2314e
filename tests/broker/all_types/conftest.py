"""A broker for groups of all types.

Other tests compare all groups of theirs with clients that list no share and streams groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.support import brokers, clients


@pytest.fixture(scope="session")
def kafka(warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    return warm(brokers.shared_broker("4.3.1", name="all-types"))


@pytest.fixture(scope="session")
def bootstrap(kafka: Sandbox) -> str:
    return kafka.bootstrap


@pytest.fixture
def kgtool(kafka: Sandbox, journaled: Callable[[Sandbox], Kgtool]) -> Kgtool:
    return journaled(kafka)


@pytest.fixture
def admin(bootstrap: str, tmp_path: Path) -> Iterator[GroupAdmin]:
    with GroupAdmin(bootstrap, journal=tmp_path / "journal", reason="a test") as found:
        yield found


@pytest.fixture
def at_four(bootstrap: str, new_topic: Callable[..., str]) -> tuple[str, str]:
    """A group and its topic: committed are 4 of 10 records, and 0 of none."""
    topic, name = new_topic(partitions=2), clients.unique("api")
    clients.produce(bootstrap, topic, 10, timestamp_ms=1_700_000_000_000)
    clients.commit(bootstrap, name, {(topic, 0): 4, (topic, 1): 0}, metadata="kept")
    return name, topic
