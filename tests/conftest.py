"""Fixtures for every test: real brokers, started when first asked for."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.support import brokers, clients, record, schemas, seeds, thorough
from tests.support.outcomes import outcome, pytest_terminal_summary
from tests.support.warm import warm_tools

__all__ = ["outcome", "pytest_terminal_summary"]

seeds.load_profile()  # before any test is decorated

_root = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control starts what runs in the background like that, and programs
        # that the tests interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seeds.seed())
    schemas.install()
    brokers.draw_own_ports()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        record.register(config)
        config.pluginmanager.register(seeds)
        config.stash[_root] = brokers.open_root()
        # What the tests change is nothing for the journal of whoever runs them.
        os.environ["KGTOOL_JOURNAL_DIR"] = str(config.stash[_root] / "journal")
        # Nor are their contexts anything for the tests.
        os.environ["XDG_CONFIG_HOME"] = str(config.stash[_root] / "config")
        os.environ.pop("KGTOOL_CONTEXT", None)


_START_BROKERS = {"kafka", "kafka_391", "secure", "parity"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses a broker by what it asks for, and what is thorough by the list."""
    thorough.mark(config, items)
    for item in items:
        if _START_BROKERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile, nor look through all tests for it later: a third of the time.

    Each of xdist's workers imports all files and makes all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    root = config.stash.get(_root, None)
    if root is not None:
        brokers.close_root(root)


_has_failed = False


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    global _has_failed
    _has_failed = _has_failed or report.failed


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    """Collect what a failed test left open: a later test would be blamed for it.

    Its frames hold sockets and files, and warnings are errors: whichever test the garbage
    collector happens to run in would fail too.
    """
    global _has_failed
    if not _has_failed:
        return
    _has_failed = False
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


_ASK_KAFKAS_CLASSES = {"config", "protocol", "records", "retention"}


@pytest.fixture(autouse=True)
def _exceptions_of_their_own_jvm(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undo, for tests with another JVM, what PySpark does to Py4J once it has run in a process.

    It has Spark's JVM describe the exceptions of all of them, which fails.
    """
    gateway = sys.modules.get("py4j.java_gateway")
    if gateway is not None and _ASK_KAFKAS_CLASSES & set(request.node.path.parts):
        plain = sys.modules["py4j.protocol"].get_return_value
        monkeypatch.setattr(gateway, "get_return_value", plain)


@pytest.fixture(scope="session")
def warm() -> Iterator[Callable[[Sandbox], Sandbox]]:
    """Lets ``run_tool`` of a cluster do without a JVM for each run."""
    with warm_tools() as found:
        yield found


@pytest.fixture(scope="session")
def kafka(warm: Callable[[Sandbox], Sandbox]) -> Sandbox:
    """A running Kafka 4.3.1 with one broker, shared by the whole run: don't kill it."""
    return warm(brokers.shared_broker("4.3.1"))


@pytest.fixture(scope="session")
def kafka_391() -> Sandbox:
    """A running Kafka 3.9.1 with the old group coordinator, shared like ``kafka``."""
    return brokers.shared_broker("3.9.1")


@pytest.fixture(scope="session")
def bootstrap(kafka: Sandbox) -> str:
    """The address of ``kafka``."""
    return kafka.bootstrap


@pytest.fixture(scope="session")
def kafka_tool(kafka: Sandbox) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Kafka's own kafka-consumer-groups on ``kafka``: ``kafka_tool("--list").stdout``."""
    return lambda *args: kafka.run_tool("kafka-consumer-groups", *args)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes names nobody else uses: ``unique("orders")``."""
    return clients.unique


@pytest.fixture
def new_topic(bootstrap: str) -> Callable[..., str]:
    """Creates topics on ``kafka``: ``new_topic(partitions=3)`` returns the name."""

    def create(prefix: str = "topic", partitions: int = 1, **options: object) -> str:
        return clients.create_topic(bootstrap, clients.unique(prefix), partitions, **options)

    return create
