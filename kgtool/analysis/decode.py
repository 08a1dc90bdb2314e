"""From byte ranges of segments to the rows of ``schema.RECORDS``: runs in Spark's Python workers.

A key's commits supersede each other, so of a run of ordinary commits in one chunk only the last
is passed on, with the number of records it stands for: what leaves this module is about as large
as what is live, not as large as the log. A run ends where something looks at it: a tombstone, a
transactional commit, the group's own tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from kgtool.analysis import group_records, offsets, schema
from kgtool.analysis.batches import REASON_CRC, Decoded, read_chunk
from kgtool.analysis.lockstep import Bools, Ints
from kgtool.analysis.rows import Source, batches, epoch_rows, file_row, note_rows, read_row, rows
from kgtool.analysis.seen import Seen, without_batches, without_records
from kgtool.analysis.segments import Chunk, Note, chunks
from kgtool.analysis.tally import Tally
from kgtool.records import types

REASON_KEY = "malformed key"
REASON_VALUE = "malformed value"
REASON_MARKER = "control record that ends no transaction"
REASON_UNKNOWN_KEY = "unknown key type {}"
REASON_UNKNOWN_VALUE = "unknown offset commit value version {}"
REASON_AFTER = "after --as-of"
REASON_UNREADABLE = "can't be read: {}"

ABORT, COMMIT = 0, 1
FAR_MS = 1 << 61
"""No record is taken for older or younger than that (73 million years), so that differences of
times fit into an int64 whatever a broken clock wrote."""


class Detail(NamedTuple):
    """How much of the past to pass on, beyond what is live and what went."""

    grids: tuple[int, ...] = ()
    """Intervals of checks, in ms. Two commits with a check between them, at any multiple of one,
    both stay; without any, a commit stays only until the next one."""
    bucket_ms: int | None = None
    """Count the commits of each so long a time; None: don't."""
    tally: Tally | None = None
    """Count what is read there, for whoever waits."""
    whole: bool = False
    """Pass on every record: others may have the same ones."""
    now_ms: int | None = None
    """Records of later than a day after that are of the future: whoever wrote them had a clock
    that was wrong."""
    by_producer: bool = True
    """Whether a producer id makes a commit transactional, as for the new coordinator; else the
    batch's transactional bit does."""
    seen: Seen | None = None
    """What was read before, and is left out."""


NO_DETAIL = Detail()


class Piece(NamedTuple):
    """Records that were not read from a segment."""

    position: int
    """Where in the file they begin."""
    size: int
    """Bytes that they take there."""
    records: Decoded
    notes: list[Note]


Part = Chunk | Piece | Note


def segment_parts(row: Mapping[str, Any]) -> Iterator[Part]:
    """What there is in a range of a raw segment. Raises OSError where it can't be read."""
    return chunks(row["path"], row["start"], row["end"])


def decode_splits(
    tables: Iterable[Any],
    as_of_ms: int | None = None,
    detail: Detail = NO_DETAIL,
    parts: Callable[[Mapping[str, Any]], Iterator[Part]] = segment_parts,
) -> Iterator[Any]:
    """``mapInArrow`` function: rows of ``schema.SPLITS`` in, rows of ``schema.RECORDS`` out."""
    for table in tables:
        for row in table.to_pylist():
            source = Source(row["path"], row["partition"], row.get("lacks") or 0)
            yield file_row(source)
            try:
                for part in parts(row):
                    yield from decode_part(source, part, as_of_ms, detail)
            except OSError as error:
                why = REASON_UNREADABLE.format(error.strerror or error)
                size = row["end"] - row["start"]
                yield from note_rows(source, [Note(why, row["start"], size)])


def decode_part(
    source: Source, part: Part, as_of_ms: int | None, detail: Detail = NO_DETAIL
) -> Iterator[Any]:
    """The rows of one chunk, or of a note that the reader of the file made."""
    if isinstance(part, Note):
        yield from note_rows(source, [part])
        return
    lost = 0
    spans = (detail.seen or {}).get(source.partition, ())
    if spans and isinstance(part, Chunk):
        part = without_batches(part, spans)
    if isinstance(part, Piece):
        records, notes, size = part.records, part.notes, part.size
        lost = sum(note.records for note in notes if note.reason != REASON_CRC)
    else:
        (records, notes), size = read_chunk(part), len(part.data)
    records = records._replace(timestamp_ms=np.clip(records.timestamp_ms, -FAR_MS, FAR_MS))
    if spans:
        records = without_records(records, spans)
    if detail.tally is not None:
        detail.tally.add(len(records.log_offset) + lost, size)
    if as_of_ms is not None:
        records = _until(records, as_of_ms, part.position, notes)
    if len(records.log_offset) or lost:
        yield read_row(source, records, size, lost, detail.now_ms)
        yield from epoch_rows(source, records)
    if len(records.log_offset):
        yield from _decode(source, records, part.position, notes, detail)
    yield from note_rows(source, notes)


