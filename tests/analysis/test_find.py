"""Recognising inputs by content, and refusing what is none by name."""

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from kgtool.analysis import missing_data, schema
from kgtool.analysis.decode.blobs import nothing
from kgtool.analysis.input import broker_settings, formats
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.limitations import limitations
from kgtool.analysis.local_engine import LocalEngine, _write
from kgtool.analysis.pipeline import Analysis
from kgtool.errors import ConfigError
from kgtool.retention.rules import RULE_SETS
from tests.analysis import writer

DATA = Path(__file__).parents[1] / "data"
SAMPLES, PRINTED = DATA / "export-samples", DATA / "printed"
FORMATS = {
    "2.0.1.GroupMetadataMessageFormatter.txt": "groups-text",
    "2.0.1.OffsetsMessageFormatter.txt": "offsets-text",
    "2.0.1.dump-log-offsets-decoder.txt": "dump-old",
    "2.1.1.GroupMetadataMessageFormatter.txt": "groups-text",
    "2.1.1.OffsetsMessageFormatter.txt": "offsets-text",
    "2.1.1.dump-log-offsets-decoder.txt": "dump-old",
    "3.9.1-old.dump-log-offsets-decoder.txt": "dump-json",
    "3.9.1-old.groupmetadata-formatter.txt": "groups-json",
    "3.9.1-old.offsets-formatter.txt": "offsets-json",
    "3.9.1-old.oldname-formatter.txt": "offsets-text",
    "4.3.1.dump-log-offsets-decoder.txt": "dump-json",
    "4.3.1.groupmetadata-formatter.txt": "groups-json",
    "4.3.1.offsets-formatter.txt": "offsets-json",
    "spark-kafka-columns.4.3.1.parquet": "parquet",
    "__consumer_offsets-4.00000000000000000000.log": "segment",
}
REFUSED = {
    "3.9.1-old.default-formatter-props.txt": "default output",
    "4.3.1.default-formatter-props.txt": "default output",
    "3.9.1-old.dump-log-print-data.txt": "without --offsets-decoder",
    "4.3.1.dump-log-print-data.txt": "without --offsets-decoder",
}


def test_a_folder_of_everything() -> None:
    inputs = find_inputs([str(SAMPLES)])
    assert {Path(file.path).name: file.format for file in inputs.files} == FORMATS
    assert len(inputs.problems) == len(REFUSED)
    for name, why in REFUSED.items():
        assert [why in each for each in inputs.problems if name in each] == [True]
    assert inputs.notes == []


def test_what_an_earlier_run_wrote_beside_the_log_is_no_input(tmp_path: Path) -> None:
    writer.segment(tmp_path, writer.commits(0, 1))
    kinds = {"live": schema.LIVE, "whatif": schema.WHATIF}
    for name, columns in kinds.items():
        (tmp_path / "out" / name).mkdir(parents=True)
        empty = schema.arrow(columns).empty_table()
        parquet.write_table(empty, tmp_path / "out" / name / "part-0.parquet")
    run = tmp_path / "state" / "run-000001"
    _write([nothing(0)], str(run))
    inputs = find_inputs([str(tmp_path)])
    assert [file.format for file in inputs.files] == ["segment"]
    assert inputs.problems == []
    assert inputs.notes == [
        f"{tmp_path}: left out, written by kgtool analyze: {tmp_path}/out, {tmp_path}/state."
    ]
    with pytest.raises(ConfigError, match=r"/out has nothing of .*, only what kgtool analyze wr"):
        find_inputs([str(tmp_path / "out")])
    with pytest.raises(ConfigError, match=r"part-0\.parquet is a table that kgtool analyze wrote"):
        find_inputs([str(run / "part-0.parquet")])


def test_what_versions_in_between_print() -> None:
    kinds = {
        "offsets.txt": "offsets-text",
        "groups.txt": "groups-text",
        "offsets.json": "offsets-json",
        "groups.json": "groups-json",
    }
    for file in find_inputs([str(PRINTED)]).files:
        version, what = Path(file.path).name.split(".", 2)[:2], Path(file.path).name
        if "dump" in what:
            number = tuple(map(int, version))
            expected = (
                "dump-old" if number <= (2, 3) else "dump-text" if number < (3, 8) else "dump-json"
            )
        else:
            expected = next(kind for end, kind in kinds.items() if what.endswith(end))
        assert file.format == expected, what


