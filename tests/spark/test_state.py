"""``--state``: run after run over what is new, and the tables of one run over all of it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from kgtool.analysis.decode.segments import scan
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import NOTHING, Analysis, TableOptions
from kgtool.analysis.spark import read
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.analysis.spark.output_folder import Folder
from kgtool.analysis.spark.remote import Store
from kgtool.analysis.state import State, state_options
from kgtool.cli.app.main import main
from kgtool.errors import ConfigError
from tests.analysis import writer
from tests.analysis.writer import Raw
from tests.spark.test_random_logs import write_log
from tests.support import seeds
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
NOW_MS = 1_795_265_000_000
NAMES = ("live", "removals", "overdue", "groups", "losses", "whatif", "whatif_families", "metrics")
OPTIONS: dict[str, Any] = {
    "retention": [60_000, 20_000],
    "wrote": ((broker_settings.BEGINNING, 60_000),),
}


def run(
    make: Make, paths: list[Path], folder: Path | None = None, names: Sequence[str] = NAMES
) -> dict[str, list[str]]:
    """All tables, of a run of its own or of one that goes on from ``folder``."""
    inputs = find_inputs([str(path) for path in paths])
    state = State(Folder(str(folder)), rebuild=False) if folder else None
    inputs = state.unread(inputs) if state else inputs
    basis, played = broker_settings.choose_scenarios(
        None, ["4.1"], OPTIONS["retention"], [5000], OPTIONS["wrote"]
    )
    if state:
        state.check(state_options(basis, played, 60_000))
    options = TableOptions(played, 3_600_000, 60_000)
    engine = make()
    earlier = state.go_on(engine) if state else NOTHING
    analysis = Analysis(engine, inputs.files, basis, None, options, earlier)
    tables = {name: sorted(map(str, dicts(analysis, name))) for name in names}
    if state:
        state.commit(analysis)
    return tables


def batches(path: Path) -> list[tuple[int, bytes]]:
    """Base offset and bytes of each batch."""
    data = path.read_bytes()
    starts = scan(data).starts
    pieces = [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]
    return [(int.from_bytes(piece[:8], "big"), piece) for piece in pieces]


def test_any_split_gives_the_tables_of_one_run(engine: Make, tmp_path: Path) -> None:
    """A log that is copied while it grows: files grow, begin anew, are cut away, come twice."""
    for seed in seeds.rounds(1 if "LocalEngine" not in str(engine) else 3):
        rng = random.Random(seed)
        whole, state, grown = (tmp_path / f"{name}{seed}" for name in ("all", "state", "grown"))
        write_log(whole, seed, kip_848=True, groups_in_all=24)
        logs = {
            folder.name: [each for path in sorted(folder.iterdir()) for each in batches(path)]
            for folder in whole.iterdir()
        }
        runs = rng.choice([2, 3, 4])
        cuts = {
            name: sorted(rng.choices(range(len(log) + 1), k=runs - 1)) + [len(log)]
            for name, log in logs.items()
        }
        tables = {}
        in_order = rng.random() < 0.5
        orders = {name: list(range(runs)) for name in logs}
        for order in orders.values() if not in_order else ():
            rng.shuffle(order)  # what lies between comes later
        for at in range(runs):
            for name, log in logs.items():
                part = orders[name][at]
                first, end = ([0, *cuts[name]][part], cuts[name][part])
                if rng.random() < 0.4:
                    first = rng.randrange(first + 1)  # a copy that overlaps the one before
                if first == end:
                    continue
                begin = log[first][0] if not in_order or rng.random() < 0.5 else log[0][0]
                pieces = [piece for base, piece in log[:end] if base >= begin]
                path = (
                    grown
                    / f"copy{0 if in_order and rng.random() < 0.5 else at}"
                    / name
                    / f"{begin:020}.log"
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"".join(pieces))
            tables = run(engine, [grown], state)
        assert tables == run(engine, [whole]), seed
        assert run(engine, [grown], state) == tables  # nothing new
        assert len(tables["removals"]) > 20 and len(tables["losses"]) > 5


def test_bytes_of_a_file_that_grows_count_once(tmp_path: Path) -> None:
    state, grown = tmp_path / "state", tmp_path / "grown"
    for count in (3, 3, 8):
        path = writer.segment(grown, writer.commits(0, count))
        found = run(LocalEngine, [grown], state, ["partitions"])
        assert found == run(LocalEngine, [grown], names=["partitions"])
        assert f"'bytes': {path.stat().st_size}," in found["partitions"][0]


def log(folder: Path, first: int, *commits: tuple[str, int]) -> Path:
    raws = [
        Raw(writer.offset_key(group), writer.offset_value(offset, NOW_MS), NOW_MS)
        for group, offset in commits
    ]
    place = folder / "__consumer_offsets-7"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{first:020}.log").write_bytes(writer.batch(first, raws))
    return folder


def analyze(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[Any], str]:
    capsys.readouterr()
    status = main(["analyze", *map(str, words), "--engine", "local", "-o", "json"])
    out, err = capsys.readouterr()
    rows = [row["group"] for row in json.loads(out)["results"]] if status == 0 else []
    return status, sorted(rows), err


def test_what_a_user_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    go_on = ("--state", state, "--table", "live")
    one = log(tmp_path / "one", 0, ("a", 1), ("b", 1))
    assert analyze(capsys, one, *go_on, "--out", out)[:2] == (0, ["a", "b"])
    # The file has gone, the state has what was in it.
    assert analyze(capsys, log(tmp_path / "two", 2, ("c", 1)), *go_on)[:2] == (0, ["a", "b", "c"])
    # Other options than the state's.
    for other in (["--rules", "2.4"], ["--wrote", "1d"], ["--retention", "1d"], ["--bucket", "1d"]):
        status, _, err = analyze(capsys, one, *go_on, *other)
        assert (status, err.count("\n")) == (2, 1) and "or --rebuild to start again" in err
    # Neither do two runs at once, each of which would count on what the other one replaces.
    with Folder(str(state)).held():
        status, _, err = analyze(capsys, one, *go_on)
        assert (status, err.count("\n")) == (2, 1) and "Another kgtool is writing to" in err
    # Offsets 3 to 9 are nowhere.
    status, _, err = analyze(capsys, log(tmp_path / "three", 10, ("d", 1)), *go_on)
    assert status == 3 and "lack records in the middle of log partition 7 (offsets 3–9)" in err
    assert "offsets 3–9 of log partition 7, between the last run and this one." in err
    # The order of options does not matter.
    new = ("--state", tmp_path / "new", "--table", "live")
    assert analyze(capsys, one, *new, "--retention", "1d", "--retention", "2d")[0] == 0
    assert analyze(capsys, one, *new, "--retention", "2d", "--retention", "1d")[0] == 0
    # Again from nothing, by other options.
    status, rows, _ = analyze(capsys, one, *go_on, "--rebuild", "--rules", "2.4")
    assert (status, rows) == (0, ["a", "b"])
    assert len([path for path in state.iterdir() if path.name.startswith("run-")]) == 1
    # What can't be gone on from.
    (tmp_path / "text").write_text(
        '{"key":{"version":1,"data":{"group":"a","topic":"t","partition":0}},"value":null}\n'
    )
    for words, said in (
        ((tmp_path / "text", *go_on), "it doesn't tell log offsets"),
        ((one, "--state", tmp_path / "one"), "holds no state of analyze"),
        ((one, "--state", tmp_path / "text"), "is a file: name a folder"),
        ((one, "--rebuild"), "--rebuild needs --state DIR"),
        ((one, *go_on, "--as-of", "2026-01-01"), "--as-of can't be given with --state"),
    ):
        status, _, err = analyze(capsys, *words)
        assert (status, said in err) == (2, True), err
    # A part of it was damaged, was deleted with and without its folder, can't be read.
    (kept,) = (path for path in state.iterdir() if path.name.startswith("run-"))
    for damage in (
        lambda: next(kept.iterdir()).write_bytes(b"PAR1"),
        lambda: next(kept.iterdir()).unlink(),
        lambda: kept.rename(tmp_path / "elsewhere"),
        lambda: (state / "state.json").write_text("{}"),
    ):
        damage()
        status, _, err = analyze(capsys, one, *go_on, "--rules", "2.4")
        assert (status, err.splitlines()[-1].endswith("give --rebuild to start again.")) == (
            2,
            True,
        ), err


def test_files_of_a_run_are_gone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: what is left was taken for all that the run had read."""
    monkeypatch.setattr(read, "TASK_BYTES", 1)  # each input in a task of its own
    logs = [log(tmp_path / str(first), first, ("a", 1)) for first in (0, 1)]
    run(lambda: SparkEngine(spark), logs, tmp_path / "state")
    (kept,) = (tmp_path / "state").glob("run-*")
    files = {path: path.read_bytes() for path in kept.glob("*.parquet")}
    assert len(files) == 2
    for place in (Folder(f"{tmp_path}/state"), Store(spark, (tmp_path / "state").as_uri())):
        assert State(place, rebuild=False).earlier == [f"{place.base}/{kept.name}"]
        for path in files:
            path.unlink()
            with pytest.raises(ConfigError, match=f"lacks files of {kept.name}: give --rebuild"):
                State(place, rebuild=False)
            assert State(place, rebuild=True).earlier == []
        for path, data in files.items():
            path.write_bytes(data)


