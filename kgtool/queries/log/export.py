"""The export of ``__consumer_offsets``: a directory with the broker's bytes and their context.

::

    DIR/cluster.json                                        what is needed to read it later
    DIR/segments/__consumer_offsets-N/<base offset>.log     record batches, unchanged

``cluster.json`` is written first, with the offsets that the export will reach; an export that was
interrupted continues from the last whole batch on disk to those same offsets, and is only then
``complete``. A file has at most ``FILE_BYTES`` and a batch, so that the analysis can run in
parallel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.client.cluster import NO_OFFSETS_TOPIC, Cluster, TopicInfo, fetch_metadata
from kgtool.client.ops import READING_SHARE, Operation, Versions, gather, within
from kgtool.durable import sync
from kgtool.errors import ConfigError, KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.capabilities import broker_release
from kgtool.protocol.wire import id_text
from kgtool.queries.cluster.broker_configs import broker_configs
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.fetch import Range, copy_partitions, whole_batches
from kgtool.queries.offsets.lag import LogEnds
from kgtool.queries.offsets.list_offsets import log_ends

FILE_BYTES = 256 * 1024 * 1024
CONFIGS = (
    "offsets.retention.minutes",
    "offsets.retention.check.interval.ms",
    "offsets.topic.num.partitions",
    "group.coordinator.rebalance.protocols",
    "group.coordinator.new.enable",
    "inter.broker.protocol.version",
)
EVERYTHING = 2**63 - 1


class Exported(NamedTuple):
    """The result of an export.

    ``errors``: one for each partition that is not complete; ``missing``: one for each part of the
    rest (groups, configs, the ends of logs) that no broker answered.
    """

    partitions: int
    bytes: int
    resumed: bool
    errors: list[ItemError]
    missing: Sequence[ItemError] = ()


class Description(NamedTuple):
    """``cluster.json``; the errors of its parts, and the partitions that can't be copied."""

    manifest: dict[str, Any]
    missing: list[ItemError]
    unread: dict[TopicPartition, KgError]


# ---------------------------------------------------------------------------------------------
# cluster.json


def describe_cluster(cluster: Cluster, taken_at_ms: int) -> Operation[Description]:
    """Collect the content of ``cluster.json``.

    :raises KgError: no broker answered, or the topic does not exist or may not be read.
    """
    yield from fetch_metadata(cluster, None)
    topic = cluster.topics.get(TOPIC)
    if topic is None or (topic.error is None and not topic.leaders):
        raise KgError(NO_OFFSETS_TOPIC)
    if topic.error is not None:
        raise topic.error
    # A copy: where leaders move, the cluster's own are looked up again.
    topics = {n: info for n, info in sorted(cluster.topics.items()) if info.error is None}
    wanted = [TopicPartition(n, p) for n, info in topics.items() for p in sorted(info.leaders)]
    asked = gather(
        [log_ends(cluster, wanted), broker_configs(cluster, CONFIGS), list_groups(cluster)]
    )
    # A broker that doesn't answer must leave time for copying from the others.
    ends, configs, listing = yield from within(asked, READING_SHARE)
    brokers = yield from within(_brokers(cluster), READING_SHARE)
    known = next((c for c in configs.values() if isinstance(c, dict)), {})
    refusals = (e.message for e in configs.values() if isinstance(e, KgError))
    manifest = {
        "kgtool_export": 1,
        "cluster_id": cluster.cluster_id,
        "taken_at_ms": taken_at_ms,
        "brokers": brokers,
        "coordinator": _coordinator(brokers, known),
        "configs": known,
        "configs_error": None if known else next(refusals, None),
        "topics": [_topic(info, ends) for info in topics.values()],
        "groups": [row._asdict() for row in listing.groups],
        "groups_missing": [error.message for error in listing.errors],
        "partitions": _partitions(topic, ends),
        "complete": False,
    }
    unread = {at: log.end for at, log in ends.items() if isinstance(log.end, KgError)}
    missing = [*listing.errors, *_unanswered(configs, unread)]
    return Description(manifest, missing, {p: e for p, e in unread.items() if p.topic == TOPIC})


