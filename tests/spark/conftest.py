"""A Spark session for all tests of this folder, started by the first that wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.analysis.spark.session import build_session
from tests.cli.run import Result, call
from tests.support.tables import Make


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = build_session("local[2]", {})
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> Make:
    """What makes an engine of each kind."""
    if request.param == "local":
        return LocalEngine
    session = request.getfixturevalue("spark")
    return lambda: SparkEngine(session)


@pytest.fixture
def analyze(spark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """``kgtool analyze`` in this process and in that session, where neither is the subject."""
    return lambda *argv: call(capsys, "analyze", *map(str, argv))
