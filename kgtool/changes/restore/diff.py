"""Comparing the offsets of groups in files and clusters.

Neither side is ever in memory as a whole: a file is indexed by group, and both sides are then read
a few hundred groups at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kgtool.changes.journal.jsonl import Malformed, Source, groups, record_of, refusal
from kgtool.changes.snapshot import GroupChange, OffsetImage
from kgtool.errors import readable
from kgtool.model import CommittedOffset, TopicPartition, same_commit

MOVED, BACKWARDS, VANISHED, NEW, CHANGED, RECREATED = (
    "moved",
    "went-backwards",
    "vanished",
    "new",
    "changed",
    "topic-recreated",
)

OffsetImages = Mapping[TopicPartition, OffsetImage]


class DiffRow(NamedTuple):
    """One partition that is not the same on both sides.

    ``status``: ``moved`` (forwards), ``went-backwards``, ``vanished``, ``new``, ``changed`` (the
    same offset with other metadata or another leader epoch), ``topic-recreated`` (the offsets mean
    records of different topics that have one name).
    """

    group: str
    topic: str
    partition: int
    old: CommittedOffset | None
    new: CommittedOffset | None
    status: str

    @property
    def difference(self) -> int | None:
        """By how much the offset moved; None without two of them."""
        if self.old is None or self.new is None:
            return None
        return (self.new.offset or 0) - (self.old.offset or 0)


def compare(
    group: str, old: OffsetImages, new: OffsetImages, *, with_topic_ids: bool = True
) -> Iterator[DiffRow]:
    """Yield what differs between two states of a group, by topic and partition.

    :param with_topic_ids: both are of the same cluster, so that ids can be compared.
    """
    for partition in sorted({*old, *new}):
        before = old.get(partition, OffsetImage(None))
        after = new.get(partition, OffsetImage(None))
        status = _status(before, after, with_topic_ids)
        if status is not None:
            yield DiffRow(group, *partition, before.committed, after.committed, status)


def _status(before: OffsetImage, after: OffsetImage, with_topic_ids: bool) -> str | None:
    old, new = before.committed, after.committed
    if old is None or new is None:
        return None if old is new else NEW if old is None else VANISHED
    ids = (before.topic_id, after.topic_id)
    if with_topic_ids and None not in ids and ids[0] != ids[1]:
        return RECREATED
    if same_commit(old, new):
        return None
    if old.offset == new.offset:
        return CHANGED
    return MOVED if (new.offset or 0) > (old.offset or 0) else BACKWARDS


# ---------------------------------------------------------------------------------------------
# Files


class GroupFile:
    """A backup or a journal, indexed: where each group begins.

    :raises ConfigError: the file can't be read or holds no groups of kgtool.
    """

    def __init__(self, path: Source) -> None:
        self.path = path
        self.groups: dict[str, tuple[int, int]] = {}
        """Byte and line number of each group."""
        at = 0
        with readable(path), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                # Most lines are offsets, which need not be parsed yet.
                if not line.startswith(b'{"kind": "offset"'):
                    self._add(number, at, line)
                at += len(line)

    def _add(self, number: int, at: int, line: bytes) -> None:
        record = record_of(line)
        if record is None:
            if line.endswith(b"\n"):
                raise Malformed(f"{self.path}, line {number}: {refusal(line)}.")
            return
        if record.get("kind") != "group":
            return
        name = record.get("group")
        if not isinstance(name, str):
            raise Malformed(f"{self.path}, line {number}: group is missing.")
        if name in self.groups:
            raise Malformed(f"{self.path}, line {number}: group '{name}' appears twice.")
        self.groups[name] = (at, number)

    def read(self, group: str) -> GroupChange | None:
        """Return one group, None if the file does not have it."""
        where = self.groups.get(group)
        if where is None:
            return None
        at, number = where
        with self.path.open("rb") as file:
            file.seek(at)

            def lines() -> Iterator[tuple[int, dict[str, object]]]:
                for index, line in enumerate(file):
                    record = record_of(line)
                    if record is None or (index and record.get("kind") != "offset"):
                        return
                    yield number + index, record

            return next(groups(self.path, lines()), None)
