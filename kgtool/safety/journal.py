"""The journal: one file for each action that changes a cluster, written before it is done.

::

    {"kind": "journal", "kgtool_journal": 1, "id": "20260131-120000-1f2e", "command": "delete", …}
    {"kind": "group", …}            what was there, see ``kgtool.safety.lines``
    {"kind": "offset", …}
    {"kind": "config", …}           a group's config: what is set there, and what is to be
    {"kind": "member", …}           who is going to be removed from the group (remove-members)
    {"kind": "ready", …}            all of it is on the disk: requests may leave now
    {"kind": "result", …}           what the broker answered, item by item
    {"kind": "end", "state": "done", …}
    {"kind": "undone", "by": "…"}   written by a later undo; "redone" by the undo of that undo

A file without an ``end`` is that of an action that was killed; the kernel drops the lock of its
writer with the process. Files are 0600: names and metadata are the users' own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from kgtool.admin.images import GroupChange
from kgtool.errors import KgError
from kgtool.model import ItemError, TopicPartition
from kgtool.safety.lines import Recorded, dump, group_lines

VERSION = 1
SUFFIX = ".jsonl"
UNNAMED = ".new"
FOLDER_VARIABLE = "KGTOOL_JOURNAL_DIR"

DONE, INTERRUPTED, UNDONE, RUNNING = "done", "interrupted", "undone", "running"


REMOVE_MEMBERS = "remove-members"
"""The command that leaves a journal which nothing can take back."""


class JournalError(KgError):
    """The journal can't be written, so nothing is changed."""

    name = "JOURNAL"


class ConfigChange(NamedTuple):
    """What a config of a group is, and what it is to be; None: not set at the group."""

    group: str
    name: str
    before: str | None
    after: str | None


class Header(NamedTuple):
    """Who does what, where and when: the first line of a journal. ``at_ms``: since the epoch."""

    id: str
    at_ms: int
    at: str
    command: str
    arguments: tuple[str, ...]
    cluster_id: str | None
    bootstrap_server: str
    user: str
    host: str
    pid: int
    kgtool: str
    reason: str | None = None
    undoes: str | None = None
    context: str | None = None


def default_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder of the journals: ``KGTOOL_JOURNAL_DIR``, or in the user's state folder."""
    chosen = environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    state = Path(environ.get("XDG_STATE_HOME", ""))
    # The XDG specification says that relative values are to be ignored.
    return (state if state.is_absolute() else home / ".local" / "state") / "kgtool" / "journal"


