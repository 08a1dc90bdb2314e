"""The journal: one file for each action that changes a cluster, written before the change.

::

    {"kind": "journal", "kgtool_journal": 1, "id": "20260131-120000-1f2e", "command": "delete", …}
    {"kind": "group", …}            the state before, see ``kgtool.changes.journal.jsonl``
    {"kind": "offset", …}
    {"kind": "config", …}           a group's config: the value before, and the new one
    {"kind": "member", …}           a member that is going to be removed (remove-members)
    {"kind": "topic", …}            an internal topic that is going to be deleted with its group
    {"kind": "ready", …}            all of it is on the disk: requests may be sent now
    {"kind": "result", …}           the result of each item; outcome: done, failed, unknown
    {"kind": "end", "state": "done", …}
    {"kind": "undone", "by": "…"}   written by a later undo; "redone" by the undo of that undo

A file without an ``end`` is that of an action that was killed; the kernel drops the lock of its
writer with the process. Files are 0600: names and metadata are private.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.journal.folder import (
    UNNAMED,
    JournalError,
    make_folder,
    open_private,
    write_error,
)
from kgtool.changes.journal.jsonl import LineFile, append, dump, group_lines, record_of
from kgtool.changes.snapshot import GroupChange
from kgtool.durable import sync
from kgtool.model import InternalTopic, ItemError, TopicPartition
from kgtool.protocol.codes import is_refusal

VERSION = 1
SUFFIX = ".jsonl"

DONE, INTERRUPTED, UNDONE, RUNNING = "done", "interrupted", "undone", "running"
FAILED, UNKNOWN = "failed", "unknown"

_UNTOUCHED = ("CHANGED_MEANWHILE",)
_COUNTER = "sequence"

REMOVE_MEMBERS = "remove-members"
KEEP = "keep"


class NoUndo(NamedTuple):
    """What is said of a journal that can't be undone, or need not be: parts of sentences.

    ``refused``, with ``hint``: why ``undo`` refuses it; empty: it does not. ``at_end``: said after
    the change; empty: nothing is.
    """

    why: str
    refused: str = ""
    hint: str = ""
    at_end: str = ""


NO_UNDO = {
    REMOVE_MEMBERS: NoUndo(
        "removed members can't be restored",
        "removed members, which can't be undone.",
        "Running clients rejoin by themselves; start the others.",
        "lists the removed members; it can't be undone.",
    ),
    KEEP: NoUndo("the offsets are as they were"),
}
"""By command; the journals of all others are undone."""


class ConfigChange(NamedTuple):
    """The value of a group's config before and after; None: not set at the group."""

    group: str
    name: str
    before: str | None
    after: str | None


class JournalHeader(NamedTuple):
    """The first line of a journal. ``at_ms``: since the epoch.

    ``sequence`` numbers the journals of a folder in the order of their changes.
    """

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
    sequence: int = 0