def test_a_state_without_a_number_of_files_goes_on(tmp_path: Path) -> None:
    """As kgtool wrote it before it counted them."""
    state, first = tmp_path / "state", log(tmp_path / "one", 0, ("a", 1))
    run(LocalEngine, [first], state)
    content = json.loads((state / "state.json").read_text())
    assert content.pop("parts") == {"run-000001": 1}
    (state / "state.json").write_text(json.dumps(content))
    tables = run(LocalEngine, [log(tmp_path / "two", 1, ("b", 1))], state, ["live"])
    assert tables == run(LocalEngine, [first, tmp_path / "two"], names=["live"])
    assert json.loads((state / "state.json").read_text())["parts"] == {"run-000002": 1}
    next((state / "run-000001").iterdir()).unlink()
    with pytest.raises(ConfigError, match="lacks files of run-000001: give --rebuild"):
        State(Folder(str(state)), rebuild=False)


KILLED = """
import os, signal, sys
from kgtool.analysis import state, tables_out
from kgtool.cli.app.main import main

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "tables":
    tables_out._put = killed
else:
    state.State.commit = killed
sys.exit(main(["analyze", *sys.argv[2:], "--engine", "local", "--overwrite"]))
"""


@pytest.mark.parametrize("moment", ["tables", "state"])
def test_killed_before_the_state_was_committed(
    moment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables and state are of one run; the next one reads what was not committed once more."""
    state, out = tmp_path / "state", tmp_path / "out"
    words = ("--state", state, "--out", out, "--table", "live", "--overwrite")
    assert analyze(capsys, log(tmp_path / "one", 0, ("a", 1)), *words)[:2] == (0, ["a"])
    before = (state / "state.json").read_bytes()
    two = log(tmp_path / "two", 1, ("a", 2), ("b", 1))
    command = [sys.executable, "-c", KILLED, moment, str(two), *map(str, words[:4])]
    assert (
        subprocess.run(
            command, check=False, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        == -9
    )
    assert (state / "state.json").read_bytes() == before
    there = sorted(parquet.read_table(out / "live")["group"].to_pylist())
    assert there == (["a"] if moment == "tables" else ["a", "b"])
    assert analyze(capsys, two, *words)[:2] == (0, ["a", "b"])
    assert analyze(capsys, two, *words)[:2] == (0, ["a", "b"])
    found = parquet.read_table(out / "groups").to_pylist()
    assert {row["group"]: row["commits"] for row in found} == {"a": 2, "b": 1}


def test_only_what_is_new_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    from kgtool.analysis.decode import decoder

    chunk = decoder.read_chunk

    def seen(part: Any) -> Any:
        for found in chunk(part):
            read.append(len(found.records.log_offset))
            yield found

    monkeypatch.setattr(decoder, "read_chunk", seen)
    place = log(tmp_path / "log", 0, ("a", 1), ("b", 1))
    run(LocalEngine, [place], tmp_path / "state")
    path = place / "__consumer_offsets-7" / f"{0:020}.log"
    more = log(tmp_path / "more", 2, ("c", 1)) / "__consumer_offsets-7" / f"{2:020}.log"
    path.write_bytes(path.read_bytes() + more.read_bytes())
    run(LocalEngine, [place], tmp_path / "state")
    assert read == [2, 1]
    run(LocalEngine, [place], tmp_path / "state")
    assert read == [2, 1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            '{"kgtool_state": 1, "seen": {}, "lacks": 0}',
            r"another version of kgtool .format 1, not 3.",
        ),
        # Its runs have the wide rows of then, in which an epoch is named commits.
        ('{"kgtool_state": 2, "offsets": {}}', r"another version of kgtool .format 2, not 3."),
        ('{"kgtool_state": 3, "offsets": []}', "can't be read"),
        ("{}", "can't be read"),
    ],
)
def test_a_state_of_another_version_is_refused(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(ConfigError, match=rf"state.json .*{why}.*: give --rebuild"):
        State(Folder(str(tmp_path)), rebuild=False)
    assert State(Folder(str(tmp_path)), rebuild=True).before.offsets == {}