def _unanswered(
    configs: Mapping[int, Any], unread: Mapping[TopicPartition, KgError]
) -> Iterator[ItemError]:
    """Yield an error for brokers without configs, and for topics without the ends of their logs.

    "Forbidden" and "no leader" are answers, which the manifest shows. Partitions of
    ``__consumer_offsets`` are reported where they are copied.
    """
    for broker, error in configs.items():
        if isinstance(error, KgError) and error.code != codes.CLUSTER_AUTHORIZATION_FAILED:
            yield ItemError.of(error, Target(broker=broker))
    answered = (codes.LEADER_NOT_AVAILABLE, codes.UNKNOWN_TOPIC_OR_PARTITION)
    topics = {partition.topic: error for partition, error in unread.items()}
    for topic, error in topics.items():
        if topic != TOPIC and error.code not in answered:
            yield ItemError.of(error, Target(topic=topic))


def _brokers(cluster: Cluster) -> Operation[list[dict[str, Any]]]:
    rows = []
    for broker in sorted(cluster.brokers.values()):
        offered = yield Versions(broker.id)
        version = None
        if not isinstance(offered, KgError):
            version = "{}.{}".format(*broker_release(offered))
        rows.append({"id": broker.id, "host": broker.host, "port": broker.port, "version": version})
    return rows


def _coordinator(brokers: list[dict[str, Any]], configs: Mapping[str, str | None]) -> str | None:
    """Return ``new`` or ``classic``, the coordinator's implementation; None where it is unknown.

    4.0 has only the new one, before 3.7 there was only the Scala one; in between it depends on the
    configuration (``group.coordinator.rebalance.protocols``, KRaft only).
    """
    versions = [tuple(map(int, row["version"].split("."))) for row in brokers if row["version"]]
    if not versions:
        return None
    if min(versions) >= (4, 0):
        return "new"
    if max(versions) < (3, 7):
        return "classic"
    protocols = configs.get("group.coordinator.rebalance.protocols")
    if protocols is None:
        return None
    enabled = configs.get("group.coordinator.new.enable") == "true"
    return "new" if enabled or "consumer" in protocols else "classic"


def _topic(info: TopicInfo, ends: Mapping[TopicPartition, LogEnds]) -> dict[str, Any]:
    logs = ((number, ends[TopicPartition(info.name, number)]) for number in sorted(info.leaders))
    partitions = [
        {
            "partition": number,
            "log_start_offset": log.start,
            "log_end_offset": log.end if isinstance(log.end, int) else None,
        }
        for number, log in logs
    ]
    return {"name": info.name, "topic_id": id_text(info.topic_id), "partitions": partitions}


def _partitions(info: TopicInfo, ends: Mapping[TopicPartition, LogEnds]) -> list[dict[str, Any]]:
    rows = []
    for number in sorted(info.leaders):
        start, end, _ = ends[TopicPartition(TOPIC, number)]
        error = end if isinstance(end, KgError) else None
        rows.append(
            {
                "partition": number,
                "start_offset": None if error else start,
                "end_offset": None if error else end,
                "complete": False,
                "error": error.message if error else None,
            }
        )
    return rows


# ---------------------------------------------------------------------------------------------
# The directory


_TEMPORARY = "cluster.json.tmp"
"""Alone in its folder: left by an export that stopped before its first batch."""


