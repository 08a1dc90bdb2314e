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
        self._context: Any = None
        self._guest: ExitStack | None = None
        """Restores the settings of a session that was there before."""
        self.free: Callable[[], None] = lambda: None
        """Frees what is cached in a session that was there before."""

    def start(self) -> Any:
        """Return the session; start it the first time."""
        from kgtool.analysis.spark.session import build_session

        if not self._is_there():
            with _own_interrupt():
                self._session = build_session(self._master, self._conf)
        return self._session

    def start_local(self) -> Any:
        """Start a context on this machine without a session, which takes as long to load again.

        None if there is a session, a setting of one, or the workers are on other machines.
        """
        from kgtool.analysis.spark.session import LOCAL, build_context, is_submitted

        master = self._master or LOCAL
        has_sql = any(key.startswith("spark.sql.") for key in self._conf)
        if has_sql or is_submitted() or not master.startswith("local") or self._is_there():
            return None
        with _own_interrupt():
            self._context = build_context(master, self._conf, sql=False)
        return self._context

    def _is_there(self) -> bool:
        """Whether there is a session, started here or by the program around this."""
        from kgtool.analysis.spark.foreign_session import guest

        there = None if self._session else guest(self._master, self._conf)
        if there is not None:
            self._session, self._guest = there
        return self._session is not None

    def stop(self) -> None:
        """End what was started, silently: the error that led to this matters."""
        there = self._session or self._context
        if there is None:
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
            end_session(there)


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
