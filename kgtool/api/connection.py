"""What ``GroupAdmin`` stands on: one session, a lock around each call, a journal for changes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgtool.api.change import Recorder, warn
from kgtool.api.connect import make_settings
from kgtool.changes.policy import Origin
from kgtool.errors import KgError
from kgtool.net.session import Session

if TYPE_CHECKING:
    from typing_extensions import Self

    from kgtool.client.ops import Operation

T = TypeVar("T")


class Connected:
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
        self._journal = journal
        self._reason = reason
        self._confirm = confirm
        self._last = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; no call can be made any more."""
        with self._lock:
            if self._session is not None:
                self._session.loop.close()
                self._session = None

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id (KIP-78).

        :raises NetworkError: no broker answered.
        """
        with self._lock:
            session = self._ready()
            session.connect()
            return session.cluster_id

    @property
    def last_journal_id(self) -> str | None:
        """What ``undo`` takes to take back this thread's last change; None before there was one."""
        return getattr(self._last, "journal_id", None)

    def _ready(self) -> Session:
        """Return the session with its time begun anew, and nothing remembered that may change."""
        if self._session is None:
            raise KgError("This GroupAdmin is closed.")
        self._session.loop.renew()
        self._session.cluster.topics.clear()
        return self._session

    def _run(self, operation: Operation[T]) -> T:
        with self._lock:
            return self._ready().run(operation)

    @property
    def _cluster(self) -> Any:
        if self._session is None:
            raise KgError("This GroupAdmin is closed.")
        return self._session.cluster

    def _recorder(
        self, session: Session, operation: str, undoes: str | None = None, **flags: bool
    ) -> Recorder:
        """Begin a change; ``flags`` are those that the commands have as options."""
        session.connect()
        given = [f"--{name.replace('_', '-')}" for name, is_on in flags.items() if is_on]
        origin = Origin(
            operation, ("GroupAdmin", operation, *given), self._reason, undoes, self._confirm
        )
        return Recorder(session, origin, self._journal, self._remember)

    def _remember(self, journal_id: str) -> None:
        self._last.journal_id = journal_id
