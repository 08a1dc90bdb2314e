"""``spark.read.format("kgtool")``: records, and the tables that one log partition tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import analyze, register
from kgtool.analysis.spark.data_source import LOCAL_TABLES
from tests.analysis.writer import Raw, batch, offset_key, offset_value, segment
from tests.retention.truth import DATA

pytestmark = pytest.mark.spark
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"
SAMPLE = DATA / "export-samples" / "spark-kafka-columns.4.3.1.parquet"
NOW_MS = 1_795_265_000_000


@pytest.fixture(scope="module")
def reader(spark: Any) -> Any:
    register(spark)
    return lambda **options: spark.read.format("kgtool").options(**options)


def test_every_record(reader: Any, tmp_path: Path) -> None:
    """Superseded commits and null values too, one row each."""
    for partition in (3, 4):
        raws = [
            Raw(offset_key("mine"), offset_value(at, NOW_MS + at), NOW_MS + at) for at in range(50)
        ]
        raws.append(Raw(offset_key("mine"), None, NOW_MS + 60))
        segment(tmp_path, batch(7, raws), partition=partition)
    found = reader().load(str(tmp_path))
    assert found.count() == 102
    rows = found.where("log_partition = 4").orderBy("log_offset").collect()
    assert [(row.log_offset, row.offset) for row in rows[:50]] == [(7 + n, n) for n in range(50)]
    last = rows[-1]
    assert (last.kind, last.tombstone, last.offset, last.timestamp_ms) == (
        "offset",
        True,
        None,
        NOW_MS + 60,
    )
    assert (last.group, last.topic, last.partition, last.key_type) == ("mine", "t", 0, 1)


def test_groups_and_markers_of_a_real_broker(reader: Any) -> None:
    kinds = reader(table="records").load(str(SEGMENTS)).groupBy("kind").count().collect()
    assert {row.kind for row in kinds} == {"offset", "group", "marker"}


def test_records_of_parquet(reader: Any) -> None:
    found = reader().load(str(SAMPLE))
    keys = found.where("kind = 'offset'").select("group", "topic", "partition").distinct()
    assert {
        tuple(row)
        for row in reader(table="live")
        .load(str(SAMPLE))
        .select("group", "topic", "partition")
        .collect()
    } <= {tuple(row) for row in keys.collect()}
    assert found.count() > 400


@pytest.mark.parametrize("table", LOCAL_TABLES)
def test_a_table_is_the_one_of_analyze(spark: Any, reader: Any, table: str) -> None:
    told = {"rules": "4.1", "wrote": "60s", "check_interval": "5s"}
    with analyze(spark, SEGMENTS, **told) as tables:  # type: ignore[arg-type]
        options = sorted(map(str, tables[table].collect()))
    found = reader(table=table, **told).load(str(SEGMENTS))
    assert sorted(map(str, found.collect())) == options
    assert found.rdd.getNumPartitions() > 1
    assert options or table != "live"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"table": "whatif"},
            "The table whatif takes all log partitions together: kgtool.analysis.analyze() has it.",
        ),
        ({"table": "lives"}, "There is no table 'lives': there are records, live,"),
        ({"table": "live", "wrote": "soon"}, "wrote='soon': a duration is"),
        ({"tables": "live"}, "There is no option tables"),
        ({"path": "s3a://bucket/export"}, "kgtool.analysis.analyze() reads URLs"),
        ({"path": "/nowhere"}, "/nowhere does not exist."),
        ({"path": "", "paths": f'["{SEGMENTS}", "/nowhere"]'}, "/nowhere does not exist."),
        ({"table": "live", "as_of": "2020-01-01"}, "the log has no records until 2020-01-01"),
    ],
)
def test_bad_options_are_one_sentence(reader: Any, options: dict[str, str], said: str) -> None:
    path = options.pop("path", str(SEGMENTS))
    with pytest.raises(Exception) as caught:  # noqa: PT011, B017
        reader(**options).load(path or None).collect()
    assert said in str(caught.value)
