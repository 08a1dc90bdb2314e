"""What the batches of a partition of ``__consumer_offsets`` tell beside the records asked for."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kgtool.records import UnknownRecord
from kgtool.records.batch import HEADER_SIZE, PREFIX_SIZE, RawRecord, read_header, read_records
from kgtool.retention.history import Entry
from kgtool.retention.rules import RuleSet
from kgtool.retention.written_by import Written, older_until_ms

_HEAD = struct.Struct(">qiib")
"""Base offset, length, leader epoch, magic."""
_DELTA_AT, _COUNT_AT, _ATTRIBUTES_AT = 23, 57, 22
_COMPRESSED_OR_CONTROL = 0x27
_ALL, _SOME = 10_000, 64
"""So many batches are looked into, and then one of so many: brokers write what they write."""
_MOVE = -1
"""The key type of what is no record."""


class _Kind(NamedTuple):
    first_ms: int
    last_ms: int


class SeenBatches:
    """Where the log begins, whether records are missing, which coordinators and brokers wrote it.

    :param partition: of ``__consumer_offsets``.
    """

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self.first: tuple[int, int] | None = None
        """Offset and time of the first batch; None: there is none."""
        self.is_gapless = True
        """Whether no record is missing since the first batch."""
        self.went_back: int | None = None
        """The offset of the last batch that came after a later one, and was skipped."""
        self.moves: list[Entry] = []
        """Where a new leader epoch begins; entries without a record."""
        self._next, self._epoch, self._looks = -1, -1, 0
        self._kinds: dict[tuple[int, int], _Kind] = {}

    def feed(self, data: bytes) -> None:
        """Take whole batches, in the order of the log."""
        position, size = 0, len(data)
        while position + HEADER_SIZE <= size:
            base, length, epoch, magic = _HEAD.unpack_from(data, position)
            end = position + PREFIX_SIZE + length
            if magic != 2 or end > size:
                return  # who reads the records says what is wrong
            if base >= self._next:
                self._take(data, position, base, epoch)
            else:
                self.went_back = base
            position = end

    def _take(self, data: bytes, position: int, base: int, epoch: int) -> None:
        last = int.from_bytes(data[position + _DELTA_AT : position + _DELTA_AT + 4], "big")
        count = int.from_bytes(data[position + _COUNT_AT : position + _COUNT_AT + 4], "big")
        if (self._next not in (-1, base)) or count != last + 1:
            self.is_gapless = False
        self._next = base + last + 1
        if self.first is None or epoch > self._epoch:
            self._first_of_epoch(data, position, base, epoch)
        self._looks += 1
        if self._looks > _ALL and self._looks % _SOME:
            return
        if data[position + _ATTRIBUTES_AT] & _COMPRESSED_OR_CONTROL:
            return
        header = read_header(data, position)
        if header is not None and header.records:
            self.note(next(iter(read_records(data, header))))

    def _first_of_epoch(self, data: bytes, position: int, base: int, epoch: int) -> None:
        header = read_header(data, position)
        if header is None:
            return
        at_ms = header.base_timestamp_ms
        if self.first is None:
            self.first = (base, at_ms)
        elif self._epoch >= 0 or epoch > 0:
            nothing = UnknownRecord(_MOVE, b"", None)
            move = Entry(self._partition, base, at_ms, nothing, leader_epoch=epoch)
            self.moves.append(move)
        self._epoch = max(self._epoch, epoch)

    def note(self, record: RawRecord) -> None:
        """Note what kind of a record the brokers wrote."""
        key, value, at_ms = record.key or b"", record.value, record.timestamp_ms
        if value is not None and len(key) > 2 and len(value) > 1:
            kind = int.from_bytes(key[:2], "big"), int.from_bytes(value[:2], "big")
            old = self._kinds.get(kind, _Kind(at_ms, at_ms))
            self._kinds[kind] = _Kind(min(old.first_ms, at_ms), max(old.last_ms, at_ms))

    @property
    def end(self) -> int:
        """The offset after the last batch; -1: there is none."""
        return self._next

    @property
    def kinds(self) -> list[Written]:
        """The kinds of records that were seen."""
        return [Written(self._partition, *kind, *when) for kind, when in self._kinds.items()]

    def older_until_ms(self, rules: RuleSet) -> int | None:
        """Until when brokers with other rules than these wrote it; None: not that it shows.

        A new version of a broker is a new leader epoch.
        """
        last_ms = older_until_ms(self.kinds, rules).get(self._partition)
        if last_ms is None:
            return None
        return min(
            (e.timestamp_ms for e in self.moves if e.timestamp_ms > last_ms), default=last_ms
        )