def _decode(
    source: Source, records: Decoded, position: int, notes: list[Note], detail: Detail
) -> Iterator[Any]:
    """Offset, group and marker rows; what can't be used is noted."""
    key_type = np.where(records.key_size >= 2, records.view.i16(records.key_at), -1)
    control, plain = records.control, ~records.control
    is_offset = plain & np.isin(key_type, types.OFFSET_TYPES)
    known = np.isin(key_type, list(types.KNOWN_TYPES))
    for unknown in np.unique(key_type[plain & ~known]).tolist():
        count = int((plain & (key_type == unknown)).sum())
        reason = REASON_KEY if unknown == -1 else REASON_UNKNOWN_KEY.format(unknown)
        notes.append(Note(reason, position, 0, count, damage=unknown == -1))
    groups, ended = _group_rows(records, key_type, plain & ~is_offset, position, notes)
    yield from batches(source, schema.KIND_GROUP, records, groups)
    markers = _markers(records, np.flatnonzero(control), position, notes)
    yield from batches(source, schema.KIND_MARKER, records, markers)
    index = np.flatnonzero(is_offset)
    commits = _commits(records, index, position, notes, detail)
    at, size = records.key_at[commits.place], records.key_size[commits.place]
    keys = offsets.read_keys(records.view, at, size)
    yield from _counts(source, records, commits, keys, groups, detail.bucket_ms)
    rows = _offset_rows(records, key_type, commits, keys, ended, detail)
    yield from batches(source, schema.KIND_OFFSET, records, rows)


# --- offsets -------------------------------------------------------------------------------------


class _Commits(NamedTuple):
    """Offset records that can be used, tombstones among them; one array entry each."""

    place: Ints
    """Which of the chunk's records."""
    tombstone: Bools
    values: offsets.Values
    pending: Bools
    """Within a transaction."""


def _commits(
    records: Decoded, index: Ints, position: int, notes: list[Note], detail: Detail
) -> _Commits:
    view = records.view
    sound = offsets.sound_keys(view, records.key_at[index], records.key_size[index])
    _note_lost(notes, REASON_KEY, int((~sound).sum()), position)
    index = index[sound]
    values = offsets.read_values(view, records.value_at[index], records.value_size[index])
    tombstone = records.value_size[index] < 0
    usable = tombstone | values.fine
    _note_values(values, usable, position, notes)
    index = index[usable]
    pending = records.transactional[index]
    if detail.by_producer:
        pending = records.producer_id[index] != -1
    return _Commits(index, tombstone[usable], values.only(usable), pending)


def _offset_rows(
    records: Decoded,
    key_type: Ints,
    some: _Commits,
    keys: offsets.Keys,
    ended: list[tuple[str, int]],
    detail: Detail,
) -> dict[str, Any]:
    """Columns of the offset rows that matter; ``ended`` are the groups' tombstones."""
    view = records.view
    epoch = _group_epochs(some.place, keys, ended)
    if records.stretch is not None:
        stretch = records.stretch[some.place]
        epoch = epoch * (int(stretch.max(initial=0)) + 1) + stretch
    creates = _first_commits(keys.group_code[keys.code], epoch, ~some.tombstone)
    at_ms = records.timestamp_ms[some.place]
    apart = [_check_after(at_ms, grid) for grid in detail.grids]
    apart += [np.arange(len(at_ms))] if detail.whole else []
    runs = _runs(some, keys, epoch, creates, apart)
    keep = runs.last
    index, code, values = some.place[keep], keys.code[keep], some.values
    no_value = some.tombstone[keep]
    no_expire = no_value | ~values.has_expire[keep]
    return {
        "index": index,
        "key_type": key_type[index].astype(np.int32),
        "group": keys.groups.take(pa.array(keys.group_code[code])),
        "tombstone": no_value,
        "producer_id": _masked(records.producer_id[index], ~some.pending[keep]),
        "producer_epoch": _epochs(records, index, ~some.pending[keep]),
        "topic": keys.topic.take(pa.array(code)),
        "topic_partition": keys.topic_partition[code].astype(np.int32),
        "offset": _masked(values.offset[keep], no_value),
        "commit_timestamp_ms": _masked(values.commit_timestamp_ms[keep], no_value),
        "expire_timestamp_ms": _masked(values.expire_timestamp_ms[keep], no_expire),
        "topic_id": offsets.topic_ids(view, np.where(no_value, -1, values.topic_id_at[keep])),
        "commits": np.where(no_value, 0, runs.commits[keep]),
        "first_ms": at_ms[runs.first[keep]],
        "creates_group": creates[keep],
        "bytes": records.key_size[index] + np.maximum(records.value_size[index], 0),
    }


