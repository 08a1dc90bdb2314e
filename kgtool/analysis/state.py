"""``--state DIR``: what was decoded of a log so far, so that the next run reads only what is new.

DIR holds the decoded records of every run (``run-N``, Parquet of blobs) and ``state.json``: which
offsets of which log partition they are, of which files, and by which options they were decoded.
The fold runs over all of them, so the tables are those of one run over all input ever given.
state.json comes last, once the tables are in their place; a run that was ended before counts for
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.analysis.decode.already_read import Seen, merged
from kgtool.analysis.input import formats
from kgtool.analysis.input.broker_settings import BrokerSettings
from kgtool.analysis.input.input_files import InputFile, Inputs
from kgtool.analysis.input.resolve_inputs import one_cluster
from kgtool.analysis.spark.output_folder import Place
from kgtool.errors import ConfigError, UsageError
from kgtool.text import listed

FILE = "state.json"
FORMAT = 2
_SHOWN = 3


class SavedState(NamedTuple):
    """The content of state.json."""

    options: dict[str, Any] | None = None
    """By which options it was made."""
    cluster: dict[str, Any] | None = None
    """The newest cluster.json."""
    runs: Sequence[str] = ()
    """Folders of blobs."""
    files: Mapping[str, int] = {}
    """What was read, and how many bytes of it."""
    seen: Seen = {}
    """Empty where the inputs are Parquet, whose rows may be in any order in any file."""
    missing: int = 0
    overlapping: bool = False
    is_parquet: bool | None = None
    parts: Mapping[str, int] = {}
    """How many Parquet files a run has, where that was noted."""


class State:
    """A folder that goes on from run to run."""

    def __init__(self, place: Place, *, rebuild: bool) -> None:
        """Look at what is there. Raises ConfigError if it is no state."""
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
        self._options: dict[str, Any] = {}

    @property
    def earlier(self) -> list[str]:
        """Where the decoded records of the runs before are."""
        return [f"{self._place.base}/{name}" for name in self.before.runs]

    @property
    def run(self) -> str:
        """Where those of this run go."""
        return f"{self._place.base}/{self._run}"

    def unread(self, inputs: Inputs) -> Inputs:
        """The inputs without what was read before; a note tells what is missing between.

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
        files = [_from(file, before.seen) for file in inputs.files]
        self._inputs = inputs._replace(
            files=[file for file in files if before.files.get(file.path) != file.size],
            manifest=one_cluster(inputs.manifest, before.cluster),
            notes=[*inputs.notes, *_gaps(files, before.seen)],
        )
        return self._inputs

    def check(self, options: dict[str, Any]) -> None:
        """Refuse to go on with what was decoded by other options (UsageError)."""
        there, self._options = self.before.options, options
        others = [
            name for name in options if there is not None and options[name] != there.get(name)
        ]
        if others:
            raise UsageError(
                f"--state {self._place.base} was made with another {', '.join(others)}: give the "
                "same options, or --rebuild to start again."
            )

    def commit(self, analysis: Any) -> None:
        """Let the state be the one that this run has made. Raises OSError."""
        before, files = self.before, self._inputs.files
        is_parquet = before.is_parquet
        parts = dict(before.parts)
        if files:
            is_parquet = files[0].format == formats.PARQUET.name
            parts[self._run] = _parts(self._place, self._run)
        after = SavedState(
            self._options, self._inputs.manifest, [*before.runs, *([self._run] if files else [])],
            {**before.files, **{file.path: file.size for file in files}},
            {} if is_parquet else _seen(analysis.notes, before.seen), analysis.missing,
            analysis.overlapping, is_parquet, parts,
        )  # fmt: skip
        content = {"kgtool_state": FORMAT, **after._asdict()}
        self._place.write(FILE, json.dumps(content).encode())
        for name in self._place.names():
            if _is_run(name) and name not in after.runs:
                self._place.remove(name)


def _seen(notes: Any, before: Seen) -> Seen:
    """The offsets read before, and those that these notes tell of; a file is one span."""
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    for row in notes.select(["path", "partition", "log_offset", "offset"]).to_pylist():
        path, partition, first, last = row.values()
        known = before.get(partition, ())
        if first is None or any(a <= first and last < b for a, b in known):
            continue
        least, most = ends.get((path, partition), (first, last))
        ends[path, partition] = (min(least, first), max(most, last))
    seen = {partition: list(spans) for partition, spans in before.items()}
    for (_, partition), (first, last) in ends.items():
        seen.setdefault(partition, []).append((first, last + 1))
    return {partition: merged(spans) for partition, spans in seen.items()}


def state_options(
    basis: BrokerSettings, scenarios: Sequence[Any], bucket_ms: int
) -> dict[str, Any]:
    """By what a log is decoded and judged, as JSON has it."""
    return {
        "rules": basis.rules.name,
        "retention": [list(phase) for phase in basis.wrote],
        "check interval": basis.check_interval_ms,
        "what-if": sorted([each.rules.name, *each[1:]] for each in scenarios),
        "bucket": bucket_ms,
    }


def _parsed(place: Place, raw: bytes) -> SavedState:
    try:
        content = json.loads(raw)
        if content.pop("kgtool_state") != FORMAT:
            raise ValueError
        seen = {int(number): [(a, b) for a, b in spans]
                for number, spans in content.pop("seen").items()}  # fmt: skip
        return SavedState(seen=seen, **content)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(
            f"{place.base}/{FILE} can't be read: give --rebuild to start again."
        ) from None


def _check_format(file: InputFile) -> None:
    has_place = file.partition >= 0 or file.format == formats.PARQUET.name
    if file.format not in formats.PLACED or not has_place:
        raise UsageError(f"--state can't go on from {file.path}: it doesn't tell log offsets.")


def _from(file: InputFile, seen: Seen) -> InputFile:
    """A live cluster is read from where it was read to."""
    if file.format != formats.CLUSTER.name:
        return file
    here = [end for first, end in seen.get(file.partition, ()) if first <= file.base_offset < end]
    return file._replace(base_offset=min(max(here, default=file.base_offset), file.size))


def _gaps(files: Sequence[InputFile], seen: Seen) -> list[str]:
    """Where the log begins beyond what was read of it."""
    begins: dict[int, int] = {}
    for file in files:
        if file.format in (formats.SEGMENT.name, formats.CLUSTER.name):
            least = begins.get(file.partition, file.base_offset)
            begins[file.partition] = min(least, file.base_offset)
    gaps = [
        f"{partition} ({end:,} to {begin - 1:,})"
        for partition, begin in sorted(begins.items())
        for end in [max((end for _, end in seen.get(partition, ())), default=begin)]
        if begin > end
    ]
    if not gaps:
        return []
    where = listed(gaps, _SHOWN, " and {} more")
    return [f"Offsets between the last run and this one are in no input, of log partition {where}."]


def _is_run(name: str) -> bool:
    return name.startswith("run-")


def _parts(place: Place, run: str) -> int:
    return sum(name.endswith(".parquet") for name in place.names(run))
