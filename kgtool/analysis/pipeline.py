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
from kgtool.analysis.decode.blobs import empty
from kgtool.analysis.decode.commits import DecodeOptions
from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.fold.folded_log import TableOptions as TableOptions
from kgtool.analysis.fold.rules_columns import Wrote
from kgtool.analysis.input.broker_settings import BrokerSettings
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.input.resolve_inputs import may_overlap
from kgtool.analysis.tables import metrics, removals, whatif
from kgtool.analysis.tables.quality import damaged_files, quality, sentence
from kgtool.analysis.words import when

_BY_FAMILY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "whatif_families": (("rules", "retention_ms", "check_interval_ms", "family"), ()),
    "writers": (("bucket_ms", "family"), ()),
    "gaps": (("family",), ("longest_gap_ms", "safe_retention_ms")),
}
"""What rows of groups are put together by, and of what the greatest counts."""
Order = Sequence[str]
Best = Sequence[tuple[str, str]]
"""Columns, each with ``ascending`` or ``descending``; what is missing comes last."""


DEFAULTS = TableOptions()


class Finish(NamedTuple):
    """What is done to a table once all log partitions are folded."""

    each: Callable[[Any], Any] = lambda rows: rows
    sum_by: tuple[str, ...] = ()
    """Add up all other columns of rows that are equal in these, ..."""
    most: tuple[str, ...] = ()
    """... but take the greatest value of these."""


