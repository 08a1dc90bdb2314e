"""One recorded log of a real 4.3.1 broker in every form there is: the tables are the same."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.analysis.spark.read_frame import find_frame
from kgtool.analysis.spark.remote import find_remote
from kgtool.analysis.tables_out import out_place, write_tables
from kgtool.errors import ConfigError, UsageError
from kgtool.sandbox.install.jars import class_path, kafka_jars
from kgtool.sandbox.install.java import find_java
from kgtool.sandbox.tools import tool_class
from tests.retention.truth import INTERVAL_MS, RETENTION_MS, raw, truth
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
DATA = Path(__file__).parents[1] / "data"
SEGMENTS = DATA / "retention-truth" / "4.3.1" / "segments"
SAMPLE = DATA / "export-samples" / "spark-kafka-columns.4.3.1.parquet"
TRANSACTIONAL = ("txn-", "inj-tomb")
"""Groups with transactions, or with commits that might be: no topic id."""

Rows = dict[str, list[dict[str, Any]]]
BASIS = broker_settings.settings_from(None, "4.1", RETENTION_MS, INTERVAL_MS)


def tables(spark: Any, inputs: Any, rules: str = "4.1") -> Rows:
    basis = broker_settings.settings_from(None, rules, RETENTION_MS, INTERVAL_MS)
    analysis = Analysis(SparkEngine(spark), inputs.files, basis)
    return {
        name: dicts(analysis, name) for name in ("live", "removals", "quality", "groups", "overdue")
    }


def as_set(rows: Iterable[dict[str, Any]], *without: str) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple((name, value) for name, value in row.items() if name not in without) for row in rows
    )


@pytest.fixture(scope="module")
def whole(spark: Any) -> Rows:
    return tables(spark, find_inputs([str(SEGMENTS)]))


def dump(version: str, *segments: Path) -> str:
    """What the real kafka-dump-log prints of these segments, with the paths as they are."""
    jars = class_path(kafka_jars(version))
    done = subprocess.run(
        [
            find_java(),
            "-cp",
            jars,
            tool_class("kafka-dump-log", version),
            "--offsets-decoder",
            "--files",
            ",".join(map(str, segments)),
        ],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout


def segment(folder: Path, partition: int) -> Path:
    """A copy of a recorded segment, named as a broker names it."""
    target = folder / f"__consumer_offsets-{partition}" / "00000000000000000000.log"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SEGMENTS / f"__consumer_offsets-{partition}.00000000000000000000.log", target)
    return target


def test_the_dump_of_the_real_tool_is_as_good_as_the_segments(
    spark: Any, whole: Rows, tmp_path: Path
) -> None:
    path = tmp_path / "all partitions.txt"
    path.write_text(dump("4.3.1", *(segment(tmp_path / "log", p) for p in range(8))))
    shutil.rmtree(tmp_path / "log")
    found = tables(spark, find_inputs([str(tmp_path)]))
    assert len(whole["live"]) > 10 and len(whole["removals"]) > 160
    for name in ("live", "removals", "groups", "overdue"):
        assert as_set(found[name], "bytes") == as_set(whole[name], "bytes"), name
    (quality,) = found["quality"]
    assert quality["records"] == sum(row["records"] for row in whole["quality"])
    assert (quality["damaged"], quality["partition"]) == (False, None)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Every partition in another form, with odd names, some of them twice."""
    folder = tmp_path / "mixed"
    segment(folder, 0)
    dotted = SEGMENTS / "__consumer_offsets-1.00000000000000000000.log"
    shutil.copy(dotted, folder / dotted.name)
    log = tmp_path / "log"
    text = dump("4.3.1", segment(log, 2), segment(log, 3))
    (folder / "_dump {2,3} é.txt").write_text(text)
    bare = dump("4.3.1", segment(log, 4)).replace(str(log / "__consumer_offsets-4") + "/", "")
    assert bare.startswith("Dumping 00000000000000000000.log")
    (folder / "__consumer_offsets-4.txt").write_text(bare)
    rows = parquet.read_table(SAMPLE)
    rows = rows.filter(pc.greater_equal(rows["partition"], 5))
    places = list(range(rows.num_rows))
    random.Random(5).shuffle(places)
    rows = rows.take(places)
    in_ns = rows["timestamp"].cast(pa.timestamp("ns", tz="UTC"))
    rows = rows.set_column(rows.schema.get_field_index("timestamp"), "timestamp", in_ns)
    (folder / "parquet").mkdir()
    parquet.write_table(rows.slice(0, 100), folder / "parquet" / "a[1] b.parquet")
    parquet.write_table(rows.slice(80), folder / "parquet" / "_b.parquet")
    return folder


