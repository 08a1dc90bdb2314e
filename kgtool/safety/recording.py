"""One change with its journal and its locks: what the commands and the Python API have in common.

There is no clock here and no chance: both come in as arguments.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kgtool.admin.images import GroupChange
from kgtool.errors import KgError
from kgtool.model import ItemError
from kgtool.safety.journal import DONE, INTERRUPTED, ConfigChange, Header, Journal
from kgtool.safety.locks import GroupLocks
from kgtool.words import addresses, moment

if TYPE_CHECKING:
    from kgtool.safety.plan import PlanHeader

LOOK_AGAIN_SECONDS = 0.1


class Locked(KgError):
    """Another kgtool is changing the group, and does not come to an end."""

    name = "LOCKED"


class Item(Protocol):
    """One item with its outcome: GroupDeletion, OffsetDeletion, ResetRow and the like."""

    @property
    def group(self) -> str:
        """The group that it is about."""

    @property
    def status(self) -> str:
        """What came of it, in a word."""

    @property
    def error(self) -> ItemError | None:
        """Why nothing came of it."""


class Timer(NamedTuple):
    """How time is told: ``now_ms`` since the epoch, ``monotonic`` and ``sleep`` in seconds."""

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]


class Recording:
    """A journal that begins with the first thing that is written down, and locks on groups.

    One that nothing is written to leaves no trace.

    :param folder: where journals and locks are kept.
    :param header: called when the journal begins.
    """

    def __init__(self, folder: Path, header: Callable[[], Header], timer: Timer) -> None:
        self._folder = folder
        self._header = header
        self._timer = timer
        self._locks: GroupLocks | None = None
        self.journal: Journal | None = None

    @property
    def journal_id(self) -> str | None:
        """The id of the journal, None as long as nothing was going to change."""
        return self.journal.id if self.journal else None

    def lock(
        self, groups: Iterable[str], cluster_id: str | None, seconds: float,
        waiting: Callable[[str, str, float], None] | None = None,
    ) -> float:  # fmt: skip
        """Keep other processes of this machine from changing these groups.

        To be called before the groups are read, so that what is read stays true.

        :param seconds: how long to wait for those that are changing one of them.
        :param waiting: told who holds which group, and for how many seconds it was waited for.
        :return: how many seconds that took.
        :raises Locked: one of them is still at it then.
        :raises JournalError: locks can't be kept in the folder.
        """
        self._locks = self._locks or GroupLocks(self._folder, cluster_id)
        names = list(groups)
        began = self._timer.monotonic()
        while (busy := self._locks.take(names)) is not None:
            waited = self._timer.monotonic() - began
            if waited > seconds:
                raise Locked(f"{self._holder(busy)} is still changing group '{busy}'.",
                             hint="Wait until it has ended.")  # fmt: skip
            if waiting is not None:
                waiting(self._holder(busy), busy, waited)
            self._timer.sleep(LOOK_AGAIN_SECONDS)
        return self._timer.monotonic() - began

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
        is_first = self.journal is None
        journal = self.journal or Journal(self._folder, self._header())
        try:
            write(journal)
        except BaseException:
            if is_first:
                journal.discard()
            raise
        self.journal = journal

    def results(self, items: Iterable[Item]) -> None:
        """Write down what came of each item."""
        if self.journal is None:
            return
        for item in items:
            topic = getattr(item, "topic", None)
            partition = getattr(item, "partition", None)
            member = getattr(item, "member", None)
            member_id = None if member is None else member.member_id
            self.journal.result(item.group, topic, partition, item.status, item.error, member_id)
        self.journal.flush()

    def config_results(self, items: Iterable[tuple[str, str, str, ItemError | None]]) -> None:
        """Write down what came of each config: group, name, status, error."""
        if self.journal is None:
            return
        for group, name, status, error in items:
            self.journal.config_result(group, name, status, error)
        self.journal.flush()

    def close(self, *, is_interrupted: bool) -> None:
        """End the journal, if there is one, and give the groups free."""
        try:
            if self.journal is not None:
                state = INTERRUPTED if is_interrupted else DONE
                self.journal.close(state, self._timer.now_ms())
        finally:
            if self._locks is not None:
                self._locks.close()


def make_header(
    session: Any, command: str, arguments: Sequence[str], reason: str | None, *, at_ms: int,
    token: str, undoes: str | None = None,
) -> Header:  # fmt: skip
    """Say who does what, where and when.

    :param session: a ``kgtool.net.session.Session``, for the cluster and how it was reached.
    :param token: some letters that tell this journal from others of the same second.
    :param undoes: the id of the journal that is taken back.
    """
    from kgtool import __version__

    context = session.settings.context
    user, host = who()
    return Header(
        id=_id(at_ms, token),
        at_ms=at_ms,
        at=moment(at_ms),
        command=command,
        arguments=tuple(arguments),
        cluster_id=session.cluster_id,
        bootstrap_server=addresses(session.settings.bootstrap),
        user=user,
        host=host,
        pid=os.getpid(),
        kgtool=__version__,
        reason=reason,
        undoes=undoes,
        context=None if context is None else context.name,
    )


def make_plan_header(
    cluster_id: str | None, source: str, criteria: Mapping[str, Any], *, at_ms: int, token: str,
    as_of_ms: int | None = None,
) -> PlanHeader:  # fmt: skip
    """Say who makes a cleanup plan, when and of what; the arguments as in ``make_header``."""
    from kgtool import __version__
    from kgtool.safety.plan import PlanHeader

    return PlanHeader(
        _id(at_ms, token), cluster_id, at_ms, moment(at_ms), "{}@{}".format(*who()),
        source, criteria, __version__, as_of_ms,
    )  # fmt: skip


def _id(at_ms: int, token: str) -> str:
    """Make an id that sorts by time."""
    return f"{datetime.fromtimestamp(at_ms // 1000, timezone.utc):%Y%m%d-%H%M%S}-{token}"


def who() -> tuple[str, str]:
    """Return who runs this, and on which host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return user, os.uname().nodename
