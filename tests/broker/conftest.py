"""Everything in this folder talks to a real Kafka.

``cluster`` and ``kgtool`` are for what has to be the same on both kinds of group coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.broker import retention_story
from tests.cli.run import Result, call

Kgtool = Callable[..., Result]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/broker/"):
            item.add_marker(pytest.mark.broker)
    items.sort(key=lambda item: item.get_closest_marker("starts_first") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What takes minutes in which there is nothing to do begins before the first test."""
    is_asked = any("story" in getattr(item, "fixturenames", ()) for item in session.items)
    if is_asked and not session.config.option.collectonly:
        retention_story.begin()


@pytest.fixture(params=["4.3.1", "3.9.1"])
def cluster(request: pytest.FixtureRequest) -> Sandbox:
    """The new coordinator, and the old one."""
    name = {"4.3.1": "kafka", "3.9.1": "kafka_391"}[request.param]
    found: Sandbox = request.getfixturevalue(name)
    return found


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts and journals of the test's own, and nothing from the environment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    for name in ("KGTOOL_CONTEXT", "KGTOOL_POLICY", "KGTOOL_CONFIRM", "KGTOOL_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def journaled(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sandbox], Kgtool]:
    """Returns what runs kgtool on a broker, with a journal of its own."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return lambda kafka: lambda *argv: call(capsys, "--bootstrap-server", kafka.bootstrap, *argv)


@pytest.fixture
def kgtool(cluster: Sandbox, journaled: Callable[[Sandbox], Kgtool]) -> Kgtool:
    """Runs kgtool on ``cluster``."""
    return journaled(cluster)