def check_mixed(found: Rows, whole: Rows) -> None:
    from_parquet = {
        row["decoded"]["key"]["group"]
        for row in truth("4.3.1").records
        if row["partition"] >= 5 and "group" in row["decoded"].get("key", {})
    }
    sure = [row for row in found["live"] if not row["group"].startswith(TRANSACTIONAL)]
    expected = [
        {**row, "pending_transaction": None} if row["group"] in from_parquet else row
        for row in whole["live"]
    ]
    assert as_set(sure) == as_set(expected)
    assert as_set(row for row in found["removals"] if not _doubtful(row, from_parquet)) == as_set(
        row for row in whole["removals"] if not _doubtful(row, from_parquet)
    )
    # An aborted commit looks like any other there: rather no cause than a wrong one.
    causes = {(*_key(row), row["removed_at_ms"]): row["cause"] for row in whole["removals"]}
    for row in found["removals"]:
        assert row["cause"] in (None, causes[(*_key(row), row["removed_at_ms"])])
    assert sum(row["cause"] is None for row in found["removals"]) < 15
    files = {row["path"].rpartition("/")[2].lstrip("_"): row for row in found["quality"]}
    assert {name: row["records"] for name, row in files.items() if "parquet" in name} == {
        "a[1] b.parquet": 100,
        "b.parquet": parquet.read_metadata(SAMPLE).num_rows - 398,
    }
    assert len(files) == 6 and not any(row["damaged"] for row in files.values())


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["group"], row["topic"], row["partition"]


def _doubtful(row: dict[str, Any], from_parquet: set[str]) -> bool:
    return row["group"] in from_parquet and row["group"].startswith(TRANSACTIONAL)


def test_several_kinds_together(spark: Any, whole: Rows, mixed: Path) -> None:
    check_mixed(tables(spark, find_inputs([str(mixed)])), whole)


