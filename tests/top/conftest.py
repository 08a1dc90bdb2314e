"""A broker for the screen alone: it looks at all groups, and the shared one has thousands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.support import brokers


@pytest.fixture(scope="session")
def kafka(warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    return warm(brokers.shared_broker("4.3.1", name="top"))


@pytest.fixture(scope="session")
def bootstrap(kafka: Sandbox) -> str:
    return kafka.bootstrap
