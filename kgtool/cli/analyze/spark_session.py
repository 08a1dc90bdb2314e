"""The Spark session of a command: started when it is needed, stopped in any case.

One that is there already is used instead, and goes on.
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
"""How long an error waits for the interruption that it may have come of."""


class Spark:
    """The session, from when it is needed."""

    def __init__(self, master: str | None, conf: dict[str, str]) -> None:
        self._master, self._conf = master, conf
        self._session: Any = None
        self._guest: ExitStack | None = None
        """Puts back the settings of a session that goes on."""
        self.free: Callable[[], None] = lambda: None
        """Gives back what is kept in a session that goes on."""

    def start(self) -> Any:
        """The session."""
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
        """End it, if there is one, without a word: what led to this is what matters."""
        if self._session is None:
            return
        if self._guest is not None:
            with suppress(Exception):  # as below
                self.free()
                self._guest.close()
            return
        # Threads that wait for a job of it are told that it was cancelled, and die of that.
        threading.excepthook = lambda _: None
        # A JVM that is gone has ended, too: SIGTERM may have reached it first.
        with warnings.catch_warnings(), suppress(Exception):
            from kgtool.analysis.spark.session import end_session

            warnings.simplefilter("ignore")
            end_session(self._session)


@contextmanager
def interruptible() -> Iterator[None]:
    """An interruption is what it is, whatever fails because of it, and whichever comes first.

    Ctrl-C and SIGTERM reach Spark's processes too, so that the job or the JVM may be gone before
    this process has taken notice; and what a handler raises is lost in a callback of Py4J's.
    """
    came: list[BaseException] = []
    handlers = {number: _remembering(number, came) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
        _tell(came)
    except Exception:
        time.sleep(GRACE_S)
        _tell(came)
        raise
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


def _tell(came: list[BaseException]) -> None:
    if came:
        raise came[0] from None


def _remembering(number: int, came: list[BaseException]) -> Any:
    """Keep what the handler raises; the handler, None where nothing was changed."""
    before = signal.getsignal(number)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        return None

    def remember(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except BaseException as error:
            came.append(error)
            raise

    signal.signal(number, remember)
    return before


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Ctrl-C stays what it is everywhere: Spark would take it, and show where it was by then."""
    # py4j logs what was interrupted, with a traceback, wherever nobody has set up logging.
    logging.getLogger().addHandler(logging.NullHandler())
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
