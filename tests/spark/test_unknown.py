"""Real logs that do not tell all, on both engines, and what --fail-on makes of them.

Kind: a guess where the input is silent. Siblings: the head cut off, only the newest segment, a
compacted log, text of the formatters; cluster.json that knows the groups.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis
from tests.analysis import writer
from tests.cli.run import Result, call
from tests.retention.logs import Log
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
CASES = Path(__file__).parents[1] / "data" / "truth-cases"
START_MS = 1_700_000_000_000


def analyzed(engine: Make, folder: Path) -> Analysis:
    inputs = find_inputs([str(folder)])
    basis = broker_settings.settings_from(inputs.manifest, "4.1", 60_000, 5_000)
    return Analysis(engine(), inputs.files, basis)


def test_a_log_whose_head_is_missing(engine: Make) -> None:
    analysis = analyzed(engine, CASES / "head-missing" / "segments")
    assert analysis.begins_late == {1: 105}
    rows = [row for row in dicts(analysis, "removals") if row["removed_at_ms"] == 1795625043721]
    gone = [row for row in rows if row["group"] == "classic-59"]
    assert len(gone) == 3
    assert {(row["cause"], row["expires_at_ms"]) for row in gone} == {(None, None)}
    told = [row for row in dicts(analysis, "removals") if row["cause"] is not None]
    assert len(told) > 5  # groups with a record of their own before


def test_since_when_in_a_compacted_log(engine: Make) -> None:
    analysis = analyzed(engine, CASES / "since-in-compacted-log" / "segments")
    rows = {row["group"]: row for row in dicts(analysis, "live")}
    for group in ("str", "k848-stays"):
        assert rows[group]["group_state"] is not None
        assert rows[group]["state_since_ms"] is None
    assert rows["classic"]["state_since_ms"] == 1795626473479  # its record says so


def test_the_name_of_a_segment_tells_a_compacted_log_from_one_that_begins_late(
    engine: Make, tmp_path: Path
) -> None:
    """The export's file is named by its first record, 12; cluster.json says that the log has 0."""
    export = CASES / "since-in-compacted-log" / "export"
    assert analyzed(engine, export).begins_late == {}
    shutil.copytree(export / "segments", tmp_path / "segments")
    assert analyzed(engine, tmp_path / "segments").begins_late == {0: 12}
    told = json.loads((export / "cluster.json").read_text())
    told["partitions"][1]["start_offset"] = 1
    (tmp_path / "cluster.json").write_text(json.dumps(told))
    assert analyzed(engine, tmp_path).begins_late == {1: 1}


# --- the command ---------------------------------------------------------------------------------


def newest_segment(folder: Path, groups: list[dict[str, Any]] | None = None) -> Path:
    """Of a Stable group only commits are left; a simple group beside it."""
    log = Log()
    for group in ("stable", "simple"):
        log.commit(START_MS, group=group)
    raws = [
        writer.Raw(writer.offset_key(group, "t1"), writer.offset_value(1, START_MS), START_MS)
        for group in ("stable", "simple")
    ]
    writer.segment(folder, writer.batch(700, raws), 0, 700)
    if groups is not None:
        rows = [{"partition": 0, "start_offset": 700, "end_offset": 702}]
        told = {"kgtool_export": 1, "cluster_id": "c", "groups": groups, "partitions": rows}
        told |= {"taken_at_ms": START_MS + 1000, "brokers": [{"id": 1, "version": "2.8.2"}]}
        (folder / "cluster.json").write_text(json.dumps(told))
    return folder


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> Result:
    return call(capsys, "analyze", "--engine", "local", *map(str, argv))


