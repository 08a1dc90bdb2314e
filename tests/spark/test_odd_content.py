"""Records that no well-behaved client writes, and a machine that lacks what Spark needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from kgtool.analysis.decode.batches import RecordBlock
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.readers import parquet_rows
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.cli.run import Result
from tests.support import clients
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
RUN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
NOW_MS = 1_795_265_000_000
DAY_MS = 86_400_000
GREATEST = 2**63 - 1
NAMES = (
    " ",
    "two  blanks ",
    "tab\tnewline\nreturn\r",
    "nul\0byte",
    "quote\"'`back\\slash",
    "%s{}$(x)",
    "<b>&amp;",
    "=1+1",
    "größe-日本-😀",
    "e\u0301",
    "\u202eright-to-left",
    "\ufeff",
    "x" * 30_000,
)
TIMES = {
    "epoch": 0,
    "before-the-epoch": -5,
    "longest-ago": -(2**63),
    "tomorrow": NOW_MS + DAY_MS,
    "year-10000": 253_402_300_800_000,
    "never-ever": GREATEST,
}


def test_a_log_partition_without_records(engine: Make, tmp_path: Path) -> None:
    """A segment that was just rolled, beside one that has something, under a what-if."""
    raw = Raw(writer.offset_key("mine"), writer.offset_value(5, NOW_MS), NOW_MS)
    writer.segment(tmp_path, writer.batch(0, [raw]), partition=3)
    writer.segment(tmp_path, b"", partition=4)
    basis, played = broker_settings.choose_scenarios(None, ["4.1"], [DAY_MS, 2 * DAY_MS], [])
    options = TableOptions(played, DAY_MS, DAY_MS)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis, None, options)
    assert [row["live_offsets"] for row in dicts(analysis, "whatif")] == [1, 1]


def tables(engine: Make, path: Path) -> dict[str, list[dict[str, Any]]]:
    basis = broker_settings.settings_from(None, "4.1", 7 * DAY_MS, None)
    analysis = Analysis(engine(), find_inputs([str(path)]).files, basis)
    return {
        name: dicts(analysis, name) for name in ("live", "removals", "overdue", "groups", "quality")
    }


def commit(at: int, group: str, ms: int = NOW_MS, topic: str = "t") -> bytes:
    raw = Raw(writer.offset_key(group, topic), writer.offset_value(at, ms), ms)
    return writer.batch(at, [raw])


def test_only_the_last_segment_may_end_in_the_middle_of_a_batch(
    engine: Make, tmp_path: Path
) -> None:
    """That one was copied while the broker wrote to it; another lacks what it had."""
    cut = commit(0, "a") + commit(1, "b")[:-5]
    for partition in (0, 1):
        writer.segment(tmp_path, cut, partition)
    writer.segment(tmp_path, commit(9, "c") + commit(10, "d")[:-5], partition=1, base=9)
    found = tables(engine, tmp_path)
    assert sorted(row["group"] for row in found["live"]) == ["a", "a", "c"]
    damaged = {row["path"]: row["damaged"] for row in found["quality"]}
    assert [each for *_, each in sorted(damaged.items())] == [False, True, False]
    reasons = {each["reason"] for row in found["quality"] for each in row["problems"]}
    assert reasons == {"truncated batch at the end"}


def test_every_odd_character(engine: Make, tmp_path: Path) -> None:
    groups = [commit(at, name) for at, name in enumerate(NAMES)]
    topics = [commit(len(NAMES) + at, "g", topic=name) for at, name in enumerate(NAMES)]
    found = tables(engine, writer.segment(tmp_path, b"".join([*groups, *topics])))
    live = {(row["group"], row["topic"]): row["offset"] for row in found["live"]}
    assert live == {
        **{(name, "t"): at for at, name in enumerate(NAMES)},
        **{("g", name): len(NAMES) + at for at, name in enumerate(NAMES)},
    }
    assert {row["group"] for row in found["groups"]} == {*NAMES, "g"}


def test_parquet_with_rows_that_have_no_place(engine: Make, tmp_path: Path) -> None:
    places = [(0, 0), (0, None), (1, 0), (None, 1), (0, 1), (1, 1)]
    keys = [
        writer.offset_key("a"),
        writer.offset_key("b"),
        writer.offset_key("c"),
        writer.offset_key("d"),
        b"?",
        b"?",
    ]
    path = tmp_path / "rows.parquet"
    parquet.write_table(
        pa.table(
            {
                "key": keys,
                "value": [writer.offset_value(1, NOW_MS)] * len(keys),
                "topic": ["__consumer_offsets"] * len(keys),
                "partition": pa.array([partition for partition, _ in places], pa.int32()),
                "offset": pa.array([offset for _, offset in places], pa.int64()),
                "timestamp": pa.array([NOW_MS] * len(keys), pa.timestamp("ms", "UTC")),
            }
        ),
        path,
    )
    basis = broker_settings.settings_from(None, "4.1", 7 * DAY_MS, None)
    analysis = Analysis(engine(), find_inputs([str(path)]).files, basis)
    assert [row["group"] for row in dicts(analysis, "live")] == ["a", "c"]
    # Each reason once, however many partitions the file has, and no row of the file's own.
    (file,) = dicts(analysis, "quality")
    assert [(each["reason"], each["records"]) for each in file["problems"]] == [
        ("malformed key", 2),
        ("record without a partition or an offset", 2),
    ]
    assert (file["records"], file["skipped"]) == (6, 4)
    rows = dicts(analysis, "partitions")
    assert sorted((row["log_partition"], row["records"]) for row in rows) == [(0, 3), (1, 2)]


def test_parquet_that_can_no_longer_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage that shows only then, or a partition that is none, spoils its file alone."""
    kinds = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int64()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
        ]
    )
    for at, name in enumerate(("broken", "sound", "strange")):
        row = {
            "key": writer.offset_key(name),
            "value": writer.offset_value(1, NOW_MS),
            "topic": "__consumer_offsets",
            "partition": 2**40 if at == 2 else 0,
            "offset": at,
            "timestamp": NOW_MS,
        }
        parquet.write_table(pa.Table.from_pylist([row], kinds), tmp_path / f"{name}.parquet")
    pieces = parquet_rows.pieces

    def fails(path: str, start: int, end: int) -> Iterator[RecordBlock]:
        yield from pieces(path, start, end)
        if "broken" in path:
            raise OSError("Corrupt snappy compressed data.")

    monkeypatch.setattr(parquet_rows, "pieces", fails)
    found = tables(LocalEngine, tmp_path)
    assert sorted(row["group"] for row in found["live"]) == ["broken", "sound"]
    assert {
        Path(row["path"]).stem: (each["reason"], each["damage"])
        for row in found["quality"]
        for each in row["problems"]
    } == {
        "broken": ("can't be read: Corrupt snappy compressed data", True),
        "strange": (
            "can't be read: Integer value 1099511627776 not in range: -2147483648 to 2147483647",
            True,
        ),
    }


