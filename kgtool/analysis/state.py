"""``--state DIR``: decoded records of earlier runs, so that the next run reads only new ones.

DIR holds the decoded records of every run (``run-N``, Parquet of blobs) and ``state.json``: their
log offsets by partition, their files, and the options they were decoded by. The fold runs over all
of them, so the tables are those of one run over all input ever given. state.json is written last,
after the tables; a run that ended before that left nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.analysis.decode.batches import Spans
from kgtool.analysis.input import formats
from kgtool.analysis.input.broker_settings import BrokerSettings, Scenario
from kgtool.analysis.input.input_files import SEGMENT, InputFile, Inputs
from kgtool.analysis.input.resolve_inputs import one_cluster
from kgtool.analysis.pipeline import Earlier
from kgtool.analysis.spark.output_folder import Place
from kgtool.errors import ConfigError, UsageError
from kgtool.text import listed

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from kgtool.analysis.pipeline import Analysis, Engine

OffsetSpans = Mapping[int, Spans]
"""By partition of ``__consumer_offsets``."""
FILE = "state.json"
FORMAT = 3
_SHOWN = 3


class SavedState(NamedTuple):
    """The content of state.json."""

    options: Mapping[str, object] | None = None
    """Of the runs: ``state_options``."""
    cluster: dict[str, Any] | None = None
    """The newest cluster.json."""
    runs: Sequence[str] = ()
    """Folders of blobs."""
    files: Mapping[str, int] = {}
    """Bytes read of each."""
    offsets: OffsetSpans = {}
    """Log offsets read; empty for Parquet, whose rows may be in any order in any file."""
    missing: int = 0
    overlapping: bool = False
    is_parquet: bool | None = None
    parts: Mapping[str, int] = {}
    """Number of Parquet files of each run."""
    begins_late: Sequence[int] = ()
    """Log partitions whose beginning no run has read."""


class State:
    """The folder, and one run that continues from it."""

    def __init__(self, place: Place, *, rebuild: bool) -> None:
        """Read state.json. Raises ConfigError if the folder holds something else."""
        self._place = place
        raw = place.read(FILE)
        if raw is None and place.kind() == "full" and not all(map(_is_run, place.names())):
            raise ConfigError(f"{place.base} is not empty, and holds no state of analyze.")
        self.before = SavedState() if raw is None or rebuild else _parsed(place, raw)
        names = place.names() if raw else []
        incomplete = [
            run
            for run in self.before.runs
            if run not in names or _parts(place, run) < self.before.parts.get(run, 1)
        ]
        if incomplete:
            raise ConfigError(
                f"{place.base} lacks files of {', '.join(incomplete)}: "
                "give --rebuild to start again."
            )
        numbers = [int(name[4:]) for name in names if _is_run(name)]
        self._run = f"run-{max(numbers, default=0) + 1:06}"
        self._inputs = Inputs([], None, [], [], [])
        self._options: Mapping[str, object] = {}

    @property
    def earlier(self) -> list[str]:
        """Folders of the decoded records of earlier runs."""
        return [f"{self._place.base}/{name}" for name in self.before.runs]

    def go_on(self, engine: Engine) -> Earlier:
        """Have an engine read those of earlier runs and keep its own; return what they are of."""
        engine.earlier, engine.keep_in = self.earlier, f"{self._place.base}/{self._run}"
        before = self.before
        return Earlier(before.offsets, before.begins_late, before.missing, before.overlapping)

    def unread(self, inputs: Inputs) -> Inputs:
        """The inputs without files that were read before, and a note if the log has a gap.

        Raises UsageError for inputs that don't tell log offsets, ConfigError for those of another
        cluster.
        """
        before = self.before
        for file in inputs.files:
            _check_format(file)
        kinds = {file.format == formats.PARQUET.name for file in inputs.files}
        kinds |= set() if before.is_parquet is None else {before.is_parquet}
        if len(kinds) > 1:
            raise UsageError("--state takes Parquet or other inputs, not both in one folder.")
        files = [_resume(file, before.offsets) for file in inputs.files]
        self._inputs = inputs._replace(
            files=[file for file in files if before.files.get(file.path) != file.size],
            manifest=one_cluster(inputs.manifest, before.cluster),
            notes=[
                *inputs.notes,
                *_gaps(files, before.offsets),
                *_rewritten(inputs.files, before.files),
            ],
        )
        return self._inputs

    def check(self, options: Mapping[str, object]) -> None:
        """Refuse options other than those of the state (UsageError)."""
        there, self._options = self.before.options, options
        others = [
            name for name in options if there is not None and options[name] != there.get(name)
        ]
        if others:
            raise UsageError(
                f"--state {self._place.base} was made with another {', '.join(others)}: give the "
                "same options, or --rebuild to start again."
            )

    def commit(self, analysis: Analysis) -> None:
        """Write state.json, and remove what no run owns. Raises OSError."""
        before, files = self.before, self._inputs.files
        is_parquet = before.is_parquet
        parts = dict(before.parts)
        if files:
            is_parquet = files[0].format == formats.PARQUET.name
            parts[self._run] = _parts(self._place, self._run)
        after = SavedState(
            self._options,
            self._inputs.manifest,
            [*before.runs, *([self._run] if files else [])],
            {**before.files, **{file.path: file.size for file in files}},
            {} if is_parquet else _spans(analysis.notes, before.offsets),
            analysis.missing,
            analysis.overlapping,
            is_parquet,
            parts,
            [*analysis.begins_late],
        )
        content = {"kgtool_state": FORMAT, **after._asdict()}
        self._place.write(FILE, json.dumps(content).encode())
        for name in self._place.names():
            if _is_run(name) and name not in after.runs:
                self._place.remove(name)


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same offsets in as few spans as possible.

    >>> merge_spans([(5, 7), (0, 3), (3, 5), (9, 10)])
    [(0, 7), (9, 10)]
    """
    merged: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return merged


