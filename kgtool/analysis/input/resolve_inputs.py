"""Put the inputs together: nothing twice, one cluster, and what they can tell as a whole."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any

from kgtool.analysis import missing_data
from kgtool.analysis.input import formats
from kgtool.analysis.input.copies import newest
from kgtool.analysis.input.input_files import NO_PARTITION, InputFile, Inputs, is_empty_log
from kgtool.errors import ConfigError

MAX_OFFSET = 2**63 - 1
_HEAD_BYTES = 1 << 16
_BATCH = re.compile(rb"(?:baseO|\bo)ffset: \d+ [^\n]+")


def resolve(inputs: Inputs) -> Inputs:
    """The inputs once everything is found: nothing twice, and what they tell together.

    Raises ConfigError if there is nothing to read.
    """
    unique, overlapping = _without_duplicates(inputs.files)
    if not unique and not is_empty_log(inputs.manifest):
        raise ConfigError(" ".join(inputs.problems) or "There is nothing to read.")
    files = _as_one_partition(_with_own_partitions(unique))
    return inputs._replace(files=files, notes=[*inputs.notes, *overlapping])


def merge(one: Inputs, *others: Inputs) -> Inputs:
    """All of them together. Raises ConfigError if they are of several clusters."""
    files, manifests, *sentences = zip(one, *others, strict=True)
    problems, notes, remote = (list(chain(*some)) for some in sentences)
    return Inputs(list(chain(*files)), one_cluster(*manifests), problems, notes, remote)


def one_cluster(*manifests: dict[str, Any] | None) -> dict[str, Any] | None:
    """The newest description of the cluster. Raises ConfigError if there are several clusters."""
    told = [manifest for manifest in manifests if manifest is not None]
    clusters = {str(manifest.get("cluster_id")) for manifest in told}
    if len(clusters) > 1:
        raise ConfigError(
            "The inputs are from different clusters "
            f"({', '.join(sorted(clusters))}): analyze them one by one."
        )
    return max(told, key=_taken_ms) if told else None


def _taken_ms(manifest: dict[str, Any]) -> int:
    taken = manifest.get("taken_at_ms")
    return taken if isinstance(taken, int) else 0


def _without_duplicates(files: Iterable[InputFile]) -> tuple[list[InputFile], list[str]]:
    """Each file once, and one copy of each log partition: replicas must not count twice."""
    once = {
        file.path if file.is_remote else os.path.realpath(file.path): file
        for file in reversed(list(files))
    }
    return newest(list(reversed(once.values())))


def _with_own_partitions(files: list[InputFile]) -> list[InputFile]:
    """Give each dump without a partition a number of its own, below NO_PARTITION.

    Dumps in one folder of segments with different base offsets may be of one partition, whose
    groups are in all of them; two with the same base offset are of two, unless both begin with the
    same batch.
    """
    dumps = {kind.name for kind in formats.DUMPS}
    folders: dict[str, list[InputFile]] = {}
    for file in files:
        if file.format in dumps and file.partition == NO_PARTITION:
            folders.setdefault(file.path.rpartition("/")[0], []).append(file)
    placed: dict[str, InputFile] = {}
    for some in folders.values():
        begins = [_first_batch(file) for file in some]
        bases = [file.base_offset for file in some]
        is_one = len({*zip(bases, begins, strict=True)}) == len({*bases})
        number = {begin: at for at, begin in enumerate(dict.fromkeys(begins))}
        first = NO_PARTITION - 1 - len(placed)
        for file, begin in zip(some, begins, strict=True):
            at = 0 if is_one else number[begin]
            placed[file.path] = file._replace(partition=first - at)
    return [placed.get(file.path, file) for file in files]


def _first_batch(file: InputFile) -> str:
    """The first line of a dump that tells of a batch or record; the path where there is none."""
    try:
        with Path(file.path).open("rb") as opened:
            found = _BATCH.search(opened.read(_HEAD_BYTES))
    except OSError:
        return file.path
    return file.path if found is None else found[0].decode(errors="replace")


def _as_one_partition(files: list[InputFile]) -> list[InputFile]:
    """Let what formatters printed tell together what it can, the groups' records first."""
    names = [kind.name for kind in formats.FORMATTERS]
    printed = [file for file in files if file.format in names]
    together = reduce(or_, (file.missing for file in printed), 0)
    for what in (missing_data.OFFSETS, missing_data.GROUPS):
        if any(not file.missing & what for file in printed):
            together &= ~what
    printed.sort(key=lambda file: bool(file.missing & missing_data.GROUPS))
    behind = 0
    placed: dict[str, InputFile] = {}
    for file in printed:
        placed[file.path] = file._replace(missing=together, order=behind)
        behind += file.size + 1
    return [placed.get(file.path, file) for file in files]


