"""An action that changes the cluster: its locks, its journal, and what is said of both.

::

    with Change(session, output) as change:
        change.lock(groups)
        done = session.run(delete_groups(…, before_change=change.before))
        change.results(done)
    change.say()

A ``Change`` that never calls ``before`` leaves no trace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from kgtool.cli.escape import escape
from kgtool.cli.output import Output
from kgtool.errors import KgError

if TYPE_CHECKING:
    from kgtool.admin.images import GroupChange
    from kgtool.model import ItemError
    from kgtool.net.session import Session
    from kgtool.safety.journal import ConfigChange, Header, Journal
    from kgtool.safety.locks import GroupLocks

WAY_BACK = (
    "What is there now is kept in the journal: kgtool undo puts the offsets back. "
    "The expiry clock starts again then, and a KIP-848 group's epochs do not come back."
)
"""Said before a change, in the subcommand form."""

NOT_ALL_COMES_BACK = (
    "What is there now is kept in the journal: kgtool undo puts the offsets back, and with them "
    "the groups. Protocol type, epochs and the expiry clock do not come back."
)

_LOOK_AGAIN_SECONDS = 0.1


class Locked(KgError):
    """Another kgtool is changing the group, and does not come to an end."""

    name = "LOCKED"


class _Item(Protocol):
    """One item with its outcome: GroupDeletion, OffsetDeletion, ResetRow and the like."""

    @property
    def group(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def error(self) -> ItemError | None: ...


def folder() -> Path:
    """Return the folder of this user's journals; it need not exist."""
    from kgtool.safety.journal import default_folder

    return default_folder(os.environ, Path.home())


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Change:
    """A context manager around one action; its end closes the journal, however it comes.

    :param undoes: the id of the journal that this action takes back.
    """

    def __init__(self, session: Session, output: Output, *, undoes: str | None = None) -> None:
        self._session = session
        self._output = output
        self._undoes = undoes
        self._journal: Journal | None = None
        self._locks: GroupLocks | None = None
        self._problem: KgError | None = None
        self._is_interrupted = False

    @property
    def journal_id(self) -> str | None:
        """The id of the journal, None as long as nothing was going to change."""
        return self._journal.id if self._journal else None

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from kgtool.safety.journal import DONE, INTERRUPTED

        self._is_interrupted = error is not None
        try:
            if self._journal is not None:
                self._journal.close(DONE if error is None else INTERRUPTED, now_ms())
        finally:
            if self._locks is not None:
                self._locks.close()
        if error is not None:
            self.say()

    # -- before --------------------------------------------------------------------------

    def lock(self, groups: Iterable[str]) -> None:
        """Keep other kgtools of this machine from changing these groups; wait for those that do.

        To be called before the groups are read, so that what is read stays true.

        :raises Locked: one of them is still at it after ``--timeout``.
        """
        from kgtool.safety.journal import JournalError
        from kgtool.safety.locks import GroupLocks

        try:
            self._locks = self._locks or GroupLocks(folder(), self._session.cluster_id)
        except JournalError as error:
            # It matters only if something is going to be changed.
            self._problem = error
            return
        names = list(groups)
        began = time.monotonic()
        is_said = False
        while (busy := self._locks.take(names)) is not None:
            if time.monotonic() - began > self._session.settings.timeout_ms / 1000:
                raise Locked(f"{self._holder(busy)} is still changing group '{busy}'.",
                             hint="Wait until it has ended.")  # fmt: skip
            if not is_said and time.monotonic() - began > 1:
                said = f"Waiting: {self._holder(busy)} is changing group {busy}."
                self._output.note(escape(said))
                is_said = True
            time.sleep(_LOOK_AGAIN_SECONDS)
        self._session.loop.extend(time.monotonic() - began)

    def unlock(self, groups: Iterable[str]) -> None:
        """Let others change these groups."""
        if self._locks is not None:
            self._locks.release(groups)

    def _holder(self, group: str) -> str:
        pid = self._locks.holder(group) if self._locks else None
        return f"Another kgtool (process {pid})" if pid else "Another kgtool"

    def before(
        self, changes: Sequence[GroupChange], members: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Write down what is there, durably. The ``before_change`` of the operations.

        :param members: who is going to be removed from the groups.

        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._write(lambda journal: journal.before(changes, members))

    def before_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Write down which configs of groups are there, durably.

        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._write(lambda journal: journal.before_configs(changes))

    def _write(self, write: Callable[[Journal], None]) -> None:
        from kgtool.safety.journal import Journal

        if self._problem is not None:
            raise self._problem
        is_first = self._journal is None
        journal = self._journal or Journal(folder(), self._header())
        try:
            write(journal)
        except BaseException:
            if is_first:
                journal.discard()
            raise
        self._journal = journal

    def _header(self) -> Header:
        import secrets

        from kgtool import __version__
        from kgtool.safety.journal import Header

        at_ms = now_ms()
        then = time.gmtime(at_ms // 1000)
        return Header(
            id=f"{time.strftime('%Y%m%d-%H%M%S', then)}-{secrets.token_hex(4)}",
            at_ms=at_ms,
            at=time.strftime("%Y-%m-%dT%H:%M:%SZ", then),
            command=self._output.command,
            arguments=tuple(self._output.arguments),
            cluster_id=self._session.cluster_id,
            bootstrap_server=_addresses(self._session.settings.bootstrap),
            user=_user(),
            host=_host(),
            pid=os.getpid(),
            kgtool=__version__,
            reason=self._output.reason,
            undoes=self._undoes,
            context=_context(self._session),
        )

    # -- after ---------------------------------------------------------------------------

    def results(self, items: Iterable[_Item]) -> None:
        """Write down what came of each item."""
        if self._journal is None:
            return
        for item in items:
            topic = getattr(item, "topic", None)
            partition = getattr(item, "partition", None)
            member = getattr(item, "member", None)
            member_id = None if member is None else member.member_id
            self._journal.result(item.group, topic, partition, item.status, item.error, member_id)

    def config_results(self, items: Iterable[tuple[str, str, str, ItemError | None]]) -> None:
        """Write down what came of each config: group, name, status, error."""
        if self._journal is not None:
            for group, name, status, error in items:
                self._journal.config_result(group, name, status, error)

    def say(self) -> None:
        """Tell on stderr how to take it back; nothing where nothing was changed."""
        journal = self._journal
        if journal is None or journal.failed >= journal.changes:
            return
        if journal.problem is not None:
            self._output.note(
                f"Warning: the journal {journal.path} is not complete "
                f"({journal.problem.strerror}); what was there before is in it."
            )
        what = "puts back what was changed" if self._is_interrupted else "takes this back"
        self._output.note(f"Journal {journal.id}: kgtool undo {journal.id} {what}.")


def _addresses(bootstrap: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                    for host, port in bootstrap)  # fmt: skip


def _context(session: Session) -> str | None:
    context = session.settings.context
    return None if context is None else context.name


def who() -> tuple[str, str]:
    """Return who runs this, and on which host."""
    return _user(), _host()


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _host() -> str:
    import socket

    return socket.gethostname()


def arguments_of(words: Sequence[Any]) -> tuple[str, ...]:
    """Return a command line as the journal keeps it: text that any file can hold."""
    return tuple(str(word).encode("utf-8", "backslashreplace").decode() for word in words)