class _Runs(NamedTuple):
    """Commits of one key that nothing looks at before the next one; one entry a record."""

    last: Bools
    """Whether the record ends its run: the others are superseded."""
    commits: Ints
    """Records in the run."""
    first: Ints
    """Place of the record that begins the run."""


def _runs(
    some: _Commits, keys: offsets.Keys, epoch: Ints, creates: Bools, apart: list[Ints]
) -> _Runs:
    """Find the runs; commits with different numbers in any of ``apart`` are not of one run."""
    order = np.argsort(keys.code, kind="stable")
    plain = (~some.tombstone & ~some.pending)[order]
    follows = np.zeros(len(order), dtype=np.bool_)
    code = keys.code[order]
    # A row continues the run of its key's commits if it and the one before are ordinary commits
    # with no tombstone of the group in between.
    follows[1:] = (code[1:] == code[:-1]) & plain[1:] & plain[:-1]
    for number in (epoch, *apart):
        follows[1:] &= number[order][1:] == number[order][:-1]
    # The commit that created the group stays on its own: its time tells since when.
    follows[1:] &= ~creates[order][:-1]
    last = np.ones(len(order), dtype=np.bool_)
    last[:-1] = ~follows[1:]
    run = np.cumsum(~follows) - 1
    found = _Runs(np.zeros_like(last), np.zeros_like(order), np.zeros_like(order))
    found.last[order] = last
    found.commits[order] = np.bincount(run, minlength=1)[run] if len(run) else run
    found.first[order] = order[np.flatnonzero(~follows)][run] if len(run) else run
    return found