def _spans(notes: pa.Table, before: OffsetSpans) -> OffsetSpans:
    """The offsets read before, and those of the notes; a file is one span."""
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    for row in notes.select(["path", "partition", "first_offset", "last_offset"]).to_pylist():
        path, partition, first, last = row.values()
        known = before.get(partition, ())
        if first is None or any(a <= first and last < b for a, b in known):
            continue
        least, most = ends.get((path, partition), (first, last))
        ends[path, partition] = (min(least, first), max(most, last))
    offsets = {partition: list(spans) for partition, spans in before.items()}
    for (_, partition), (first, last) in ends.items():
        offsets.setdefault(partition, []).append((first, last + 1))
    return {partition: merge_spans(spans) for partition, spans in offsets.items()}


def state_options(
    basis: BrokerSettings, scenarios: Sequence[Scenario], bucket_ms: int
) -> dict[str, object]:
    """The options that the state depends on, as in JSON."""
    return {
        "rules": [[at, each.name] for at, each in basis.rule_changes] or basis.rules.name,
        "retention": [list(phase) for phase in basis.wrote],
        "check interval": basis.check_interval_ms,
        "what-if": sorted([each.rules.name, *each[1:]] for each in scenarios),
        "bucket": bucket_ms,
    }


def _parsed(place: Place, raw: bytes) -> SavedState:
    try:
        content = json.loads(raw)
        version = content.pop("kgtool_state")
        if version != FORMAT:
            raise ConfigError(
                f"{place.base}/{FILE} is of another version of kgtool (format {version}, not "
                f"{FORMAT}): give --rebuild to start again."
            )
        offsets = {
            int(number): [(first, end) for first, end in spans]
            for number, spans in content.pop("offsets").items()
        }
        return SavedState(offsets=offsets, **content)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"{place.base}/{FILE} can't be read: give --rebuild to start again."
        ) from None


def _check_format(file: InputFile) -> None:
    has_place = file.partition >= 0 or file.format == formats.PARQUET.name
    if file.format not in formats.PLACED or not has_place:
        raise UsageError(f"--state can't go on from {file.path}: it doesn't tell log offsets.")


def _resume(file: InputFile, offsets: OffsetSpans) -> InputFile:
    """A partition of a live cluster from where the last run ended."""
    if file.format != formats.CLUSTER.name:
        return file
    ends = [
        end for first, end in offsets.get(file.partition, ()) if first <= file.base_offset < end
    ]
    return file._replace(base_offset=min(max(ends, default=file.base_offset), file.size))


def _gaps(files: Sequence[InputFile], offsets: OffsetSpans) -> list[str]:
    """A note if the log begins beyond the last offset read."""
    begins: dict[int, int] = {}
    for file in files:
        if file.format in (formats.SEGMENT.name, formats.CLUSTER.name):
            least = begins.get(file.partition, file.base_offset)
            begins[file.partition] = min(least, file.base_offset)
    gaps = [
        f"{end:,}–{begin - 1:,} of log partition {partition}"
        for partition, begin in sorted(begins.items())
        for end in [max((end for _, end in offsets.get(partition, ())), default=begin)]
        if begin > end
    ]
    if not gaps:
        return []
    where = listed(gaps, _SHOWN, " and {} more")
    return [f"No input contains offsets {where}, between the last run and this one."]


def _rewritten(files: Sequence[InputFile], before: Mapping[str, int]) -> list[str]:
    """A note if the log cleaner has rewritten segments of an earlier run.

    It drops tombstones after delete.retention.ms: of what they removed nothing is left.
    """
    found = [SEGMENT.search(path) for path in before]
    old = {
        (int(name["partition"]), int(name["base"])): size
        for name, size in zip(found, before.values(), strict=True)
        if name is not None
    }
    segments = [file for file in files if file.format == formats.SEGMENT.name]
    new = {(file.partition, file.base_offset): file.size for file in segments}
    begins: dict[int, int] = {}
    for number, base in new:
        begins[number] = min(begins.get(number, base), base)
    partitions = {
        number
        for (number, base), size in old.items()
        if number in begins and base >= begins[number] and new.get((number, base), -1) < size
    }
    if not partitions:
        return []
    return [
        "The log cleaner has rewritten segments since the last run, of log partition "
        f"{listed(sorted(partitions), _SHOWN, ' and {} more')}: what was removed in between may be "
        "counted as live, because tombstones go after delete.retention.ms. --rebuild starts again "
        "from these inputs."
    ]


def _is_run(name: str) -> bool:
    return name.startswith("run-")


def _parts(place: Place, run: str) -> int:
    return sum(name.endswith(".parquet") for name in place.names(run))
