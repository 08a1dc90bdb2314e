"""The session of ``analyze``: its end hides nothing, and Ctrl-C stays Python's."""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kgtool.analysis.spark import foreign_session, session
from kgtool.cli.analyze.spark_session import Spark


class Session:
    """Ends as it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.stops = 0
        self.sparkContext = self

    def getConf(self) -> dict[str, str]:  # noqa: N802 - as PySpark's
        return {}

    def stop(self) -> None:
        self.stops += 1
        if self.error is not None:
            raise self.error


def started(monkeypatch: pytest.MonkeyPatch, made: Session) -> Spark:
    def build(*_: Any) -> Session:
        signal.signal(signal.SIGINT, lambda *_: None)  # as SparkContext does
        return made

    monkeypatch.setattr(
        foreign_session, "guest", lambda *_: None
    )  # other tests of this process have one
    monkeypatch.setattr(session, "build_session", build)
    spark = Spark("local", {})
    assert spark.start() is spark.start() is made
    return spark


@pytest.mark.parametrize("error", [Py4JError("gone"), Py4JNetworkError("gone"), OSError()])
def test_a_jvm_that_is_gone_does_not_hide_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made = Session(error)
    spark = started(monkeypatch, made)
    with pytest.raises(KeyboardInterrupt):
        try:
            raise KeyboardInterrupt
        finally:
            spark.stop()
    assert made.stops == 1


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back what belongs to the whole process."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    interrupt, handlers = signal.getsignal(signal.SIGINT), list(logging.getLogger().handlers)
    yield
    signal.signal(signal.SIGINT, interrupt)
    logging.getLogger().handlers[:] = handlers


def test_control_c_stays_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    started(monkeypatch, Session()).stop()
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.getLogger().handlers  # or py4j would set up one that writes to stderr


def test_what_dies_with_the_session_dies_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Noisy(Session):
        def stop(self) -> None:
            warnings.warn("Unable to cleanly shutdown Spark JVM process", stacklevel=1)
            waiting = threading.Thread(target=lambda: 1 // 0)
            waiting.start()
            waiting.join(60)

    started(monkeypatch, Noisy()).stop()
    assert capsys.readouterr() == ("", "")


def test_without_a_session_there_is_nothing_to_stop() -> None:
    Spark("local", {}).stop()
