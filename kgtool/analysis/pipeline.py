"""Put the job together: inputs → decoded logs → the fold of each → tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from operator import or_
from typing import Any, NamedTuple, Protocol

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.decode.batches import BACK, Spans
from kgtool.analysis.decode.blobs import empty
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.decode.written_by import REASON, written
from kgtool.analysis.fold import homes
from kgtool.analysis.fold.arrays import MAX, NONE
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.fold.folded_log import TableOptions as TableOptions
from kgtool.analysis.fold.rules_columns import Wrote
from kgtool.analysis.input import formats
from kgtool.analysis.input.broker_settings import BrokerSettings
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.input.read_twice import Twice, find_twice, suspects
from kgtool.analysis.input.resolve_inputs import begins_late, find_holes, may_overlap
from kgtool.analysis.tables import metrics, removals, whatif
from kgtool.analysis.tables.quality import damaged_files, quality, sentence
from kgtool.analysis.words import when
from kgtool.retention import written_by
from kgtool.retention.doubts import SharedAge

Order = Sequence[str]
Best = Sequence[tuple[str, str]]
"""Columns, each with ``ascending`` or ``descending``; nulls come last."""
MapBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[bytes]]


DEFAULTS = TableOptions()


class PostProcess(NamedTuple):
    """Post-processing of a table after all log partitions are folded."""

    each: Callable[[pa.Table], pa.Table] = lambda rows: rows
    """For any part of the table's rows."""
    sum_by: tuple[str, ...] = ()
    """As of ``schema.Table``."""
    max_of: tuple[str, ...] = ()


class Earlier(NamedTuple):
    """What earlier runs have read, with ``--state``."""

    offsets: Mapping[int, Spans] = {}
    """Log offsets, by log partition."""
    begins_late: Sequence[int] = ()
    """Log partitions whose beginning no run has read."""
    missing: int = 0
    overlapping: bool = False


NOTHING = Earlier()


