"""``kgtool.analysis.analyze`` on a session of somebody else's: what a notebook does."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import Tables, analyze
from kgtool.errors import ConfigError, KgError, UsageError
from tests.analysis.writer import Raw, batch, offset_key, offset_value, segment
from tests.retention.truth import DATA

pytestmark = pytest.mark.spark
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"
TOLD = {"rules": "4.1", "wrote": "60s", "check_interval": timedelta(seconds=5)}
LOCAL = ("live", "removals", "overdue", "groups")
COLUMNS = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"
)


def sets(tables: Tables, names: tuple[str, ...] = LOCAL) -> dict[str, list[str]]:
    return {name: sorted(map(str, tables[name].collect())) for name in names}


def ends(tables: Tables) -> list[tuple[str, int]]:
    return sorted((row.group, row.offset) for row in tables.live.collect())


def kept(spark: Any) -> int:
    size: int = spark.sparkContext._jsc.getPersistentRDDs().size()
    return size


def records(moment: int = 1_795_265_000_000) -> list[tuple[Any, ...]]:
    """Two partitions, whose offsets begin anew, in no order; and a topic that is another."""
    rows = []
    for at in range(12):
        when = datetime.fromtimestamp((moment + at * 1000) / 1000, timezone.utc)
        key, value = offset_key(f"g{at % 4}"), offset_value(at, moment + at * 1000)
        rows.append(("__consumer_offsets", at % 2, at // 2, when, key, value))
        rows.append(("orders", 0, at, when, key, value))
    return rows[::-1]


def test_a_path(spark: Any) -> None:
    before, conf = kept(spark), dict(spark.conf.getAll)
    with analyze(spark, SEGMENTS, **TOLD, retention=["60s", "2m"]) as tables:
        assert kept(spark) > before
        found = sets(tables)
        assert tables.live.count() == len(found["live"]) > 0
        # A frame like any other: joined, written, asked again, without reading the log once more.
        causes = {row.cause for row in tables.removals.select("cause").distinct().collect()}
        assert causes > {"expired", "explicit", "group-empty"}
        assert [row.retention_ms for row in tables["whatif"].collect()] == [60_000, 120_000]
        assert set(tables.names) > {*LOCAL, "metrics", "quality"}
        assert tables.notes == () and tables.problems == ()
    assert kept(spark) == before and dict(spark.conf.getAll) == conf
    with pytest.raises(UsageError, match="closed"):
        tables["live"]
    tables.close()
    with pytest.raises(AttributeError):
        _ = tables.nothing


def test_a_frame_tells_what_the_files_tell(spark: Any, tmp_path: Path) -> None:
    """Of Spark's Kafka source, of which columns are there, and of nothing but keys and values."""
    rows = records()
    for partition in (0, 1):
        data = b"".join(
            batch(offset, [Raw(key, value, int(when.timestamp() * 1000))])
            for topic, number, offset, when, key, value in sorted(rows, key=lambda row: row[2])
            if (topic, number) == ("__consumer_offsets", partition)
        )
        segment(tmp_path, data, partition=partition)
    frame = spark.createDataFrame(rows, COLUMNS).repartition(3)
    own = frame.where("topic = '__consumer_offsets'")
    with analyze(spark, str(tmp_path), **TOLD) as tables:
        options = sets(tables)
        live = ends(tables)
        assert live == [("g0", 8), ("g1", 9), ("g2", 10), ("g3", 11)]
    with analyze(spark, frame, **TOLD) as tables:
        found = sets(tables)
        assert found.pop("live") == [
            row.replace("pending_transaction=False", "pending_transaction=None")
            for row in options["live"]
        ]
        assert found == {name: rows for name, rows in options.items() if name != "live"}
        assert any("DataFrame (rows of Spark) can't tell transactions" in n for n in tables.notes)
    for less in (["offset"], ["topic", "partition", "offset"]):
        with analyze(spark, own.drop(*less), **TOLD) as tables:
            assert ends(tables) == live
            (file,) = tables.quality.collect()
            assert (file.records, file.first_offset) == (12, None)
    ordered = own.orderBy("timestamp").coalesce(1).select("key", "value")
    with analyze(spark, ordered, **TOLD) as tables:
        assert ends(tables) == live
        assert any("when records were written" in note for note in tables.notes)


def test_times_and_what_nobody_told(spark: Any, tmp_path: Path) -> None:
    rows = [row for row in records() if row[0] != "orders"]
    frame = spark.createDataFrame(rows, COLUMNS)
    with analyze(
        spark,
        frame,
        wrote={0: "1d", datetime(2026, 1, 1): timedelta(days=2)},
        as_of=datetime.fromtimestamp(1_795_265_003.5, timezone.utc),
        check_interval=1000,
    ) as tables:
        assert tables.end_ms == 1_795_265_003_500
        assert {row.group: row.offset for row in tables.live.collect()} == {
            f"g{at}": at for at in range(4)
        }
        days = {row.expires_at_ms - row.commit_timestamp_ms for row in tables.live.collect()}
        assert days == {2 * 86_400_000}
        assert tables.notes[-1] == "Assumed: rules 2.4."  # offsets of version 3
    told = {
        "cluster_id": "c",
        "configs": {"offsets.retention.minutes": "60"},
        "brokers": [{"id": 1, "version": "2.4"}],
    }
    with analyze(spark, frame, cluster=told) as tables:
        assert tables.notes[-1] == "Assumed: check interval 10m."
        assert tables.whatif.first().retention_ms == 3_600_000


@pytest.mark.parametrize(
    ("source", "options", "kind", "said"),
    [
        (7, {}, UsageError, "takes a path, a URL, several, or a DataFrame, not 7"),
        ([], {}, ConfigError, "nothing to read"),
        ("/nowhere", {}, ConfigError, "/nowhere does not exist."),
        (SEGMENTS, {"retention": "soon"}, UsageError, "retention='soon': a duration is 30s"),
        (SEGMENTS, {"bucket": timedelta(0)}, UsageError, "bucket=datetime.timedelta(0)"),
        (SEGMENTS, {"as_of": "soon"}, UsageError, "as_of='soon': a time is"),
        (SEGMENTS, {"rules": "5.0"}, UsageError, "rules='5.0': there are auto, pre-2.1"),
        (SEGMENTS, {"cluster": "/nowhere"}, ConfigError, "/nowhere can't be read"),
    ],
)
def test_bad_arguments_are_one_sentence(
    spark: Any, source: Any, options: dict[str, Any], kind: type[KgError], said: str
) -> None:
    before = kept(spark)
    with pytest.raises(kind) as caught:
        analyze(spark, source, **options)
    assert said in caught.value.message
    assert kept(spark) == before


def test_what_is_no_session() -> None:
    with pytest.raises(UsageError, match=r"takes a SparkSession first, not 'local\[2\]'"):
        analyze("local[2]", SEGMENTS)


def test_frames_that_are_no_log(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs the columns .* \(it has id bigint\)"):
        analyze(spark, spark.range(3))
    # A number may be of any unit.
    numbers = COLUMNS.replace("timestamp timestamp", "timestamp bigint")
    with pytest.raises(UsageError, match="timestamp bigint"):
        analyze(spark, spark.createDataFrame([], numbers))
    before = kept(spark)
    empty = spark.createDataFrame([], COLUMNS)
    with pytest.raises(ConfigError, match="Nothing could be read"):
        analyze(spark, empty)
    assert kept(spark) == before
    with analyze(spark, SEGMENTS, **TOLD) as tables, pytest.raises(UsageError, match="no table"):
        tables["everything"]
