"""A sample of ``make soak``, and the proof that its judge sees what is wrong."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.soak.cases import CHANGING, COMMANDS, KILLS, Case, draw
from tests.soak.judge import Event, Seen, State, problems_of
from tests.soak.soak import run_all
from tests.support import faulty
from tests.support.outcomes import Outcome
from tests.support.warm_kgtool import Run

pytestmark = pytest.mark.timed

RUNS = 39
SEEDS = range(7000, 7040)
"""The sample: always the same seeds, so that a red run is one that a change has made red.

``make soak`` draws new ones each time; ``KGTOOL_SEED`` is the first one of both.
"""
FOUND = [
    # The group was deleted, and somebody made it again: the rest of it is gone.
    Case(1_000_000_001, "delete", "lost-answer", api=42, is_raced=True),
    Case(1_000_000_002, "cleanup", "rewrite", api=42, is_raced=True, code=7),
    # What is on its way lands behind all looks.
    Case(1_000_000_003, "undo", "stall", api=8, is_raced=True, origin="delete"),
    Case(1_000_000_004, "keep", "stall", api=8, is_raced=True),
    Case(1_000_000_005, "delete", "stall", api=42, is_raced=True),
    Case(1_000_000_006, "cleanup", "stall", api=42, is_raced=True),
    Case(1_000_000_007, "delete-offsets", "stall", api=47, is_raced=True),
    # Not possible at the first look, and possible when it was only to be reported.
    Case(1_000_000_008, "restore", "swallow", api=10, is_raced=True, origin="moved"),
]
"""What the soak has found, and is run every time."""
TABLE = "kgtool's changes while something happens: exit statuses (seeds {} to {})"


@pytest.mark.broker
@pytest.mark.starts_first
def test_a_sample(tmp_path: Path, outcome: Outcome) -> None:
    given = os.environ.get("KGTOOL_SEED")
    seeds = range(int(given), int(given) + RUNS) if given else SEEDS
    kafka = faulty.shared()
    with kafka.proxies() as proxies:
        cases = [*FOUND, *map(draw, seeds)]
        verdicts = list(run_all(kafka, proxies, tmp_path, cases))
    cells: dict[tuple[str, str], Counter[str]] = {}
    for verdict in verdicts:
        said = "FAILED" if verdict.problems else f"{verdict.run.status}" if verdict.struck else "-"
        at = (verdict.case.what, verdict.case.command)
        cells.setdefault(at, Counter())[said] += 1
    for (what, command), cell in sorted(cells.items()):
        with outcome(TABLE.format(seeds[0], seeds[-1]), what, command) as field:
            field.says(" ".join(sorted(cell.elements())))
    bad = [f"{v.case}: {v.problems}\n{v.run}" for v in verdicts if v.problems]
    assert not bad, "\n\n".join(bad)
    assert len(verdicts) == len(cases)
    # A fault that never strikes proves nothing.
    assert sum(bool(verdict.struck) for verdict in verdicts) > RUNS // 2, verdicts
    kills = [bool(verdict.struck) for verdict in verdicts if verdict.case.what in KILLS]
    assert sum(kills) * 2 >= len(kills), "most of them come too late"


def test_two_thousand_seeds_go_through_everything() -> None:
    cases = [draw(seed) for seed in range(2000)]
    assert cases == [draw(seed) for seed in range(2000)]
    assert {case.command for case in cases} == set(COMMANDS) == set(CHANGING)
    for command in COMMANDS:
        whats = {case.what for case in cases if case.command == command}
        assert {*KILLS, "disk full", "lost-answer", "rewrite", "stall", "swallow"} <= whats
    assert sum(case.what in KILLS for case in cases) >= 300


GROUP = "soak-1-0"
ROW = (GROUP, "soak", "0")
B, A, F = (3, ""), (9, ""), (7, "f")


def seen(
    folder: Path,
    now: Any,
    outcome: str | None,
    status: str,
    *,
    code: int = 0,
    what: str = "cut",
    recorded: Any = B,
    foreign: Any = None,
    events: tuple[Event, ...] = (),
    ends: bool = True,
) -> Seen:
    """A reset of one offset from B to A, and what was found afterwards."""
    place = {"group": GROUP, "topic": "soak", "partition": 0}
    error = {"target": {**place, "broker": None}, "code": None, "name": "X", "message": "m"}
    document = {
        "results": [{**place, "status": status}] if status else [],
        "errors": [error] if code else [],
    }
    lines: list[Any] = [{"kind": "journal"}]
    if recorded is not None:
        lines.append({"kind": "offset", **place, "offset": recorded[0], "metadata": recorded[1]})
        lines.append({"kind": "ready"})
    if outcome is not None:
        lines.append({"kind": "result", **place, "status": status, "outcome": outcome})
    if ends:
        lines.append({"kind": "end", "state": "done"})
    path = folder / "journal.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run = Run((), code, json.dumps(document), "", 1.0)
    state: State = {} if now is None else {ROW: now}
    return Seen(
        Case(1, "reset-offsets", what),
        run,
        1,
        {ROW: B},
        {ROW: A},
        state,
        [path],
        list(events),
        {} if foreign is None else {ROW: foreign},
        None if foreign is None else 1.0,
    )


BLIND = (Event(2.0, 1, 9), Event(3.0, 1, 8))
"""A look that must have seen the other commit, and a commit after it."""
ON_ITS_WAY = (Event(0.5, 1, 8), Event(2.0, 1, 9))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"now": A, "outcome": "done", "status": "reset"}, None),
        ({"now": B, "outcome": "failed", "status": "failed", "code": 1}, None),
        ({"now": B, "outcome": "unknown", "status": "failed", "code": 1}, None),
        ({"now": A, "outcome": "unknown", "status": "failed", "code": 1}, None),
        ({"now": B, "outcome": "done", "status": "reset"}, "is said to be (9, '')"),
        ({"now": A, "outcome": "failed", "status": "failed", "code": 1}, "said to have failed"),
        ({"now": None, "outcome": "unknown", "status": "failed", "code": 1}, "neither"),
        ({"now": A, "outcome": None, "status": "reset"}, "no result for it"),
        ({"now": A, "outcome": "done", "status": "reset", "recorded": None}, "no journal says"),
        ({"now": A, "outcome": "done", "status": "reset", "recorded": (4, "")}, "the journal says"),
        ({"now": A, "outcome": "done", "status": "reset", "ends": False}, "ends interrupted"),
        ({"now": A, "outcome": "done", "status": "failed", "code": 1}, "the journal done"),
        ({"now": B, "outcome": "failed", "status": "reset"}, "the journal {'failed'}"),
        ({"now": B, "outcome": "failed", "status": "failed", "code": 0}, "a row has failed"),
        ({"now": A, "outcome": "done", "status": "reset", "code": 1}, "but 1 items were done"),
        ({"now": A, "outcome": "done", "status": "reset", "code": 70}, "exit status 70"),
        ({"now": B, "outcome": None, "status": "", "code": 0}, "nothing is said of"),
        ({"now": B, "outcome": "failed", "status": "changed-meanwhile", "code": 1}, "nobody else"),
        # Somebody else's commit
        (
            {"now": F, "outcome": "failed", "status": "changed-meanwhile", "code": 1, "foreign": F},
            None,
        ),
        (
            {"now": A, "outcome": "done", "status": "reset", "foreign": F, "events": BLIND},
            "was overwritten",
        ),
        (
            {
                "now": A,
                "outcome": "unknown",
                "status": "failed",
                "code": 1,
                "foreign": F,
                "events": ON_ITS_WAY,
            },
            None,
        ),
        # kill -9
        (
            {
                "now": A,
                "outcome": None,
                "status": "",
                "code": -9,
                "what": "kill-after",
                "ends": False,
            },
            None,
        ),
        (
            {
                "now": A,
                "outcome": None,
                "status": "",
                "code": -9,
                "what": "kill-after",
                "recorded": None,
                "ends": False,
            },
            "no journal says",
        ),
        (
            {"now": B, "outcome": None, "status": "", "code": 0, "what": "kill-after"},
            "killed, and yet",
        ),
    ],
)
def test_the_judge_sees_what_is_wrong(
    tmp_path: Path, given: dict[str, Any], complaint: str | None
) -> None:
    found = problems_of(seen(tmp_path, **given))
    assert bool(found) == (complaint is not None), found
    assert complaint is None or any(complaint in problem for problem in found), found
