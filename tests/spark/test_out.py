"""``--out``: every table or none of them, whatever ends the run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from kgtool.analysis import schema
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.table_files import check_files
from kgtool.analysis.tables_out import out_place, write_tables
from kgtool.errors import AnalysisError, UsageError
from tests.analysis import writer
from tests.analysis.test_lives import SCENARIOS
from tests.analysis.writer import Raw
from tests.spark.test_random_logs import write_log
from tests.support.tables import Make

pytestmark = pytest.mark.spark
NOW_MS = 1_795_265_000_000
KILLED = """
import os, signal, sys
from kgtool.analysis.pipeline import Analysis
from kgtool.cli.app.main import main

write = Analysis.write
def writes(self, names, base):
    write(self, names[:2], base)
    os.kill(os.getpid(), signal.SIGKILL)
Analysis.write = writes
sys.exit(main(["analyze", *sys.argv[1:], "--engine", "local"]))
"""


def log(folder: Path, *groups: str) -> Path:
    raws = [
        Raw(writer.offset_key(group), writer.offset_value(5, NOW_MS), NOW_MS) for group in groups
    ]
    writer.segment(folder, writer.batch(0, raws), partition=7)
    return folder


def analysis(engine: Make, path: Path) -> Analysis:
    basis = broker_settings.settings_from(None, "4.1", None, None)
    return Analysis(engine(), find_inputs([str(path)]).files, basis)


def there(out: Path) -> set[str]:
    names = {path.name for path in out.iterdir()}
    return names - {"._SUCCESS.crc"}  # Hadoop's


def groups(out: Path) -> list[str]:
    return sorted(parquet.read_table(out / "live")["group"].to_pylist())


def test_killed_in_the_middle(tmp_path: Path) -> None:
    """The tables that were there are whole, and the next run needs no cleaning up."""
    out = tmp_path / "out"
    asked = [str(log(tmp_path / "log", "mine")), "--out", str(out)]
    killed = [sys.executable, "-c", KILLED, *asked]
    assert subprocess.run(killed, check=False, timeout=300).returncode == -9
    assert len(there(out)) == 1 and there(out).pop().startswith(".")
    run = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
    done = [sys.executable, "-c", run, "analyze", *asked, "--engine", "local"]
    again = subprocess.run(done, check=False, timeout=300, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    before = there(out)
    assert {"live", "removals", "_SUCCESS"} < before and groups(out) == ["mine"]
    log(tmp_path / "log", "mine", "more")
    assert subprocess.run([*killed, "--overwrite"], check=False, timeout=300).returncode == -9
    assert {name for name in there(out) if name[0] != "."} == before
    assert groups(out) == ["mine"]


def test_the_files_hold_what_the_tables_say(
    engine: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several tasks write at once: each row is in one file, and empty tables have one too."""
    monkeypatch.setattr("kgtool.analysis.spark.engine.TASK_BYTES", 1000)
    write_log(tmp_path / "log", 1, kip_848=False, groups_in_all=10)
    basis = broker_settings.settings_from(None, "2.4", 60_000, 5000)
    options = TableOptions(SCENARIOS, 300_000, 10_000, gaps=True)
    found = Analysis(engine(), find_inputs([str(tmp_path / "log")]).files, basis, None, options)
    out = str(tmp_path / "out")
    place = out_place(getattr(found.engine, "session", None), out, overwrite=False)
    names = write_tables(found, place)
    assert set(names) == set(schema.TABLES)
    sizes = {}
    for name in names:
        table = parquet.read_table(f"{out}/{name}")
        declared = schema.TABLES[name].arrow()
        assert [(f.name, f.type) for f in table.schema] == [(f.name, f.type) for f in declared]
        written = Counter(map(str, table.to_pylist()))
        assert written == Counter(map(str, found.rows(name))), name
        sizes[name] = written.total()
    assert sizes["live"] and sizes["losses"] and sizes["writers"] and not sizes["orphans"]


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_a_run_replaces_all_or_nothing(
    engine: Make, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme and "LocalEngine" in str(engine):
        scheme = ""  # only Spark writes to URLs
    folder = tmp_path / "a b%20c"
    out = f"{scheme}{folder}"
    one = analysis(engine, log(tmp_path / "one", "one"))
    session = getattr(one.engine, "session", None)
    place = out_place(session, out, overwrite=False)
    late = out_place(session, out, overwrite=False)
    names = write_tables(one, place)
    assert there(folder) == {*names, "_SUCCESS"} and groups(folder) == ["one"]
    with pytest.raises(UsageError, match="give --overwrite"):  # both runs found it new
        write_tables(one, late, overwrite=False)
    with pytest.raises(UsageError, match="give --overwrite"):
        out_place(session, out, overwrite=False)

    two = analysis(engine, log(tmp_path / "two", "two", "three"))
    write = Analysis.write

    def fails(self: Analysis, names: Sequence[str], base: str) -> None:
        write(self, names[:2], base)
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Analysis, "write", fails)
        with pytest.raises(
            AnalysisError, match=f"{re.escape(folder.name)} could not be written: No space left"
        ):
            write_tables(two, out_place(session, out, overwrite=True))
    assert there(folder) == {*names, "_SUCCESS"} and groups(folder) == ["one"]

    if not scheme:
        with place.held(), pytest.raises(UsageError, match="Another kgtool is writing to"):
            write_tables(two, out_place(session, out, overwrite=True))
        assert there(folder) == {*names, "_SUCCESS"} and groups(folder) == ["one"]

    assert write_tables(two, out_place(session, out, overwrite=True)) == names
    assert there(folder) == {*names, "_SUCCESS"} and groups(folder) == ["three", "two"]
    # Some: the others stay. All: a table that this run has not is none of it.
    (folder / "whatif").mkdir()
    (folder / "mine.txt").write_text("kept")
    assert write_tables(one, out_place(session, out, overwrite=True), ["live"]) == ["live"]
    assert there(folder) == {*names, "_SUCCESS", "whatif", "mine.txt"}
    write_tables(one, out_place(session, out, overwrite=True))
    assert there(folder) == {*names, "_SUCCESS", "mine.txt"} and groups(folder) == ["one"]


def test_what_a_killed_worker_left_is_no_table(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    for number in range(3):
        (folder / f"part-{number}.parquet").touch()
    check_files(str(tmp_path), ["live/part-0.parquet", "live/part-2.parquet"])
    assert sorted(path.name for path in folder.iterdir()) == ["part-0.parquet", "part-2.parquet"]