def test_invalid_utf_8(engine: Make, tmp_path: Path) -> None:
    key = writer.offset_key("XXXX").replace(b"XXXX", b"a\xff\xc3b")
    data = writer.batch(0, [Raw(key, writer.offset_value(7, NOW_MS), NOW_MS)])
    found = tables(engine, writer.segment(tmp_path, data + commit(1, "sound")))
    assert {row["group"]: row["offset"] for row in found["live"]} == {
        "a\ufffd\ufffdb": 7,
        "sound": 1,
    }
    assert [row["damaged"] for row in found["quality"]] == [False]


def test_clocks_that_are_wrong(engine: Make, tmp_path: Path) -> None:
    data = b"".join(commit(at, name, ms) for at, (name, ms) in enumerate(TIMES.items()))
    # Backwards: what was written last counts, whatever its time.
    again = len(TIMES)
    data += commit(again, "backwards", NOW_MS) + commit(again + 1, "backwards", NOW_MS - 9 * DAY_MS)
    found = tables(engine, writer.segment(tmp_path, data))
    live = {row["group"]: row for row in found["live"]}
    assert {name: row["commit_timestamp_ms"] for name, row in live.items()} == {
        **TIMES,
        "backwards": NOW_MS - 9 * DAY_MS,
    }
    assert live["backwards"]["offset"] == again + 1
    for name in ("epoch", "tomorrow", "year-10000"):
        assert live[name]["expires_at_ms"] == TIMES[name] + 7 * DAY_MS, name
    assert live["never-ever"]["expires_at_ms"] == GREATEST
    assert [row["skipped"] for row in found["quality"]] == [0]