TYPES = {
    "partition": (pa.int64(), pa.int16(), pa.uint32()),
    "offset": (pa.int32(),),
    "timestamp": (pa.timestamp("ns", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us")),
}


@pytest.fixture
def of_all_types(tmp_path: Path) -> Path:
    """The sample's rows in files whose columns have different types, and a column beside them."""
    rows = parquet.read_table(SAMPLE)
    kinds = [(name, kind) for name, some in TYPES.items() for kind in some]
    size = -(-rows.num_rows // len(kinds))
    for at, (name, kind) in enumerate(kinds):
        some = rows.slice(at * size, size)
        some = some.set_column(some.schema.get_field_index(name), name, some[name].cast(kind))
        some = some.append_column("source", pa.array([at] * len(some), kind if at % 2 else None))
        parquet.write_table(some, tmp_path / f"{at}.parquet")
    return tmp_path


def check_all_types(make: Make, inputs: Any) -> None:
    """As if all had the same types, whichever file comes first."""
    want = Analysis(LocalEngine(), find_inputs([str(SAMPLE)]).files, BASIS)
    for files in (inputs.files, inputs.files[::-1]):
        found = Analysis(make(), files, BASIS)
        for name in ("live", "removals", "groups"):
            assert as_set(dicts(found, name)) == as_set(dicts(want, name)), name
        read = [row["records"] for row in dicts(found, "quality")]
        assert (len(read), sum(read)) == (7, parquet.read_metadata(SAMPLE).num_rows)


def test_parquet_files_whose_columns_have_different_types(engine: Make, of_all_types: Path) -> None:
    check_all_types(engine, find_inputs([str(of_all_types)]))


def test_such_files_on_another_file_system(spark: Any, of_all_types: Path) -> None:
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.types.link./data", of_all_types.as_uri())
    check_all_types(
        lambda: SparkEngine(spark), find_remote(spark, find_inputs(["viewfs://types/data"]))
    )


def test_parquet_below_any_folder_and_without_a_zone(spark: Any, tmp_path: Path) -> None:
    """Times are UTC then, whatever the session's zone is, as without Spark."""
    rows = parquet.read_table(SAMPLE)
    naive = rows["timestamp"].cast(pa.timestamp("us"))
    path = tmp_path / "My logs, é 1=%20 {a}[b]#" / "rows.parquet"
    path.parent.mkdir()
    at = rows.schema.get_field_index("timestamp")
    parquet.write_table(rows.set_column(at, "timestamp", naive), path)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for root in (path, path.parent):
            inputs = find_inputs([str(root)])
            found = Analysis(SparkEngine(spark), inputs.files, BASIS)
            local = Analysis(LocalEngine(), inputs.files, BASIS)
            assert as_set(dicts(found, "removals")) == as_set(dicts(local, "removals"))
            newest = pc.max(naive.cast("int64")).as_py() // 1000
            assert found.last_record_ms == local.last_record_ms == newest
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_times_without_a_zone_are_utc_wherever_they_come_from(spark: Any, tmp_path: Path) -> None:
    """Was: a frame's were the session's, and what its clocks leave out in spring an hour off."""
    rows = parquet.read_table(SAMPLE)
    spring = pa.array([datetime(2026, 3, 8, 2, 30)] * len(rows), pa.timestamp("us"))
    at = rows.schema.get_field_index("timestamp")
    parquet.write_table(rows.set_column(at, "timestamp", spring), tmp_path / "rows.parquet")
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.spring.link./data", tmp_path.as_uri())
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.parquet(str(tmp_path))
        assert dict(frame.dtypes)["timestamp"] == "timestamp_ntz"
        newest = [
            Analysis(engine, inputs.files, BASIS).last_record_ms
            for engine, inputs in (
                (LocalEngine(), find_inputs([str(tmp_path)])),
                (SparkEngine(spark), find_inputs([str(tmp_path)])),
                (SparkEngine(spark), find_remote(spark, find_inputs(["viewfs://spring/data"]))),
                (SparkEngine(spark, rows=frame), find_frame(frame)),
            )
        ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    moment = datetime(2026, 3, 8, 2, 30, tzinfo=timezone.utc)
    assert newest == [int(moment.timestamp() * 1000)] * 4


def test_the_same_on_another_file_system_in_many_splits(
    spark: Any, whole: Rows, mixed: Path
) -> None:
    """A view file system stands for HDFS or S3: only Spark's Hadoop libraries can read it."""
    options = {"spark.sql.files.maxPartitionBytes": "3000", "spark.sql.files.openCostInBytes": "10"}
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.faraway.link./data", mixed.as_uri())
    before = {name: spark.conf.get(name) for name in options}
    try:
        for name, value in options.items():
            spark.conf.set(name, value)
        hidden = mixed / "parquet" / "_b.parquet"
        assert find_remote(spark, find_inputs(["viewfs://faraway/data"])).problems == [
            "viewfs://faraway/data/parquet/_b.parquet is ignored by Spark, for its name begins "
            "with _: rename it."
        ]
        hidden.rename(hidden.with_name("b.parquet"))
        inputs = find_remote(spark, find_inputs(["viewfs://faraway/data"]))
        assert inputs.problems == []
        assert all(file.path.startswith("viewfs://faraway/data/") for file in inputs.files)
        check_mixed(tables(spark, inputs), whole)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("viewfs://faraway2/data", "Empty Mount table"),
        ("s3a://bucket/x", "--conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3"),
        ("abfss://box@account/x", "--conf spark.jars.packages=org.apache.hadoop:hadoop-azure:3"),
        ("gs://bucket/x", "--conf spark.jars.packages=org.apache.hadoop:hadoop-gcp:3"),
        ("nosuch://x/y", 'No FileSystem for scheme "nosuch"'),
    ],
)
def test_urls_that_lead_nowhere(spark: Any, url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        find_remote(spark, find_inputs([url]))
    assert url in caught.value.message and "\n" not in caught.value.message


def test_tables_on_another_file_system(spark: Any, whole: Rows, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.viewfs.mounttable.far.link./out", tmp_path.as_uri())
    place = out_place(spark, "viewfs://far/out/tables", overwrite=False)
    analysis = Analysis(SparkEngine(spark), find_inputs([str(SEGMENTS)]).files, BASIS)
    written = write_tables(analysis, place)
    assert {"live", "removals", "quality", "groups", "overdue"} <= set(written)
    for name in ("live", "removals"):
        found = parquet.read_table(tmp_path / "tables" / name).to_pylist()
        assert as_set(found) == as_set(whole[name])
    with pytest.raises(UsageError, match="tables exists and is not empty: give --overwrite"):
        out_place(spark, "viewfs://far/out/tables", overwrite=False)
    out_place(spark, "viewfs://far/out/tables", overwrite=True)
    with pytest.raises(UsageError, match="a file is a file"):
        out_place(spark, "viewfs://far/out/a file", overwrite=True)
    with pytest.raises(UsageError, match="s3a://b/x can't be written to: .*spark.jars.packages"):
        out_place(spark, "s3a://b/x", overwrite=False)


# --- what the console consumer prints ------------------------------------------------------------

KNOWN = (
    "group",
    "topic",
    "partition",
    "offset",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
    "topic_id",
)


def test_both_json_formatters_together(spark: Any, whole: Rows) -> None:
    paths = [DATA / "printed" / f"4.3.1.4.3.1.{what}.json" for what in ("offsets", "groups")]
    found = tables(spark, find_inputs(list(map(str, paths))))
    live = {_key(row): row for row in found["live"] if not row["group"].startswith("txn-")}
    expected = {_key(row): row for row in whole["live"]}
    assert live.keys() == expected.keys()
    kinds = set()
    for key, row in live.items():
        options = expected[key]
        assert [row[name] for name in KNOWN] == [options[name] for name in KNOWN]
        kinds.add(options["group_type"])
        if options["group_type"] == "classic":
            assert row == {**options, "pending_transaction": None}
        else:  # printed by no formatter
            untold = (
                "group_type",
                "group_state",
                "state_since_ms",
                "subscribed",
                "rule",
                "expires_at_ms",
                "pending_transaction",
            )
            assert [row[name] for name in untold] == [None] * len(untold)
    assert kinds == {"classic", "consumer"}
    # Null values have no time, so nothing can be said of their cause; each is a row all the same.
    assert Counter(map(_key, found["removals"])) == Counter(
        (
            r["decoded"]["key"]["group"],
            r["decoded"]["key"].get("topic"),
            r["decoded"]["key"].get("partition"),
        )
        for r in truth("4.3.1").records
        if r["decoded"].get("keyVersion") in (0, 1, 2) and raw(r, "value") is None
    )
    assert {row["cause"] for row in found["removals"]} == {None}
    assert {row["removed_at_ms"] for row in found["removals"]} == {None}
    assert found["overdue"] == []


def test_offsets_alone_under_rules_that_need_groups(spark: Any, whole: Rows) -> None:
    path = DATA / "printed" / "4.3.1.4.3.1.offsets.json"
    found = tables(spark, find_inputs([str(path)]), "2.4")
    assert len(found["live"]) >= len(whole["live"])
    for row in found["live"]:
        told = {name for name, value in row.items() if value is not None}
        assert told <= set(KNOWN)
    assert {row["group_type"] for row in found["groups"]} == {None}


def test_text_of_2_0_is_enough_for_the_rules_of_2_0(spark: Any) -> None:
    run = DATA / "retention-truth" / "2.0.1" / "segments"
    expected = tables(spark, find_inputs([str(run)]), "pre-2.1")["live"]
    paths = [DATA / "printed" / f"2.0.1.2.0.1.{what}.txt" for what in ("offsets", "groups")]
    found = tables(spark, find_inputs(list(map(str, paths))), "pre-2.1")["live"]
    names = ("group", "topic", "partition", "offset", "commit_timestamp_ms", "expires_at_ms")

    def told(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
        sure = [row for row in rows if not row["group"].startswith("txn-")]
        return Counter(tuple(row[name] for name in names) for row in sure)

    assert told(found) == told(expected)
    assert len(told(expected)) >= 5
    # Since when a group is empty is not in the text, whatever the rules.
    assert {row["state_since_ms"] for row in found} == {None}


def test_old_dump_tells_offsets_and_when_they_went_but_not_why(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-2.txt"
    shutil.copy(DATA / "printed" / "3.7.2.3.9.1-old.dump-2.txt", path)
    found = tables(spark, find_inputs([str(path)]), "2.4")
    removed = {(*_key(row), row["removed_at_ms"]) for row in found["removals"]}
    expected = {
        (row["group"], row.get("topic"), row.get("tp"), row["ts"])
        for row in truth("3.9.1-old").tombstones
        if row["partition"] == 2 and not row["group"].startswith("inj-")
    }
    assert removed >= expected and len(expected) >= 3
    assert {row["cause"] for row in found["removals"]} == {None}
    for row in found["live"]:
        assert row["offset"] is not None
        assert (row["commit_timestamp_ms"], row["rule"], row["expires_at_ms"]) == (None,) * 3
