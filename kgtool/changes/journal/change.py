"""A change of a cluster, with its policy, its locks and its journal. Every change is one.

::

    with Change(session, origin, folder, timer, say=note) as change:
        Driver(session, kind).at_once(change, groups, report)
    change.say()

The commands and the Python API differ only in what they print. Clock and randomness are
arguments.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool import __version__
from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    NO_UNDO,
    ConfigChange,
    Journal,
    JournalHeader,
)
from kgtool.changes.journal.locks import GroupLocks
from kgtool.changes.journal.remote_copy import COPY_VARIABLE, RemoteCopy, check_url
from kgtool.changes.policy import Guard, Origin
from kgtool.changes.session import Session
from kgtool.changes.snapshot import GroupChange
from kgtool.errors import KgError
from kgtool.model import InternalTopic
from kgtool.text import addresses, moment

if TYPE_CHECKING:
    from typing_extensions import Self

LOOK_AGAIN_SECONDS = 0.1


class Locked(KgError):
    """Another kgtool is still changing the group."""

    name = "LOCKED"


class Timer(NamedTuple):
    """The clock: ``now_ms`` since the epoch, ``monotonic`` and ``sleep`` in seconds.

    ``token`` makes letters that distinguish journals of the same second.
    """

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    token: Callable[[], str]


def _ignore(_text: str) -> None:
    pass


class Change:
    """One change: a context manager whose end closes the journal, also after an error.

    The journal begins with the first ``before``; without one there is none.

    :param session: a connected session.
    :param folder: where journals and locks are kept.
    :param say: called with sentences for the user.
    :param recorded: called with the journal's id as soon as there is one.
    """

    def __init__(
        self,
        session: Session,
        origin: Origin,
        folder: Path,
        timer: Timer,
        *,
        say: Callable[[str], None] = _ignore,
        recorded: Callable[[str], None] = _ignore,
    ) -> None:
        self._session = session
        self._origin = origin
        self._folder = folder
        self._timer = timer
        self._say = say
        self._recorded = recorded
        self._guard = Guard(session, origin)
        self._locks: GroupLocks | None = None
        self._problem: JournalError | None = None
        self._is_waiting_said = self._is_interrupted = self._is_said = False
        self._has_living = False
        self.journal: Journal | None = None

    @property
    def journal_id(self) -> str | None:
        """The id of the journal, None before there is one."""
        return self.journal.id if self.journal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._is_interrupted = error is not None
        self._close()
        if error is not None:
            self.say()

    # -- before --------------------------------------------------------------------------

    def admit(self, groups: Iterable[str], offsets: int = 0) -> None:
        """Check a whole change that is made in parts.

        :raises PolicyRefused: it may not be made.
        """
        self._guard.admit(groups, offsets)

    def foresee(self, count: Callable[[], tuple[Iterable[str], int]]) -> None:
        """Check the size of a change that is made in parts, before the first of them.

        :param count: returns the groups and the number of offsets that will be changed; it is
            called only where a policy limits them.
        :raises PolicyRefused: they are too many.
        """
        if self._guard.limits_size:
            self.admit(*count())

    def lock(self, groups: Iterable[str]) -> None:
        """Keep other kgtools of this machine from changing these groups; wait for those that do.

        To be called before the groups are read, so that they don't change afterwards.

        :raises PolicyRefused: they may not be changed.
        :raises Locked: one of them is still being changed after ``--timeout``.
        """
        names = list(groups)
        self._guard.admit(names)
        try:
            self._lock(names)
        except JournalError as error:
            # It matters only if something is going to be changed.
            self._problem = error
            return
        self._guard.find_busy(names, self._timer.now_ms())

    def _lock(self, names: list[str]) -> None:
        self._locks = self._locks or GroupLocks(self._folder, self._session.cluster_id)
        began = self._timer.monotonic()
        limit = began + self._session.settings.timeout_ms / 1000
        while (busy := self._locks.take(names)) is not None:
            now = self._timer.monotonic()
            if now > limit:
                raise Locked(
                    f"{self._holder(busy)} is still changing group '{busy}'.",
                    hint="Wait until it has ended.",
                )
            if now > began + 1 and not self._is_waiting_said:
                self._is_waiting_said = True
                self._say(f"Waiting: {self._holder(busy)} is changing group {busy}.")
            self._timer.sleep(LOOK_AGAIN_SECONDS)
        self._session.loop.extend(self._timer.monotonic() - began)

    def _holder(self, group: str) -> str:
        pid = self._locks.holder(group) if self._locks else None
        return f"Another kgtool (process {pid})" if pid else "Another kgtool"

    def before(
        self,
        changes: Sequence[GroupChange],
        members: Sequence[Mapping[str, Any]] = (),
        configs: Sequence[ConfigChange] = (),
        topics: Sequence[InternalTopic] = (),
    ) -> None:
        """Write the state before a change durably, before the first request that changes it.

        :param members: the members that are going to be removed.
        :param configs: the configs of groups that are going to change.
        :param topics: internal topics that are going to be deleted.
        :raises PolicyRefused: it may not be changed.
        :raises JournalError: it can't be written: nothing may be changed then.
        """
        self._guard.admit_changes(changes)
        self._has_living |= any(_is_living(change) for change in changes)
        self._guard.admit(config.group for config in configs)
        if self._problem is not None:
            raise self._problem
        is_first = self.journal is None
        journal = self.journal or self._begin()
        try:
            journal.before(changes, members, configs, topics)
        except BaseException:
            if is_first:
                journal.discard()
            raise
        self.journal = journal
        self._recorded(journal.id)

    def _begin(self) -> Journal:
        header, url = self._header(), self._origin.journal_copy or os.environ.get(COPY_VARIABLE)
        if not url:
            return Journal(self._folder, header)
        copy = RemoteCopy(f"{check_url(url)}/{header.id}")

        def store(data: bytes) -> None:
            began = self._timer.monotonic()
            copy.put(data)
            self._session.loop.extend(self._timer.monotonic() - began)

        return Journal(self._folder, header, store)

    def _header(self) -> JournalHeader:
        said, settings, at_ms = self._origin, self._session.settings, self._timer.now_ms()
        user, host = user_and_host()
        return JournalHeader(
            id=make_id(at_ms, self._timer.token()),
            at_ms=at_ms,
            at=moment(at_ms),
            command=said.command,
            arguments=tuple(said.arguments),
            cluster_id=self._session.cluster_id,
            bootstrap_server=addresses(settings.bootstrap),
            user=user,
            host=host,
            pid=os.getpid(),
            kgtool=__version__,
            reason=said.reason,
            undoes=said.undoes,
            context=None if settings.context is None else settings.context.name,
        )

    # -- after ---------------------------------------------------------------------------

    def results(self, items: Iterable[Any]) -> None:
        """Write the result of each item: GroupDeletion, OffsetDeletion, ResetRow and the like.

        All have ``group``, ``status`` and ``error``; some a ``topic`` and ``partition``, a
        ``member``, or the ``name`` of a config.
        """
        if self.journal is None:
            return
        for item in items:
            if item.status == "skipped":
                continue  # the journal does not have it
            topic, partition, member, config = (
                getattr(item, key, None) for key in ("topic", "partition", "member", "name")
            )
            self.journal.result(
                item.group,
                topic,
                partition,
                item.status,
                item.error,
                member_id=None if member is None else member.member_id,
                config=config,
                kept=getattr(item, "noted", None),
            )
            for one in getattr(item, "topics", ()):
                if one.status not in ("kept", "would-delete"):
                    self.journal.result(one.group, one.topic, None, one.status, one.error)
        self.journal.flush()

    def _close(self) -> None:
        try:
            if self.journal is not None:
                state = INTERRUPTED if self._is_interrupted else DONE
                self.journal.close(state, self._timer.now_ms())
        finally:
            if self._locks is not None:
                self._locks.close()

    def say(self) -> None:
        """Say how to undo the change, and what is missing in the journal; once.

        Nothing where nothing was changed.
        """
        journal = self.journal
        if self._is_said or journal is None or journal.outcomes[FAILED] >= journal.changes:
            return
        self._is_said = True
        if journal.problem is not None:
            self._say(
                f"Warning: the journal {journal.path} is not complete "
                f"({journal.problem.strerror}); the offsets before the change are in it."
            )
        no_undo = NO_UNDO.get(self._origin.command)
        if no_undo is None:
            # It works without members, too.
            self._say(f"Undo: kgtool undo {journal.id}{' --as-member' * self._has_living}")
        elif no_undo.at_end:
            self._say(f"Journal {journal.id}: {no_undo.at_end}")


def _is_living(change: GroupChange) -> bool:
    """Whether only a member may commit to a group again."""
    return (
        change.image.exists and change.image.state not in ("Empty", "Dead") and bool(change.after)
    )


def make_id(at_ms: int, token: str) -> str:
    """Make an id that sorts by time."""
    return f"{datetime.fromtimestamp(at_ms // 1000, timezone.utc):%Y%m%d-%H%M%S}-{token}"


def user_and_host() -> tuple[str, str]:
    """Return the user and the host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return user, os.uname().nodename
