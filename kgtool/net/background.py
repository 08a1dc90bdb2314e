"""Threads for blocking calls: name servers, token endpoints, ticket servers.

The loop goes on meanwhile; a result comes back into its thread through a socket that the selector
watches. ``threading`` would cost start-up time, and join its threads at exit: a name server that
does not answer must not keep the program alive.
"""

from __future__ import annotations

import _thread
import contextlib
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from kgtool.errors import KgError

T = TypeVar("T")
Done = Callable[[Any], None]


class Background:
    """Runs actions in threads; their results are handed out by the loop's selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._finished: deque[tuple[Done, Any]] = deque()
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def run(self, action: Callable[[], Any], done: Done) -> None:
        """Call ``done`` with the result of ``action``, or with the KgError that it raises."""
        if self._ends is None:
            self._ends = socket.socketpair()
            for end in self._ends:
                end.setblocking(False)
            self._selector.register(self._ends[0], selectors.EVENT_READ, self)
        _thread.start_new_thread(self._work, (action, done, self._ends[1]))

    def _work(self, action: Callable[[], Any], done: Done, bell: socket.socket) -> None:
        self._finished.append((done, _outcome(action)))
        with contextlib.suppress(OSError):  # full, which wakes as well; or closed
            bell.send(b"\0")

    def on_event(self, _mask: int) -> None:
        """Hand out finished results."""
        assert self._ends is not None
        with contextlib.suppress(BlockingIOError):
            self._ends[0].recv(4096)
        while self._finished:
            done, value = self._finished.popleft()
            if isinstance(value, BaseException) and not isinstance(value, KgError):
                raise value
            done(value)

    def close(self) -> None:
        """Drop the results of what is still running."""
        for end in self._ends or ():
            end.close()


def within(seconds: float, action: Callable[[], T], too_late: KgError) -> T:
    """Return the result of ``action``, or raise ``too_late`` and leave the thread behind.

    Timeouts of sockets are per read: a peer that sends a byte now and then outlives them all.
    """
    found: list[Any] = []
    lock = _thread.allocate_lock()
    lock.acquire()

    def work() -> None:
        found.append(_outcome(action))
        lock.release()

    _thread.start_new_thread(work, ())
    if not lock.acquire(timeout=max(0.0, seconds)):
        raise too_late
    if isinstance(found[0], BaseException):
        raise found[0]
    value: T = found[0]
    return value


def _outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
        return error
