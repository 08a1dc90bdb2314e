"""A live cluster as input: every executor fetches partitions of its own, nothing passes the driver.

The driver asks the cluster what ``kgtool export`` asks it, up to where each partition goes; a
worker copies one partition's batches by raw Fetch, a few megabytes ahead of what it decodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from queue import Full, Queue
from threading import Event, Thread
from typing import Any

from kgtool.analysis.decode.parts import REASON_UNREADABLE, Part
from kgtool.analysis.decode.segments import Note, chunks_of
from kgtool.analysis.input import formats
from kgtool.analysis.input.inputs import TOPIC, InputFile, Inputs
from kgtool.client.cluster import fetch_metadata
from kgtool.errors import ConfigError, KgError
from kgtool.model import TopicPartition
from kgtool.net.session import Session
from kgtool.queries.log.export import describe_cluster
from kgtool.queries.log.fetch import Range, copy_partitions

PIECE_BYTES = 16 << 20
"""What is decoded at once."""
PIECES_AHEAD = 2


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
    """The batches of one partition between two offsets, as they come."""
    copy = _Copy(row, settings)
    copy.thread.start()
    try:
        while (piece := copy.pieces.get()) is not None:
            if isinstance(piece, Note):
                yield piece
            else:
                yield from chunks_of(BytesIO(piece), 0, len(piece))
    finally:
        copy.cancel()


class _Stopped(Exception):
    """Nobody wants the rest."""


class _Copy:
    """The thread that fetches, and the queue to the one that decodes."""

    def __init__(self, row: Mapping[str, Any], settings: Any) -> None:
        self.partition = TopicPartition(TOPIC, row["partition"])
        self.range = Range(row["start"], row["end"])
        self.settings = settings
        self.pieces: Queue[bytes | Note | None] = Queue(PIECES_AHEAD)
        self.thread = Thread(target=self._run, daemon=True)
        self._cancelled = Event()
        self._collected: list[bytes] = []
        self._size = 0

    def cancel(self) -> None:
        """End the thread, wherever it is."""
        self._cancelled.set()
        while self.thread.is_alive():
            while not self.pieces.empty():
                self.pieces.get_nowait()
            self.thread.join(0.05)

    def _run(self) -> None:
        try:
            error = self._fetch()
        except _Stopped:
            return
        except KgError as failure:
            error = failure
        try:
            self._pass_on()
            if error is not None:
                self._put(Note(REASON_UNREADABLE.format(error.message.rstrip(".")), 0))
            self._put(None)
        except _Stopped:
            return

    def _fetch(self) -> KgError | None:
        with Session(self.settings, progress=True) as session:
            session.run(fetch_metadata(session.cluster, [TOPIC]))
            ranges = {self.partition: self.range}
            outcome = session.run(copy_partitions(session.cluster, ranges, self._take))
        return outcome[self.partition]

    def _take(self, _partition: TopicPartition, _base: int, data: bytes) -> None:
        self._collected.append(data)
        self._size += len(data)
        if self._size >= PIECE_BYTES:
            self._pass_on()

    def _pass_on(self) -> None:
        if self._collected:
            piece = b"".join(self._collected)
            self._collected, self._size = [], 0
            self._put(piece)

    def _put(self, piece: bytes | Note | None) -> None:
        while not self._cancelled.is_set():
            try:
                self.pieces.put(piece, timeout=0.2)
            except Full:
                continue
            return
        raise _Stopped