class Journal:
    """A journal that is being written. Its file is locked as long as this process lives.

    After the first request was sent nothing here raises: the cluster has changed, and that is
    reported whatever the disk does; ``problem`` is then the error. Only whole lines stay in the
    file: a part that could not be written is cut off again.

    :param copy: stores appended bytes elsewhere too, each part before its change.
    """

    def __init__(
        self, folder: Path, header: JournalHeader, copy: Callable[[bytes], None] | None = None
    ) -> None:
        self.id = header.id
        self.path = folder / f"{header.id}{SUFFIX}"
        self.groups = 0
        self.changes = 0
        self.outcomes: Counter[str] = Counter()
        """How many changes are DONE, FAILED and UNKNOWN."""
        self.problem: OSError | None = None
        self._items: dict[str, Collection[TopicPartition]] = {}
        self._configs: set[tuple[str, str]] = set()
        self._folder = folder
        self._is_safe = self._is_closed = False
        self._copy, self._copied = copy, 0
        self._file = self._create(header)

    def _create(self, header: JournalHeader) -> LineFile:
        make_folder(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        # It gets its name once it has its first line and is locked: readers of the folder never
        # see an unidentified file.
        unnamed = self._folder / f".{header.id}{UNNAMED}"
        file = None
        try:
            header = header._replace(sequence=next_number(self._folder))
            file = LineFile(os.open(unnamed, flags, 0o600))
            fcntl.flock(file.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            head = {"kind": "journal", "kgtool_journal": VERSION, **header._asdict()}
            file.write(dump(head))
            file.flush()
            unnamed.rename(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                unnamed.unlink()
            if file is not None:
                file.close()
            raise self._write_error(error) from error
        return file

    def before(
        self,
        changes: Iterable[GroupChange],
        members: Iterable[Mapping[str, Any]] = (),
        configs: Collection[ConfigChange] = (),
        topics: Iterable[InternalTopic] = (),
    ) -> None:
        """Write durably what is about to be changed; may be called again for more of it.

        :param members: the members that are going to be removed; that can't be undone.
        :param configs: configs of groups that are going to change.
        :param topics: internal topics that are going to be deleted; that can't be undone.
        :raises JournalError: it can't be written; the caller must not change anything then.
        """
        with self._part():
            self._items, self._configs = {}, {(each.group, each.name) for each in configs}
            for change in changes:
                self._file.write(group_lines(change))
                self._items[change.image.group] = change.after.keys()
                self.groups += 1
                self.changes += len(change.after)
            for member in members:
                self._file.write(dump({"kind": "member", **member}))
                self.changes += 1
            for topic in topics:
                named = {
                    "group": topic.group,
                    "topic": topic.topic,
                    "topic_id": str(topic.topic_id),
                }
                self._file.write(dump({"kind": "topic", **named, "partitions": topic.partitions}))
            for config in configs:
                self._file.write(dump({"kind": "config", **config._asdict()}))
                self.changes += 1
            self.groups += len({config.group for config in configs})

    @contextlib.contextmanager
    def _part(self) -> Iterator[None]:
        """Write a part of the change durably, or not at all."""
        counts = self.groups, self.changes
        start: int | None = None
        try:
            self._file.flush()
            start = self._file.size
            yield
            ready = {"kind": "ready", "groups": self.groups, "changes": self.changes}
            self._file.write(dump(ready))
            self._file.sync()
            if not self._is_safe:
                sync(self._folder)
            self._copy_up()
        except BaseException as error:
            self.groups, self.changes = counts
            if start is not None:
                self._file.cut(start)
            if isinstance(error, OSError):
                raise self._write_error(error) from error
            raise
        self._is_safe = True

    def _copy_up(self) -> None:
        """Store what was appended since the last call.

        :raises JournalError: it can't be stored.
        """
        if self._copy is None:
            return
        with self.path.open("rb") as file:
            file.seek(self._copied)
            data = file.read()
        self._copy(data)
        self._copied += len(data)

    def result(
        self,
        group: str,
        topic: str | None,
        partition: int | None,
        status: str,
        error: ItemError | None = None,
        *,
        member_id: str | None = None,
        config: str | None = None,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the result of one item of the last ``before``, or of a whole group.

        :param kept: what ``kgtool.changes.journal.kept`` reads of an offset that was kept.
        """
        line: dict[str, Any] = {"kind": "result", "group": group}
        if topic is not None:
            line |= {"topic": topic, "partition": partition}
        if member_id is not None:
            line["member_id"] = member_id
        if config is not None:
            line["config"] = config
        # An item that was not going to be changed stands for no change.
        if config is not None:
            count = int((group, config) in self._configs)
        elif member_id is not None:
            count = 1
        elif topic is None:
            count = len(self._items.get(group, ()))
        else:
            count = int((topic, partition) in self._items.get(group, ()))
        outcome = outcome_of(status, error)
        self.outcomes[outcome] += count
        line |= {"status": status, "outcome": outcome}
        if kept is not None:
            line["kept"] = kept
        if error is not None:
            line["error"] = {"code": error.code, "name": error.name, "message": error.message}
        self._append(line)

    def close(self, state: str, at_ms: int) -> None:
        """Write how it ended, and release the file.

        ``changes`` of the end are those that were made or may have been made.
        """
        if self._is_closed:
            return
        line = {
            "kind": "end",
            "state": state,
            "at_ms": at_ms,
            "groups": self.groups,
            "changes": self.changes - self.outcomes[FAILED],
            "failed": self.outcomes[FAILED],
            "unknown": self.outcomes[UNKNOWN],
        }
        self._append(line)
        try:
            self._file.sync()
            self._copy_up()
        except OSError as error:
            self.problem = self.problem or error
        except JournalError as error:
            self.problem = self.problem or OSError(0, error.message.rstrip("."))
        self._close()

    def discard(self) -> None:
        """Remove the file: nothing was changed."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._file.close()

    def flush(self) -> None:
        """Hand the results to the system, so that they outlive this process."""
        try:
            self._file.flush()
        except OSError as error:
            self.problem = self.problem or error

    def _append(self, record: Mapping[str, Any]) -> None:
        try:
            self._file.write(dump(record))
        except OSError as error:
            self.problem = self.problem or error

    def _write_error(self, error: OSError) -> JournalError:
        return write_error(f"journal {self.path}", error, has_changed=self._is_safe)


def outcome_of(status: str, error: ItemError | None) -> str:
    """Return what a result means for undo: ``done``, ``failed`` or ``unknown``.

    Only what certainly changed nothing has failed: a refusal by the broker, and what was left
    alone because another client had changed it. Not so where a request that was never answered may
    still reach the broker.
    """
    if error is None:
        return UNKNOWN if status == UNKNOWN else DONE
    is_settled = status != UNKNOWN and not error.maybe_done
    if is_settled and (error.name in _UNTOUCHED or is_refusal(error.code or 0)):
        return FAILED
    return UNKNOWN


def next_number(folder: Path) -> int:
    """Return the next sequence number of a folder: clocks may go back, these never do.

    :raises OSError: it can't be stored.
    """
    number = open_private(folder / _COUNTER, os.O_RDWR)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        text = os.pread(number, 32, 0)
        last = int(text) if text.strip().isdigit() else _highest(folder)
        os.pwrite(number, b"%020d\n" % (last + 1), 0)
        os.fsync(number)
    finally:
        os.close(number)
    return last + 1


def _highest(folder: Path) -> int:
    """Return the highest sequence number in the journals of a folder whose counter is lost."""
    found = 0
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            sequence = (record_of(file.readline()) or {}).get("sequence")
            found = max(found, sequence) if isinstance(sequence, int) else found
    return found


def mark(path: Path, kind: str, by: str | None, at_ms: int) -> None:
    """Note in an older journal that it was ``undone`` (or ``redone``) by another one.

    :raises OSError: it can't be written.
    """
    append(path, dump({"kind": kind, "by": by, "at_ms": at_ms}))
