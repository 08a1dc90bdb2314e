"""Choose between copies of a log partition: those of several brokers, disks or days.

As Kafka does (``UnifiedLog``, KIP-101 and KIP-279): the copy whose last batch has the highest
leader epoch, then the highest offset, is the log. What others hold beyond the place where leader
epochs part was never committed; and what they hold before may have been cleaned away since, so
that together with the newest copy it would bring keys back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kgtool.analysis.decode.batches import Headers, read_headers
from kgtool.analysis.decode.segments import Chunk, Note, chunks
from kgtool.analysis.decode.vector_reader import View
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import SEGMENT, TOPIC, InputFile
from kgtool.text import listed

SHOWN = 3
"""Copies that a note names."""


class Epoch(NamedTuple):
    """Neighbouring batches of one leader epoch."""

    number: int
    start: int
    end: int
    """The offset behind them."""


class Copy(NamedTuple):
    """The segments of one folder, or of one name in a folder."""

    place: str
    files: list[InputFile]
    epochs: list[Epoch]
    unread_bytes: int

    @property
    def folder(self) -> str:
        """Where it lies, for people."""
        return self.place.rpartition("/")[0]

    @property
    def begin(self) -> int:
        """Where its first segment begins, by its name: records behind that may be cleaned away."""
        return self.files[0].base_offset

    @property
    def start(self) -> int:
        """The first offset."""
        return self.epochs[0].start if self.epochs else self.files[0].base_offset

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return self.epochs[-1].end if self.epochs else self.start

    def rank(self) -> tuple[int, int, int, int]:
        """How new it is; of equal ones, how whole and how little cleaned."""
        last = self.epochs[-1].number if self.epochs else -1
        return last, self.end, -self.unread_bytes, sum(file.size for file in self.files)

    def end_of(self, epoch: int) -> int:
        """Where it leaves this leader epoch, or one before it."""
        return next((each.start for each in self.epochs if each.number > epoch), self.end)


def newest(files: Sequence[InputFile]) -> tuple[list[InputFile], list[str]]:
    """The segments to read, in the order given, and what to say of the others."""
    partitions: dict[int, dict[str, list[InputFile]]] = {}
    for file in files:
        if file.format == formats.SEGMENT.name:
            partitions.setdefault(file.partition, {}).setdefault(_place(file), []).append(file)
    left: set[str] = set()
    cut: dict[str, InputFile] = {}
    said: dict[str, list[str]] = {}
    for number, copies in sorted(partitions.items()):
        if len(copies) > 1:
            _choose(number, [_copy(*each) for each in copies.items()], left, cut, said)
    notes = [
        f"{words.format('A copy', TOPIC)} ({listed(some, SHOWN, ' and {} more')})."
        for words, some in said.items()
    ]
    return [cut.get(file.path, file) for file in files if file.path not in left], notes


APART = (
    "{} of a partition of {} holds what was never committed, as leader epochs part there: not read"
)
OLDER = "{} of a partition of {} is older than the newest: not read"
EQUAL = "{} of a partition of {} ends as the one that is read"
FAR = (
    "{} of a partition of {} lies at a URL, where leader epochs are not compared: of each segment "
    "the largest is read"
)


def _choose(
    number: int,
    copies: list[Copy],
    left: set[str],
    cut: dict[str, InputFile],
    said: dict[str, list[str]],
) -> None:
    """Keep the newest copy, and of others only what comes before its first segment."""
    if any(file.is_remote for copy in copies for file in copy.files):
        left |= _smaller([file for copy in copies for file in copy.files])
        said.setdefault(FAR, []).append(str(number))
        return
    copies.sort(key=Copy.rank, reverse=True)
    best = copies[0]
    begin, first = best.begin, best.epochs[:1]
    for copy in copies[1:]:
        before = [epoch for epoch in copy.epochs if epoch.start < begin]
        if before and before[-1].number <= first[0].number and _agree(best, copy):
            head = [file for file in copy.files if file.base_offset < begin]
            if copy.end > begin:
                cut[head[-1].path] = _until(head[-1], begin)
            left.update(file.path for file in copy.files[len(head) :])
            begin, first = copy.begin, before[:1]
        else:
            head = []
            left.update(file.path for file in copy.files)
        words, what = _difference(copy, best)
        if words == APART or not head:
            said.setdefault(words, []).append(f"{number}: {what}")


def _agree(best: Copy, copy: Copy) -> bool:
    """Whether the newest copy still has every batch of the other's, where both have some.

    Else the log cleaner has been there, and a key that the other's beginning has may be deleted.
    """
    end = min(best.end, copy.end)
    return _batches(best, best.begin, end) == _batches(copy, best.begin, end)


def _batches(copy: Copy, start: int, end: int) -> set[tuple[int, int]]:
    """Base offset and number of records of the batches between two offsets."""
    found: set[tuple[int, int]] = set()
    for file in copy.files:
        for _, headers in _headers(file):
            bases = headers["base_offset"]
            some = (bases >= start) & (bases < end)
            found.update(zip(bases[some].tolist(), headers["records"][some].tolist(), strict=True))
    return found


def _until(file: InputFile, offset: int) -> InputFile:
    """The part of a segment before an offset: the newest copy has the rest."""
    for part, headers in _headers(file):
        behind = np.flatnonzero(headers["base_offset"] >= offset)
        if len(behind):
            return file._replace(size=part.position + part.starts[behind[0]])
    return file


def _headers(file: InputFile) -> Iterator[tuple[Chunk, Headers]]:
    """The batches of a segment, chunk by chunk, with their headers."""
    with Path(file.path).open("rb") as opened:
        for part in chunks(opened, 0, file.size):
            if not isinstance(part, Note):
                yield part, read_headers(View(part.data), np.array(part.starts, dtype=np.int64))


def _difference(copy: Copy, best: Copy) -> tuple[str, str]:
    """What a copy that is not read has, and how to say it."""
    for epoch in copy.epochs:
        parted = best.end_of(epoch.number)
        if epoch.end > parted:
            at = max(epoch.start, parted)
            return APART, f"{copy.folder} from offset {at:,}, {best.folder} is read"
    if copy.end < best.end:
        ends = f"{copy.folder} ends at {copy.end:,}, {best.folder} at {best.end:,}"
        return OLDER, ends
    return EQUAL, f"{copy.folder}, not {best.folder}"


def _place(file: InputFile) -> str:
    found = SEGMENT.search(file.path)
    return file.path.rpartition("/")[0] if found is None else file.path[: found.start("base") - 1]


def _copy(place: str, files: list[InputFile]) -> Copy:
    files = sorted(files, key=lambda file: file.base_offset)
    is_far = any(file.is_remote for file in files)
    found = [] if is_far else [_epochs(file) for file in files]
    epochs: list[Epoch] = []
    for some, _ in found:
        for epoch in some:
            _add(epochs, epoch)
    return Copy(place, files, epochs, sum(unread for _, unread in found))


def _epochs(file: InputFile) -> tuple[list[Epoch], int]:
    """The leader epochs in a segment, and the bytes of it that are no batches."""
    epochs: list[Epoch] = []
    unread = 0
    try:
        with Path(file.path).open("rb") as opened:
            for part in chunks(opened, 0, file.size):
                if isinstance(part, Note):
                    unread += part.size
                    continue
                headers = read_headers(View(part.data), np.array(part.starts, dtype=np.int64))
                number = headers["leader_epoch"]
                first = np.flatnonzero(np.diff(number, prepend=number[:1] - 1))
                ends = headers["base_offset"] + headers["last_offset_delta"] + 1
                last = np.append(first[1:], len(number)) - 1
                for at, behind in zip(first.tolist(), last.tolist(), strict=True):
                    start = int(headers["base_offset"][at])
                    _add(epochs, Epoch(int(number[at]), start, int(ends[behind])))
    except OSError:  # what reads it says so
        unread += file.size
    return epochs, unread


def _add(epochs: list[Epoch], epoch: Epoch) -> None:
    if epochs and epochs[-1].number == epoch.number:
        epochs[-1] = epochs[-1]._replace(end=epoch.end)
    else:
        epochs.append(epoch)


def _smaller(files: Iterable[InputFile]) -> set[str]:
    """All but the largest of each segment."""
    best: dict[int, InputFile] = {}
    left = set()
    for file in files:
        other = best.get(file.base_offset)
        if other is None or file.size > other.size:
            best[file.base_offset] = file
        left.add(file.path)
    return left - {file.path for file in best.values()}
