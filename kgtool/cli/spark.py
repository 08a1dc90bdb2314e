"""The Spark session of a command: started when it is needed, stopped in any case."""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Spark:
    """The session, from when it is needed."""

    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self._master, self._conf = master, conf
        self._session: Any = None

    def start(self, input_bytes: int) -> Any:
        """The session for so much to read."""
        from kgtool.analysis.session import build_session

        if self._session is None:
            with _own_interrupt():
                self._session = build_session(self._master, self._conf, input_bytes)
        return self._session

    def stop(self) -> None:
        """End it, if there is one, without a word: what led to this is what matters."""
        if self._session is None:
            return
        # Threads that wait for a job of it are told that it was cancelled, and die of that.
        threading.excepthook = lambda _: None
        # A JVM that is gone has ended, too: SIGTERM may have reached it first.
        with warnings.catch_warnings(), suppress(Exception):
            from kgtool.analysis.session import end_session

            warnings.simplefilter("ignore")
            end_session(self._session)


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Ctrl-C stays what it is everywhere: Spark would take it, and show where it was by then."""
    handler = signal.getsignal(signal.SIGINT)
    # py4j logs what was interrupted, with a traceback, wherever nobody has set up logging.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