class ExportDirectory:
    """The files of an export, new or interrupted.

    :raises ConfigError: the folder holds something else, or a finished export.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] | None = None
        self.bytes = 0
        self._files: dict[TopicPartition, Any] = {}
        self._reached: dict[TopicPartition, int] = {}
        if path.exists() and not path.is_dir():
            raise ConfigError(f"{path} is a file: name a folder for the export.")
        if path.is_dir() and any(entry.name != _TEMPORARY for entry in path.iterdir()):
            self.manifest = self._read_manifest()

    def _read_manifest(self) -> dict[str, Any]:
        what = f"The folder {self.path} is not empty and is not an export that was interrupted"
        try:
            manifest = json.loads((self.path / "cluster.json").read_text(encoding="utf-8"))
            interrupted = manifest["kgtool_export"] == 1 and not manifest["complete"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise ConfigError(f"{what}.", hint="Name a new folder for --out.") from exc
        if not interrupted:
            raise ConfigError(
                f"The folder {self.path} holds a finished export.",
                hint="Name a new folder for --out.",
            )
        return manifest  # type: ignore[no-any-return]

    def begin(self, manifest: dict[str, Any]) -> None:
        """Write ``cluster.json`` before the first batch; keep the one of an interrupted export.

        :raises ConfigError: the interrupted export is of another cluster.
        """
        if self.manifest is None:
            self.manifest = manifest
            self._save()
        elif self.manifest["cluster_id"] != manifest["cluster_id"]:
            raise ConfigError(
                f"The folder {self.path} holds an interrupted export of cluster "
                f"{self.manifest['cluster_id']}, and this is {manifest['cluster_id']}.",
                hint="Name a new folder for --out.",
            )
        else:  # partitions that had no leader then may have one now
            fresh = {row["partition"]: row for row in manifest["partitions"]}
            self.manifest["partitions"] = [
                row if row["start_offset"] is not None else fresh.get(row["partition"], row)
                for row in self.manifest["partitions"]
            ]

    def _save(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        # A value a line, for people and diff; json writes an indentation twenty times slower.
        text = json.dumps(self.manifest, separators=(",\n", ": "))
        temporary = self.path / _TEMPORARY
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / "cluster.json")
        sync(self.path)

    def ranges(self) -> dict[TopicPartition, Range]:
        """Return what is still to be copied, after what is already on disk."""
        assert self.manifest is not None
        wanted: dict[TopicPartition, Range] = {}
        for row in self.manifest["partitions"]:
            if row["start_offset"] is None:
                continue
            partition = TopicPartition(TOPIC, row["partition"])
            start = max(row["start_offset"], self._resume(partition))
            wanted[partition] = Range(start, row["end_offset"])
        return wanted

    def _folder(self, partition: TopicPartition) -> Path:
        return self.path / "segments" / str(partition)

    def _resume(self, partition: TopicPartition) -> int:
        """Cut a half-written batch off the newest file and return the offset after it."""
        folder = self._folder(partition)
        for file in sorted(folder.glob("*.log"), reverse=True) if folder.is_dir() else ():
            size, following = whole_batches(file.read_bytes(), EVERYTHING)
            if size:
                os.truncate(file, size)
                return following
            file.unlink()
        return 0

    def write(self, partition: TopicPartition, base: int, data: bytes) -> None:
        """Append whole batches (a ``Sink`` of ``copy_partitions``)."""
        file = self._files.get(partition)
        if file is None or file.tell() >= FILE_BYTES:
            if file is not None:
                file.close()
            folder = self._folder(partition)
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / f"{base:020}.log").open("ab")
            self._files[partition] = file
        file.write(data)
        self.bytes += len(data)
        self._reached[partition] = base

    @property
    def part(self) -> float:
        """The share of all offsets that is copied, 0 to 1."""
        rows = self.manifest["partitions"] if self.manifest is not None else []
        known = [row for row in rows if row["start_offset"] is not None]
        total = sum(row["end_offset"] - row["start_offset"] for row in known)
        reached = dict(self._reached)  # the export goes on meanwhile
        starts = {TopicPartition(TOPIC, row["partition"]): row["start_offset"] for row in known}
        done = sum(reached.get(at, start) - start for at, start in starts.items())
        return done / total if total else 0.0

    def _sync(self) -> None:
        """Sync everything to disk, also what an interrupted run had written."""
        segments = self.path / "segments"
        for path in (*segments.glob("*/*.log"), *segments.glob("*"), segments):
            if path.exists():
                sync(path)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def finish(self, outcome: Mapping[TopicPartition, KgError | None]) -> list[ItemError]:
        """Record how far each partition came; ``complete`` only if nothing is missing."""
        assert self.manifest is not None
        self.close()
        errors = []
        for row in self.manifest["partitions"]:
            partition = TopicPartition(TOPIC, row["partition"])
            error = outcome.get(partition)
            if partition not in outcome:
                message = row["error"] or "not read"
                errors.append(ItemError(Target(None, *partition), None, "UNREACHABLE", message))
                continue
            row["complete"] = error is None
            row["error"] = error.message if error else None
            if error is not None:
                errors.append(ItemError.of(error, Target(None, *partition)))
        self._sync()  # "complete" must not reach the disk before the segments
        self.manifest["complete"] = not errors
        self._save()
        return errors


def export(cluster: Cluster, directory: ExportDirectory, taken_at_ms: int) -> Operation[Exported]:
    """Export ``__consumer_offsets`` into a directory, or finish an export that was interrupted.

    :raises KgError: nothing could be exported.
    """
    resumed = directory.manifest is not None
    known = yield from describe_cluster(cluster, taken_at_ms)
    directory.begin(known.manifest)
    ranges = directory.ranges()
    try:
        outcome = yield from copy_partitions(cluster, ranges, directory.write)
    finally:
        directory.close()
    failed = directory.finish({**known.unread, **outcome})
    assert directory.manifest is not None
    count = len(directory.manifest["partitions"])
    return Exported(count, directory.bytes, resumed, failed, known.missing)
