"""The journal of what ``GroupAdmin`` changes: the same that the commands keep.

``kgtool history`` shows it and ``kgtool undo`` takes it back. Nothing is sent before what is there
is on the disk.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kgtool.safety.journal import ConfigChange, Header, default_folder
from kgtool.safety.recording import Recording, Timer, make_header

if TYPE_CHECKING:
    from kgtool.admin.images import GroupChange
    from kgtool.net.session import Session


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def journal_folder(chosen: Path | None) -> Path:
    """Return where journals are kept: as chosen, or where the commands keep theirs."""
    return chosen or default_folder(os.environ, Path.home())


def warn(said: str) -> None:
    """Tell the program's author, or whoever reads its stderr, what undo does not cover."""
    warnings.warn(said, stacklevel=2)


class Recorder(Recording):
    """A context manager around one change. One that never records leaves no trace.

    :param operation: the name of the method, which the journal has as its command.
    :param folder: where journals are kept (None: where the commands keep theirs).
    :param remember: hears the journal's id as soon as there is one, whatever happens then.
    :param undoes: the id of the journal that is taken back.
    """

    def __init__(
        self,
        session: Session,
        operation: str,
        folder: Path | None,
        reason: str | None,
        remember: Callable[[str], None],
        undoes: str | None = None,
    ) -> None:
        def header() -> Header:
            return make_header(
                session, operation, ("GroupAdmin", operation), reason, at_ms=now_ms(),
                token=secrets.token_hex(4), undoes=undoes,
            )  # fmt: skip

        timer = Timer(now_ms, time.monotonic, time.sleep)
        super().__init__(journal_folder(folder), header, timer)
        self._session = session
        self._remember = remember

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(is_interrupted=error is not None)

    def hold(self, groups: Iterable[str]) -> None:
        """Keep other processes of this machine from changing these groups; wait for those that do.

        :raises Locked: one of them is still at it when the time is up.
        """
        seconds = self._session.settings.timeout_ms / 1000
        self._session.loop.extend(self.lock(groups, self._session.cluster_id, seconds))

    def before(
        self, changes: Sequence[GroupChange], members: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Write down what is there, as ``Recording.before`` does, and remember the journal."""
        super().before(changes, members)
        self._tell()

    def before_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Write down which configs are there, and remember the journal."""
        super().before_configs(changes)
        self._tell()

    def _tell(self) -> None:
        if self.journal is not None:
            self._remember(self.journal.id)
