"""The journal of what ``GroupAdmin`` changes: the same that the commands keep.

``kgtool history`` shows it and ``kgtool undo`` takes it back. Nothing is sent before what is there
is on the disk.
"""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kgtool.errors import KgError
from kgtool.safety.journal import DONE, INTERRUPTED, ConfigChange, Header, Journal, default_folder
from kgtool.safety.locks import GroupLocks

if TYPE_CHECKING:
    from kgtool.admin.images import GroupChange
    from kgtool.net.session import Session

_LOOK_AGAIN_SECONDS = 0.1


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Recorder:
    """A context manager around one change. One that never records leaves no trace.

    :param operation: the name of the method, which the journal has as its command.
    :param folder: where journals are kept (None: where the commands keep theirs).
    :param remember: hears the journal's id as soon as there is one, whatever happens then.
    """

    def __init__(
        self,
        session: Session,
        operation: str,
        folder: Path | None,
        reason: str | None,
        remember: Callable[[str], None],
    ) -> None:
        self._session = session
        self._operation = operation
        self._folder = folder or default_folder(os.environ, Path.home())
        self._reason = reason
        self._remember = remember
        self._journal: Journal | None = None
        self._locks: GroupLocks | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._journal is not None:
                self._journal.close(DONE if error is None else INTERRUPTED, now_ms())
        finally:
            if self._locks is not None:
                self._locks.close()

    def lock(self, groups: Iterable[str]) -> None:
        """Keep other processes of this machine from changing these groups; wait for those that do.

        :raises KgError: one of them is still at it when the time is up.
        """
        self._locks = GroupLocks(self._folder, self._session.cluster_id)
        names = list(groups)
        began = time.monotonic()
        while (busy := self._locks.take(names)) is not None:
            if time.monotonic() - began > self._session.settings.timeout_ms / 1000:
                raise KgError(f"Another kgtool is still changing group '{busy}'.",
                              hint="Wait until it has ended.")  # fmt: skip
            time.sleep(_LOOK_AGAIN_SECONDS)
        self._session.loop.extend(time.monotonic() - began)

    def before(self, changes: Sequence[GroupChange]) -> None:
        """Write down what is there. The ``before_change`` of the operations.

        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._write(lambda journal: journal.before(changes))

    def before_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Write down which configs are there.

        :raises JournalError: as ``before``.
        """
        self._write(lambda journal: journal.before_configs(changes))

    def _write(self, write: Callable[[Journal], None]) -> None:
        is_first = self._journal is None
        journal = self._journal or Journal(self._folder, self._header())
        try:
            write(journal)
        except BaseException:
            if is_first:
                journal.discard()
            raise
        self._journal = journal
        self._remember(journal.id)

    def results(self, items: Iterable[Any]) -> None:
        """Write down what came of each item (with group, status, error; topic, partition)."""
        if self._journal is None:
            return
        for item in items:
            topic = getattr(item, "topic", None)
            partition = getattr(item, "partition", None)
            self._journal.result(item.group, topic, partition, item.status, item.error)

    def config_result(self, group: str, name: str, status: str, error: Any) -> None:
        """Write down what came of one config."""
        if self._journal is not None:
            self._journal.config_result(group, name, status, error)

    def _header(self) -> Header:
        from kgtool import __version__

        at_ms = now_ms()
        then = time.gmtime(at_ms // 1000)
        context = self._session.settings.context
        places = (f"[{h}]:{p}" if ":" in h else f"{h}:{p}"
                  for h, p in self._session.settings.bootstrap)  # fmt: skip
        return Header(
            id=f"{time.strftime('%Y%m%d-%H%M%S', then)}-{secrets.token_hex(4)}",
            at_ms=at_ms,
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", then),
            command=self._operation,
            arguments=("GroupAdmin", self._operation),
            cluster_id=self._session.cluster_id,
            bootstrap_server=",".join(places),
            user=_user(),
            host=socket.gethostname(),
            pid=os.getpid(),
            kgtool=__version__,
            reason=self._reason,
            context=None if context is None else context.name,
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
