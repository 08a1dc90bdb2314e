"""The search for a broker that answers, while there is no connection to any.

The addresses are tried in the order given. After one that refuses the next is tried at once; beside
one that does not answer the next is tried after ``STAGGER_SECONDS``, so that a black hole at the
head of the list costs a second and not the whole timeout.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial

from kgtool.errors import (
    AuthenticationError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    KgError,
    LoginLost,
    MissingExtra,
    ResolveFailed,
    TimedOut,
)
from kgtool.net.background import Background
from kgtool.net.connection import Connection

STAGGER_SECONDS = 1.0
BOOTSTRAP_SECONDS = 2.0
"""How long a cluster that refuses every connection is given, in case it is just restarting."""
PAUSES = (0.2, 0.4, 0.8, 1.0)
"""Between two rounds over all addresses, the last one repeated."""

FINAL = (AuthenticationError, ConfigError, MissingExtra)
"""A login that was refused, or can't be made."""

HostPort = tuple[str, int]


class Bootstrap:
    """One search at a time; ``step`` drives it.

    :param connect: opens a connection to an address, or finds the one that is being opened.
    :param background: runs what finds out why connections were closed.
    """

    def __init__(
        self,
        connect: Callable[[str, int], Connection],
        background: Background,
        *,
        has_tls: bool = False,
    ) -> None:
        self.is_active = False
        self._has_tls = has_tls
        self._connect = connect
        self._background = background
        self._addresses: list[HostPort] = []
        self._left: deque[HostPort] = deque()
        self._trying: list[tuple[HostPort, Connection]] = []
        self._failed: list[tuple[HostPort, KgError]] = []
        self._next_at = 0.0
        self._last: list[tuple[HostPort, KgError]] = []
        self._give_up_at = 0.0
        self._persistent = False
        self._round = 0
        self._unexplained: set[int] | None = None
        """The failures without an explanation yet; None as long as the search goes on."""

    def begin(self, addresses: list[HostPort], now: float, *, persistent: bool) -> None:
        """Start a search, unless one is under way.

        :param persistent: search until the time of the command is up, because the cluster has
            answered before; otherwise only for a moment, in case it is just being restarted.
        """
        if self.is_active:
            return
        self.is_active = True
        self._addresses = list(dict.fromkeys(addresses))
        self._persistent = persistent
        self._give_up_at = math.inf if persistent else now + BOOTSTRAP_SECONDS
        self._round = 0
        self._last = []
        self._unexplained = None
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._left = deque(self._addresses)
        self._trying = []
        self._failed = []
        self._next_at = now

    def step(self, now: float) -> Connection | KgError | None:
        """Return the connection found, the error of the search, or None while it goes on."""
        if not self.is_active:
            return None
        while self._unexplained is None:
            found = self._first_ready(now)
            if found is not None:
                self.is_active = False
                return found
            if not self._left or now < self._next_at:
                break
            address = self._left.popleft()
            self._trying.append((address, self._connect(*address)))
            self._next_at = now + STAGGER_SECONDS
        if self._unexplained is None and not self._trying and not self._left:
            self._retry_or_give_up(now)
        if self._unexplained is None or self._unexplained:
            return None
        self.is_active = False
        return self.error()

    def _first_ready(self, now: float) -> Connection | None:
        """Return a connection that is ready; note those that failed."""
        for address, connection in self._trying[:]:
            if connection.is_ready:
                return connection
            if connection.is_closed:
                self._trying.remove((address, connection))
                self._failed.append((address, connection.error or ConnectFailed("closed")))
                self._next_at = min(self._next_at, now)
                if isinstance(connection.error, FINAL):
                    # Not to be tried at other brokers: too many failures may lock an account.
                    self._failed = self._failed[-1:]
                    self._find_reasons()
                    return None
        return None

    def _retry_or_give_up(self, now: float) -> None:
        """After all have failed, begin another round, or give up."""
        if now < self._give_up_at and all(self._may_recover(error) for _, error in self._failed):
            pause = PAUSES[min(self._round, len(PAUSES) - 1)]
            self._round += 1
            failed = self._failed
            self._begin_round(now + pause)
            self._last = failed
        else:
            self._find_reasons()

    def _find_reasons(self) -> None:
        """The search is over: find out why, for as long as the command has time."""
        failed = self._failed
        self._unexplained = set(range(len(failed)))
        for at, (address, error) in enumerate(failed):
            done = partial(self._on_explained, failed, at)
            if isinstance(error, ConnectionLost):
                from kgtool.net.diagnose import explain

                self._background.run(partial(explain, error, *address, self._has_tls), done)
            else:
                done(error)

    def _on_explained(
        self, failed: list[tuple[HostPort, KgError]], at: int, error: KgError
    ) -> None:
        failed[at] = (failed[at][0], error)
        if failed is self._failed and self._unexplained is not None:
            self._unexplained.discard(at)

    def _may_recover(self, error: KgError) -> bool:
        if isinstance(error, ResolveFailed):
            return False
        kinds = (ConnectFailed, ConnectionLost, LoginLost, TimedOut)
        return isinstance(error, kinds if self._persistent else ConnectFailed)

    def error(self) -> KgError:
        """Return the error of a search that has found no broker so far."""
        reasons = [error for _, error in self._failed or self._last]
        if len(reasons) == 1:
            return reasons[0]
        messages = " ".join(dict.fromkeys(error.message for error in reasons))
        kind = TimedOut if all(isinstance(error, TimedOut) for error in reasons) else ConnectFailed
        return kind(
            f"None of the {len(reasons)} bootstrap addresses answers as a broker. {messages}",
            hint=next((error.hint for error in reasons if error.hint), None),
        )

    def reason(self, waited: str) -> KgError | None:
        """Return why the search under way has found nothing; None if that isn't known.

        :param waited: for how long, in words.
        """
        if not self.is_active:
            return None
        if self._failed or self._last:
            return self.error()
        reasons = (connection.waiting_for(waited) for _, connection in self._trying)
        return next(filter(None, reasons), None)

    def next_due(self) -> float | None:
        """Return when ``step`` has something to do by itself (monotonic seconds)."""
        is_looking = self.is_active and self._unexplained is None
        return self._next_at if is_looking and self._left else None
