"""A live cluster as input: every executor fetches partitions of its own, nothing passes the driver.

The driver asks the cluster what ``kgtool export`` asks it, up to where each partition goes; a
worker fetches one partition's batches by raw Fetch, and decodes them piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from kgtool.analysis.decode.decoder import REASON_UNREADABLE, Content
from kgtool.analysis.decode.rows import Split
from kgtool.analysis.decode.segments import Note, chunks
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import TOPIC, InputFile, Inputs
from kgtool.client.cluster import fetch_metadata
from kgtool.errors import ConfigError, KgError
from kgtool.model import TopicPartition
from kgtool.net.session import Session
from kgtool.queries.log.export import describe_cluster
from kgtool.queries.log.fetch import Range, copy_partitions, whole_batches

if TYPE_CHECKING:
    from kgtool.config import Settings

PIECE_BYTES = 32 << 20
"""Fetched before it is decoded: a bound on the memory of a task, and nothing lies on its disk."""


def find_cluster(settings: Settings, now_ms: int) -> Inputs:
    """The partitions of ``__consumer_offsets``, and what cluster.json of an export would say.

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
                    path,
                    formats.CLUSTER.name,
                    row["partition"],
                    row["start_offset"],
                    row["end_offset"],
                    root=where,
                )
            )
    if problems and not files:
        raise ConfigError(" ".join(problems))
    notes = [] if files else [f"{TOPIC} of {where} has no records."]
    return Inputs(files, manifest, problems, notes, [])


class _Full(Exception):
    """A piece has its size."""


def cluster_parts(row: Split, settings: Settings) -> Iterator[Content]:
    """The batches of one partition between two offsets, piece by piece."""
    at, error = row["start"], None
    while at < row["end"] and error is None:
        piece = BytesIO()
        at, error = _fetch(Range(at, row["end"]), row["partition"], settings, piece)
        yield from chunks(piece, 0, piece.tell())
    if error is not None:
        yield Note(REASON_UNREADABLE.format(error.message.rstrip(".")), 0)


def _fetch(
    offsets: Range, number: int, settings: Settings, piece: BytesIO
) -> tuple[int, KgError | None]:
    """Fetch batches of a partition until the piece is full; where to go on, and what went wrong."""
    partition = TopicPartition(TOPIC, number)
    following = offsets.start

    def take(_partition: TopicPartition, _base: int, data: bytes) -> None:
        nonlocal following
        piece.write(data)
        _, following = whole_batches(data, offsets.end)
        if piece.tell() >= PIECE_BYTES:
            raise _Full

    try:
        with Session(settings, progress=True) as session:
            session.run(fetch_metadata(session.cluster, [TOPIC]))
            outcome = session.run(copy_partitions(session.cluster, {partition: offsets}, take))
    except _Full:
        return following, None
    except KgError as error:
        return following, error
    return offsets.end, outcome[partition]
