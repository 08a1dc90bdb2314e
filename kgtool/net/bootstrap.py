"""The search for a broker that answers, when there is no connection to any.

The addresses are tried in the order given. One that refuses makes way for the next at once; one
that says nothing gets company after ``STAGGER_SECONDS``, so that a black hole at the head of the
list costs a second and not the whole timeout.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

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
from kgtool.net.connection import Connection

STAGGER_SECONDS = 1.0
BOOTSTRAP_SECONDS = 2.0
"""How long a cluster that refuses every connection is given, in case it is just restarting."""
PAUSES = (0.2, 0.4, 0.8, 1.0)
"""Between two rounds over all addresses, the last one repeated."""

FINAL = (AuthenticationError, ConfigError, MissingExtra)
"""A login that was refused, or can't be made."""

Address = tuple[str, int]


class Bootstrap:
    """One search at a time; ``step`` drives it.

    :param connect: opens a connection to an address, or finds the one that is being opened.
    :param explain: makes a better error of one that a connection ended with.
    """

    def __init__(
        self,
        connect: Callable[[str, int], Connection],
        explain: Callable[[KgError, str, int], KgError],
    ) -> None:
        self.is_active = False
        self._connect = connect
        self._explain = explain
        self._addresses: list[Address] = []
        self._left: deque[Address] = deque()
        self._trying: list[tuple[Address, Connection]] = []
        self._failed: list[tuple[Address, KgError]] = []
        self._next_at = 0.0
        self._last: list[tuple[Address, KgError]] = []
        self._give_up_at = 0.0
        self._persistent = False
        self._round = 0

    def begin(self, addresses: list[Address], now: float, *, persistent: bool) -> None:
        """Start looking, unless a search is under way.

        :param persistent: the cluster has answered before, so it is looked for until the time of
            the command is up; otherwise only for a moment, in case it is just being restarted.
        """
        if self.is_active:
            return
        self.is_active = True
        self._addresses = list(dict.fromkeys(addresses))
        self._persistent = persistent
        self._give_up_at = math.inf if persistent else now + BOOTSTRAP_SECONDS
        self._round = 0
        self._last = []
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._left = deque(self._addresses)
        self._trying = []
        self._failed = []
        self._next_at = now

    def step(self, now: float) -> Connection | KgError | None:
        """Return the connection found, the reason why there is none, or None: still looking."""
        if not self.is_active:
            return None
        while True:
            found = self._sort_out(now)
            if found is not None:
                self.is_active = False
                return found
            if not self._left or now < self._next_at:
                break
            address = self._left.popleft()
            self._trying.append((address, self._connect(*address)))
            self._next_at = now + STAGGER_SECONDS
        if self._trying or self._left:
            return None
        return self._again_or_never(now)

    def _sort_out(self, now: float) -> Connection | KgError | None:
        """Return a connection that is ready; let the next address have its turn for a dead one."""
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
                    return self.error()
        return None

    def _again_or_never(self, now: float) -> KgError | None:
        """All have failed: wait for another round, or give up."""
        if now < self._give_up_at and all(self._may_come(error) for _, error in self._failed):
            pause = PAUSES[min(self._round, len(PAUSES) - 1)]
            self._round += 1
            failed = self._failed
            self._begin_round(now + pause)
            self._last = failed
            return None
        self._last = self._failed
        self.is_active = False
        return self.error()

    def _may_come(self, error: KgError) -> bool:
        if isinstance(error, ResolveFailed):
            return False
        kinds = (ConnectFailed, ConnectionLost, LoginLost, TimedOut)
        return isinstance(error, kinds if self._persistent else ConnectFailed)

    def error(self) -> KgError:
        """Say why nothing has been found so far."""
        failed = self._failed or self._last
        reasons = [self._explain(error, *address) for address, error in failed]
        if len(reasons) == 1:
            return reasons[0]
        told = " ".join(dict.fromkeys(error.message for error in reasons))
        return ConnectFailed(
            f"None of the {len(reasons)} bootstrap addresses answers as a broker. {told}",
            hint=next((error.hint for error in reasons if error.hint), None),
        )

    def reason(self, waited: str) -> KgError | None:
        """Say why the search that is under way has found nothing; None if that isn't known.

        :param waited: for how long, in words.
        """
        if not self.is_active:
            return None
        if self._failed or self._last:
            return self.error()
        reasons = (connection.hindrance(waited) for _, connection in self._trying)
        return next(filter(None, reasons), None)

    def next_due(self) -> float | None:
        """Return when ``step`` has something to do by itself (monotonic seconds)."""
        return self._next_at if self.is_active and self._left else None
