"""The session that is there is used, with its own master, and left as it was (A6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.spark.engine import SparkEngine
from kgtool.analysis.spark.session import PARTITIONS
from kgtool.cli.app.main import main
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.support.standalone import FAST_SUBMIT, HOME

pytestmark = pytest.mark.spark
NOW_MS = 1_795_265_000_000
AT_MS = NOW_MS - 3_600_000
APP = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.cli.app.main import main

masters, read = [], SparkEngine.read
def seen(self, *arguments):
    masters.append(self.session.sparkContext.master)
    return read(self, *arguments)
SparkEngine.read = seen

out, log = sys.argv[1:]
asked = ["analyze", log, "--table", "live", "-o", "json"]
statuses = [main([*asked, "--master", "local[2]"]), main(asked)]
mine = SparkSession.builder.getOrCreate()  # the program's own, from here on
statuses += [main([*asked, "--master", "local[2]"]), main(asked)]
Path(out).write_text(json.dumps(
    {"statuses": statuses, "masters": masters, "after": mine.range(3).count()}
))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one commit."""
    raw = Raw(writer.offset_key("mine"), writer.offset_value(5, AT_MS), AT_MS)
    writer.segment(tmp_path / "log", writer.batch(0, [raw]), partition=7)
    return tmp_path / "log"


def test_the_master_is_spark_submits(log: Path, tmp_path: Path) -> None:
    app, out = tmp_path / "app.py", tmp_path / "out.json"
    app.write_text(APP)
    result = subprocess.run(
        [
            HOME / "bin" / "spark-submit",
            "--master",
            "local[1]",
            *FAST_SUBMIT,
            "--conf",
            "spark.ui.enabled=false",
            app,
            out,
            log,
        ],
        env=os.environ
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(HOME),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(out.read_text()) == {
        "statuses": [2, 0, 2, 0],
        "masters": ["local[1]"] * 2,
        "after": 3,
    }
    said = result.stdout  # spark-submit puts a program's stderr there
    assert "--master is spark-submit's own here" in said
    assert "--master can't be given beside the Spark session that is there (local[1])" in said


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(["analyze", *map(str, arguments)])
    return (status, *capsys.readouterr())


def test_a_session_of_this_process(
    spark: Any, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[SparkEngine] = []
    read = SparkEngine.read

    def seen(self: SparkEngine, *arguments: Any) -> Any:
        used.append(self)
        assert self.session.conf.get("spark.sql.ansi.enabled") == "false"
        return read(self, *arguments)

    monkeypatch.setattr(SparkEngine, "read", seen)
    names = (PARTITIONS, "spark.sql.ansi.enabled", "spark.sql.legacy.parquet.nanosAsLong")
    before = {name: spark.conf.get(name, None) for name in names}
    kept = spark.sparkContext._jsc.getPersistentRDDs().size()

    asked = (log, "--table", "live", "-o", "json")
    status, out, _ = run(capsys, *asked, "--conf", "spark.sql.ansi.enabled=false")
    assert status == 0
    assert [row["group"] for row in json.loads(out)["results"]] == ["mine"]
    assert [engine.session is spark for engine in used] == [True]

    status, _, err = run(capsys, *asked, "--master", "local[1]")
    assert (status, "(local[2])" in err) == (2, True)
    status, _, err = run(
        capsys,
        *asked,
        "--conf",
        "spark.sql.ansi.enabled=false",
        "--conf",
        "spark.executor.memory=3g",
    )
    assert (status, "--conf spark.executor.memory can't be changed" in err) == (2, True)

    assert {name: spark.conf.get(name, None) for name in names} == before
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == kept
    assert spark.range(3).count() == 3
