"""Backups: the offsets of groups in one file of JSON Lines.

::

    {"kind": "backup", "kgtool_backup": 1, "cluster_id": "…", "at_ms": …, "selection": {…}}
    {"kind": "group", …}  {"kind": "offset", …}  …     see ``kgtool.changes.journal.jsonl``
    {"kind": "error", "group": "…", …}                  what could not be read
    {"kind": "end", "groups": 3, "offsets": 7, "errors": 0}

Written group by group, so that ten thousand of them need no more memory than a few hundred; the
file gets its name only when it is complete. One without an ``end`` was cut off and is refused.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkstemp
from typing import Any, BinaryIO, NamedTuple

from kgtool import __version__
from kgtool.changes.journal.jsonl import (
    Malformed,
    dump,
    first_record,
    group_lines,
    groups,
    record_of,
    records,
    typed,
)
from kgtool.changes.restore.decide import DesiredGroup, DesiredOffset
from kgtool.changes.session import Session
from kgtool.changes.snapshot import GroupChange, GroupImage, read_groups
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.durable import sync
from kgtool.errors import ConfigError, KgError, UsageError
from kgtool.held import SILENT_MS, HeldFile, hold
from kgtool.json_rows import shown
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.offsets.fetch import AdaptiveBatches
from kgtool.queries.offsets.time_lag import times_before
from kgtool.text import moment

VERSION = 1
TAIL_BYTES = 64 * 1024


class BackupError(KgError):
    """The backup can't be written."""

    name = "BACKUP"


class BackupWriter:
    """Writes a backup: a context manager that leaves nothing behind unless it is finished.

    :param path: the file; it appears there complete, or not at all.
    :param header: cluster, time and selection, as the first line has them.
    :param stream: written to instead.
    :raises BackupError: the file can't be written.
    """

    def __init__(
        self, path: Path, header: Mapping[str, Any], stream: BinaryIO | None = None
    ) -> None:
        self.path = path
        self.groups = 0
        self.offsets = 0
        self.errors = 0
        self.bytes = 0
        self._is_stream = stream is not None
        self._file = stream if stream is not None else self._open()
        self._write(dump({"kind": "backup", "kgtool_backup": VERSION, **header}))

    def _open(self) -> BinaryIO:
        # Nobody can have made it before, in a shared folder: it is new, 0600 and ours.
        try:
            number, name = mkstemp(".new", f".{self.path.name[:60]}.", self.path.parent)
        except OSError as error:
            raise self._failed(error) from error
        self._unfinished = Path(name)
        return open(number, "wb")  # noqa: SIM115, PTH123 - closed by finish or by __exit__

    def __enter__(self) -> BackupWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_stream:
            return
        with contextlib.suppress(OSError):
            self._unfinished.unlink()
        with contextlib.suppress(OSError):
            self._file.close()

    def group(self, image: GroupImage) -> None:
        """Add one group."""
        self._write(group_lines(GroupChange(image, {})))
        self.groups += 1
        self.offsets += len(image.offsets)

    def error(self, error: ItemError) -> None:
        """Note what could not be read."""
        target = error.target
        self._write(
            dump(
                {
                    "kind": "error",
                    "group": target.group,
                    "topic": target.topic,
                    "partition": target.partition,
                    "broker": target.broker,
                    "name": error.name,
                    "message": error.message,
                }
            )
        )
        self.errors += 1

    def finish(self) -> None:
        """Complete the file, durably.

        :raises BackupError: it can't be written.
        """
        counts = {"groups": self.groups, "offsets": self.offsets, "errors": self.errors}
        self._write(dump({"kind": "end", **counts}))
        try:
            self._file.flush()
            if not self._is_stream:
                os.fsync(self._file.fileno())
                self._file.close()
                self._unfinished.replace(self.path)
                sync(self.path.parent)
        except OSError as error:
            raise self._failed(error) from error

    def _write(self, line: str) -> None:
        try:
            self.bytes += self._file.write(line.encode("ascii"))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> BackupError:
        return BackupError(f"The backup {self.path} can't be written: {error.strerror}.")


def header_of(
    cluster_id: str | None, at_ms: int, selection: Mapping[str, Any], *, times: bool = False
) -> dict[str, Any]:
    """Return the first line's fields: the cluster, the time, and the chosen groups."""
    header = {"cluster_id": cluster_id, "at_ms": at_ms, "at": moment(at_ms), "kgtool": __version__}
    return {**header, "selection": dict(selection), **({"times": True} if times else {})}


def save(
    session: Session,
    writer: BackupWriter,
    groups: Sequence[str],
    failed: Callable[[ItemError], None],
    *,
    times: bool = False,
) -> None:
    """Read groups and write them, some at a time.

    :param failed: called with what can't be read.
    :param times: with the time of the last record before each offset.
    """
    waves = AdaptiveBatches(groups)
    while part := waves.next():
        saved = writer.offsets
        for group, reading in session.run(read_groups(session.cluster, part)).items():
            errors = list(reading.errors)
            if reading.description.error is not None and not errors:
                errors = [reading.description.error]
            for error in errors:
                writer.error(error)
                failed(error)
            # Topics that may not be seen are missing; the others are saved.
            is_read = all(
                error.target.topic is not None or error.name == "TOPIC_AUTHORIZATION_FAILED"
                for error in errors
            )
            if is_read and group == reading.image.group:
                image = reading.image
                if times:
                    image, unread = session.run(_with_times(session.cluster, image))
                    for error in unread:
                        writer.error(error)
                        failed(error)
                writer.group(image)
        waves.learn(len(part), writer.offsets - saved)


