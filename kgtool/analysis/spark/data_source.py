"""``spark.read.format("kgtool")``: decoded records, and tables that need one log partition only.

It uses PySpark's Data Source API and reads local files, or files on a file system that every worker
has mounted. Tables that need all log partitions are left to ``analyze``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kgtool.analysis import schema
from kgtool.analysis.arguments import as_moment, as_span, as_wrote, check_rules
from kgtool.analysis.decode.decoder import decode_split
from kgtool.analysis.decode.rows import DecodeOptions, Split
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs, is_remote, local_path
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.input.limitations import check_as_of
from kgtool.analysis.input.readers.ranges import parts, ranges, split_of
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.errors import ConfigError, UsageError

NAME = "kgtool"
RECORDS = "records"
LOCAL_TABLES = ("live", "removals", "overdue", "orphans", "transactions")
"""Tables that are computed from one log partition at a time."""
OPTIONS = ("path", "paths", "table", "rules", "wrote", "check_interval", "as_of")
_KINDS = (schema.KIND_OFFSET, schema.KIND_GROUP, schema.KIND_MARKER)
_RENAMED = {"partition": "log_partition", "topic_partition": "partition"}
_OF_RECORD = (
    "kind",
    "partition",
    "log_offset",
    "timestamp_ms",
    "key_type",
    "group",
    "tombstone",
    "producer_id",
    "topic",
    "topic_partition",
    "offset",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
    "detail",
    "committed",
)
_TYPES = {
    **{"kind": "string", "partition": "int"},
    **{name: each for kind in _KINDS for name, each in schema.RECORDS[kind]},
}
COLUMNS: schema.Schema = tuple((_RENAMED.get(name, name), _TYPES[name]) for name in _OF_RECORD)
"""Columns of a record; ``kind`` is offset, group (the group's own records) or marker (the end of a
transaction)."""


def register(spark: Any) -> None:
    """Add ``format("kgtool")`` to a session.

    The option ``table`` is ``records`` (default: all records of ``__consumer_offsets``, decoded)
    or one of LOCAL_TABLES, with the columns that ``analyze`` gives it. The options ``rules``,
    ``wrote``, ``check_interval`` and ``as_of`` are those of ``analyze``, as text.
    """
    from kgtool.analysis.spark.session import ship_code

    ship_code(spark)
    spark.dataSource.register(LogSource)


class LogSource(DataSource):  # type: ignore[misc]
    """The data source; Spark creates one for each ``load``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return NAME

    def schema(self) -> str:
        """The columns as a DDL string. Raises UsageError for an unknown option or table."""
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            raise UsageError(
                f"There is no option {unknown[0]}: there are {', '.join(OPTIONS[2:])}."
            )
        table = self._table()
        return schema.ddl(COLUMNS if table == RECORDS else schema.TABLES[table].columns)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        """The reader for these options."""
        return LogReader(self._table(), _paths(self.options), self.options)

    def _table(self) -> str:
        table = str(self.options.get("table", RECORDS))
        if table in schema.TABLES and table not in LOCAL_TABLES:
            raise UsageError(
                f"The table {table} takes all log partitions together: kgtool.analysis.analyze() "
                "has it."
            )
        if table not in (RECORDS, *LOCAL_TABLES):
            names = ", ".join((RECORDS, *LOCAL_TABLES))
            raise UsageError(f"There is no table {table!r}: there are {names}.")
        return table


class Part(InputPartition):  # type: ignore[misc]
    """The input of one task."""

    def __init__(self, splits: Sequence[Split], files: Sequence[InputFile]) -> None:
        self.splits, self.files = splits, files


class LogReader(DataSourceReader):  # type: ignore[misc]
    """Plans in one Python process; reads in one per task."""

    def __init__(self, table: str, paths: Sequence[str], options: Mapping[str, str]) -> None:
        self._name = table
        for path in paths:
            if not is_remote(path) and not local_path(path).exists():
                raise ConfigError(f"{path} does not exist.")
        inputs = find_inputs(paths)
        if inputs.remote:
            raise UsageError(
                f"{inputs.remote[0]} is not a path that workers can open: "
                "kgtool.analysis.analyze() reads URLs."
            )
        self._files = inputs.files
        if table != RECORDS:
            self._learn(inputs.manifest, options)

    def _learn(self, manifest: Any, options: Mapping[str, str]) -> None:
        """Find the settings and the end of the log: a task sees one log partition only."""
        interval = options.get("check_interval")
        basis, _ = broker_settings.choose_scenarios(
            manifest,
            check_rules(options.get("rules", "auto")),
            (),
            () if interval is None else [as_span("check_interval", interval)],
            as_wrote(options.get("wrote")),
        )
        at = options.get("as_of")
        self._as_of_ms = None if at is None else as_moment("as_of", at)
        check_as_of(self._files, self._as_of_ms)
        # The end of the whole log, not of the task's partition.
        whole = Analysis(LocalEngine(1), self._files, basis, self._as_of_ms)
        nothing = whole.nothing_read()
        if nothing is not None:
            raise ConfigError(nothing)
        self._basis = whole.basis._replace(as_of_ms=whole.end_ms)
        self._missing = reduce(or_, (file.missing for file in self._files), 0)

    def partitions(self) -> Sequence[Part]:
        """Ranges of files for records; whole log partitions for tables."""
        if self._name == RECORDS:
            return [Part([row], ()) for file in self._files for row in ranges(split_of(file))]
        by_partition: defaultdict[int, list[InputFile]] = defaultdict(list)
        together = any(file.partition < 0 for file in self._files)
        for file in self._files:
            by_partition[-1 if together else file.partition].append(file)
        return [Part((), files) for files in by_partition.values()]

    def read(self, partition: Part) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows as Arrow batches."""
        if self._name == RECORDS:
            yield from _records(partition.splits)
            return
        analysis = Analysis(LocalEngine(1), partition.files, self._basis, self._as_of_ms)
        analysis.missing = self._missing
        kinds = schema.TABLES[self._name].arrow()
        yield from analysis.frame(self._name).cast(kinds).to_batches()


def _records(rows: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """All records of these ranges."""
    target = schema.arrow(COLUMNS)
    options = DecodeOptions(keep_all=True)
    for kind, partition, batch in chain.from_iterable(
        decode_split(row, options, parts) for row in rows
    ):
        if len(batch) and kind in _KINDS:
            found = {
                **dict(zip(batch.schema.names, batch.columns, strict=True)),
                "kind": pa.repeat(pa.scalar(kind), len(batch)),
                "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(batch)),
            }
            columns = [
                found[name] if name in found else pa.nulls(len(batch), field.type)
                for name, field in zip(_OF_RECORD, target, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=target)


def _paths(options: Mapping[str, str]) -> list[str]:
    several = options.get("paths")
    paths = json.loads(several) if several else [options.get("path")]
    if not all(paths):
        raise UsageError('Nothing to read: name a path, load("export/").')
    return list(map(str, paths))
