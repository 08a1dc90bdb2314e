"""A Spark session for all tests of this folder, started by the first that wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kgtool.analysis.session import build_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = build_session("local[2]", {}, 0)
    yield session
    session.stop()