def _with_times(
    cluster: Cluster, image: GroupImage
) -> Operation[tuple[GroupImage, list[ItemError]]]:
    """Add the time of the last record before each offset."""
    places = {
        partition: (one.committed.offset, one.log_start or 0)
        for partition, one in image.offsets.items()
        if one.committed is not None and one.committed.offset is not None
    }
    found = yield from times_before(cluster, places)
    offsets, errors = dict(image.offsets), []
    for partition, at in found.items():
        if isinstance(at, KgError):
            errors.append(ItemError.of(at, Target(image.group, *partition)))
        else:
            offsets[partition] = offsets[partition]._replace(time_ms=at)
    return image._replace(offsets=offsets), errors


# ---------------------------------------------------------------------------------------------
# Reading


class Backup(NamedTuple):
    """A backup that is complete, by its first and its last line."""

    file: HeldFile
    cluster_id: str | None
    header: Mapping[str, Any]
    group_count: int
    offset_count: int
    error_count: int

    def groups(self) -> Iterator[GroupChange]:
        """Yield the groups.

        :raises ConfigError: a line can't be parsed, or the counts of the last line differ.
        """
        found = offsets = 0
        for recorded in groups(self.file, records(self.file)):
            found += 1
            offsets += len(recorded.image.offsets)
            yield recorded
        if (found, offsets) != (self.group_count, self.offset_count):
            raise ConfigError(
                f"{self.file} has {found} groups with {offsets} offsets, but its last line counts "
                f"{self.group_count} with {self.offset_count}: something is missing, or was "
                "added without being counted."
            )


def open_backup(path: Path, timeout_ms: int | None = SILENT_MS) -> Backup:
    """Read a backup, and hold its content.

    :param timeout_ms: how long a pipe may be silent.
    :raises ConfigError: it is not a backup, was cut off, or was written by a newer kgtool.
    """
    return of_file(hold(path, timeout_ms))


def of_file(file: HeldFile) -> Backup:
    """Read the first and the last line of a backup (ConfigError)."""
    header = first_record(file, "backup")
    version = header.get("kgtool_backup")
    if header.get("kind") != "backup" or not isinstance(version, int):
        hint = "kgtool undo --from FILE takes journals." if "kgtool_journal" in header else None
        raise ConfigError(f"{file} is not a kgtool backup.", hint=hint)
    if version > VERSION:
        raise ConfigError(f"{file} was written by a newer kgtool (format {shown(version)}).")
    end = _end(file)
    try:
        cluster_id = typed(header, "cluster_id", str, none=True)
        counts = [typed(end, name, int) for name in ("groups", "offsets", "errors")]
    except (KeyError, ValueError) as error:
        raise Malformed(f"{file} is not whole: the backup was cut off before its end.") from error
    return Backup(file, cluster_id, header, *counts)


def _end(file: HeldFile) -> dict[str, Any]:
    with file.open() as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - TAIL_BYTES))
        lines = opened.read().split(b"\n")
    record = record_of(next((line for line in reversed(lines) if line.strip()), b"")) or {}
    return record if record.get("kind") == "end" else {}


# ---------------------------------------------------------------------------------------------
# Restoring


class BackupSelection(NamedTuple):
    """The groups and partitions of a backup to restore, by their names in the file.

    :param group_names: new names of groups; the others keep theirs.
    :param topic_names: new names of topics.
    :param is_other_cluster: topic ids of one cluster mean nothing on another.
    """

    group: Callable[[str], bool]
    partition: Callable[[TopicPartition], bool]
    group_names: Mapping[str, str] = {}
    topic_names: Mapping[str, str] = {}
    is_other_cluster: bool = False


def desired_groups(backup: Backup, selecting: BackupSelection) -> Iterator[DesiredGroup]:
    """Read the groups to restore.

    :raises UsageError: two topics of a group would get the same name.
    """
    for recorded in backup.groups():
        image = recorded.image
        if not selecting.group(image.group):
            continue
        found: dict[TopicPartition, DesiredOffset] = {}
        for partition, then in image.offsets.items():
            if then.committed is None or not selecting.partition(partition):
                continue
            name = selecting.topic_names.get(partition.topic, partition.topic)
            target = TopicPartition(name, partition.partition)
            if target in found:
                raise UsageError(
                    f"Group '{image.group}' has offsets of two topics that would both be "
                    f"'{name}' (--map-topic)."
                )
            if name != partition.topic or selecting.is_other_cluster:
                # Leader epochs mean something in their own topic only.
                committed = then.committed._replace(leader_epoch=None)
                then = then._replace(topic_id=None, committed=committed)
            found[target] = DesiredOffset(then, any_left=True)
        yield DesiredGroup(selecting.group_names.get(image.group, image.group), found, image)


def mapping(pairs: Collection[str], option: str) -> dict[str, str]:
    """Parse ``OLD=NEW`` arguments; an old name can't have ``=`` in it.

    :raises UsageError: something else, or an old name that appears twice.
    """
    names: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old or not new:
            raise UsageError(f"--{option} takes OLD=NEW, not '{pair}'.")
        if old in names:
            raise UsageError(f"--{option} has two new names for '{old}'.")
        names[old] = new
    return names
