"""What an interruption of ``analyze`` ends as, when something else fails because of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kgtool.cli.analyze import spark_session as spark
from kgtool.errors import AnalysisError


class Terminated(BaseException):
    """What the program's own handler of SIGTERM raises."""


def _terminate(_number: int, _frame: object) -> None:
    raise Terminated


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _terminate), signal.getsignal(signal.SIGINT)
    yield
    now = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGTERM, before[0])
    assert now == (_terminate, before[1])


KINDS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]


@pytest.mark.parametrize(("number", "kind"), KINDS)
def test_an_interruption_that_got_lost_comes_before_the_error_it_led_to(
    number: signal.Signals, kind: type[BaseException]
) -> None:
    with pytest.raises(kind), spark.interruptible():
        with suppress(KeyboardInterrupt, Terminated):  # as in a callback of a weak reference
            signal.raise_signal(number)
        raise AnalysisError("The Spark job failed: it was cancelled")


@pytest.mark.parametrize(("number", "kind"), KINDS)
def test_the_error_comes_first(number: signal.Signals, kind: type[BaseException]) -> None:
    """The JVM dies of the same signal, and may do so before we hear of it."""
    late = threading.Timer(spark.GRACE_S / 4, os.kill, (os.getpid(), number))
    with pytest.raises(kind), spark.interruptible():
        late.start()
        raise AnalysisError("Spark's JVM is gone")


@pytest.mark.parametrize(("number", "kind"), KINDS)
def test_one_that_got_lost_and_nothing_failed(
    number: signal.Signals, kind: type[BaseException]
) -> None:
    with pytest.raises(kind), spark.interruptible(), suppress(KeyboardInterrupt, Terminated):
        signal.raise_signal(number)


def test_an_error_of_its_own_stays_one() -> None:
    with pytest.raises(AnalysisError, match="no space"), spark.interruptible():
        raise AnalysisError("no space left")
