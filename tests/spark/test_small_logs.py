"""Small logs are decoded and folded by one worker of Spark's, without DataFrames."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from kgtool.analysis import schema
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.spark.engine import SmallEngine
from kgtool.analysis.spark.session import job_failures
from kgtool.cli.analyze.spark_session import Spark
from kgtool.errors import AnalysisError
from tests.analysis.test_lives import SCENARIOS
from tests.spark.test_random_logs import write_log

pytestmark = pytest.mark.spark


def test_the_tables_are_those_of_the_local_engine(spark: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "log", 1, kip_848=True, groups_in_all=30)
    files = find_inputs([str(tmp_path / "log")]).files
    basis = broker_settings.settings_from(None, "4.1", 60_000, 5000)
    options = TableOptions(SCENARIOS, 300_000, 10_000, gaps=True)
    small, local = (
        Analysis(engine, files, basis, None, options)
        for engine in (SmallEngine(spark.sparkContext), LocalEngine())
    )
    small.write(small.names(), str(tmp_path / "out"))
    for name in schema.TABLES:
        rows = Counter(map(str, local.rows(name)))
        assert Counter(map(str, small.rows(name))) == rows, name
        assert Counter(map(str, parquet.read_table(tmp_path / "out" / name).to_pylist())) == rows
        assert rows or name in ("orphans", "quality"), name


def test_what_a_worker_raises_is_one_sentence(spark: Any) -> None:
    engine = SmallEngine(spark.sparkContext)
    with pytest.raises(AnalysisError, match="job failed: ZeroDivisionError: "), job_failures():
        list(engine._each(lambda number: [1 // number], [0]))


def test_a_session_that_is_there_is_used(spark: Any) -> None:
    there = Spark(None, {})
    assert there.start_local() is None and there.start() is spark


@pytest.mark.parametrize(
    ("master", "conf"), [("spark://host:7077", {}), (None, {"spark.sql.ansi.enabled": "true"})]
)
def test_other_machines_and_settings_of_sql_need_a_session(
    master: str | None, conf: dict[str, str]
) -> None:
    assert Spark(master, conf).start_local() is None
