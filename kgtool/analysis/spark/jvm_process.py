"""The JVM that PySpark starts: never left behind by what ends its start."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def no_orphans() -> Iterator[None]:
    """End the JVM that starts meanwhile unless all goes well.

    PySpark forgets it when it is interrupted before the JVM has told its port, and removes the
    folder where the JVM would do that: the JVM then waits for ever.
    """
    from pyspark import java_gateway

    theirs: dict[str, Any] = vars(java_gateway)
    popen, started = theirs["Popen"], []

    def start(*words: Any, **options: Any) -> Any:
        with _whole():
            process = popen(*words, **options, start_new_session=True)
            started.append(process)
        return process

    theirs["Popen"] = start
    try:
        yield
    except BaseException:
        for process in started:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        _forget_gateway()
        raise
    finally:
        theirs["Popen"] = popen


def _forget_gateway() -> None:
    """Let PySpark start another JVM next time."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _whole() -> Iterator[None]:
    """Let signals that end this process come afterwards."""
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
    before = {each: signal.signal(each, lambda got, _: came.append(got)) for each in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for held in came:
            signal.raise_signal(held)
