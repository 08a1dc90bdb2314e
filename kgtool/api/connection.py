"""The base of ``GroupAdmin``: one session, a lock around each call, a journal for changes."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kgtool import config
from kgtool.changes.journal.change import Change, Timer
from kgtool.changes.journal.folder import default_folder
from kgtool.changes.policy import Origin
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.clock import now_ms, token
from kgtool.config import Settings
from kgtool.config.properties import Properties
from kgtool.config.providers import resolve
from kgtool.errors import KgError, UsageError
from kgtool.net.session import Session
from kgtool.timespec import LONGEST_WAIT_MS

if TYPE_CHECKING:
    from typing_extensions import Self

    from kgtool.changes.driver import Kind
    from kgtool.changes.plan import GroupT

T = TypeVar("T")


def warn(message: str) -> None:
    """Issue a ``UserWarning``."""
    warnings.warn(message, stacklevel=2)


class AdminConnection:
    """A connection to one cluster; see ``GroupAdmin`` for its arguments."""

    def __init__(
        self,
        bootstrap_server: str | None = None,
        *,
        command_config: str | Path | None = None,
        properties: Mapping[str, str] | None = None,
        context: str | None = None,
        timeout_ms: int = 30_000,
        journal: Path | None = None,
        reason: str | None = None,
        confirm: str | None = None,
    ) -> None:
        path = None if command_config is None else str(command_config)
        self._settings = make_settings(bootstrap_server, path, context, properties, timeout_ms)
        for note in self._settings.notes:
            warn(note)
        self._session: Session | None = Session(self._settings)
        self._lock = threading.RLock()
        _OPEN.add(self)
        self._journals = journal or default_folder(os.environ, Path.home())
        self._reason = reason
        self._confirm = confirm
        self._last = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; further calls fail."""
        with self._lock:
            if self._session is not None:
                self._session.loop.close()
                self._session = None

    def _after_fork(self) -> None:
        """Reconnect in a child process: two on one connection get each other's answers.

        The parent's is not closed, which would end its TLS and what its selector watches. A lock
        that another of its threads held would never be released.
        """
        self._lock = threading.RLock()
        if self._session is not None:
            self._session = Session(self._settings)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id (KIP-78).

        :raises NetworkError: no broker answered.
        """
        with self._call() as session:
            session.connect()
            return session.cluster_id

    @property
    def last_journal_id(self) -> str | None:
        """The journal of this thread's last change, for ``undo``; None before there was one."""
        return getattr(self._last, "journal_id", None)

    def _open(self) -> Session:
        if self._session is None:
            raise KgError("This GroupAdmin is closed.")
        return self._session

    @contextmanager
    def _call(self) -> Iterator[Session]:
        """Yield the session with a new deadline and no remembered topics."""
        with self._lock:
            session = self._open()
            session.loop.renew()
            session.cluster.topics.clear()
            yield session

    @contextmanager
    def _long_session(self) -> Iterator[Session]:
        """Connect for long work: ``timeout_ms`` is the longest time without progress."""
        with self._lock:
            self._open()
            with Session(self._settings, progress=True) as session:
                session.connect()
                yield session

    def _run(self, operation: Operation[T]) -> T:
        with self._call() as session:
            return session.run(operation)

    @property
    def _cluster(self) -> Cluster:
        return self._open().cluster

    def _change(
        self, session: Session, operation: str, undoes: str | None = None, **flags: bool
    ) -> Change:
        """Open a change; ``flags``: which of the command's options the arguments stand for."""
        session.connect()
        origin = self._origin(operation, undoes, **flags)
        timer = Timer(now_ms, time.monotonic, time.sleep, token)
        return Change(session, origin, self._journals, timer, recorded=self._remember)

    def _carry_out(
        self,
        session: Session,
        change: Change,
        kind: Kind[GroupT],
        groups: Sequence[str],
        dry_run: bool,
        *,
        all_or_nothing: bool = False,
    ) -> list[GroupT]:
        """Make a change, or return what it would do."""
        from kgtool.changes.driver import Driver

        driver = Driver(session, kind, all_or_nothing=all_or_nothing)
        done: list[GroupT] = []
        if dry_run:
            return driver.preview(groups)
        driver.at_once(change, groups, done.extend)
        return done

    def _origin(self, operation: str, undoes: str | None = None, **flags: bool) -> Origin:
        """Return what a policy judges before the groups are known."""
        given = [f"--{name.replace('_', '-')}" for name, is_on in flags.items() if is_on]
        words = ("GroupAdmin", operation, *given)
        return Origin(operation, words, self._reason, undoes, self._confirm)

    def _remember(self, journal_id: str) -> None:
        self._last.journal_id = journal_id


_OPEN: weakref.WeakSet[AdminConnection] = weakref.WeakSet()


def _after_fork() -> None:
    for connected in list(_OPEN):
        connected._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


PROPERTIES = "the properties that were given"
"""Names them in errors, as a file's path does."""


def make_settings(
    bootstrap_server: str | None,
    command_config: str | None,
    context: str | None,
    properties: Mapping[str, str] | None,
    timeout_ms: int,
) -> Settings:
    """Combine the arguments with the environment, as ``kgtool.config`` does for options.

    :raises UsageError: nothing names a cluster, or two arguments exclude each other.
    :raises ConfigError: a file, context or property can't be used.
    """
    if timeout_ms < 1:
        raise UsageError(f"timeout_ms takes at least 1 ms, not {timeout_ms}.")
    timeout_ms = min(timeout_ms, LONGEST_WAIT_MS)
    if properties is None:
        found = config.settings(bootstrap_server, command_config, timeout_ms, context=context)
    elif command_config is not None or context is not None:
        raise UsageError("Give properties, or command_config, or context: one of them.")
    else:
        found = _from_properties(bootstrap_server, properties, timeout_ms)
    if found is None:
        raise UsageError(
            "Nothing names a cluster: give bootstrap_server or a context, or set "
            f"{config.BOOTSTRAP_VARIABLE}."
        )
    return found


def _from_properties(
    bootstrap_server: str | None, given: Mapping[str, str], timeout_ms: int
) -> Settings | None:
    properties = resolve(Properties(given), os.environ, PROPERTIES)
    servers = bootstrap_server or properties.value("bootstrap.servers")
    if servers is None:
        return None
    settings = config.settings_from_properties(properties, servers, PROPERTIES, os.environ)
    return settings._replace(timeout_ms=timeout_ms)
