"""Over Spark Connect: no SparkContext, no JVM, and workers that have no kgtool."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.retention.truth import DATA
from tests.support.clients import wait_for
from tests.support.standalone import FAST_SUBMIT, HOME, _environment, python_without_kgtool

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"
APP = """
import json, sys
from datetime import datetime, timezone
from pyspark.sql import SparkSession
from kgtool.analysis import analyze, register
from kgtool.cli.app.main import main
from kgtool.errors import UsageError
from tests.spark.test_api import COLUMNS, TOLD, ends, records, sets

address, log, export = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
found = {}
conf = dict(spark.conf.getAll)
with analyze(spark, log, **TOLD) as tables:
    found["tables"] = sets(tables)
with analyze(spark, spark.createDataFrame(records(), COLUMNS), **TOLD) as tables:
    found["frame"] = ends(tables)
register(spark)
told = {"rules": "4.1", "wrote": "60s", "check_interval": "5s"}
rows = spark.read.format("kgtool").options(table="live", **told).load(log)
found["source"] = sorted(map(str, rows.collect()))
with analyze(spark, export, **TOLD) as tables:
    found["remote"] = sets(tables)
    found["cluster"] = tables.notes
try:
    analyze(spark, "file2://nowhere/x")
except Exception as error:
    found["nowhere"] = f"{type(error).__name__}: {error}"
found["conf"] = dict(spark.conf.getAll) == conf
print(json.dumps(found))
"""


def test_the_same_tables(tmp_path: Path) -> None:
    python = python_without_kgtool(tmp_path / "python")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path / "server.txt"
    export = tmp_path / "export"
    for path in SEGMENTS.iterdir():  # as kgtool export lays them out
        name, _, base = path.name.partition(".")
        place = export / "segments" / name / base
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    command = [
        HOME / "bin" / "spark-submit",
        "--master",
        "local[2]",
        *FAST_SUBMIT,
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        f"spark.hadoop.fs.viewfs.mounttable.far.link./export={export.as_uri()}",
    ]
    with log.open("wb") as out:
        server = subprocess.Popen(
            list(map(str, command)), cwd=tmp_path, env=_environment(python), stdout=out, stderr=out
        )
    try:
        wait_for(lambda: "Spark Connect server started" in log.read_text(), log.name, 300)
        result = subprocess.run(
            [
                sys.executable,
                "-c",
                APP,
                f"sc://127.0.0.1:{port}",
                str(SEGMENTS),
                "viewfs://far/export",
            ],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode == 0, f"{result.stderr[-3000:]}{log.read_text()[-3000:]}"
    finally:
        server.terminate()
        server.wait(60)
    found = json.loads(result.stdout)
    assert found["conf"] and len(found["tables"]["live"]) > 5
    assert found["frame"] == [["g0", 8], ["g1", 9], ["g2", 10], ["g3", 11]]
    assert found["source"] == found["tables"]["live"]
    assert found["remote"] == found["tables"]
    assert found["nowhere"].startswith("ConfigError: file2://nowhere/x can't be read: ")
