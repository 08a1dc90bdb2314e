"""OffsetRecords and tombstones of offsets: the rows of ``schema.RECORDS`` that matter of a chunk.

A key's commits supersede each other, so of a run of ordinary commits in one chunk only the last
is passed on, with the number of records it stands for: what leaves this module is about as large
as what is live, not as large as the log. A run ends where something looks at it: a tombstone, a
transactional commit, the group's own tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from kgtool.analysis import schema
from kgtool.analysis.decode import offsets
from kgtool.analysis.decode.already_read import Seen
from kgtool.analysis.decode.batches import LogRecords
from kgtool.analysis.decode.job_progress import Tally
from kgtool.analysis.decode.rows import Source, note_lost, rows
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.decode.vector_reader import Bools, Ints

REASON_KEY = "malformed key"
REASON_VALUE = "malformed value"
REASON_UNKNOWN_VALUE = "unknown offset commit value version {}"


class DecodeOptions(NamedTuple):
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


class OffsetRecords(NamedTuple):
    """Offset records that can be used, tombstones among them; one array entry each."""

    place: Ints
    """Which of the chunk's records."""
    tombstone: Bools
    values: offsets.OffsetValues
    pending: Bools
    """Within a transaction."""


def valid_records(
    records: LogRecords, index: Ints, position: int, notes: list[Note], detail: DecodeOptions
) -> OffsetRecords:
    """Those of the offset records at ``index`` that are sound; the others are noted."""
    view = records.view
    sound = offsets.sound_keys(view, records.key_at[index], records.key_size[index])
    note_lost(notes, REASON_KEY, int((~sound).sum()), position)
    index = index[sound]
    values = offsets.read_values(view, records.value_at[index], records.value_size[index])
    tombstone = records.value_size[index] < 0
    valid = tombstone | values.valid
    _note_values(values, valid, position, notes)
    index = index[valid]
    pending = records.transactional[index]
    if detail.by_producer:
        pending = records.producer_id[index] != -1
    return OffsetRecords(index, tombstone[valid], values.only(valid), pending)


def offset_rows(
    records: LogRecords,
    key_type: Ints,
    some: OffsetRecords,
    keys: offsets.OffsetKeys,
    ended: list[tuple[str, int]],
    detail: DecodeOptions,
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
        "bytes": records.size(index),
    }


class _Runs(NamedTuple):
    """OffsetRecords of one key that nothing looks at before the next one; one entry a record."""

    last: Bools
    """Whether the record ends its run: the others are superseded."""
    commits: Ints
    """Records in the run."""
    first: Ints
    """Place of the record that begins the run."""


def _runs(
    some: OffsetRecords, keys: offsets.OffsetKeys, epoch: Ints, creates: Bools, apart: list[Ints]
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


def _group_epochs(index: Ints, keys: offsets.OffsetKeys, ended: list[tuple[str, int]]) -> Ints:
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


def _note_values(
    values: offsets.OffsetValues, valid_records: Bools, position: int, notes: list[Note]
) -> None:
    bad = values.version[~valid_records]
    known = (bad >= 0) & (bad <= offsets.NEWEST_VALUE)
    for version in np.unique(bad[~known]).tolist():
        reason = REASON_UNKNOWN_VALUE.format(version) if version >= 0 else REASON_VALUE
        note_lost(notes, reason, int((bad == version).sum()), position)
    note_lost(notes, REASON_VALUE, int(known.sum()), position)


def _epochs(records: LogRecords, index: Ints, null: Bools) -> Any:
    if records.producer_epoch is None:
        return pa.nulls(len(index), pa.int32())
    return _masked(records.producer_epoch[index].astype(np.int32), null)


def count_rows(
    source: Source,
    records: LogRecords,
    some: OffsetRecords,
    keys: offsets.OffsetKeys,
    own: dict[str, Any],
    bucket_ms: int | None,
) -> Iterator[Any]:
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
    columns = {
        "timestamp_ms": times[pairs // (len(group.dictionary) + 1)] * bucket_ms,
        "group": group.dictionary.take(pa.array(pairs % (len(group.dictionary) + 1))),
        "commits": np.bincount(code, commit).astype(np.int64),
        "records": np.bincount(code),
        "bytes": np.bincount(code, records.size(place)).astype(np.int64),
    }
    yield rows(source, schema.KIND_COUNT, len(pairs), columns)


def _masked(values: NDArray[Any], null: Bools) -> Any:
    return pa.array(values, mask=null)
