"""``analyze`` on logs of millions of records, against a plain Spark job and against itself."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench import parquet
from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, ratio, rounds, seconds
from tests.bench.results import Result
from tests.support import biglog, eventlog
from tests.support.standalone import standalone

MILLION = 1_000_000
HERE = Path(__file__).parent


def measure(runs: int, records: int) -> list[Result]:
    """Time the Spark job on a log of so many records, on a quarter of it and on four times it."""
    with tempfile.TemporaryDirectory(prefix="kgtool-bench-") as name:
        folder = Path(name)
        log = Log(folder, "log", records)
        quarter = Log(folder, "quarter", records // 4)
        even = Log(folder, "even", records, hot_share=0.1)
        results = [_start_up(folder, runs)]
        found = rounds(
            {"live": log.live(), "plain": log.plain(), "audit": log.audit(),
             "quarter": quarter.live(), "even": even.live()},
            runs,
        )  # fmt: skip
        live, plain = found["live"], found["plain"]
        results += [
            _result(f"analyze, {log.size}, live", live, "a plain Spark job", plain, 1.5,
                    note=f"plain {seconds(plain):.1f} s"),
            _result("analyze, audit and 5 retentions", found["audit"], "the live run", live, 2.5),
            _grown(log, live, quarter, found["quarter"]),
            _result("analyze, one group has 80 %", live, "spread evenly", found["even"], 1.3),
        ]  # fmt: skip
        # Minutes each: one pair says whether something grows faster than the log.
        large = Log(folder, "large", 4 * records)
        pair = rounds({"large": large.live(), "live": log.live()}, 1)
        results.append(_grown(large, pair["large"], log, pair["live"]))
        # Of a smaller log's minute half goes into what each of them does once: its JVM compiles
        # the code, and its Python starts, on the one core that it has.
        return [*results, large.on_workers(1)]


def _result(
    work: str, ours: Sequence[Run], against: str, theirs: Sequence[Run], goal: float,
    note: str = "",
) -> Result:  # fmt: skip
    return Result(work, against, ratio(ours, theirs), goal, seconds=seconds(ours), note=note)


def _grown(more: Log, ours: Sequence[Run], less: Log, theirs: Sequence[Run]) -> Result:
    """How far from linear it is."""
    return Result(
        f"analyze, {less.size} → {more.size}", "linear",
        ratio(ours, theirs) * less.records / more.records, 1.1,
        seconds=seconds(ours), note=f"{less.size}: {seconds(theirs):.1f} s",
    )  # fmt: skip


class Log:
    """Segments on disk, and what ``analyze`` must find in them."""

    def __init__(
        self, folder: Path, name: str, records: int, hot_share: float = biglog.HOT_SHARE
    ) -> None:
        self.folder = folder
        self.path = folder / name
        self.out = folder / f"{name}-out"
        self.expected = biglog.write(self.path, records, hot_share)
        self.records = records
        self.size = f"{records / MILLION:g} M records"

    def live(self) -> Command:
        """The command that finds what is live."""
        return self._analyze("live")._replace(after=self.check_live)

    def audit(self) -> Command:
        """The one that explains what went, and plays five retentions."""
        retentions = ("1d", "3d", "7d", "14d", "30d")
        given = [word for retention in retentions for word in ("--retention", retention)]
        return self._analyze("removals", "whatif", more=given)._replace(after=self._is_explained)

    def plain(self) -> Command:
        """A job that only decodes and aggregates the same, from Parquet."""
        source, out = self.folder / "parquet", self.folder / "plain-out"
        parquet.convert(self.path, source)

        def is_right(run: Run) -> None:
            assert int(run.out) == self.expected.live_offsets

        argv = [sys.executable, str(HERE / "plain_job.py"), str(source), str(out)]
        return Command(argv, before=lambda: shutil.rmtree(out, ignore_errors=True), after=is_right)

    def _analyze(self, *tables: str, more: Sequence[str] = ()) -> Command:
        """The command that writes these tables, and shows some rows of the last."""
        only = [word for table in tables for word in ("--only", table)]
        argv = [KGTOOL, "analyze", str(self.path), "--rules", "4.1", "--table", tables[-1],
                "--out", str(self.out), *only, *more]  # fmt: skip
        return Command(argv, before=lambda: shutil.rmtree(self.out, ignore_errors=True))

    def check_live(self, _run: Run) -> None:
        found = rows(self.out / "live")
        assert found == self.expected.live_offsets, (found, self.expected.live_offsets)

    def _is_explained(self, _run: Run) -> None:
        found = rows(self.out / "removals")
        assert found == self.expected.removals, (found, self.expected.removals)

    def on_workers(self, runs: int) -> Result:
        """Two workers with a core each against one of them."""
        one, two = _Workers(self, ["0"]), _Workers(self, ["0", "1"])
        with one.running() as theirs, two.running() as ours:
            rounds({"two": ours, "one": theirs}, runs)
        pairs = list(zip(two.took, one.took, strict=True))
        times = statistics.median(alone / both for both, alone in pairs)
        return Result(
            f"analyze, {self.size}, 2 workers with a core each", "one such worker", times, 1.7,
            faster=True, seconds=statistics.median(both for both, _ in pairs),
            note=f"one: {statistics.median(alone for _, alone in pairs):.1f} s; only tasks",
        )  # fmt: skip


class _Workers:
    """A standalone cluster whose workers are kept to cores, and how long its tasks ran."""

    def __init__(self, log: Log, pins: list[str]) -> None:
        self.folder = log.folder / f"workers{len(pins)}"
        self.events = self.folder / "events"
        self.took: list[float] = []
        self._log, self._pins = log, pins

    @contextmanager
    def running(self) -> Iterator[Command]:
        """Start it; the command that analyzes the log there."""
        self.folder.mkdir()
        with standalone(self.folder, Path(sys.executable), self._pins, "3g") as master:
            command = self._log.live()
            argv = [*command.argv, "--master", master, *_CLUSTER, *eventlog.options(self.events)]
            yield Command(
                argv, env={"SPARK_LOCAL_IP": "127.0.0.1"}, before=self._clear, after=self._look
            )

    def _look(self, run: Run) -> None:
        self._log.check_live(run)
        self.took.append(eventlog.busy_seconds(self.events))

    def _clear(self) -> None:
        for folder in (self.events, self._log.out):
            shutil.rmtree(folder, ignore_errors=True)
        self.events.mkdir()


_CLUSTER = (
    "--conf", "spark.executor.memory=2g",
    # Both are there before anything begins.
    "--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0",
)  # fmt: skip


def _start_up(folder: Path, runs: int) -> Result:
    small = Log(folder, "small", 10_000)
    bare = Command([sys.executable, str(HERE / "empty_job.py")])
    pair = in_turn(Command([KGTOOL, "analyze", str(small.path)]), bare, runs)
    return Result("analyze, 10,000 records, whole process", "PySpark and an empty job",
                  pair.ratio, 0.8, seconds=seconds(pair.ours),
                  note=f"empty {seconds(pair.theirs):.1f} s")  # fmt: skip


def rows(table: Path) -> int:
    """Count the rows of a Parquet table."""
    from pyarrow.parquet import ParquetFile

    return sum(ParquetFile(path).metadata.num_rows for path in table.glob("*.parquet"))
