"""Fixtures of the network's tests: secured listeners, and clients of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.sandbox.broker import write_properties
from tests.cli.run import Result, call
from tests.support import secure as secured
from tests.support.secure import SecureKafka

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def secure() -> SecureKafka:
    """A broker with every kind of secured listener, shared by the whole run."""
    return secured.shared()


@pytest.fixture
def client_file(tmp_path: Path) -> Callable[..., str]:
    """Writes a client.properties: underscores in names stand for dots."""

    def write(**properties: object) -> str:
        path = tmp_path / "client.properties"
        pairs = {key.replace("_", "."): str(value) for key, value in properties.items()}
        write_properties(path, pairs)
        return str(path)

    return write


@pytest.fixture
def list_groups(
    secure: SecureKafka, client_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> Run:
    """``kgtool list`` at a listener with these client properties."""

    def run(listener: str, *options: str, **properties: object) -> Result:
        argv = ["list", "--bootstrap-server", secure.at(listener), *options]
        if properties:
            argv += ["--command-config", client_file(**properties)]
        return call(capsys, *argv)

    return run