def alone(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME is /nowhere, where there is no bin/java"),
        ({"JAVA_HOME": "", "PATH": "/nowhere"}, "No Java was found"),
    ],
)
def test_without_java(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    path = writer.segment(tmp_path, commit(0, "g"))
    result = alone(path, "--rules", "4.1", **environment)
    assert result.returncode == 1
    assert said in result.stderr and "Spark needs Java 17 or newer" in result.stderr
    assert "--engine local" in result.stderr
    assert "Traceback" not in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "Error occurred during initialization of VM\\nCould not reserve enough space for heap",
            "initialization of VM: Could not reserve enough space for heap",
        ),
        ("Error: LinkageError x\\n\\tjava.lang.UnsupportedClassVersionError: y", "Java is too old"),
        (
            "# There is insufficient memory for the Java Runtime Environment to continue.",
            "insufficient memory for the Java Runtime",
        ),
        ("Exception in thread main\\nCaused by: java.io.IOException: Read-only", "Read-only"),
    ],
)
def test_what_java_says_is_told_whole(tmp_path: Path, printed: str, said: str) -> None:
    """Kind: an error whose reason stands on the next line. Each names the engine without Java."""
    submit = tmp_path / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    (tmp_path / "spark" / "jars").mkdir()
    submit.write_text(f"#!/bin/sh\nprintf '%b\\n' '{printed}' >&2\nexit 1\n")
    submit.chmod(0o755)
    path = writer.segment(tmp_path, commit(0, "g"))
    result = alone(path, "--rules", "4.1", SPARK_HOME=str(tmp_path / "spark"))
    assert result.returncode == 1
    assert said in result.stderr and "--engine local" in result.stderr
    assert "Traceback" not in result.stderr


def test_strict(analyze: Callable[..., Result], tmp_path: Path) -> None:
    path = writer.segment(tmp_path, commit(0, "g") + b"\xff" * 99 + commit(1, "h"))
    missing = analyze(path, tmp_path / "gone", "--strict")
    assert missing.status == 2 and "gone does not exist" in missing.err
    damaged = analyze(path, "--strict", "-o", "csv")
    assert damaged.status == 1, damaged.err
    assert f"{path}: not a record batch, 99 bytes at " in damaged.err
    assert damaged.out.count("\n") <= 1  # no rows, at most a header


def test_a_jvm_that_is_killed(tmp_path: Path) -> None:
    path = writer.segment(tmp_path, commit(0, "g"))
    command = [sys.executable, "-c", RUN, "analyze", str(path), "--rules", "4.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:

        def jvm() -> int | None:
            tasks = Path(f"/proc/{process.pid}/task").iterdir()
            children = [pid for task in tasks for pid in (task / "children").read_text().split()]
            names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
            return next((int(pid) for pid, name in names.items() if name == "java"), None)

        pid = clients.wait_for(jvm, "the JVM", 120)
        time.sleep(1)
        os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert out == "" and "Traceback" not in err and "bug in kgtool" not in err
    (error,) = [line for line in err.splitlines() if not line.startswith("Note: ")]
    assert error.startswith("Error: ")
