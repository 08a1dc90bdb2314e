"""``analyze()``: the tables of a log as DataFrames of the session that a program has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgtool.analysis import schema
from kgtool.analysis.arguments import (
    Moment,
    Span,
    as_moment,
    as_span,
    as_wrote,
    check_rules,
    several,
)
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs, read_manifest
from kgtool.analysis.input.input_files import Inputs
from kgtool.analysis.input.limitations import check_as_of, limitations, older_note
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.spark.session import job_failures, ship_code
from kgtool.analysis.tables.quality import damaged_files, sentence
from kgtool.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED_FILES = 20


class Tables:
    """The tables of one log: ``tables["live"]`` or ``tables.live`` is a DataFrame.

    All are views of one result that Spark keeps in memory and on disk until ``close()``; reading
    them decodes nothing again. A ``with`` block closes it.
    """

    def __init__(self, analysis: Analysis, notes: Sequence[str], problems: Sequence[str]) -> None:
        self._analysis: Analysis | None = analysis
        self.names: tuple[str, ...] = tuple(analysis.names())
        """Of the tables: see ``kgtool analyze --help``."""
        self.end_ms: int = analysis.end_ms
        """The moment to which the log was read, in ms since the epoch."""
        self.notes: tuple[str, ...] = tuple(notes)
        """What was assumed, and what the inputs can't tell."""
        self.problems: tuple[str, ...] = tuple(problems)
        """What could not be read; the tables are about the rest."""

    def __getitem__(self, name: str) -> DataFrame:
        """A table. Raises UsageError if there is none of that name, or it was closed."""
        if name not in self.names:
            raise UsageError(f"There is no table {name!r}: there are {', '.join(self.names)}.")
        if self._analysis is None:
            raise UsageError(f"The tables were closed: read {name} before that.")
        with job_failures():
            frame: DataFrame = self._analysis.frame(name)
        return frame

    def __getattr__(self, name: str) -> DataFrame:
        if name not in schema.TABLES:
            raise AttributeError(f"Tables has no attribute {name!r}")
        return self[name]

    def close(self) -> None:
        """Let Spark forget the result; the session goes on."""
        if self._analysis is not None:
            self._analysis.engine.free()
            self._analysis = None

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def analyze(
    spark: SparkSession,
    source: Any,
    *,
    rules: str | Sequence[str] = "auto",
    retention: Span | Sequence[Span] = (),
    wrote: Span | Mapping[Moment, Span] | None = None,
    check_interval: Span | Sequence[Span] = (),
    as_of: Moment | None = None,
    horizon: Span = "30d",
    bucket: Span = "1h",
    cluster: Mapping[str, Any] | str | Path | None = None,
) -> Tables:
    """Show live offsets, when they expire, and why others were removed.

    :param spark: the session to work on; its master and settings stay as they are.
    :param source: a path or URL, several of them, or a DataFrame with the columns ``key`` and
        ``value`` of ``__consumer_offsets``, and where there are any ``topic``, ``partition``,
        ``offset`` and ``timestamp``.
    :param wrote: the retention that the brokers had; a mapping from the times at which it changed.
    :param cluster: cluster.json of an export, or its content, for a source that has none.

    The other arguments are as the options of ``kgtool analyze``. Durations are ``3d``, ms, or a
    timedelta; times are ISO 8601, ms since the epoch, or a datetime.

    Raises UsageError or ConfigError for arguments and inputs that can't be used, AnalysisError if
    Spark fails.
    """
    from kgtool.analysis.spark.engine import SparkEngine

    if not hasattr(spark, "createDataFrame"):
        raise UsageError(f"analyze() takes a SparkSession first, not {spark!r}.")
    told = None if cluster is None else _manifest(cluster)
    inputs, rows = _find(spark, source)
    basis, played = broker_settings.choose_scenarios(
        inputs.manifest if told is None else told,
        check_rules(rules),
        [as_span("retention", each) for each in several(retention)],
        [as_span("check_interval", each) for each in several(check_interval)],
        as_wrote(wrote),
    )
    as_of_ms = None if as_of is None else as_moment("as_of", as_of)
    check_as_of(inputs.files, as_of_ms)
    options = TableOptions(
        played, as_span("horizon", horizon), as_span("bucket", bucket), gaps=True
    )
    with job_failures():
        ship_code(spark)
        engine = SparkEngine(spark, rows=rows)
        analysis = Analysis(engine, inputs.files, basis, as_of_ms, options)
        try:
            damaged = [sentence(file) for file in damaged_files(analysis.quality, NAMED_FILES)]
            nothing = analysis.nothing_read()
            if nothing is not None:
                raise ConfigError(nothing)
            analysis.fold()
        except BaseException:
            engine.free()
            raise
    basis = analysis.basis
    notes = [*inputs.notes, *limitations(inputs.files, basis.rules)]
    if basis.assumed:
        notes.append(f"Assumed: {', '.join(basis.assumed)}.")
    older = older_note(analysis.older_until_ms, basis.rules)
    notes += [each for each in (older, analysis.misplaced) if each is not None]
    return Tables(analysis, notes, [*inputs.problems, *damaged])


def _find(spark: SparkSession, source: Any) -> tuple[Inputs, DataFrame | None]:
    from pyspark.sql import DataFrame

    if isinstance(source, DataFrame):
        from kgtool.analysis.spark.read_frame import find_frame

        return find_frame(source), source
    paths = [source] if isinstance(source, str | Path) else source
    if not isinstance(paths, Sequence) or not all(isinstance(each, str | Path) for each in paths):
        raise UsageError(f"analyze() takes a path, a URL, several, or a DataFrame, not {source!r}.")
    inputs = find_inputs([str(path) for path in paths])
    if inputs.remote:
        from kgtool.analysis.spark.remote import find_remote

        inputs = find_remote(spark, inputs)
    return inputs, None


def _manifest(cluster: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    if isinstance(cluster, Mapping):
        return dict(json.loads(json.dumps(cluster)))
    try:
        return read_manifest(str(cluster), Path(cluster).read_bytes())
    except OSError as error:
        raise ConfigError(f"{cluster} can't be read: {error.strerror}.") from None
