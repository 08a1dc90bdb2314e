"""What inputs hold twice in one log partition: ``cat a a > b``, or dumps that overlap.

A log never goes back. Where what was read does, the files are compared: what comes again with the
same bytes is left out; where the same offsets have something else, it is another log, or the
log cleaner came in between, and together the two would bring keys back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis.decode.batches import BACK, RecordBlock, read_headers
from kgtool.analysis.decode.crc32c import crc32c
from kgtool.analysis.decode.decoder import Content
from kgtool.analysis.decode.rows import LeaveOut
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.decode.vector_reader import Bools, Ints, View
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import TOPIC, InputFile
from kgtool.analysis.input.readers.ranges import parts, ranges, split_of
from kgtool.errors import ConfigError
from kgtool.text import listed

_FORMATS = (formats.SEGMENT.name, *(kind.name for kind in formats.DUMPS))
_PRIMES = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], dtype=np.int64)


MOST_RUNS = 1000
"""A log partition whose offsets go back more often is in no order."""


class Twice(NamedTuple):
    """What to leave out, and how to say it."""

    leave_out: LeaveOut
    records: int
    paths: Sequence[str]

    def __str__(self) -> str:
        files = listed(self.paths, 3, " and {} more")
        return f"{self.records:,} records are in {files} more than once: read once."


class _Units(NamedTuple):
    """Batches of a segment, or records of a dump; one array entry each."""

    first: Ints
    last: Ints
    code: Ints
    """A number of all bytes."""
    records: Ints


def suspects(notes: Any, *, overlapping: bool) -> set[int]:
    """The log partitions of which offsets go back, by what was read.

    :param overlapping: whether it is known that files overlap: only one that does itself counts.
    """
    back = notes.filter(pc.fill_null(pc.equal(notes["reason"], BACK), fill_value=False))
    found = set(back["partition"].to_pylist())
    if overlapping:
        return found
    read = notes.filter(pc.and_(pc.is_null(notes["reason"]), pc.is_valid(notes["first_offset"])))
    rows = (read[name].to_numpy() for name in ("partition", "first_offset", "last_offset"))
    number, first, last = rows
    order = np.lexsort((last, first, number))
    number, first, last = number[order], first[order], last[order]
    again = (number[1:] == number[:-1]) & (first[1:] <= last[:-1])
    return found | set(number[1:][again].tolist())


def find_twice(files: Sequence[InputFile], partitions: set[int]) -> Twice | None:
    """What these log partitions have twice; None: nothing. Raises ConfigError where they differ."""
    leave_out: dict[tuple[str, int, int], Ints] = {}
    seen: dict[int, list[_Units]] = {}
    runs: Counter[int] = Counter()
    records, paths = 0, dict[str, None]()
    for file in sorted(files, key=lambda file: (file.partition, file.base_offset, file.path)):
        if file.format not in _FORMATS or file.is_remote:
            if file.partition in partitions and file.format in _FORMATS:
                raise _refused(file.path, file.partition, file.base_offset)
            continue
        for number, run in _runs(file, partitions):
            known = seen.setdefault(number, [])
            runs[number] += 1
            if runs[number] > MOST_RUNS:
                raise _refused(file.path, number, int(run.units[0].first[0]))
            again = _again(run, known, file.path, number)
            for (place, at), units, mask in zip(run.places, run.units, again, strict=True):
                if mask.any():
                    key = (file.path, place, number)
                    some = at + np.flatnonzero(mask)
                    leave_out[key] = np.append(leave_out.get(key, some[:0]), some)
                    records += int(units.records[mask].sum())
                    paths[file.path] = None
            known += run.units
    return Twice(leave_out, records, list(paths)) if records else None


class _Run(NamedTuple):
    """Pieces of a file in which offsets only grow."""

    places: list[tuple[int, int]]
    """Position of the content, and number of the first unit in it."""
    units: list[_Units]


def _runs(file: InputFile, partitions: set[int]) -> Iterator[tuple[int, _Run]]:
    """(log partition, run) of a file; a run ends where offsets go back."""
    runs: dict[int, _Run] = {}
    for row in ranges(split_of(file)):
        number = row["partition"]
        if number not in partitions:
            continue
        for content in parts(row):
            if isinstance(content, Note):
                continue
            units = _units(content)
            cuts = np.flatnonzero(units.first[1:] <= units.last[:-1]) + 1
            edges = [0, *cuts.tolist(), len(units.first)]
            for at, end in zip(edges[:-1], edges[1:], strict=True):
                piece = _Units(*(column[at:end] for column in units))
                run = runs.get(number)
                if (
                    run is not None
                    and len(piece.first)
                    and piece.first[0] <= run.units[-1].last[-1]
                ):
                    yield number, runs.pop(number)
                if len(piece.first):
                    run = runs.setdefault(number, _Run([], []))
                    run.places.append((content.position, at))
                    run.units.append(piece)
    yield from runs.items()


def _units(content: Content) -> _Units:
    assert not isinstance(content, Note)
    if isinstance(content, RecordBlock):
        records = content.records
        ends = (records.key_at, records.key_size), (records.value_at, records.value_size)
        told = [records.timestamp_ms * 2 + (records.value_size < 0)]
        for at, size in ends:
            told.append(crc32c(records.view.bytes, at, at + np.maximum(size, 0)).astype(np.int64))
        code = np.stack(told).T @ _PRIMES
        place = records.log_offset
        return _Units(place, place, code, np.ones_like(place))
    headers = read_headers(View(content.data), np.array(content.starts, dtype=np.int64))
    first = headers["base_offset"]
    code = headers["crc"] | (headers["leader_epoch"] << 32)
    return _Units(first, first + headers["last_offset_delta"], code, headers["records"])


def _again(run: _Run, known: list[_Units], path: str, number: int) -> list[Bools]:
    """Which units of each piece were there before. Raises ConfigError where some differ."""
    new = _Units(*map(np.concatenate, zip(*run.units, strict=True)))
    found = np.zeros(len(new.first), dtype=np.bool_)
    if known:
        old = _Units(*map(np.concatenate, zip(*known, strict=True)))
        order = np.argsort(old.first, kind="stable")
        old = _Units(*(column[order] for column in old))
        at = np.minimum(np.searchsorted(old.first, new.first), len(old.first) - 1)
        found = (
            (old.first[at] == new.first) & (old.last[at] == new.last) & (old.code[at] == new.code)
        )
        spans = _spans(known)
        inside = (old.first >= new.first[0]) & (old.first <= new.last[-1])
        covered = np.zeros_like(found)
        for start, end in spans:
            covered |= (new.last >= start) & (new.first <= end)
        lost = inside & ~np.isin(old.first, new.first[found])
        differs = [*new.first[covered & ~found].tolist(), *old.first[lost].tolist()]
        if differs:
            raise _refused(path, number, min(differs))
    cuts = np.cumsum([len(units.first) for units in run.units])[:-1]
    return list(np.split(found, cuts))


def _spans(known: list[_Units]) -> list[tuple[int, int]]:
    """From which to which offset was read, run by run."""
    spans: list[tuple[int, int]] = []
    for units in known:
        first, last = int(units.first[0]), int(units.last[-1])
        if spans and spans[-1][1] < first:
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))
    return spans


def _refused(path: str, number: int, offset: int) -> ConfigError:
    return ConfigError(
        f"{path}: log partition {number} is there more than once, and differs from offset "
        f"{offset:,} on: another log, or the log cleaner came in between.",
        hint=f"Give one copy of {TOPIC}-{number}, each in a file of its own: kgtool export.",
    )