def make_folder(folder: Path) -> None:
    """Create the folder of the journals, for nobody but its owner.

    :raises JournalError: that is impossible.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from error


class Journal:
    """A journal that is being written. Its file is locked as long as this process lives.

    After the first request has left nothing here raises: the cluster has changed, and that is to
    be reported whatever the disk does. ``problem`` is then what went wrong.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        self.id = header.id
        self.path = folder / f"{header.id}{SUFFIX}"
        self.groups = 0
        self.changes = 0
        self.failed = 0
        self.problem: OSError | None = None
        self._items: dict[str, Collection[TopicPartition]] = {}
        self._folder = folder
        self._is_safe = False
        self._file = self._create(header)

    def _create(self, header: Header) -> BinaryIO:
        make_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        # Under its own name only with its first line in it and locked: whoever reads the folder
        # never meets a file that can't be told from any other.
        unnamed = self._folder / f".{header.id}{UNNAMED}"
        try:
            number = os.open(unnamed, flags, 0o600)
            file = open(number, "wb")  # noqa: SIM115, PTH123 - it stays open until close()
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            head = {"kind": "journal", "kgtool_journal": VERSION, **header._asdict()}
            file.write(dump(head).encode("ascii"))
            file.flush()
            unnamed.rename(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                unnamed.unlink()
            raise _refused(self.path, error) from error
        return file

    def before(
        self, changes: Iterable[GroupChange], members: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        """Put on the disk what is about to be changed; may be called again for more of it.

        :param members: who is going to be removed from these groups; that can't be undone.
        :raises JournalError: it isn't there; the caller must not change anything then.
        """
        try:
            self._items = {}
            for change in changes:
                recorded = Recorded(change.image, change.after, change.deletes_group)
                self._file.write(group_lines(recorded).encode("ascii"))
                self._items[change.image.group] = change.after.keys()
                self.groups += 1
                self.changes += len(change.after)
            for member in members:
                self._file.write(dump({"kind": "member", **member}).encode("ascii"))
                self.changes += 1
            self._be_ready()
        except OSError as error:
            raise _refused(self.path, error) from error

    def before_configs(self, changes: Collection[ConfigChange]) -> None:
        """Put on the disk which configs of groups are about to be changed.

        :raises JournalError: they aren't there; the caller must not change anything then.
        """
        try:
            for change in changes:
                line = {"kind": "config", **change._asdict()}
                self._file.write(dump(line).encode("ascii"))
            self.groups += len({change.group for change in changes})
            self.changes += len(changes)
            self._be_ready()
        except OSError as error:
            raise _refused(self.path, error) from error

    def _be_ready(self) -> None:
        ready = {"kind": "ready", "groups": self.groups, "changes": self.changes}
        self._file.write(dump(ready).encode("ascii"))
        self._file.flush()
        os.fsync(self._file.fileno())
        if not self._is_safe:
            sync_folder(self._folder)
            self._is_safe = True

    def result(
        self, group: str, topic: str | None, partition: int | None, status: str,
        error: ItemError | None = None, member_id: str | None = None,
    ) -> None:  # fmt: skip
        """Write down what came of one item of the last ``before``, or of a whole group."""
        line: dict[str, Any] = {"kind": "result", "group": group}
        if topic is not None:
            line |= {"topic": topic, "partition": partition}
        if member_id is not None:
            line["member_id"] = member_id
        line["status"] = status
        if error is not None:
            self.failed += 1 if member_id else self._count(group, topic, partition)
            line["error"] = {"code": error.code, "name": error.name, "message": error.message}
        self._append(dump(line))

    def config_result(self, group: str, name: str, status: str, error: ItemError | None) -> None:
        """Write down what came of one config of a group."""
        line: dict[str, Any] = {"kind": "result", "group": group, "config": name, "status": status}
        if error is not None:
            self.failed += 1
            line["error"] = {"code": error.code, "name": error.name, "message": error.message}
        self._append(dump(line))

    def _count(self, group: str, topic: str | None, partition: int | None) -> int:
        """Return for how many changes an item stands: none, if it was not going to be changed."""
        items = self._items.get(group, ())
        if topic is None:
            return len(items)
        return int(partition is not None and TopicPartition(topic, partition) in items)

    def close(self, state: str, at_ms: int) -> None:
        """Say how it ended, and let others have the file."""
        if self._file.closed:
            return
        line = {
            "kind": "end",
            "state": state,
            "at_ms": at_ms,
            "groups": self.groups,
            "changes": self.changes - self.failed,
            "failed": self.failed,
        }
        self._append(dump(line))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self.problem = self.problem or error
        with contextlib.suppress(OSError):  # what could not be written is tried again by close
            self._file.close()

    def discard(self) -> None:
        """Remove the file: nothing was changed."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        with contextlib.suppress(OSError):
            self._file.close()

    def _append(self, line: str) -> None:
        try:
            self._file.write(line.encode("ascii"))
        except OSError as error:
            self.problem = self.problem or error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder as durable as the files; some file systems do it by themselves."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(number)


def _refused(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"The journal {path} can't be written ({error.strerror}), so nothing was changed.",
        hint=f"Make room, or name another folder with {FOLDER_VARIABLE}.",
    )


def mark(path: Path, kind: str, by: str | None, at_ms: int) -> None:
    """Note in an older journal that it was ``undone`` (or ``redone``) by another one.

    :raises OSError: it can't be written, which takes nothing from what was done.
    """
    line = dump({"kind": kind, "by": by, "at_ms": at_ms}).encode("ascii")
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        _drop_torn_line(number)
        os.write(number, line)
        os.fsync(number)
    finally:
        os.close(number)


def _drop_torn_line(number: int) -> None:
    """Cut off what a killed writer left of its last line: it would garble the next one."""
    size = os.fstat(number).st_size
    keep = size
    while keep:
        start = max(0, keep - 65536)
        at = os.pread(number, keep - start, start).rfind(b"\n")
        keep = start if at < 0 else start + at + 1
        if at >= 0:
            break
    if keep < size:
        os.ftruncate(number, keep)