class Engine(Protocol):
    """Who decodes and folds; tables stay where they were made until they are asked for."""

    earlier: Sequence[str] = ()
    """Where runs before left what they decoded."""
    keep_in: str | None = None
    """Where this one leaves it."""
    given: dict[str, Any]
    """Tables that it did not make itself."""

    def read(
        self, files: Sequence[InputFile], as_of_ms: int | None, detail: DecodeOptions
    ) -> list[Any]:
        """Decode the inputs; the notes about them: tables of ``schema.RECORDS``."""

    def fold(self, plan: FoldPlan) -> None:
        """Make the tables of every log partition."""

    def collect(self, name: str, topics: Sequence[str] | None = None) -> Any:
        """A small table, whole; or of ``changes`` the rows of some topics."""

    def rows(
        self, name: str, finish: Finish, order: Order, limit: int | None
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table; what is missing comes first."""

    def mapped(
        self, name: str, finish: Finish, best: Best, do: Callable[[Iterable[Any]], Iterator[bytes]]
    ) -> Iterator[bytes]:
        """What ``do`` gives of a table's Arrow batches, in that order; workers do it."""

    def frame(self, name: str, finish: Finish) -> Any:
        """A table: a DataFrame of Spark's, or an Arrow table."""

    def write(self, tables: Mapping[str, Finish], base: str) -> None:
        """Write tables as Parquet files, each in its folder below a folder or a URL."""

    def free(self) -> None:
        """Forget what is kept elsewhere than in this process."""
        return


class Analysis:
    """The tables over one set of inputs, which is decoded once and folded once."""

    def __init__(
        self, engine: Engine, files: Sequence[InputFile], basis: BrokerSettings,
        as_of_ms: int | None = None, options: TableOptions = DEFAULTS, state: Any = None,
    ) -> None:  # fmt: skip
        """:param state: a ``state.State`` to go on from."""
        self.engine, self.files, self.basis = engine, files, basis
        self.missing = reduce(or_, (file.missing for file in files), 0)
        self.overlapping = may_overlap(files)
        """Whether the same record may be there more than once."""
        self._seen = None
        if state is not None:
            engine.earlier, engine.keep_in = state.earlier, state.run
            self._seen = state.before.seen
            self.missing |= state.before.missing
            self.overlapping |= state.before.overlapping
        self.as_of_ms = as_of_ms
        self.options = options
        self._made: set[str] = set()

    @cached_property
    def notes(self) -> Any:
        """What was read of each file, and what was not; asking for it reads the inputs."""
        detail = self.options.detail(self.basis.check_interval_ms)._replace(
            whole=self.overlapping, by_producer=self.basis.rules.new_coordinator,
            now_ms=time.time_ns() // 1_000_000, seen=self._seen,
        )  # fmt: skip
        found = self.engine.read(self.files, self.as_of_ms, detail)
        notes = pa.concat_tables([empty(schema.KIND_QUALITY), *found])
        path = notes.schema.get_field_index("path")
        return notes.set_column(path, "path", notes["path"].cast(pa.string()))

    @cached_property
    def last_record_ms(self) -> int | None:
        """Timestamp of the log's newest record, but for those of the future."""
        read = self._read
        found = [pc.max(read["timestamp_ms"]).as_py()]
        found += [] if self.ahead else [pc.max(read["first_ms"]).as_py()]
        return max((ms for ms in found if ms is not None), default=None)

    @cached_property
    def ahead(self) -> tuple[int, int] | None:
        """How many records bear a time of the future, and the latest; None: they are believed.

        If most do, it is the clock of this machine that is wrong.
        """
        read = self._read
        count, total = (pc.sum(read[name]).as_py() or 0 for name in ("commits", "records"))
        return (count, pc.max(read["first_ms"]).as_py()) if 0 < 2 * count <= total else None

    @cached_property
    def _read(self) -> Any:
        return self.notes.filter(pc.is_null(self.notes["reason"]))

    @cached_property
    def end_ms(self) -> int:
        """The moment to which the log was read: given, told by the input, or its last record."""
        return self.as_of_ms or self.basis.as_of_ms or self.last_record_ms or 0

    @cached_property
    def quality(self) -> Any:
        """What was read, and what was not and why."""
        return quality(self.notes)

    def nothing_read(self) -> str | None:
        """Why there is nothing to tell of; None: there is something, or no file at all."""
        if self.last_record_ms is not None or not self.files:
            return None
        for file in damaged_files(self.quality, 1):
            return f"Nothing could be read. {sentence(file)}"
        until = "" if self.as_of_ms is None else f" until {when(self.as_of_ms)}"
        return f"Nothing could be read: the log has no records{until}."

    @cached_property
    def plan(self) -> FoldPlan:
        """What the fold is asked for."""
        basis, topics = self.basis, list(_topics(self.basis.topics))
        return FoldPlan(
            basis.rules, Wrote(basis.wrote), basis.check_interval_ms, self.end_ms,
            self.options._replace(tally=None), self.overlapping,
            {(name, number): ends for name, _, parts in topics for number, ends in parts.items()},
            {name: topic_id for name, topic_id, _ in topics if topic_id is not None},
            frozenset(name for name, *_ in topics) if topics else None,
        )  # fmt: skip

    def names(self) -> list[str]:
        """The tables that can be made by these options."""
        without: tuple[str, ...] = (
            () if self.options.scenarios else ("whatif", "whatif_families", "losses")
        )
        without += () if self.options.bucket_ms else ("metrics", "writers")
        without += () if self.options.gaps else ("gaps",)
        return [name for name in schema.TABLES if name not in without]

    def fold(self) -> None:
        """Do now what the first table would wait for."""
        assert self._folded is self.engine

    def small(self, name: str) -> Any:
        """One of the small tables that partitions tell, all of them together."""
        return self._folded.collect(name)

    def rows(
        self, name: str, order: Order = (), limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The rows of one of ``schema.TABLES``."""
        return self._with(name).rows(name, self._finish(name), order, limit)

    def mapped(
        self, name: str, best: Best, do: Callable[[Iterable[Any]], Iterator[bytes]]
    ) -> Iterator[bytes]:
        """What ``do`` gives of the Arrow batches of one of ``schema.TABLES``, in that order."""
        return self._with(name).mapped(name, self._finish(name), best, do)

    def count(self, name: str, column: str | None = None, at_most: int | None = None) -> int:
        """How many rows a table has, or those with something in that column, up to a number."""
        counted = self.mapped(name, (), partial(_counts, column=column, at_most=at_most))
        return sum(map(int, counted))

    def write(self, names: Sequence[str], base: str) -> None:
        """Write tables as Parquet, each in its folder below ``base``."""
        engine = [self._with(name) for name in names][-1]
        engine.write({name: self._finish(name) for name in names}, base)

    def frame(self, name: str) -> Any:
        """A table as its engine has it: a DataFrame of Spark's, or an Arrow table."""
        return self._with(name).frame(name, self._finish(name))

    @cached_property
    def early(self) -> tuple[int, int, int] | None:
        """``removals.shared_age``: what tells that the brokers' retention was a shorter one."""
        return removals.shared_age(self.small("early"))

    @cached_property
    def whatif(self) -> list[dict[str, Any]]:
        """Rows of ``schema.WHATIF``, in the order in which the scenarios were asked for."""
        if self.missing & missing_data.BLIND:
            return []
        return whatif.whatif(self.plan, self.small("totals"), self.small("days"))

    @cached_property
    def metrics(self) -> Any:
        """An Arrow table of ``schema.METRICS``."""
        kinds = schema.arrow(schema.METRICS)
        if self.missing & missing_data.BLIND:
            return kinds.empty_table()
        bucket_ms = self.options.bucket_ms
        assert bucket_ms is not None
        gone = self.small("deleted")
        topics = pc.unique(gone["topic"]).to_pylist()
        changes = self._folded.collect("changes", topics) if topics else None
        columns = metrics.metrics(self.small("counted"), gone, changes, bucket_ms)
        return pa.table([columns[name] for name in kinds.names], schema=kinds)

    @cached_property
    def families(self) -> frozenset[str]:
        """What generated names fold into, where more than one does."""
        names = (
            self.small("names")
            .group_by("family")
            .aggregate([("count", "max"), ("name", "min"), ("name", "max")])
        )
        several = pc.or_(
            pc.greater(names["count_max"], 1), pc.not_equal(names["name_min"], names["name_max"])
        )
        return frozenset(names.filter(several)["family"].to_pylist())

    @cached_property
    def _folded(self) -> Engine:
        assert self.notes is not None
        self.engine.fold(self.plan)
        return self.engine

    def decisions(self) -> Iterator[dict[str, Any]]:
        """The rows of ``cleanup.items``, by group."""
        return self._folded.rows("cleanup", Finish(), ("group",), None)

    def _with(self, name: str) -> Engine:
        """The engine once it has that table."""
        if name in self._made:
            return self.engine
        kinds = schema.arrow(schema.TABLES[name])
        engine = self.engine if name == "quality" else self._folded
        if name in schema.NEED_ALL and self.missing & missing_data.BLIND:
            engine.given[name] = kinds.empty_table()
        elif name == "whatif":
            engine.given[name] = pa.Table.from_pylist(self.whatif, schema=kinds)
        elif name in schema.OF_ALL:
            engine.given[name] = getattr(self, name)
        self._made.add(name)
        return engine

    def _finish(self, name: str) -> Finish:
        kinds = schema.TABLES[name]
        if name in schema.NEED_ALL and self.missing & missing_data.BLIND:
            return Finish()
        if name == "groups":
            return Finish(_named(self.families))
        if name in _BY_FAMILY:
            by, most = _BY_FAMILY[name]
            return Finish(_named(self.families, schema.names(kinds)), by, most)
        return Finish(_only(schema.names(kinds)))


def _counts(batches: Iterable[Any], column: str | None, at_most: int | None) -> Iterator[bytes]:
    """The rows of each batch that ``count`` wants, as text."""
    for batch in batches:
        some = batch if column is None else batch.filter(pc.is_valid(batch[column]))
        rows = some if at_most is None else some.filter(pc.less_equal(some[column], at_most))
        yield b"%d" % len(rows)


def _only(names: list[str]) -> Callable[[Any], Any]:
    return lambda rows: rows.select(names)


def _named(families: frozenset[str], only: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Give groups that are alone in their family their own name for it."""

    def finish(rows: Any) -> Any:
        real = pc.is_in(rows["family"], pa.array(sorted(families), pa.string()))
        family = pc.if_else(real, rows["family"], rows["group"])
        rows = rows.set_column(rows.schema.get_field_index("family"), "family", family)
        return rows.select(list(only) or rows.column_names)

    return finish


def _topics(
    topics: Any,
) -> Iterator[tuple[str, str | None, dict[int, tuple[int | None, int | None]]]]:
    """Name, id, and log start and end offsets of cluster.json's topics."""
    for topic in topics or ():
        if isinstance(topic, Mapping):
            topic_id = topic.get("topic_id")
            yield (
                str(topic.get("name")),
                topic_id if isinstance(topic_id, str) else None,
                {
                    each["partition"]: (_whole(each.get("log_start_offset")),
                                        _whole(each.get("log_end_offset")))
                    for each in topic.get("partitions") or ()
                    if isinstance(each, Mapping) and isinstance(each.get("partition"), int)
                },
            )  # fmt: skip


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
