"""The Spark session of a command: started when needed, always stopped.

A session that exists already is used instead, and left running.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

GRACE_S = 0.2
"""How long an error waits for the interruption that may have caused it."""


class Spark:
    """A Spark session that starts when it is first needed."""

    def __init__(self, master: str | None, conf: dict[str, str]) -> None:
        self._master, self._conf = master, conf
        self._session: Any = None
        self._guest: ExitStack | None = None
        """Restores the settings of a session that was there before."""
        self.free: Callable[[], None] = lambda: None
        """Frees what is cached in a session that was there before."""

    def start(self) -> Any:
        """Return the session; start it the first time."""
        from kgtool.analysis.spark.foreign_session import guest
        from kgtool.analysis.spark.session import build_session

        if self._session is not None:
            return self._session
        there = guest(self._master, self._conf)
        if there is not None:
            self._session, self._guest = there
        else:
            with _own_interrupt():
                self._session = build_session(self._master, self._conf)
        return self._session

    def stop(self) -> None:
        """End the session, if there is one, silently: the error that led to this matters."""
        if self._session is None:
            return
        if self._guest is not None:
            with suppress(Exception):  # as below
                self.free()
                self._guest.close()
            return
        # Threads that wait for a job of the session die when it is cancelled.
        threading.excepthook = lambda _: None
        # The JVM may have ended already: SIGTERM may have reached it first.
        with warnings.catch_warnings(), suppress(Exception):
            from kgtool.analysis.spark.session import end_session

            warnings.simplefilter("ignore")
            end_session(self._session)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise an interruption as such, even if another error because of it comes first.

    Ctrl-C and SIGTERM reach Spark's processes too, so that the job or the JVM may end before this
    process gets the signal; and an exception in a handler is lost inside a callback of Py4J.
    """
    raised: list[BaseException] = []
    handlers = {number: _remembering(number, raised) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
        _raise_first(raised)
    except Exception:
        time.sleep(GRACE_S)
        _raise_first(raised)
        raise
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


def _raise_first(raised: list[BaseException]) -> None:
    if raised:
        raise raised[0] from None


def _remembering(number: int, raised: list[BaseException]) -> Any:
    """Keep what the signal's handler raises; return that handler, None if it is left alone."""
    before = signal.getsignal(number)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        return None

    def remember(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(number, remember)
    return before


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep the handler of Ctrl-C: Spark would replace it, and print a traceback."""
    # py4j logs interruptions with a traceback unless logging is set up.
    logging.getLogger().addHandler(logging.NullHandler())
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
