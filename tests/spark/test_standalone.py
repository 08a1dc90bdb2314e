"""A real standalone cluster, whose workers have no kgtool: it brings its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Cluster
from tests.support import clients
from tests.support.standalone import python_without_kgtool, standalone

pytestmark = [pytest.mark.spark, pytest.mark.broker]
RUN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"


def test_workers_that_know_nothing_of_kgtool_read_a_cluster(kafka: Cluster, tmp_path: Path) -> None:
    topic = clients.create_topic(kafka.bootstrap, clients.unique("far"), 3)
    groups = [clients.unique(f"faraway{number}") for number in range(5)]
    for at, group in enumerate(groups):
        clients.commit(kafka.bootstrap, group, {(topic, p): at * 10 + p for p in range(3)})
    python = python_without_kgtool(tmp_path / "python")
    with standalone(tmp_path, python) as master:
        result = subprocess.run(
            [sys.executable, "-c", RUN, "analyze", "--bootstrap-server", kafka.bootstrap,
             "--master", master, "--conf", "spark.executor.memory=512m",
             "--table", "live", "-o", "json"],
            capture_output=True, text=True, timeout=600, check=False,
            env=os.environ | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = [row for row in json.loads(result.stdout)["results"] if row["group"] in groups]
    assert {(row["group"], row["partition"]): row["offset"] for row in rows} == {
        (group, p): at * 10 + p for at, group in enumerate(groups) for p in range(3)
    }
    # Both workers had a part in it, with the code that came along.
    executors = [path.read_text() for path in tmp_path.glob("work*/app-*/*/stderr")]
    assert len(executors) == 2
    for log in executors:
        assert "Finished task" in log
    assert any("kgtool.zip" in log for log in executors)
    assert result.stderr == ""
