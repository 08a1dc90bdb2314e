"""Which brokers wrote a log, by the types and value versions of its records.

The kind: analyzing a log by the rules of brokers that can't have written it. Siblings: cluster.json
of the brokers after an upgrade, with records from before it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.limitations import older_note
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.retention import rules as r
from kgtool.retention.written_by import UNDATED, Written, likely_rules, older_until_ms
from tests.analysis import writer
from tests.analysis.writer import Raw, offset_key, offset_value
from tests.retention.truth import DATA

DAY_MS = 86_400_000
T0 = 19_000 * DAY_MS
NEW = {"brokers": [{"version": "4.3.1"}], "coordinator": "new"}


def kind(key_type: int, version: int, first: int = 1, last: int = 9) -> Written:
    return Written(0, key_type, version, first, last)


@pytest.mark.parametrize(
    ("kinds", "rules"),
    [
        ([kind(1, 4)], "4.1"),
        ([kind(1, 3)], "2.4"),
        ([kind(1, 3), kind(2, 2)], "2.1"),
        ([kind(1, 3), kind(2, 3)], "2.4"),
        ([kind(1, 3), kind(3, 0)], "3.8-new"),
        ([kind(1, 3), kind(17, 0)], None),
        ([kind(1, 2)], "2.1"),
        ([kind(1, 1)], "pre-2.1"),
        ([kind(0, 0)], "pre-2.1"),
        ([kind(1, 1), kind(2, 1)], "pre-2.1"),
        # A client asked for a retention of its own.
        ([kind(1, 1), kind(1, 3)], "2.4"),
        ([kind(1, 1), kind(2, 3)], "4.1"),
        # inter.broker.protocol.version is below 2.1, the broker is not.
        ([kind(1, UNDATED), kind(2, 1)], "pre-2.1"),
        # An upgrade: the newest count.
        ([kind(1, 3, 1, 5), kind(1, 4, 6, 9)], "4.1"),
        ([kind(1, 3, 1, 9), kind(2, 2, 1, 5), kind(2, 3, 6, 9)], "2.4"),
        ([], None),
    ],
)
def test_the_rules_that_records_allow(kinds: list[Written], rules: str | None) -> None:
    found = likely_rules(kinds)
    assert (None if found is None else found.name) == rules


def test_what_only_older_brokers_write() -> None:
    kinds = [
        Written(0, 1, 3, 1, 70),
        Written(0, 2, 3, 1, 80),
        Written(1, 1, 3, 1, 50),
        Written(1, 1, 4, 51, 90),
        Written(2, 1, 1, 1, 99),
    ]
    assert older_until_ms(kinds, r.RULES_4_1) == {0: 70, 1: 50}
    assert older_until_ms(kinds, r.RULES_2_4) == {}
    assert older_until_ms([Written(0, 2, 2, 1, 7)], r.RULES_2_8) == {0: 7}


def test_offsets_without_a_topic_id_prove_an_older_broker_only_before_the_first_with_one() -> None:
    """Kind: brokers from 4.1 on write version 3 too, of topics that they don't know."""
    alone = [Written(0, 1, 3, 1, 70)]
    assert older_until_ms(alone, r.RULES_4_1) == {}  # cluster.json says 4.1
    later = [Written(0, 1, 4, 1, 70), Written(0, 1, 3, 30, 90), Written(1, 1, 3, 40, 95)]
    assert older_until_ms(later, r.RULES_4_1) == {}
    found = likely_rules(later)
    assert found is not None and found.name == "4.1"
    upgraded = [Written(0, 1, 3, 1, 90), Written(0, 1, 4, 60, 80), Written(1, 1, 3, 2, 55)]
    assert older_until_ms(upgraded, r.RULES_4_1) == {0: 60, 1: 55}


def test_a_log_of_2_0_is_not_explained_by_the_rules_of_today() -> None:
    """Real (2.0.1): without cluster.json, 81 expired and 5 that somebody deleted."""
    inputs = find_inputs([str(DATA / "retention-truth" / "2.0.1" / "segments")])
    basis, played = broker_settings.choose_scenarios(None, ["auto"], [60_000], [5_000])
    analysis = Analysis(LocalEngine(), inputs.files, basis)
    causes = [row["cause"] for row in analysis.rows("removals") if row["topic"] is not None]
    assert analysis.basis.rules.name == "pre-2.1"
    assert analysis.basis.assumed == ["rules pre-2.1"]
    assert (causes.count("expired"), causes.count("explicit")) == (81, 5)
    assert played == (broker_settings.actual_scenario(basis),)


def upgraded(folder: Path, epochs: tuple[int, int, int]) -> Any:
    """Offsets that 3.9 and, in partition 0, 4.3 wrote, and their removals, each a day apart."""
    value = struct.pack(">hq", 4, 5) + struct.pack(">i", -1) + b"\1"
    rows = [
        (0, epochs[0], "old", offset_value(5, T0)),
        (1, epochs[0], "old", None),
        (2, epochs[1], "new", value + struct.pack(">q", T0 + 2 * DAY_MS) + b"\0"),
        (3, epochs[2], "new", None),
    ]
    data = b"".join(
        writer.batch(at, [Raw(offset_key(name), content, T0 + at * DAY_MS)], leader_epoch=epoch)
        for at, epoch, name, content in rows
    )
    writer.segment(folder, data)
    inputs = find_inputs([str(folder)])
    basis, _ = broker_settings.choose_scenarios(NEW, ["auto"], [DAY_MS], [600_000])
    return Analysis(LocalEngine(), inputs.files, basis)


def test_removals_from_before_an_upgrade_have_no_cause(tmp_path: Path) -> None:
    """Up to the first record of the next leader epoch: an upgrade is a restart."""
    analysis = upgraded(tmp_path, (1, 2, 2))
    rows = {row["group"]: row for row in analysis.rows("removals")}
    assert (rows["old"]["cause"], rows["old"]["expires_at_ms"], rows["old"]["rule"]) == (None,) * 3
    assert rows["new"]["cause"] == "expired"
    told = older_note(analysis.older_until_ms, analysis.basis.rules)
    assert told is not None and "--rules OLDER@0,4.1@TIME" in told


def test_rules_that_somebody_chose_hold_for_the_whole_log(tmp_path: Path) -> None:
    upgraded(tmp_path, (1, 2, 2))
    basis, _ = broker_settings.choose_scenarios(NEW, ["4.1"], [DAY_MS], [600_000])
    analysis = Analysis(LocalEngine(), find_inputs([str(tmp_path)]).files, basis)
    assert {row["cause"] for row in analysis.rows("removals")} == {"expired"}
    assert analysis.older_until_ms == {}