def test_unknown_groups_are_in_no_plan_and_no_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Was: classic, Empty; planned; ``--fail-on expiring-within=8d`` 5."""
    folder, plan = newest_segment(tmp_path / "log"), tmp_path / "plan.json"
    found = run(capsys, folder, "--table", "live", "-o", "json", "--plan", plan)
    assert found.status == 0
    for row in json.loads(found.out)["results"]:
        told = [row[name] for name in ("group_state", "rule", "expires_at_ms", "subscribed")]
        assert told == [None] * 4
    assert "lack the beginning of log partition 0 (first offset 700)" in found.err
    assert not plan.exists() or not json.loads(plan.read_text()).get("items")
    refused = run(capsys, folder, "--fail-on", "expiring-within=8d")
    assert refused.status == 2 and "can't be told" in refused.err


def test_cluster_json_knows_the_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = [
        {"group": "stable", "type": "classic", "state": "Stable", "protocol_type": "consumer"},
        {"group": "simple", "type": "classic", "state": "Empty", "protocol_type": ""},
    ]
    folder = newest_segment(tmp_path, groups)
    found = run(capsys, folder, "--table", "live", "-o", "json")
    rows = {row["group"]: row for row in json.loads(found.out)["results"]}
    assert rows["stable"]["group_state"] == "Stable" and rows["stable"]["rule"] is None
    assert rows["simple"]["expires_at_ms"] == START_MS + 7 * 86_400_000
    assert run(capsys, folder, "--fail-on", "expiring-within=8d").status == 5
    # As of an earlier time the listing says nothing.
    early = run(capsys, folder, "--as-of", str(START_MS), "--table", "live", "-o", "json")
    assert {row["group_state"] for row in json.loads(early.out)["results"]} == {None}


TEXT = "[g,t1,0]::OffsetAndMetadata(offset=5, leaderEpoch=Optional.empty, metadata=, " + (
    f"commitTimestamp={START_MS}, expireTimestamp=None)\n"
)


@pytest.mark.parametrize("condition", ["overdue", "losses", "expiring-within=30d"])
@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_fail_on_of_what_the_input_cant_tell_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str, strict: tuple[str, ...]
) -> None:
    """Was: 0, with text of a formatter, also with --strict."""
    (tmp_path / "offsets.txt").write_text(TEXT)
    found = run(capsys, tmp_path / "offsets.txt", "--fail-on", condition, *strict)
    assert found.status == 2
    assert f"--fail-on {condition} can't be told" in found.err and "kgtool export" in found.err


def test_a_group_without_records_of_its_own_is_not_called_an_orphan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules pre-2.1 judge without the group, which nobody has told (T15)."""
    (tmp_path / "offsets.txt").write_text(TEXT)
    found = run(capsys, tmp_path / "offsets.txt", "--rules", "pre-2.1")
    assert "not told" in found.out and "orphaned" not in found.out


def test_state_across_the_log_cleaner_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run 2 has neither the commit nor its tombstone; run 1's commit would live for ever (T5).

    Siblings: segments merged into one, or shorter than before; a log that only grew has no note.
    """
    one, two, state = tmp_path / "one", tmp_path / "two", tmp_path / "state"
    writer.segment(one, writer.commits(0, 3), 0, 0)
    writer.segment(one, writer.commits(3, 1), 0, 3)
    assert run(capsys, one, "--state", state).status == 0
    writer.segment(one, writer.commits(3, 4), 0, 3)
    grown = run(capsys, one, "--state", state)
    assert grown.status == 0 and "log cleaner" not in grown.err
    writer.segment(two, writer.commits(2, 1), 0, 0)
    writer.segment(two, writer.commits(7, 1), 0, 7)
    found = run(capsys, two, "--state", state)
    assert "The log cleaner has rewritten segments" in found.err and "partition 0" in found.err
    assert "--rebuild" in found.err


def test_state_across_the_log_cleaner_of_a_real_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """58 offsets were removed and compacted away between the runs; what is live is counted right
    by the newer run alone, which the note says how to have."""
    case, state = CASES / "state-weekly", tmp_path / "state"
    words = ("--state", state, "--table", "live", "-o", "json")
    assert run(capsys, case / "run1", *words).status == 0
    found = run(capsys, case / "run2", *words)
    assert (len(found.json["results"]), found.status) == (202, 0)
    assert "The log cleaner has rewritten segments" in found.err and "--rebuild" in found.err
    again = run(capsys, case / "run2", *words, "--rebuild")
    assert (len(again.json["results"]), "log cleaner has" in again.err) == (144, False)
