"""``kgtool analyze`` as a user runs it: its output and its exit status.

In a process of its own only where something else than the arguments might reach it.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from kgtool.analysis import schema
from kgtool.analysis.pipeline import Analysis
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.cli.run import Result, call

pytestmark = pytest.mark.spark
TRUTH = Path(__file__).parents[1] / "data" / "retention-truth"
HOUR_MS = 3_600_000
NOW_MS = 1_795_265_000_000
ENGINES = ("local", "spark")
TABLES = (
    "live",
    "removals",
    "overdue",
    "whatif",
    "whatif_families",
    "losses",
    "groups",
    "metrics",
    "partitions",
    "writers",
    "transactions",
    "orphans",
    "gaps",
    "upgrades",
    "quality",
)
"""Every table, in the order of the documentation."""
RUN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
Analyze = Callable[..., Result]


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, "analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def rows_of(result: Result) -> list[dict[str, Any]]:
    document = result.json
    assert (document["command"], document["version"]) == ("analyze", 1)
    results: list[dict[str, Any]] = document["results"]
    return results


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of a 4.3 cluster: three standalone commits, 1, 30 and 60 hours old."""
    ages = {"young": 1, "older": 30, "oldest": 60}
    data = b"".join(
        writer.batch(
            at,
            [
                Raw(
                    writer.offset_key(group),
                    writer.offset_value(5, NOW_MS - age * HOUR_MS),
                    NOW_MS - age * HOUR_MS,
                )
            ],
        )
        for at, (group, age) in enumerate(reversed(ages.items()))
    )
    folder = tmp_path / "export"
    writer.segment(folder / "segments", data, partition=7)
    manifest = {
        "kgtool_export": 1,
        "cluster_id": "abc-cluster",
        "taken_at_ms": NOW_MS,
        "brokers": [{"id": 1, "host": "h", "port": 1, "version": "4.3"}],
        "coordinator": "new",
        "configs": {
            "offsets.retention.minutes": "4320",
            "offsets.retention.check.interval.ms": "60000",
        },
    }
    (folder / "cluster.json").write_text(json.dumps(manifest))
    return folder


