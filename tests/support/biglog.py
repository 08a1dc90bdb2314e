"""Raw segments of any size, written fast: blocks of like batches, filled in by numpy.

One group, or ten of them, have 80 % of all records; the others commit twenty offsets at a time, and
some of them lose all of theirs by tombstones at the end. What ``analyze`` must find is known while
writing.

::

    python -m tests.support.biglog DIR RECORDS
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kgtool.analysis.decode.crc32c import crc32c
from tests.analysis.writer import Raw, batch, offset_key

START_MS = 1_790_000_000_000
SPAN_MS = 30 * 86_400_000
PER_BATCH = 20
"""Records in each batch: offsets that a client commits together."""
PARTITIONS = 10
"""Of ``__consumer_offsets``; the first one has a hot group only, as those after the last have."""
SEGMENT_BYTES = 104_857_600
BLOCK = 20_000
HOT_SHARE = 0.8
GONE_SHARE = 0.3
"""Of the other groups: how many end with tombstones."""

_GROUP, _TOPIC = "g-GGGGGGGG", "topic-TTTT"
_OFFSET, _TIME = 0x1122334455667788, 0x0123456789ABCDEF


class Expected(NamedTuple):
    """What there is in the log."""

    records: int
    hot_records: int
    live_offsets: int
    live_groups: int
    removals: int


class Template:
    """One batch, as bytes, and where in it the things are that differ."""

    def __init__(self, *, tombstones: bool) -> None:
        value = struct.pack(">hqihq", 3, _OFFSET, -1, 0, _TIME)
        raws = [
            Raw(offset_key(_GROUP, _TOPIC, number), None if tombstones else value)
            for number in range(PER_BATCH)
        ]
        self.data = np.frombuffer(batch(0, raws), dtype=np.uint8)
        head = 61
        record = (len(self.data) - head) // PER_BATCH
        assert head + PER_BATCH * record == len(self.data)
        raw = self.data.tobytes()
        self.records = [number * record for number in range(PER_BATCH)]
        self.group = raw.index(b"GGGGGGGG")
        self.topic = raw.index(b"TTTT")
        self.partition = self.topic + 4
        self.offset = raw.find(struct.pack(">q", _OFFSET))
        self.time = raw.find(struct.pack(">q", _TIME))

    def fill(self, rows: Rows) -> Any:
        """An array of shape (batches, bytes of one)."""
        out = np.tile(self.data, (len(rows.group), 1))
        _put(out, 0, rows.base_offset, ">i8")
        for at in (27, 35):  # base and max timestamp
            _put(out, at, rows.time_ms, ">i8")
        for number, record in enumerate(self.records):
            _digits(out, self.group + record, rows.group, 8)
            _digits(out, self.topic + record, rows.topic, 4)
            _put(out, self.partition + record, rows.first + number, ">i4")
            if self.offset >= 0:
                _put(out, self.offset + record, rows.number, ">i8")
                _put(out, self.time + record, rows.time_ms, ">i8")
        size = out.shape[1]
        starts = np.arange(len(out), dtype=np.int64) * size
        sums = crc32c(out.reshape(-1), starts + 21, starts + size)
        _put(out, 17, sums, ">u4")
        return out


class Rows(NamedTuple):
    """Arrays, one entry a batch."""

    base_offset: Any
    time_ms: Any
    group: Any
    topic: Any
    first: Any
    """The first of PER_BATCH partitions of the topic."""
    number: Any
    """The offset that is committed."""


def _put(out: Any, at: int, values: Any, kind: str) -> None:
    raw = np.asarray(values).astype(kind).view(np.uint8).reshape(len(out), -1)
    out[:, at : at + raw.shape[1]] = raw


def _digits(out: Any, at: int, values: Any, count: int) -> None:
    for place in range(count):
        out[:, at + count - 1 - place] = 48 + values // 10**place % 10


class _Log:
    """The segments of one partition."""

    def __init__(self, folder: Path, partition: int) -> None:
        self.folder = folder / f"__consumer_offsets-{partition}"
        self.folder.mkdir(parents=True)
        self.next_offset, self.left = 0, 0

    def append(self, template: Template, time_ms: Any, **columns: Any) -> None:
        count = len(time_ms)
        base = self.next_offset + np.arange(count, dtype=np.int64) * PER_BATCH
        data = template.fill(Rows(base, time_ms, **columns))
        per_segment = max(1, SEGMENT_BYTES // data.shape[1])
        at = 0
        while at < count:
            if not self.left:
                self.path = self.folder / f"{self.next_offset + at * PER_BATCH:020}.log"
                self.left = per_segment
            some = data[at : at + self.left]
            with self.path.open("ab") as file:
                file.write(some.tobytes())
            at += len(some)
            self.left -= len(some)
        self.next_offset += count * PER_BATCH


def write(folder: Path, records: int, hot_groups: int = 1) -> Expected:
    """Write about so many records under ``folder``; what is in them.

    :param hot_groups: share the 80 %, each with a partition of ``__consumer_offsets`` of its own.
        Keys, commits of each and removals are the same in number whatever this is.
    """
    batches = records // PER_BATCH
    hot = int(batches * HOT_SHARE) // hot_groups
    hot_keys = max(1, hot // 40)  # in batches: each of them is committed some forty times
    commit, tombstone = Template(tombstones=False), Template(tombstones=True)
    for number in range(hot_groups):
        log = _Log(folder, number and PARTITIONS - 1 + number)
        for index in _blocks(hot):
            key = index % hot_keys
            log.append(
                commit,
                _times(index, hot),
                group=np.full_like(index, number),
                topic=key % 10_000,
                first=key // 10_000 * PER_BATCH,
                number=index,
            )
    rest = (batches - hot * hot_groups) // (PARTITIONS - 1)
    groups = max(2, int(rest / 2.3))
    gone = int(groups * GONE_SHARE)
    commits = rest - gone
    for partition in range(1, PARTITIONS):
        log = _Log(folder, partition)
        first = partition * 10_000_000
        for index in _blocks(commits):
            log.append(
                commit,
                _times(index, rest),
                group=first + index % groups,
                topic=index % groups % 50,
                first=np.zeros_like(index),
                number=index,
            )
        for index in _blocks(gone):
            log.append(
                tombstone,
                _times(index + commits, rest),
                group=first + index,
                topic=index % 50,
                first=np.zeros_like(index),
                number=index,
            )
    others = PARTITIONS - 1
    return Expected(
        records=(hot * hot_groups + others * rest) * PER_BATCH,
        hot_records=hot * hot_groups * PER_BATCH,
        live_offsets=(min(hot, hot_keys) * hot_groups + others * (min(groups, commits) - gone))
        * PER_BATCH,
        live_groups=hot_groups + others * (min(groups, commits) - gone),
        removals=others * gone * PER_BATCH,
    )


def _blocks(count: int) -> Iterator[Any]:
    for at in range(0, count, BLOCK):
        yield np.arange(at, min(at + BLOCK, count), dtype=np.int64)


def _times(index: Any, count: int) -> Any:
    return START_MS + index * SPAN_MS // max(count, 1)


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]), int(sys.argv[2]))}\n")
