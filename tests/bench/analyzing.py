"""``analyze`` on logs of millions of records, against a plain Spark job and against itself.

The floor is the least that Spark can do with the same records: see ``plain_job.py``.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench import parquet
from tests.bench.installed import KGTOOL, PYTHON
from tests.bench.measure import Command, Run, in_turn, ratio, rounds, run, seconds
from tests.bench.results import Result
from tests.support import biglog, eventlog
from tests.support.memory import Watch
from tests.support.standalone import standalone

MILLION = 1_000_000
RETENTIONS = ("1d", "3d", "7d", "14d", "30d")
HERE = Path(__file__).parent


def measure(runs: int, records: int) -> list[Result]:
    """Time all tables with five retentions: such a log, a quarter of it, and four times it."""
    with tempfile.TemporaryDirectory(prefix="kgtool-bench-") as name:
        folder = Path(name)
        log = Log(folder, "log", records)
        quarter = Log(folder, "quarter", records // 4)
        even = Log(folder, "even", records, hot_groups=10)
        small = Log(folder, "small", 10_000)
        empty = Command([PYTHON, str(HERE / "empty_job.py")])
        # The first run records the archive of classes that all later ones of small logs use.
        in_turn(small.tables(), empty, 0)
        found = rounds(
            {
                "log": log.tables(),
                "floor": log.floor(),
                "quarter": quarter.tables(),
                "even": even.tables(),
                "small": small.tables(),
                "empty": empty,
            },
            runs,
        )
        large = Log(folder, "large", 4 * records)
        # Minutes: one run says whether something grows faster than the log.
        found["large"] = [run(large.tables())]
        floor = f"floor {seconds(found['floor']):.1f} s"
        return [
            _result(
                "10,000 records",
                found["small"],
                "PySpark and an empty job",
                found["empty"],
                1.1,
                f"empty {seconds(found['empty']):.1f} s",
            ),
            _result(
                log.size, found["log"], "the floor, a plain Spark job", found["floor"], 1.5, floor
            ),
            _result(
                quarter.size,
                found["quarter"],
                f"the floor over {log.size}",
                found["floor"],
                0.8,
                floor,
            ),
            _result(
                "one group has 80 %", found["log"], "ten groups share them", found["even"], 1.3
            ),
            _growth(small, quarter, large, found),
            _memory(log.tables()),
            log.on_workers(runs),
        ]


def _result(
    work: str, ours: Sequence[Run], against: str, theirs: Sequence[Run], goal: float, note: str = ""
) -> Result:
    work = f"analyze, all tables, 5 retentions, {work}"
    return Result(work, against, ratio(ours, theirs), goal, seconds=seconds(ours), note=note)


def _growth(small: Log, less: Log, more: Log, found: Mapping[str, Sequence[Run]]) -> Result:
    """How far from linear it is, without what a log of no size takes."""
    start, short, long = (seconds(found[log.path.name]) for log in (small, less, more))
    return Result(
        f"analyze, {less.size} → {more.size}, without start-up",
        "linear",
        (long - start) / (short - start) * less.records / more.records,
        1.1,
        seconds=long,
        note=f"{less.size}: {short:.1f} s, start-up {start:.1f} s",
    )


def _memory(command: Command) -> Result:
    """The resident memory of all processes at their worst moment."""
    assert command.before is not None
    command.before()
    began = time.monotonic()
    with subprocess.Popen(
        command.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        watch = Watch(process.pid)
    peak = watch.stop()
    assert process.returncode == 0, command.argv
    return Result(
        "analyze, memory of all processes",
        "",
        peak.in_all,
        1600,
        is_less_than="MiB",
        seconds=time.monotonic() - began,
        note=f"JVM {peak.jvm} MiB, largest worker {peak.one_worker} MiB",
    )


class Log:
    """Segments on disk, and what ``analyze`` must find in them."""

    def __init__(self, folder: Path, name: str, records: int, hot_groups: int = 1) -> None:
        self.folder = folder
        self.path = folder / name
        self.out = folder / f"{name}-out"
        self.expected = biglog.write(self.path, records, hot_groups)
        self.records = records
        self.size = f"{records / MILLION:g} M records"

    def tables(self, *more: str) -> Command:
        """The command that writes every table, and plays five retentions."""
        given = [word for days in RETENTIONS for word in ("--retention", days)]
        argv = [
            KGTOOL,
            "analyze",
            str(self.path),
            "--rules",
            "4.1",
            "--out",
            str(self.out),
            *given,
            *more,
        ]
        return Command(
            argv, before=lambda: shutil.rmtree(self.out, ignore_errors=True), after=self.check
        )

    def check(self, _run: Run) -> None:
        """Every offset is live or removed, as it was written."""
        found = {name: rows(self.out / name) for name in ("live", "removals")}
        assert found == {"live": self.expected.live_offsets, "removals": self.expected.removals}

    def floor(self) -> Command:
        """A job that only decodes the same records, from Parquet, and sums them up by key."""
        source = self.folder / "parquet"
        parquet.convert(self.path, source)

        def is_right(run: Run) -> None:
            keys, records, _, _ = map(int, run.out.split())
            assert keys == self.expected.live_offsets + self.expected.removals
            assert records == self.expected.records

        return Command([sys.executable, str(HERE / "plain_job.py"), str(source)], after=is_right)

    def on_workers(self, runs: int) -> Result:
        """Two workers with a core each against one of them."""
        one, two = _Workers(self, ["0"]), _Workers(self, ["0", "1"])
        with one.running() as theirs, two.running() as ours:
            rounds({"two": ours, "one": theirs}, runs)
        pairs = list(zip(two.took, one.took, strict=True))
        times = statistics.median(alone / both for both, alone in pairs)
        return Result(
            f"analyze, {self.size}, 2 workers with a core each",
            "one such worker",
            times,
            1.7,
            faster=True,
            seconds=statistics.median(both for both, _ in pairs),
            note=f"one: {statistics.median(alone for _, alone in pairs):.1f} s; only tasks",
        )


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
            command = self._log.tables(
                "--master", master, *_CLUSTER, *eventlog.options(self.events)
            )
            yield Command(
                command.argv,
                env={"SPARK_LOCAL_IP": "127.0.0.1"},
                before=self._clear,
                after=self._look,
            )

    def _look(self, run: Run) -> None:
        self._log.check(run)
        self.took.append(eventlog.busy_seconds(self.events))

    def _clear(self) -> None:
        for folder in (self.events, self._log.out):
            shutil.rmtree(folder, ignore_errors=True)
        self.events.mkdir()


_CLUSTER = (
    "--conf",
    "spark.executor.memory=2g",
    # Both are there before anything begins.
    "--conf",
    "spark.scheduler.minRegisteredResourcesRatio=1.0",
)


def rows(table: Path) -> int:
    """Count the rows of a Parquet table."""
    from pyarrow.parquet import ParquetFile

    return sum(ParquetFile(path).metadata.num_rows for path in table.glob("*.parquet"))
