"""A session on the shared broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kgtool.config import Settings
from kgtool.net.session import Session


def open_session(bootstrap: str, timeout_ms: int = 30_000) -> Session:
    host, _, port = bootstrap.rpartition(":")
    return Session(Settings(bootstrap=((host, int(port)),), timeout_ms=timeout_ms))


@pytest.fixture
def session(bootstrap: str) -> Iterator[Session]:
    with open_session(bootstrap) as opened:
        yield opened