def may_overlap(files: Sequence[InputFile]) -> bool:
    """Whether two inputs may hold the same record.

    Segments of one folder are told apart by their names; those of other folders may be replicas.
    """
    kinds = {file.format for file in files}
    anywhere = {formats.PARQUET.name, formats.FRAME.name, formats.ROWS_JSON.name}
    if kinds & anywhere or len(kinds & set(formats.PLACED)) > 1:
        return True
    folders: dict[int, set[tuple[str, str]]] = {}
    for file in files:
        if file.format in formats.PLACED:
            folder = file.path.rpartition("/")[0]
            folders.setdefault(file.partition, set()).add((file.root, folder))
    return any(len(some) > 1 for some in folders.values())


def find_holes(read: Any) -> dict[int, tuple[int, int]]:
    """The first offsets, from and to, that are missing in the middle of each log partition.

    The log cleaner leaves gaps, too, but none before it has removed what was replaced: so a gap
    is a hole where up to there nothing else is missing, and the next file lacks nothing either.

    :param read: the notes of what was read.
    """
    ends = [("first_offset", "min"), ("last_offset", "max"), ("records", "sum")]
    files = read.group_by(["partition", "path"]).aggregate(ends)
    names = ("partition", "first_offset_min", "last_offset_max", "records_sum")
    rows = zip(*(files[name].to_pylist() for name in names), strict=True)
    found: dict[int, tuple[int, int]] = {}
    cleaned, behind = set[int](), dict[int, int]()
    for number, first, last, records in sorted(row for row in rows if row[1] is not None):
        is_gap = first > behind.setdefault(number, 0)
        is_behind_some = behind[number] > 0
        if is_gap and is_behind_some and number not in cleaned and records == last - first + 1:
            found.setdefault(number, (behind[number], first - 1))
        if is_gap or records < last - first + 1:
            cleaned.add(number)
        behind[number] = max(behind[number], last + 1)
    return found


def begins_late(
    files: Iterable[InputFile], read: Any, starts: Mapping[int, int], earlier: Container[int]
) -> dict[int, int]:
    """The first offset read of each log partition whose beginning is in no input.

    cluster.json tells where a log begins, else the names of its segments do: the log cleaner keeps
    them when it removes their first records. Without names (Parquet) the first offset must do.

    :param read: the notes of what was read.
    :param starts: cluster.json's.
    :param earlier: log partitions whose beginning an earlier run has read.
    """
    named = {kind.name for kind in (formats.SEGMENT, formats.CLUSTER, *formats.DUMPS)}
    bases: dict[int, int] = {}
    for file in files:
        if file.format in named:
            bases[file.partition] = min(bases.get(file.partition, MAX_OFFSET), file.base_offset)
    rows = read.group_by("partition").aggregate([("first_offset", "min")]).to_pylist()
    found: dict[int, int] = {}
    for row in rows:
        number, first = row["partition"], row["first_offset_min"]
        if first is None or number in earlier:
            continue
        if starts.get(number, bases.get(number, first)):
            found[number] = first
    return dict(sorted(found.items()))