def test_names_do_not_matter_but_to_segments(tmp_path: Path) -> None:
    odd = tmp_path / "what [is] {this}, really?*.log"
    shutil.copy(SAMPLES / "4.3.1.offsets-formatter.txt", odd)
    assert [file.format for file in find_inputs([str(odd)]).files] == ["offsets-json"]
    stray = tmp_path / "0.log"
    stray.write_bytes(writer.commits(0, 2))
    with pytest.raises(ConfigError, match="the partition is read from __consumer_offsets-N/"):
        find_inputs([str(stray)])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08rest", "compressed with gzip: unpack it"),
        (b"PK\x03\x04", "zip archive"),
        # Its time and size, read as a batch's length and magic: was taken for record batches.
        (b"PK\x03\x04\n\0\0\0\0\0y\x97\x9cG" + bytes(20), "zip archive"),
        (b"BZh91AY&SY", "compressed with bzip2: unpack it"),
        (b"\xfd7zXZ\0", "compressed with xz: unpack it"),
        (b"\x04\x22\x4d\x18", "compressed with lz4: unpack it"),
        (bytes(257) + b"ustar  \0", "is a tar archive: unpack it"),
        (b"GROUP TOPIC PARTITION CURRENT-OFFSET LAG\ng t 0 5 1\n", "the output of describe"),
        (b"a note about x::NULL\nand::NULL\n", "whether they are records can't be told"),
        (b"[2024-01-25 07:06:13,455] INFO Removed 14 (kafka.Some)\n", "like a log file"),
        (b"% Reached end of topic x [0] at offset 5\n", "the output of kcat"),
        (b'{"partitionID":5,"offset":0,"key":{"payload":1}}', "the JSON of Redpanda Console"),
        (b'[{"key":"a","value":"b","partition":0,"headers":{}}]', "such as Conduktor"),
        (b"group,topic,partition\ng,t,0\n", "is not in a known format"),
        (b'{"key": "a", "value": 1}\n', "is not in a known format"),
        (b"PAR1 and not more", "damaged Parquet"),
        (b"Dumping /k/orders-3/0.log\nLog starting offset: 0\n", "a dump of orders, not of"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "some file"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        find_inputs([str(path)])
    assert str(path) in caught.value.message
    assert caught.value.exit_code == 2


def test_other_topics_in_a_brokers_folder_are_left_out_and_named(tmp_path: Path) -> None:
    writer.segment(tmp_path, writer.commits(0, 1), partition=3)
    for folder in ("orders-0", "orders-1", "a.b-7"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "00000000000000000000.log").write_bytes(writer.commits(0, 1))
        (tmp_path / folder / "00000000000000000000.index").write_bytes(b"\0" * 8)
    (tmp_path / "meta.properties").write_text("version=1")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    inputs = find_inputs([str(tmp_path)])
    assert [file.partition for file in inputs.files] == [3]
    assert inputs.problems == []
    assert len(inputs.notes) == 1 and "3 segments of other topics" in inputs.notes[0]
    assert "orders, a.b" in inputs.notes[0]
    with pytest.raises(ConfigError, match="a segment of topic orders, not of __consumer_offsets"):
        find_inputs([str(tmp_path / "orders-0" / "00000000000000000000.log")])
    with pytest.raises(ConfigError, match="only segments of other topics"):
        find_inputs([str(tmp_path / "orders-1")])


def test_part_of_it_is_not_there(tmp_path: Path) -> None:
    path = writer.segment(tmp_path, writer.commits(0, 1))
    inputs = find_inputs([str(path), str(tmp_path / "gone"), path.as_uri(), str(tmp_path)])
    assert [file.path for file in inputs.files] == [str(path)]
    assert inputs.problems == [f"{tmp_path / 'gone'} does not exist."]
    with pytest.raises(ConfigError, match="gone does not exist"):
        find_inputs([str(tmp_path / "gone")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has nothing of __consumer_offsets"):
        find_inputs([str(tmp_path / "empty")])


def test_file_urls(tmp_path: Path) -> None:
    folder = tmp_path / "with blank%20é"
    path = writer.segment(folder, writer.commits(0, 1))
    for url in (path.as_uri(), f"file://{path}", f"file:{path}", f"FILE://localhost{path}"):
        assert [file.path for file in find_inputs([url]).files] == [str(path)], url


def test_urls_of_other_file_systems_are_left_to_spark() -> None:
    urls = ["hdfs://nn:8020/x", "s3a://bucket/y"]
    inputs = find_inputs(urls)
    assert (inputs.files, inputs.remote) == ([], urls)
    with pytest.raises(ConfigError, match=r"can't be listed: download it, and name the file"):
        find_inputs(["https://example.org/dump.txt"])


def test_a_link_to_the_folder_above_does_not_go_round(tmp_path: Path) -> None:
    writer.segment(tmp_path, writer.commits(0, 1))
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(find_inputs([str(tmp_path)]).files) == 1


# --- dumps and their partitions ------------------------------------------------------------------


def _dump(path: Path, heading: str, since: int = 1) -> Path:
    body = (PRINTED / "4.3.1.4.3.1.dump-5.txt").read_text().split("\n", since)[since]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Dumping {heading}\n{body}")
    return path


def test_partition_of_a_dump(tmp_path: Path) -> None:
    base = "00000000000000000000.log"
    own = _dump(tmp_path / "__consumer_offsets-12.txt", base)
    assert find_inputs([str(own)]).files[0].partition == 12
    folder = _dump(tmp_path / "__consumer_offsets-13" / "dump.txt", base)
    assert find_inputs([str(folder)]).files[0].partition == 13
    # Nobody tells: with the same first batch they are the same one, ...
    same = [_dump(tmp_path / "same" / name, base) for name in ("a.txt", "b.txt")]
    numbers = [file.partition for file in find_inputs([str(path) for path in same]).files]
    assert len(set(numbers)) == 1 and max(numbers) < -1
    # ... and with another one at the same offset they are not ...
    two = [_dump(tmp_path / "two" / name, base, at) for at, name in ((1, "a.txt"), (4, "b.txt"))]
    numbers = [file.partition for file in find_inputs([str(path) for path in two]).files]
    assert len(set(numbers)) == 2 and max(numbers) < -1
    # ... but neighbouring segments are of one.
    _dump(two[1], "00000000000000000500.log")
    numbers = [file.partition for file in find_inputs([str(path) for path in two]).files]
    assert len(set(numbers)) == 1 and max(numbers) < -1


# --- Parquet -------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "key": pa.array([b"k"]),
    "value": pa.array([None], pa.binary()),
    "topic": ["__consumer_offsets"],
    "partition": pa.array([1], pa.int32()),
    "offset": [7],
    "timestamp": [datetime(2026, 1, 1, tzinfo=timezone.utc)],
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": None, "offset": None}, "key, offset is missing"),
        ({"value": ["text"]}, "value is string, not binary"),
        ({"timestamp": [5]}, "timestamp is int64, not timestamp"),
        ({"topic": ["orders"]}, "holds records of orders, not of __consumer_offsets"),
    ],
)
def test_other_parquet_is_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    columns = {name: value for name, value in (GOOD | changed).items() if value is not None}
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(ConfigError, match=said) as caught:
        find_inputs([str(path)])
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "name", ["4294967295.00.log", "99999999999/00.log", "99999999999/dump.txt"]
)
def test_a_number_that_no_partition_has(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"__consumer_offsets-{name}"
    path.parent.mkdir(exist_ok=True)
    if name.endswith(".txt"):
        shutil.copy(SAMPLES / "4.3.1.dump-log-offsets-decoder.txt", path)
        assert find_inputs([str(path)]).files[0].partition < 0
        return
    path.write_bytes(writer.commits(0, 1))
    with pytest.raises(ConfigError, match="holds record batches, but not of __consumer_offsets"):
        find_inputs([str(path)])


def test_a_group_whose_name_looks_like_a_record() -> None:
    group = b"%b::GroupMetadata(groupId=%b, generation=2)\n"
    offset = b"[%b,t,0]::OffsetAndMetadata(offset=9)\n"
    odd = b"[a,t,0]::OffsetAndMetadata(offset=9"
    assert formats.recognise(group % (b"g", b"g") + group % (odd, odd)) == formats.GROUPS_TEXT
    named = offset % b"g::GroupMetadata(groupId=g"
    assert formats.recognise(named + offset % b"h") == formats.OFFSETS_TEXT
    assert formats.recognise(b"[g,t,0]::NULL\n" + named) == formats.OFFSETS_TEXT


def test_a_pipe_is_refused_before_anybody_waits_for_it(tmp_path: Path) -> None:
    """What is read is cut into ranges, which a pipe has none of."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"/pipe is not a regular file: write it to one\."):
        find_inputs([str(tmp_path / "pipe")])


def test_columns_in_the_names_of_folders(tmp_path: Path) -> None:
    path = tmp_path / "topic=__consumer_offsets" / "partition=3" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    columns = {k: v for k, v in GOOD.items() if k not in ("topic", "partition")}
    parquet.write_table(pa.table(columns), path)
    (tmp_path / "_SUCCESS").touch()
    assert [file.format for file in find_inputs([str(tmp_path)]).files] == ["parquet"]


@pytest.mark.parametrize(
    ("minutes", "interval", "taken", "assumed"),
    [
        ("1", "1", 7, []),
        ("2147483647", str(2**63 - 1), 2**53, []),
        # No broker starts with these.
        ("-1", "0", 2**70, ["retention 7d", "check interval 10m"]),
        ("2147483648", "-5", -1, ["retention 7d", "check interval 10m"]),
    ],
)
def test_numbers_of_a_cluster_json_that_no_broker_has(
    tmp_path: Path, minutes: str, interval: str, taken: int, assumed: list[str]
) -> None:
    content = {
        "cluster_id": ["odd"],
        "taken_at_ms": taken,
        "brokers": [{"version": "4.3"}],
        "coordinator": "new",
        "configs": {
            "offsets.retention.minutes": minutes,
            "offsets.retention.check.interval.ms": interval,
        },
    }
    for name in ("one", "two"):
        writer.segment(tmp_path / name, writer.commits(0, 3), partition=len(name))
        (tmp_path / name / "cluster.json").write_text(json.dumps(content))
    inputs = find_inputs([str(tmp_path / "one"), str(tmp_path / "two")])
    basis = broker_settings.settings_from(inputs.manifest, "auto", None, None)
    assert basis.assumed == assumed
    analysis = Analysis(LocalEngine(1), inputs.files, basis)
    assert len(list(analysis.rows("live"))) == 3
    assert len(list(analysis.rows("overdue"))) in (0, 3)


# --- what they can't tell ------------------------------------------------------------------------


def _told(*names: str, rules: str = "4.1") -> str:
    files = find_inputs([str(SAMPLES / name) for name in names]).files
    return " ".join(limitations(files, RULE_SETS[rules]))


def test_segments_and_dumps_of_today_tell_everything() -> None:
    assert _told("raw", "4.3.1.dump-log-offsets-decoder.txt") == ""


def test_consumer_dumps_do_not_tell_transactions() -> None:
    told = _told("spark-kafka-columns.4.3.1.parquet")
    assert "can't tell transactions" in told and "pending_transaction" in told
    assert "rules" not in told


def test_formatters_together_tell_more_than_each() -> None:
    offsets, groups = "4.3.1.offsets-formatter.txt", "4.3.1.groupmetadata-formatter.txt"
    alone = _told(offsets)
    assert "the groups' records (state, members, subscriptions)" in alone
    assert "insufficient for the rules 4.1 and every other set but pre-2.1" in alone
    assert "committed offsets" in _told(groups)
    files = find_inputs([str(SAMPLES / offsets), str(SAMPLES / groups)]).files
    assert {
        bool(file.missing & (missing_data.GROUPS | missing_data.OFFSETS)) for file in files
    } == {False}
    assert {bool(file.missing & missing_data.NEW_GROUPS) for file in files} == {True}
    # The groups' records count as the earlier ones.
    assert [f.order for f in files if f.format == formats.GROUPS_JSON.name] == [0]
    assert "rules" not in _told(offsets, rules="pre-2.1")


def test_what_has_no_place_in_the_log_may_count_twice() -> None:
    """Beside what has one, in two files, and in one: ``cat a a > b``."""
    said = "Records that the inputs have twice are counted twice."
    offsets, groups = "4.3.1.offsets-formatter.txt", "4.3.1.groupmetadata-formatter.txt"
    for some in ([offsets, "raw"], [offsets, groups], [offsets]):
        assert _told(*some).count(said) == 1
    assert said not in _told("raw", "2.0.1.dump-log-offsets-decoder.txt")


def test_old_dumps_tell_least() -> None:
    told = _told("2.0.1.dump-log-offsets-decoder.txt", rules="pre-2.1")
    assert "live has every offset ever committed" in told
    assert "commit and expire timestamps" in told
    assert "insufficient for any rule set" in told
