"""Everything in this folder talks to brokers that are not Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import kfake
from tests.support.kfake import Kfake


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/foreign/"):
            item.add_marker(pytest.mark.foreign)


@pytest.fixture(scope="session")
def _franz() -> Iterator[Kfake]:
    with kfake.running() as cluster:
        cluster.seed("known", 100)
        yield cluster


@pytest.fixture
def franz(_franz: Kfake) -> Iterator[Kfake]:
    """Three brokers of kfake with 100 groups; damage ends with the test."""
    yield _franz
    _franz.struck()
