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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kgtool.cli.escape import escape
from kgtool.cli.output import Output
from kgtool.errors import KgError

if TYPE_CHECKING:
    from kgtool.admin.images import GroupChange
    from kgtool.model import ItemError
    from kgtool.net.session import Session
    from kgtool.safety.journal import ConfigChange, Header, Journal
    from kgtool.safety.recording import Item, Recording

WAY_BACK = (
    "What is there now is kept in the journal: kgtool undo puts the offsets back. "
    "The expiry clock starts again then, and a KIP-848 group's epochs do not come back."
)
"""Said before a change, in the subcommand form."""

NOT_ALL_COMES_BACK = (
    "What is there now is kept in the journal: kgtool undo puts the offsets back, and with them "
    "the groups. Protocol type, epochs and the expiry clock do not come back."
)


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
        self._recording: Recording | None = None
        self._problem: KgError | None = None
        self._is_waiting_said = self._is_interrupted = False

    @property
    def _journal(self) -> Journal | None:
        return None if self._recording is None else self._recording.journal

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
        self._is_interrupted = error is not None
        if self._recording is not None:
            self._recording.close(is_interrupted=self._is_interrupted)
        if error is not None:
            self.say()

    def _begun(self) -> Recording:
        if self._recording is None:
            from kgtool.safety.recording import Recording, Timer

            timer = Timer(now_ms, time.monotonic, time.sleep)
            self._recording = Recording(folder(), self._header, timer)
        return self._recording

    # -- before --------------------------------------------------------------------------

    def lock(self, groups: Iterable[str]) -> None:
        """Keep other kgtools of this machine from changing these groups; wait for those that do.

        To be called before the groups are read, so that what is read stays true.

        :raises Locked: one of them is still at it after ``--timeout``.
        """
        from kgtool.safety.journal import JournalError

        seconds = self._session.settings.timeout_ms / 1000
        try:
            waited = self._begun().lock(groups, self._session.cluster_id, seconds, self._waiting)
        except JournalError as error:
            # It matters only if something is going to be changed.
            self._problem = error
            return
        self._session.loop.extend(waited)

    def _waiting(self, holder: str, group: str, seconds: float) -> None:
        if seconds > 1 and not self._is_waiting_said:
            self._is_waiting_said = True
            self._output.note(escape(f"Waiting: {holder} is changing group {group}."))

    def unlock(self, groups: Iterable[str]) -> None:
        """Let others change these groups."""
        self._begun().unlock(groups)

    def before(
        self, changes: Sequence[GroupChange], members: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Write down what is there, durably. The ``before_change`` of the operations.

        :param members: who is going to be removed from the groups.
        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._check()
        self._begun().before(changes, members)

    def before_configs(self, changes: Sequence[ConfigChange]) -> None:
        """Write down which configs of groups are there, durably.

        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._check()
        self._begun().before_configs(changes)

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem

    def _header(self) -> Header:
        import secrets

        from kgtool.safety.recording import make_header

        said = self._output
        return make_header(
            self._session, said.command, said.arguments, said.reason, at_ms=now_ms(),
            token=secrets.token_hex(4), undoes=self._undoes,
        )  # fmt: skip

    # -- after ---------------------------------------------------------------------------

    def results(self, items: Iterable[Item]) -> None:
        """Write down what came of each item."""
        self._begun().results(items)

    def config_results(self, items: Iterable[tuple[str, str, str, ItemError | None]]) -> None:
        """Write down what came of each config: group, name, status, error."""
        self._begun().config_results(items)

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