class Engine(Protocol):
    """Decodes and folds; tables stay where they were made until they are read."""

    earlier: Sequence[str] = ()
    """Folders with the decoded records of earlier runs."""
    keep_in: str | None = None
    """The folder for those of this run."""
    driver_tables: dict[str, pa.Table]
    """Arrow tables that the driver has built."""

    def read(self, files: Sequence[InputFile], options: DecodeOptions) -> list[pa.Table]:
        """Decode the inputs; return the notes about them, tables of ``schema.KIND_QUALITY``."""

    def fold(self, plan: FoldPlan) -> None:
        """Build the tables of every log partition; again, until ``forget_records``."""

    def forget_records(self) -> None:
        """Free what only the fold needs."""

    def collect(self, name: str, topics: Sequence[str] | None = None) -> pa.Table:
        """A small table, whole; or the rows of some topics of ``offset_changes``."""

    def rows(
        self, name: str, post: PostProcess, order: Order, limit: int | None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table; nulls come first."""

    def mapped(self, name: str, post: PostProcess, best: Best, do: MapBatches) -> Iterator[bytes]:
        """Run ``do`` in the workers over a table's Arrow batches, in that order."""

    def frame(self, name: str, post: PostProcess) -> Any:
        """A table: a DataFrame of Spark's, or an Arrow table."""

    def write(self, tables: Mapping[str, PostProcess], base: str) -> None:
        """Write tables as Parquet files, each in its folder below a folder or a URL."""

    def free(self) -> None:
        """Free what is kept outside of this process."""
        return


class Analysis:
    """The tables over one set of inputs, which is decoded once and folded once."""

    def __init__(
        self,
        engine: Engine,
        files: Sequence[InputFile],
        basis: BrokerSettings,
        as_of_ms: int | None = None,
        options: TableOptions = DEFAULTS,
        earlier: Earlier = NOTHING,
    ) -> None:
        self.engine, self.files, self.basis = engine, files, basis
        self.missing = reduce(or_, (file.missing for file in files), earlier.missing)
        self.overlapping = may_overlap(files) or earlier.overlapping
        """Whether the same record may be there more than once."""
        self._already_read = earlier.offsets
        self._earlier_heads = frozenset(earlier.offsets) - {*earlier.begins_late}
        self.as_of_ms = as_of_ms
        self.options = options
        self.twice: Twice | None = None
        """What the inputs have twice, once they are read."""
        self.older_until_ms: dict[int, int] = {}
        """Until when brokers with other rules than these wrote each log partition."""

    @cached_property
    def notes(self) -> pa.Table:
        """What was read of each file, and what was not. Reads the inputs."""
        options = self.options.decode_options(self.basis.check_interval_ms)._replace(
            as_of_ms=self.as_of_ms,
            now_ms=time.time_ns() // 1_000_000,
            keep_all=self.overlapping,
            by_producer=self.basis.rules.new_coordinator,
            already_read=self._already_read,
        )
        found = self.engine.read(self.files, options)
        self.twice = self._find_twice(found)
        if self.twice is not None:
            options = options._replace(leave_out=self.twice.leave_out)
            found = self.engine.read(self.files, options)
        notes = pa.concat_tables([empty(schema.KIND_QUALITY), *found])
        tells = pc.fill_null(pc.equal(notes["reason"], REASON), fill_value=False)
        self._learn(written(notes.filter(tells)))
        hidden = pc.is_in(notes["reason"], pa.array([REASON, BACK]))
        notes = notes.filter(pc.invert(hidden))
        path = notes.schema.get_field_index("path")
        return notes.set_column(path, "path", notes["path"].cast(pa.string()))

    def _find_twice(self, found: Sequence[pa.Table]) -> Twice | None:
        notes = pa.concat_tables([empty(schema.KIND_QUALITY), *found])
        partitions = suspects(notes, overlapping=self.overlapping)
        return find_twice(self.files, partitions) if partitions else None

    def _learn(self, kinds: list[written_by.Written]) -> None:
        """Choose the rules by the records, where nothing else told; and how far back they hold."""
        basis = self.basis
        if basis.rules_given:
            return
        likely = written_by.likely_rules(kinds)
        if basis.rules_assumed and likely is not None:
            self.basis = basis.with_rules(likely)
            played = dict.fromkeys(
                each._replace(rules=likely if each.rules == basis.rules else each.rules)
                for each in self.options.scenarios
            )
            self.options = self.options._replace(scenarios=tuple(played))
        self.older_until_ms = written_by.older_until_ms(kinds, self.basis.rules)

    @cached_property
    def last_record_ms(self) -> int | None:
        """Timestamp of the log's newest record that is not in the future."""
        read = self._read
        found = [pc.max(read["newest_ms"]).as_py()]
        found += [] if self.future_records else [pc.max(read["newest_future_ms"]).as_py()]
        return max((ms for ms in found if ms is not None), default=None)

    @cached_property
    def future_records(self) -> tuple[int, int] | None:
        """Number of records with a time in the future, and the latest; None: none, or most.

        If most are, this machine's clock is wrong.
        """
        read = self._read
        count, total = (pc.sum(read[name]).as_py() or 0 for name in ("future_records", "records"))
        return (count, pc.max(read["newest_future_ms"]).as_py()) if 0 < 2 * count <= total else None

    @cached_property
    def _read(self) -> pa.Table:
        return self.notes.filter(pc.is_null(self.notes["reason"]))

    @cached_property
    def end_ms(self) -> int:
        """The time up to which the log was read: an option, the input's, or its last record's."""
        return self.as_of_ms or self.basis.as_of_ms or self.last_record_ms or 0

    @cached_property
    def quality(self) -> pa.Table:
        """What was read, and what was not and why: an Arrow table of ``schema.QUALITY``."""
        return quality(self.notes)

    def nothing_read(self) -> str | None:
        """Why there are no records; None: there are, or there is no file."""
        if self.last_record_ms is not None or not self.files:
            return None
        for file in damaged_files(self.quality, 1):
            return f"Nothing could be read. {sentence(file)}"
        until = "" if self.as_of_ms is None else f" until {when(self.as_of_ms)}"
        return f"Nothing could be read: the log has no records{until}."

    @cached_property
    def plan(self) -> FoldPlan:
        """Rules and options of the fold."""
        end_ms = self.end_ms  # this reads the inputs, which may tell the rules
        basis, topics = self.basis, list(self.basis.listed_topics)
        return FoldPlan(
            basis.rules,
            Wrote(basis.wrote),
            basis.check_interval_ms,
            end_ms,
            self.options._replace(counters=None),
            self.overlapping,
            {(name, number): ends for name, _, parts in topics for number, ends in parts.items()},
            {name: topic_id for name, topic_id, _ in topics if topic_id is not None},
            frozenset(name for name, *_ in topics) if topics else None,
            frozenset(self.begins_late),
            basis.listed if self._asks_listing else {},
            older_until_ms=self.older_until_ms,
            log_partitions=self.log_partitions,
            older_rules=basis.older_rules,
            hold_ms=(basis.rule_changes[-1][0] if basis.rule_changes else NONE, MAX),
            holes=frozenset(self.holes),
        )

    @cached_property
    def begins_late(self) -> dict[int, int]:
        """The first offset read of each log partition that begins before the inputs."""
        return begins_late(self.files, self._read, self.basis.log_starts, self._earlier_heads)

    @cached_property
    def holes(self) -> dict[int, tuple[int, int] | None]:
        """Log partitions of which the middle is missing: the first offsets, from and to.

        None: a segment is damaged.
        """
        names = (formats.SEGMENT.name, formats.CLUSTER.name)
        placed = {file.path for file in self.files if file.format in names}
        files = self.quality.filter(self.quality["damaged"]).select(
            ["path", "partition", "records"]
        )
        damaged = {
            row["partition"]: None
            for row in files.to_pylist()
            if row["path"] in placed and row["records"] and row["partition"] is not None
        }
        return {**damaged, **find_holes(self._read)}

    @property
    def log_partitions(self) -> int:
        """cluster.json's number of log partitions; 0: it does not tell."""
        known = self.basis.log_starts
        return len(known) if set(known) == set(range(len(known))) else 0

    @cached_property
    def misplaced(self) -> str | None:
        """The sentence about groups in a log partition that is not theirs; None: there are none."""
        return homes.note(self.small("homes"), self.log_partitions)

    @property
    def _asks_listing(self) -> bool:
        """Whether cluster.json's groups, as of when it was written, tell what records don't."""
        lacks = self.missing & (missing_data.GROUPS | missing_data.NEW_GROUPS)
        return bool(lacks or self.begins_late or self.holes) and self.as_of_ms is None

    def names(self) -> list[str]:
        """The tables that these options give."""
        return [
            name
            for name, table in schema.TABLES.items()
            if table.option is None or getattr(self.options, table.option)
        ]

    def fold(self) -> None:
        """Fold now, not when the first table is read."""
        _ = self._folded

    def small(self, name: str) -> pa.Table:
        """A small table of all log partitions."""
        return self._folded[0].collect(name)

    def rows(
        self, name: str, order: Order = (), limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of one of ``schema.TABLES``."""
        return self._engine_with(name).rows(name, self._post(name), order, limit)

    def mapped(self, name: str, best: Best, do: MapBatches) -> Iterator[bytes]:
        """Run ``do`` in the workers over the Arrow batches of one of ``schema.TABLES``."""
        return self._engine_with(name).mapped(name, self._post(name), best, do)

    def count(self, name: str, column: str | None = None, at_most: int | None = None) -> int:
        """Number of rows, or of those with a value in that column that is at most ``at_most``."""
        counted = self.mapped(name, (), partial(_counts, column=column, at_most=at_most))
        return sum(map(int, counted))

    def write(self, names: Sequence[str], base: str) -> None:
        """Write tables as Parquet, each in its folder below ``base``."""
        engine = [self._engine_with(name) for name in names][-1]
        engine.write({name: self._post(name) for name in names}, base)

    def frame(self, name: str) -> Any:
        """A table as its engine has it: a DataFrame of Spark's, or an Arrow table."""
        return self._engine_with(name).frame(name, self._post(name))

    @property
    def shared_ages(self) -> list[SharedAge]:
        """``doubts.shared_ages``: signs that the brokers' retention was shorter for a time."""
        return self._folded[1]

    @cached_property
    def whatif(self) -> list[dict[str, Any]]:
        """Rows of ``schema.WHATIF``, in the order of the scenarios."""
        if self._is_blind:
            return []
        return whatif.whatif(self.plan, self.small("whatif_totals"), self.small("whatif_days"))

    @cached_property
    def metrics(self) -> pa.Table:
        """An Arrow table of ``schema.METRICS``."""
        kinds = schema.arrow(schema.METRICS)
        if self._is_blind:
            return kinds.empty_table()
        bucket_ms = self.options.bucket_ms
        assert bucket_ms is not None
        deleted = self.small("deleted_offsets")
        topics = pc.unique(deleted["topic"]).to_pylist()
        changes = self._folded[0].collect("offset_changes", topics) if topics else None
        columns = metrics.metrics(self.small("metric_counts"), deleted, changes, bucket_ms)
        return pa.table([columns[name] for name in kinds.names], schema=kinds)

    @cached_property
    def families(self) -> frozenset[str]:
        """Families of more than one generated name."""
        names = (
            self.small("family_names")
            .group_by("family")
            .aggregate([("count", "max"), ("name", "min"), ("name", "max")])
        )
        several = pc.or_(
            pc.greater(names["count_max"], 1), pc.not_equal(names["name_min"], names["name_max"])
        )
        return frozenset(names.filter(several)["family"].to_pylist())

    @cached_property
    def _folded(self) -> tuple[Engine, list[SharedAge]]:
        """The engine once it has the tables, and what made it fold once more."""
        self.engine.fold(self.plan)  # the plan reads the inputs first
        ages = removals.shared_ages(self.engine.collect("early_removals"))
        checks = removals.certain_checks(self.engine.collect("removal_moments"))
        if ages or checks:
            doubtful = tuple(sorted(each.age_ms for each in ages))
            self.engine.fold(self.plan._replace(doubtful_ages_ms=doubtful, checks_ms=checks))
        self.engine.forget_records()
        return self.engine, ages

    def decisions(self) -> Iterator[dict[str, Any]]:
        """The rows of ``cleanup.items``, by group."""
        return self._folded[0].rows("cleanup", PostProcess(), ("group",), None)

    @property
    def _is_blind(self) -> bool:
        return bool(self.missing & missing_data.BLIND)

    def _engine_with(self, name: str) -> Engine:
        """The engine once it has that table."""
        table = schema.TABLES[name]
        engine = self.engine if name == "quality" else self._folded[0]
        if name in engine.driver_tables:
            return engine
        if table.is_empty_if_blind and self._is_blind:
            engine.driver_tables[name] = table.arrow().empty_table()
        elif name == "whatif":
            engine.driver_tables[name] = pa.Table.from_pylist(self.whatif, schema=table.arrow())
        elif table.by_driver:
            engine.driver_tables[name] = getattr(self, name)
        return engine

    def _post(self, name: str) -> PostProcess:
        if name in self.engine.driver_tables:
            return PostProcess()
        table = schema.TABLES[name]
        families = self.families if "family" in table.names else None
        each = partial(_columns, names=table.names, families=families)
        return PostProcess(each, table.sum_by, table.max_of)


def _counts(
    batches: Iterable[pa.RecordBatch], column: str | None, at_most: int | None
) -> Iterator[bytes]:
    """The rows of each batch that ``count`` wants, as text."""
    for batch in batches:
        some = batch if column is None else batch.filter(pc.is_valid(batch[column]))
        rows = some if at_most is None else some.filter(pc.less_equal(some[column], at_most))
        yield b"%d" % len(rows)


def _columns(rows: pa.Table, names: list[str], families: frozenset[str] | None) -> pa.Table:
    """A table's columns; the family of a group that is alone in it is the group's own name."""
    if families is not None:
        real = pc.is_in(rows["family"], pa.array(sorted(families), pa.string()))
        family = pc.if_else(real, rows["family"], rows["group"])
        rows = rows.set_column(rows.schema.get_field_index("family"), "family", family)
    return rows.select(names)
