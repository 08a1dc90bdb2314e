"""Translation of offsets to a cluster whose logs hold the same records at other offsets.

By the times of records (``backup --times``), or by the checkpoints that MirrorMaker 2 writes on the
target. Both may lead back to records that were read already, never past one that was not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kgtool.changes.restore.backup import Backup
from kgtool.changes.restore.decide import DesiredGroup, DesiredOffset
from kgtool.changes.session import Session
from kgtool.changes.snapshot import OffsetImage
from kgtool.client.cluster import fetch_metadata
from kgtool.errors import ConfigError, KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.offsets.list_offsets import LogPoint, log_ranges
from kgtool.queries.peek import Window, read_window


class Untranslated(KgError):
    """An offset's position on the target is unknown."""

    name = "UNTRANSLATED"


Points = Callable[[DesiredGroup], Mapping[TopicPartition, "LogPoint | KgError"]]
"""Returns the position of each partition of a group on the target."""


class Translator:
    """Translates desired offsets. Each group once: what was shown is what is done.

    :param failed: called with what can't be translated, which is left out.
    """

    def __init__(self, points: Points, failed: Callable[[ItemError], None]) -> None:
        self._points = points
        self._failed = failed
        self._known: dict[str, DesiredGroup] = {}

    def translate(self, found: Iterable[DesiredGroup]) -> Iterator[DesiredGroup]:
        """Yield the groups with offsets of the target's logs."""
        for desired in found:
            if desired.group not in self._known:
                self._known[desired.group] = self._translated(desired)
            yield self._known[desired.group]

    def _translated(self, desired: DesiredGroup) -> DesiredGroup:
        points = self._points(desired)
        translated: dict[TopicPartition, DesiredOffset] = {}
        for partition, one in desired.offsets.items():
            point, committed = points[partition], one.then.committed
            if isinstance(point, KgError):
                self._failed(ItemError.of(point, Target(desired.group, *partition)))
            elif committed is not None:
                committed = committed._replace(offset=point.offset, leader_epoch=point.leader_epoch)
                translated[partition] = one._replace(then=OffsetImage(committed))
        return desired._replace(offsets=translated)


def by_time(session: Session, backup: Backup) -> Points:
    """Translate to the first record at or after the time of the last one that was read.

    :raises ConfigError: the backup was made without times.
    """
    if backup.header.get("times") is not True:
        raise ConfigError(
            f"{backup.file} has no times of records, so --by-time can't be used.",
            hint="kgtool backup --times makes one that has.",
        )
    unknown = Untranslated("The backup does not say when its last record was written.")

    def points(desired: DesiredGroup) -> Mapping[TopicPartition, LogPoint | KgError]:
        known = {at: one.then.time_ms for at, one in desired.offsets.items()}
        times = {at: time_ms for at, time_ms in known.items() if time_ms is not None}
        logs = session.run(log_ranges(session.cluster, times, times)) if times else {}
        found = {partition: logs.get(partition, unknown) for partition in desired.offsets}
        return {
            partition: log if isinstance(log, KgError) else log.at_time or log.end
            for partition, log in found.items()
        }

    return points


class Checkpoint(NamedTuple):
    """A checkpoint of MirrorMaker: an offset of the source and its counterpart on the target."""

    upstream: int
    downstream: int


def by_checkpoints(session: Session, topic: str) -> Points:
    """Translate by the newest checkpoint that is not beyond the offset.

    :param topic: ``SOURCE.checkpoints.internal``, on the target.
    :raises KgError: it can't be read.
    """
    checkpoints = _read(session, topic)

    def points(desired: DesiredGroup) -> Mapping[TopicPartition, LogPoint | KgError]:
        found: dict[TopicPartition, LogPoint | KgError] = {}
        for at, one in desired.offsets.items():
            offset = one.then.committed.offset if one.then.committed is not None else None
            known = checkpoints.get((desired.then.group, at), [])
            fitting = [each for each in known if offset is not None and each.upstream <= offset]
            if fitting:
                found[at] = LogPoint(max(fitting).downstream, None)
            else:
                found[at] = Untranslated(f"{topic} has no checkpoint at or before offset {offset}.")
        return found

    return points


_Known = dict[tuple[str, TopicPartition], list[Checkpoint]]


def _read(session: Session, topic: str) -> _Known:
    session.run(fetch_metadata(session.cluster, [topic]))
    known = session.cluster.topics.get(topic)
    count = len(known.leaders) if known is not None and not known.error else 0
    partitions = [TopicPartition(topic, number) for number in range(count)]
    if not partitions:
        raise Untranslated(f"There is no topic {topic} with checkpoints on this cluster.")
    found: _Known = {}
    for partition, log in session.run(log_ranges(session.cluster, partitions)).items():
        if isinstance(log, KgError):
            raise log
        start, end = log.start.offset, log.end.offset
        window = Window(partition, start, end, start, 0, end - start)
        records = session.run(read_window(session.cluster, window)) if end > start else []
        for record in records:
            if record.key is not None and record.value is not None:
                key, checkpoint = decode(record.key, record.value)
                found.setdefault(key, []).append(checkpoint)
    return found


def decode(key: bytes, value: bytes) -> tuple[tuple[str, TopicPartition], Checkpoint]:
    """Decode a checkpoint of ``org.apache.kafka.connect.mirror.Checkpoint``.

    :raises Untranslated: it is something else, or of a later version.
    """
    try:
        group, at = _text(key, 0)
        topic, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        version, upstream, downstream = struct.unpack_from(">hqq", value)
    except (struct.error, UnicodeDecodeError) as error:
        raise Untranslated("The topic holds something else than checkpoints.") from error
    if version != 0:
        raise Untranslated(f"The topic holds checkpoints of version {version}; kgtool knows 0.")
    return (group, TopicPartition(topic, partition)), Checkpoint(upstream, downstream)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise struct.error("no text")
    return data[at + 2 : end].decode("utf-8"), end