def _check_after(at_ms: Ints, interval_ms: int) -> Ints:
    """Number of the first check that sees what happened then."""
    return -(-at_ms // interval_ms)


def _group_epochs(index: Ints, keys: offsets.Keys, ended: list[tuple[str, int]]) -> Ints:
    """A number for each row that differs before and behind each tombstone of the row's group."""
    codes = {group: code for code, group in enumerate(keys.groups.to_pylist())} if ended else {}
    stops = sorted((codes[group], at) for group, at in ended if group in codes)
    if not stops:
        return np.zeros(len(index), dtype=np.int64)
    span = int(index.max()) + 1 if len(index) else 1
    marks = np.array([code * span + min(at, span - 1) for code, at in stops], dtype=np.int64)
    return np.searchsorted(marks, keys.group_code[keys.code] * span + index, side="left").astype(
        np.int64
    )


def _first_commits(group: Ints, epoch: Ints, commit: Bools) -> Bools:
    """The first commit of each group in each of its epochs."""
    places = np.flatnonzero(commit)
    result = np.zeros(len(group), dtype=np.bool_)
    if places.size:
        combined = group[places] * (int(epoch.max()) + 1) + epoch[places]
        _, first = np.unique(combined, return_index=True)
        result[places[first]] = True
    return result


def _note_values(values: offsets.Values, usable: Bools, position: int, notes: list[Note]) -> None:
    bad = values.version[~usable]
    known = (bad >= 0) & (bad <= offsets.NEWEST_VALUE)
    for version in np.unique(bad[~known]).tolist():
        reason = REASON_UNKNOWN_VALUE.format(version) if version >= 0 else REASON_VALUE
        _note_lost(notes, reason, int((bad == version).sum()), position)
    _note_lost(notes, REASON_VALUE, int(known.sum()), position)


def _epochs(records: Decoded, index: Ints, null: Bools) -> Any:
    if records.producer_epoch is None:
        return pa.nulls(len(index), pa.int32())
    return _masked(records.producer_epoch[index].astype(np.int32), null)


def _counts(
    source: Source, records: Decoded, some: _Commits, keys: offsets.Keys, own: dict[str, Any],
    bucket_ms: int | None,
) -> Iterator[Any]:  # fmt: skip
    """What each group wrote in each time bucket, transactional commits included."""
    if bucket_ms is None:
        return
    names = [
        keys.groups.take(pa.array(keys.group_code[keys.code])),
        pa.array(own["group"], pa.string()),
    ]
    place = np.concatenate([some.place, own["index"]])
    group = pa.chunked_array(names, pa.string()).combine_chunks().dictionary_encode()
    bucket = records.timestamp_ms[place] // bucket_ms
    times, at = np.unique(bucket, return_inverse=True)
    code = at * (len(group.dictionary) + 1) + group.indices.to_numpy()
    pairs, code = np.unique(code, return_inverse=True)
    if not len(pairs):
        return
    commit = np.zeros(len(place), dtype=np.int64)
    commit[: len(some.place)] = ~some.tombstone
    size = records.key_size[place] + np.maximum(records.value_size[place], 0)
    columns = {
        "timestamp_ms": times[pairs // (len(group.dictionary) + 1)] * bucket_ms,
        "group": group.dictionary.take(pa.array(pairs % (len(group.dictionary) + 1))),
        "commits": np.bincount(code, commit).astype(np.int64),
        "records": np.bincount(code),
        "bytes": np.bincount(code, size).astype(np.int64),
    }
    yield rows(source, schema.KIND_COUNT, len(pairs), columns)


# --- the group's own records and markers ---------------------------------------------------------


def _group_rows(
    records: Decoded, key_type: Ints, some: Bools, position: int, notes: list[Note]
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Columns of the group rows, and where in the chunk which groups ended."""
    wanted = np.flatnonzero(some & np.isin(key_type, list(group_records.DECODED_TYPES)))
    index: list[int] = []
    details: list[dict[str, Any]] = []
    data = records.view.memory()
    lost = 0
    for place in wanted.tolist():
        key, value = _bytes(data, records, place)
        try:
            record = group_records.decode(int(key_type[place]), key, value)
        except ValueError:
            lost += 1
            continue
        index.append(place)
        details.append(record._asdict())
    _note_lost(notes, REASON_VALUE, lost, position)
    rows = np.array(index, dtype=np.int64)
    groups = [str(detail.pop("group")) for detail in details]
    columns = {
        "index": rows,
        "key_type": key_type[rows].astype(np.int32),
        "group": groups,
        "tombstone": records.value_size[rows] < 0,
        "detail": details,
        "bytes": records.key_size[rows] + np.maximum(records.value_size[rows], 0),
    }
    gone = (records.value_size[rows] < 0) & np.isin(key_type[rows], types.GROUP_TYPES)
    return columns, [(groups[place], index[place]) for place in np.flatnonzero(gone)]


def _bytes(data: memoryview, records: Decoded, place: int) -> tuple[bytes, bytes | None]:
    key_at, value_at = int(records.key_at[place]), int(records.value_at[place])
    value_size = int(records.value_size[place])
    key = bytes(data[key_at : key_at + int(records.key_size[place])])
    return key, None if value_size < 0 else bytes(data[value_at : value_at + value_size])


def _markers(records: Decoded, index: Ints, position: int, notes: list[Note]) -> dict[str, Any]:
    # ControlRecordType: version i16, type i16.
    kind = np.where(records.key_size[index] >= 4, records.view.i16(records.key_at[index] + 2), -1)
    ends = (kind == ABORT) | (kind == COMMIT)
    if not ends.all():
        notes.append(Note(REASON_MARKER, position, 0, int((~ends).sum()), damage=False))
    return {
        "index": index[ends],
        "producer_id": records.producer_id[index[ends]],
        "committed": kind[ends] == COMMIT,
    }


# --- rows ----------------------------------------------------------------------------------------


def _until(records: Decoded, as_of_ms: int, position: int, notes: list[Note]) -> Decoded:
    early = records.timestamp_ms <= as_of_ms
    if not early.all():
        notes.append(Note(REASON_AFTER, position, 0, int((~early).sum()), damage=False))
    return records.only(early)


def _note_lost(notes: list[Note], reason: str, count: int, position: int) -> None:
    if count:
        notes.append(Note(reason, position, 0, count))


def _masked(values: NDArray[Any], null: Bools) -> Any:
    return pa.array(values, mask=null)