def test_modules_that_lie_about_are_left_alone(export: Path, tmp_path: Path) -> None:
    where = tmp_path / "scripts"
    where.mkdir()
    for name in ("random", "statistics", "pickle", "struct"):
        (where / f"{name}.py").write_text("raise SystemExit('taken for one of Python')\n")
    # The command that pip installs does not look into the current folder; Spark's workers might.
    command = [Path(sys.executable).with_name("kgtool"), "analyze", export]
    result = subprocess.run(
        [*command, "--retention", "1d", "--retention", "2d"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=where,
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_export_tells_what_expires_next(engine: str, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    result = alone(export, "--out", out, "--engine", engine)
    assert result.returncode == 0, result.stderr
    # What cluster.json says is not assumed, and Spark keeps quiet.
    assert result.stderr.splitlines() == [f"Wrote {', '.join(TABLES)} to {out}"]
    assert "Rules    4.1: retention 3d, checked every 1m" in result.stdout
    assert "Live     3 offsets of 3 groups" in result.stdout
    assert "1 within 24 h, 3 within 7 d, 0 never; 0 overdue" in result.stdout
    lines = result.stdout.splitlines()
    soon = [line.split()[0] for line in lines[lines.index("Expiring next") + 2 :][:3]]
    assert soon == ["oldest", "older", "young"]

    import pyarrow.parquet as parquet

    live = parquet.read_table(out / "live").to_pylist()
    assert {row["group"]: row["expires_at_ms"] for row in live} == {
        "young": NOW_MS + 71 * HOUR_MS,
        "older": NOW_MS + 42 * HOUR_MS,
        "oldest": NOW_MS + 12 * HOUR_MS,
    }

    refused = alone(export, "--out", out, "--engine", engine)
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr and refused.stderr.count("\n") == 1
    assert {path.name for path in out.iterdir()} == {*TABLES, "_SUCCESS"}


@pytest.mark.parametrize("engine", ENGINES)
def test_only_some_tables(analyze: Analyze, engine: str, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    result = analyze(export, "--out", out, "--only", "live", "--only", "whatif", "--engine", engine)
    assert result.status == 0, result.err
    assert result.err == f"Wrote live, whatif to {out}\n"
    assert {path.name for path in out.iterdir()} == {"live", "whatif", "_SUCCESS"}

    import pyarrow.parquet as parquet

    assert parquet.read_table(out / "live").num_rows == 3
    (scenario,) = parquet.read_table(out / "whatif").to_pylist()
    assert scenario["retention_ms"] == 3 * 24 * HOUR_MS

    refused = analyze(export, "--only", "live")
    assert (refused.status, refused.out) == (2, "")
    assert "--out DIR" in refused.err and refused.err.count("\n") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_table_as_json_and_as_of(analyze: Analyze, engine: str, export: Path) -> None:
    result = analyze(
        export,
        "--table",
        "live",
        "-o",
        "json",
        "--rules",
        "2.4",
        "--wrote",
        "10h",
        "--as-of",
        NOW_MS - 20 * HOUR_MS,
        "--engine",
        engine,
    )
    assert result.status == 0, result.err
    assert result.json["cluster_id"] == "abc-cluster"
    assert rows_of(result) == [
        {
            "group": group,
            "topic": "t",
            "partition": 0,
            "offset": 5,
            "commit_timestamp_ms": NOW_MS - age * HOUR_MS,
            "expire_timestamp_ms": None,
            "topic_id": None,
            "group_type": "classic",
            "group_state": "Empty",
            "state_since_ms": None,
            "subscribed": False,
            "pending_transaction": False,
            "rule": "commit",
            "expires_at_ms": NOW_MS - age * HOUR_MS + 10 * HOUR_MS,
        }
        for group, age in (("older", 30), ("oldest", 60))
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_damage_is_named_and_the_rest_is_analyzed(
    analyze: Analyze, engine: str, tmp_path: Path
) -> None:
    shutil.copytree(TRUTH / "4.3.1" / "segments", tmp_path / "segments")
    garbage = tmp_path / "segments" / "__consumer_offsets-9.00000000000000000000.log"
    garbage.write_bytes(b"this is not a segment\n" * 100)
    cut = tmp_path / "segments" / "__consumer_offsets-0.00000000000000000000.log"
    cut.write_bytes(cut.read_bytes()[:-5])
    result = analyze(
        tmp_path,
        tmp_path / "nowhere",
        "--retention",
        "60s",
        "--rules",
        "4.1",
        "--check-interval",
        "5s",
        "--table",
        "quality",
        "-o",
        "json",
        "--engine",
        engine,
    )
    assert result.status == 3, result.err
    errors = result.err.splitlines()
    assert len(errors) == 2
    assert "nowhere does not exist" in errors[0]
    assert f"{garbage}: not a record batch, 2,200 bytes at 0" in errors[1]
    files = {Path(row["path"]).name: row for row in rows_of(result)}
    assert len(files) == 9
    assert (files[garbage.name]["records"], files[garbage.name]["damaged"]) == (0, True)
    # An active segment may end in the middle of a batch: told, but no failure.
    assert files[cut.name]["damaged"] is False
    assert [problem["reason"] for problem in files[cut.name]["problems"]] == [
        "truncated batch at the end"
    ]
    assert len(result.json["errors"]) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_the_export_of_a_log_without_records(analyze: Analyze, engine: str, tmp_path: Path) -> None:
    """As ``kgtool export`` leaves it: nothing but cluster.json. Every table is there, empty."""
    export, out = tmp_path / "export", tmp_path / "tables"
    export.mkdir()
    rows = [
        {"partition": at, "start_offset": 7, "end_offset": 7, "complete": True, "error": None}
        for at in range(3)
    ]
    manifest = {
        "kgtool_export": 1,
        "cluster_id": "an id",
        "taken_at_ms": 1_795_435_089_898,
        "brokers": [{"id": 1, "version": "4.1"}],
        "coordinator": "new",
        "configs": {"offsets.retention.minutes": "10080"},
        "topics": [],
        "groups": [],
        "partitions": rows,
        "complete": True,
    }
    (export / "cluster.json").write_text(json.dumps(manifest))
    asked = (export, "--engine", engine, "--out", out, "--retention", "1d", "--retention", "7d")
    result = analyze(
        *asked, "-o", "json", "--report", tmp_path / "r.html", "--plan", tmp_path / "p"
    )
    assert result.status == 0, result.err
    assert result.err.startswith(f"Note: {export} is the export of a log without records.")
    (facts,) = rows_of(result)
    assert (facts["live_offsets"], facts["overdue"], facts["quality"]["files"]) == (0, 0, 0)
    assert facts["as_of_ms"] == manifest["taken_at_ms"]
    assert {path.name for path in out.iterdir()} == {*schema.TABLES, "_SUCCESS"}
    for name in schema.TABLES:
        found = parquet.read_table(out / name)
        assert (found.num_rows, found.column_names) == (
            2 if name == "whatif" else 0,
            schema.TABLES[name].names,
        )
    # Records that were left behind when it ended are no log without records.
    for broken in ({"complete": False}, {"partitions": [{**rows[0], "end_offset": 8}]}):
        (export / "cluster.json").write_text(json.dumps({**manifest, **broken}))
        assert analyze(export, "--engine", engine).status == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_readable(analyze: Analyze, engine: str, tmp_path: Path) -> None:
    path = writer.segment(tmp_path, b"\xff" * 500)
    result = analyze(path, "-o", "json", "--engine", engine)
    assert result.status == 2
    assert rows_of(result) == []
    last = result.err.splitlines()[-1]
    assert last == f"Error: Nothing could be read. {path}: not a record batch, 500 bytes at 0."


def test_a_time_before_the_log(capsys: pytest.CaptureFixture[str], export: Path) -> None:
    words = (str(export), "--engine", "local", "--as-of", "2020-01-01")
    result = call(capsys, "analyze", *words)
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "Error: Nothing could be read: the log has no records until 2020-01-01T00:00:00Z.\n"
    )


@pytest.mark.parametrize("what", ["--report", "--plan", "--out"])
def test_a_folder_that_may_not_be_written_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    target = tmp_path / "target"
    result = call(capsys, "analyze", "/nowhere", "--engine", "local", what, str(target))
    assert result.status == 2
    assert result.err.startswith("Error: ") and result.err.count("\n") == 1
    assert str(tmp_path) in result.err and "nowhere" not in result.err


@pytest.mark.parametrize("what", ["--report", "--plan", "--out"])
def test_what_can_not_be_written_hides_nothing_else(
    capsys: pytest.CaptureFixture[str],
    export: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """The disk is full by then: the summary is there, and the status says that not all is."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")

    monkeypatch.setattr(Path, "replace", fails)
    monkeypatch.setattr(Analysis, "write", fails)
    target = tmp_path / "target"
    result = call(capsys, "analyze", str(export), "--engine", "local", what, str(target))
    assert result.status == 3
    assert "Live     3 offsets of 3 groups" in result.out
    (said,) = [line for line in result.err.splitlines() if line.startswith("Error: ")]
    assert str(target) in said and said.rstrip(".").endswith(": No space left on device")
    assert not target.is_file() and not (target / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["{tmp}/none"], 2, "{tmp}/none does not exist."),
        (["{tmp}"], 2, "{tmp} has nothing of __consumer_offsets"),
        (["{tmp}/a.log"], 2, "{tmp}/a.log is empty."),
        (["{tmp}/orders-0/00000000000000000000.log"], 2, "a segment of topic orders, not of"),
        (["{tmp}", "--retention", "7"], 2, "--retention takes a duration such as 30s"),
        (["{tmp}", "--wrote", "7d@2026-03-01,1d@2026-01-01"], 2, "earliest first"),
        (["{tmp}", "--engine", "local", "--conf", "a=b"], 2, "drop --engine local"),
        (["s3a://b/x", "--engine", "local"], 2, "s3a://b/x needs Spark"),
        # Nothing is asked of a broker first.
        (["-b", "127.0.0.1:1", "--engine", "local"], 2, "A live cluster needs Spark: drop --eng"),
        (["{tmp}", "--as-of", "soon"], 2, "--as-of takes a time"),
        (["{tmp}", "--conf", "spark"], 2, "--conf takes KEY=VALUE, not 'spark'."),
        (["{tmp}", "--rules", "5.0"], 2, "pre-2.1"),
        (["{tmp}", "--retention", "0s"], 2, "--retention 0s: it must be longer than 0"),
        (["{tmp}", "--check-interval", "0ms"], 2, "--check-interval 0ms: it must be longer"),
        (["{tmp}", "--fail-on", "anything"], 2, "--fail-on takes overdue, losses or expiring-wi"),
        (["{tmp}", "--fail-on", "expiring-within"], 2, "such as expiring-within=48h"),
        (["{tmp}", "--retention", "-7d"], 2, "--retention takes a duration such as 30s"),
        (["{tmp}", "--table", "lossses"], 2, "not 'lossses' (did you mean losses?)"),
        (["{tmp}", "--table", "everything"], 2, "--table takes live, removals, overdue,"),
        (["{tmp}", "--report", "{tmp}"], 2, "is a folder: name a file"),
        (["{tmp}", "--report", "{tmp}/none/r.html"], 2, "the folder {tmp}/none does not exist"),
        (["{tmp}", "--report", "{tmp}/a.log"], 2, "a.log exists: give --overwrite, or name ano"),
        (["{tmp}", "--bucket", "-1h"], 2, "--bucket takes a duration such as 30s"),
        (["{tmp}", "--out", "{tmp}/a.log/x"], 2, "can't write to {tmp}/a.log: Not a directory."),
        (["{tmp}", "--out", "{tmp}/x", "--state", "{tmp}/none/../x"], 2, "--out and --state are"),
        (["{tmp}", "--report", "{tmp}/x", "--plan", "{tmp}/x"], 2, "--report and --plan are both"),
        ([], 2, "PATH"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(b"")
    result = call(capsys, "analyze", *[word.format(tmp=tmp_path) for word in arguments])
    assert result.status == status
    assert said.format(tmp=tmp_path) in result.err
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1
