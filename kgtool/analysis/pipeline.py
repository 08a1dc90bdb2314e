"""Put the job together: inputs → records → tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kgtool.analysis import growth, lacks, losses, schema, untold
from kgtool.analysis.decode import Detail
from kgtool.analysis.due import Scenario
from kgtool.analysis.early import Early
from kgtool.analysis.groups import families, groups
from kgtool.analysis.history import history
from kgtool.analysis.inputs import InputFile
from kgtool.analysis.live import live
from kgtool.analysis.metrics import metrics
from kgtool.analysis.overdue import overdue
from kgtool.analysis.quality import complete_partitions, quality
from kgtool.analysis.read import read
from kgtool.analysis.removals import removals
from kgtool.analysis.session import is_tiny
from kgtool.analysis.sources import Basis
from kgtool.analysis.tally import Tally
from kgtool.analysis.timeline import timeline
from kgtool.analysis.together import once, together
from kgtool.analysis.whatif import Author, lives


class Wanted(NamedTuple):
    """What will be asked for beyond what is live and what went; it decides what is read."""

    scenarios: tuple[Scenario, ...] = ()
    """For whatif, whatif_families and losses."""
    horizon_ms: int = 0
    """How far losses look ahead."""
    bucket_ms: int | None = None
    """For metrics."""
    tally: Tally | None = None
    """Is told what workers read."""

    def detail(self) -> Detail:
        """What of the past the tables need."""
        grids = {scenario.interval_ms for scenario in self.scenarios}
        return Detail(tuple(sorted(grids)), self.bucket_ms, self.tally)


NOTHING_MORE = Wanted()


class Analysis:
    """The tables over one set of inputs; frames are lazy, and ``records`` is decoded once."""

    def __init__(
        self, session: SparkSession, files: Sequence[InputFile], basis: Basis,
        as_of_ms: int | None = None, wanted: Wanted = NOTHING_MORE, settings: Any = None,
        early: Early | None = None,
    ) -> None:  # fmt: skip
        self.session = session
        self.lacks = reduce(or_, (file.lacks for file in files), 0)
        self.basis = basis
        self.as_of_ms = as_of_ms
        self.wanted = wanted
        self._early = early
        self.records = kept(read(session, files, as_of_ms, wanted.detail(), settings, early))

    def read_ahead(self, *names: str, then: Callable[[], Any] = lambda: None) -> Any:
        """Let Spark read the inputs while the plans of these tables are made; what ``then`` finds.

        With little to read both take about as long; with much, plans that hang on whether there are
        transactions wait for it. What fails is tried again, and told, by
        whoever wants it. ``then`` is asked as soon as all is read.
        """

        def read() -> Any:
            self._read()
            return then()

        wanted = [lambda name=name: getattr(self, name) for name in names]
        return together([read, *wanted], 1 + len(names))[0]

    def _read(self) -> int | None:
        with suppress(PySparkException, Py4JError):
            return self.last_record_ms
        return None

    @once
    def quality(self) -> DataFrame:
        """What was read, and what was not and why."""
        return quality(self.records)

    @once
    def timeline(self) -> DataFrame:
        """Rows of ``schema.TIMELINE``."""
        if self._early is not None:
            return kept(self._early.timeline(self.session))
        return kept(self.records.transform(timeline(self.basis.rules)))

    @once
    def history(self) -> DataFrame:
        """An offset's life: see ``analysis.history``."""
        return kept(self.records.transform(history(self.basis.rules, self._transactional())))

    def _transactional(self) -> bool | None:
        """Whether there may be transactional commits; None: in some groups."""
        if self._early is not None:
            return self._early.has_transactions()
        if is_tiny(self.session):
            return True  # what two plans save is less than what they cost
        return None if self._seen.transactional else False

    @once
    def live(self) -> DataFrame:
        """What is committed at the end of the log."""
        rules, retention_ms = self.basis.rules, self.basis.retention_ms
        found = self.history.transform(live(self.timeline, rules, retention_ms))
        return kept(self._told(found, lambda m: untold.hide_live(m, self.timeline, rules)))

    @once
    def removals(self) -> DataFrame:
        """Every tombstone of an offset or a group, explained."""
        complete, basis = complete_partitions(self.records), self.basis
        explained = removals(self.records, self.timeline, complete, basis.rules, basis.retention_ms)
        return kept(
            self._told(
                self.history.transform(explained),
                lambda missing: untold.hide_removals(missing, self.records, complete),
            )
        )

    @once
    def overdue(self) -> DataFrame:
        """What a check ought to have removed."""
        basis = self.basis
        return overdue(
            self.live, self.history, self.timeline, basis.rules, basis.check_interval_ms,
            self.end_ms,
        )  # fmt: skip

    @once
    def families(self) -> DataFrame:
        """``group, family`` of every group."""
        return kept(families(self.records))

    @once
    def groups(self) -> DataFrame:
        """One row a group."""
        rules = self.basis.rules
        found = groups(
            self.records, self.live, self.removals, self.timeline, self.families, rules
        )  # fmt: skip
        return kept(self._told(found, lambda m: untold.hide_groups(m, self.timeline, rules)))

    def _told(self, rows: DataFrame, hide: Callable[[DataFrame], untold.Transform]) -> DataFrame:
        """The rows without what the inputs can't tell."""
        if not self.lacks:
            return rows
        return rows.transform(hide(untold.untold(self.records)))

    @once
    def changes(self) -> DataFrame:
        """Where offsets came and went: see ``growth.changes``."""
        return growth.changes(self.history)

    @once
    def metrics(self) -> DataFrame:
        """KIP-496's counts by time; ``wanted.bucket_ms`` must be given."""
        bucket_ms = self.wanted.bucket_ms
        assert bucket_ms is not None
        return metrics(self.records, self.removals, self.changes, self.basis.rules, bucket_ms)

    @once
    def lives(self) -> DataFrame:
        """Rows of ``schema.LIVES``; ``wanted.scenarios`` must be given."""
        author = Author(self.basis.rules, self.basis.retention_ms)
        until = self.end_ms + self.wanted.horizon_ms
        return kept(
            self.records.transform(lives(self.removals, author, self.wanted.scenarios, until))
        )

    @once
    def scenarios(self) -> DataFrame:
        """What the numbers of scenarios mean."""
        return losses.scenario_frame(self.session, self.wanted.scenarios)

    @once
    def whatif(self) -> DataFrame:
        """One row a scenario."""
        return losses.whatif(self.lives, self.scenarios, self.end_ms)

    @once
    def whatif_families(self) -> DataFrame:
        """One row a scenario and family."""
        return losses.whatif_families(self.lives, self.scenarios, self.families, self.end_ms)

    @once
    def losses(self) -> DataFrame:
        """What each scenario loses."""
        ends = losses.log_ends(self.session, self.basis.topics)
        return losses.losses(self.lives, self.scenarios, ends, self.end_ms)

    @once
    def end_ms(self) -> int:
        """The moment to which the log was read: given, told by the input, or its last record."""
        return self.as_of_ms or self.basis.as_of_ms or self.last_record_ms or 0

    def names(self) -> list[str]:
        """The tables that can be had of what was wanted."""
        without: tuple[str, ...] = (
            () if self.wanted.scenarios else ("whatif", "whatif_families", "losses")
        )
        without += () if self.wanted.bucket_ms else ("metrics",)
        return [name for name in schema.TABLES if name not in without]

    def table(self, name: str) -> DataFrame:
        """One of ``schema.TABLES``, with the columns that are declared there."""
        if name in untold.NEED_ALL and self.lacks & lacks.BLIND:
            return self.session.createDataFrame([], schema.ddl(schema.TABLES[name]))
        frame: DataFrame = getattr(self, name)
        return frame.select(*schema.names(schema.TABLES[name]))

    @property
    def last_record_ms(self) -> int | None:
        """Timestamp of the log's newest record."""
        return self._seen.last_record_ms

    @once
    def _seen(self) -> _Seen:
        """Asking for it reads the inputs."""
        was_read = (F.col("kind") == schema.KIND_QUALITY) & F.col("reason").isNull()
        is_offset = F.col("kind") == schema.KIND_OFFSET
        (found,) = self.records.agg(
            F.max(F.when(was_read, F.col("timestamp_ms"))),
            F.count(F.when(is_offset, F.col("producer_id"))),
        ).collect()
        return _Seen(*found)


class _Seen(NamedTuple):
    """What reading all records tells."""

    last_record_ms: int | None
    transactional: int
    """How many rows are of commits within transactions."""


def kept(frame: DataFrame) -> DataFrame:
    """The same rows, computed once."""
    if is_tiny(frame.sparkSession):
        # Every frame of Spark's own cache costs a class that is made for it and compiled.
        return frame.localCheckpoint(eager=False)
    return frame.persist(StorageLevel.MEMORY_AND_DISK)
