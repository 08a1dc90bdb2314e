"""A live cluster as input: every executor fetches partitions of its own, nothing passes the driver.

The driver asks the cluster what ``kgtool export`` asks it, up to where each partition goes; a
worker copies one partition's batches by raw Fetch, and decodes them from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from kgtool.analysis.decode.parts import REASON_UNREADABLE, Part
from kgtool.analysis.decode.segments import Note, chunks
from kgtool.analysis.input import formats
from kgtool.analysis.input.inputs import TOPIC, InputFile, Inputs
from kgtool.client.cluster import fetch_metadata
from kgtool.errors import ConfigError, KgError
from kgtool.model import TopicPartition
from kgtool.net.session import Session
from kgtool.queries.log.export import describe_cluster
from kgtool.queries.log.fetch import Range, copy_partitions

IN_MEMORY_BYTES = 64 << 20
"""Of a partition; a larger one is copied to a file without a name."""


def find_cluster(settings: Any, now_ms: int) -> Inputs:
    """The partitions of ``__consumer_offsets``, and what cluster.json of an export would say.

    ``settings`` are a ``kgtool.config.Settings``, here and below.

    Raises NetworkError if no broker answers, ConfigError if there is nothing to read.
    """
    with Session(settings, progress=True) as session:
        manifest, missing, _ = session.run(describe_cluster(session.cluster, now_ms))
    host, port = settings.bootstrap[0]
    where = f"{host}:{port}"
    files, problems = [], [f"{where}: {error.message}" for error in missing]
    for row in manifest["partitions"]:
        path = f"{where}/{TOPIC}-{row['partition']}"
        if row["start_offset"] is None:
            problems.append(f"{path} can't be read: {row['error']}")
        elif row["end_offset"] > row["start_offset"]:
            files.append(
                InputFile(
                    path, formats.CLUSTER.name, row["partition"], row["start_offset"],
                    row["end_offset"], root=where,
                )
            )  # fmt: skip
    if problems and not files:
        raise ConfigError(" ".join(problems))
    notes = [] if files else [f"{TOPIC} of {where} has no records."]
    return Inputs(files, manifest, problems, notes, [])


def cluster_parts(row: Mapping[str, Any], settings: Any) -> Iterator[Part]:
    """The batches of one partition between two offsets, once all of them came."""
    partition = TopicPartition(TOPIC, row["partition"])
    with SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        error = _copy(partition, Range(row["start"], row["end"]), settings, file)
        yield from chunks(file, 0, file.tell())
        if error is not None:
            yield Note(REASON_UNREADABLE.format(error.message.rstrip(".")), 0)


def _copy(
    partition: TopicPartition, offsets: Range, settings: Any, file: IO[bytes]
) -> KgError | None:
    """Fetch those batches into a file; what kept some of them from coming."""

    def take(_partition: TopicPartition, _base: int, data: bytes) -> None:
        file.write(data)

    try:
        with Session(settings, progress=True) as session:
            session.run(fetch_metadata(session.cluster, [TOPIC]))
            outcome = session.run(copy_partitions(session.cluster, {partition: offsets}, take))
    except KgError as error:
        return error
    return outcome[partition]
