"""A real standalone cluster, whose workers have no kgtool: it brings its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as parquet
import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.retention.truth import DATA
from tests.support import biglog, clients, eventlog
from tests.support.standalone import FAST_JVM, FAST_SUBMIT, HOME, python_without_kgtool, standalone

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.starts_first]
RUN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"
APP = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from kgtool.analysis import analyze, register
from kgtool.cli.app.main import main

out, log, bootstrap = sys.argv[1:]
status = main(["analyze", "--bootstrap-server", bootstrap, "--out", out])
again = main(["analyze", log, "--master", "local[2]"])
spark = SparkSession.builder.getOrCreate()
told = {"rules": "4.1", "wrote": "60s", "check_interval": "5s"}
with analyze(spark, log, **told) as tables:
    live = tables.live.count()
register(spark)
found = spark.read.format("kgtool").options(table="live", **told).load(log).count()
Path(out, "told.json").write_text(json.dumps(
    {"status": status, "again": again, "live": live, "found": found,
     "master": spark.sparkContext.master}
))
"""


class Far(NamedTuple):
    master: str
    folder: Path
    python: Path

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(HOME),
            "SPARK_LAUNCHER_OPTS": FAST_JVM,
        }
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=environment,
        )

    def executors(self) -> dict[str, list[str]]:
        """What the executors of each application said, by worker.

        When an application ends, a busy master starts executors again for those that have gone
        already: they have nothing to do.
        """
        found: dict[str, dict[str, str]] = {}
        for path in sorted(self.folder.glob("work*/app-*/*/stderr")):
            worker, application = path.parts[-4:-2]
            of = found.setdefault(application, {})
            of[worker] = of.get(worker, "") + path.read_text()
        return {application: [*of.values()] for application, of in found.items()}


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Far]:
    folder = tmp_path_factory.mktemp("far")
    python = python_without_kgtool(folder / "python")
    with standalone(folder, python, jvm=FAST_JVM) as master:
        yield Far(master, folder, python)


@pytest.fixture(scope="module")
def committed(kafka: Sandbox) -> dict[tuple[str, int], int]:
    topic = clients.create_topic(kafka.bootstrap, clients.unique("far"), 3)
    groups = [clients.unique(f"faraway{number}") for number in range(5)]
    for at, group in enumerate(groups):
        clients.commit(kafka.bootstrap, group, {(topic, p): at * 10 + p for p in range(3)})
    return {(group, p): at * 10 + p for at, group in enumerate(groups) for p in range(3)}


def _analyze(far: Far, log: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    return far.run(
        sys.executable,
        "-c",
        RUN,
        "analyze",
        log,
        "--rules",
        "4.1",
        "--retention",
        "1d",
        "--retention",
        "14d",
        "--out",
        out,
        *more,
    )


def test_workers_that_know_nothing_of_kgtool_write_the_tables(far: Far, tmp_path: Path) -> None:
    """Into a folder that they share; both have a part in it, with the code that came along."""
    biglog.write(tmp_path / "log", 400_000)
    events = tmp_path / "events"
    events.mkdir()
    before = set(far.executors())
    cluster = ("--master", far.master, "--conf", "spark.executor.memory=512m")
    for out, more in (
        ("far", (*cluster, *eventlog.options(events))),
        ("here", ("--engine", "local")),
    ):
        result = _analyze(far, tmp_path / "log", str(tmp_path / out), *more)
        assert result.returncode == 0, result.stderr
        assert [line.split()[0] for line in result.stderr.splitlines()] == ["Note:", "Wrote"]
    (command,) = set(far.executors()) - before
    executors = far.executors()[command]
    assert ["Finished task" in log for log in executors] == [True, True]
    assert any("kgtool.zip" in log for log in executors)
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {path.name for path in (tmp_path / "far").iterdir()} == names
    for name in names - {"_SUCCESS"}:
        there, here = (
            Counter(map(repr, parquet.read_table(tmp_path / out / name).to_pylist()))
            for out in ("far", "here")
        )
        assert there == here, name
    # A task for each log partition, not one for each 16 MB that may have nothing to do.
    folded = [stage for stage in eventlog.stages(events) if len(stage.times) > 2]
    assert {len(stage.times) for stage in folded} == {8}


def test_workers_whose_disks_are_their_own(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process has a current folder of its own at /proc/self/cwd."""
    biglog.write(tmp_path / "log", 20_000)
    monkeypatch.chdir(tmp_path)
    result = _analyze(
        far,
        tmp_path / "log",
        "/proc/self/cwd/out",
        "--master",
        far.master,
        "--conf",
        "spark.executor.memory=512m",
    )
    assert result.returncode == 3
    assert "name a URL that every worker can write to" in result.stderr
    assert list(tmp_path.joinpath("out").iterdir()) == []


def test_under_spark_submit_the_cluster_does_it(
    far: Far, kafka: Sandbox, committed: dict[tuple[str, int], int], tmp_path: Path
) -> None:
    app, out = tmp_path / "app.py", tmp_path / "out"
    app.write_text(APP)
    before = set(far.executors())
    result = far.run(
        HOME / "bin" / "spark-submit",
        "--master",
        far.master,
        *FAST_SUBMIT,
        "--conf",
        "spark.executor.memory=512m",
        "--conf",
        "spark.ui.enabled=false",
        app,
        out,
        SEGMENTS,
        kafka.bootstrap,
    )
    assert result.returncode == 0, result.stderr
    told = json.loads((out / "told.json").read_text())
    assert told.pop("live") == told.pop("found") > 0
    assert told == {"status": 0, "again": 2, "master": far.master}
    found = {
        (row["group"], row["partition"]): row["offset"]
        for row in parquet.read_table(out / "live").to_pylist()
    }
    assert {key: found.get(key) for key in committed} == committed
    # The command ends the session that it began, so the program's own is another application.
    command, _ = sorted(set(far.executors()) - before)
    assert ["Finished task" in log for log in far.executors()[command]] == [True, True]
