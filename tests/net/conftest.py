"""Fixtures of the network's tests: secured listeners, and clients of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgtool.sandbox.broker import write_properties
from tests.cli.run import Result, call
from tests.support import faulty
from tests.support import secure as secured
from tests.support.outcomes import Outcome
from tests.support.proxy import Proxies
from tests.support.secure import SecureKafka

Run = Callable[..., Result]
Refused = Callable[[str, Callable[[], Result]], Result]
SECONDS = 5


@pytest.fixture(scope="session")
def secure() -> SecureKafka:
    """A broker with every kind of secured listener, shared by the whole run."""
    return secured.shared()


@pytest.fixture
def proxies() -> Iterator[Proxies]:
    """The proxies before the run's three brokers (``faulty.shared()``)."""
    with faulty.shared().proxies() as opened:
        yield opened


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


@pytest.fixture
def refused(outcome: Outcome) -> Refused:
    """``refused("PLAIN: wrong password", run)``: one sentence, at once, and nothing on stdout."""

    def check(what: str, run: Callable[[], Result]) -> Result:
        with outcome("What security refuses", what, "outcome") as cell:
            began = time.monotonic()
            result = run()
            took = time.monotonic() - began
            assert took < SECONDS
            assert (result.status, result.out) == (4, ""), result
            assert result.err.count("\n") == 1, result
            assert "Traceback" not in result.err
            cell.says(f"4 after {took:.1f} s: {result.err.split('. ')[0][7:].strip()}")
        return result

    return check
