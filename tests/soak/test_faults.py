"""Sixty of the thousand runs of ``make soak``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak.faults import BEFORE, COMMANDS, Case, Soak, draw, problems_of, run_all
from tests.support import faulty
from tests.support.faulty import Run
from tests.support.outcomes import Outcome
from tests.support.proxy import KINDS, Fault

RUNS = 60
TABLE = "kgtool through damaged connections: exit statuses"


@pytest.mark.broker
def test_what_is_damaged_is_told(tmp_path: Path, outcome: Outcome) -> None:
    kafka = faulty.shared()
    with kafka.proxies() as proxies:
        verdicts = list(run_all(Soak(kafka, proxies, tmp_path), range(RUNS)))
    cells: dict[tuple[str, str], Counter[str]] = {}
    for verdict in verdicts:
        said = f"{verdict.run.status}" if verdict.is_good and verdict.run else "FAILED"
        at = (verdict.case.faults[0].kind, verdict.case.command)
        cells.setdefault(at, Counter())[said] += 1
    for (kind, command), cell in sorted(cells.items()):
        with outcome(TABLE, kind, command) as field:
            field.says(" ".join(sorted(cell.elements())))
    bad = [f"{v.case}: {v.problems}\n{v.run}" for v in verdicts if not v.is_good]
    assert not bad, "\n\n".join(bad)
    assert {verdict.run.status for verdict in verdicts if verdict.run} == {0, 1, 3, 4}


def test_a_thousand_seeds_go_through_all_kinds_and_commands() -> None:
    cases = [draw(seed) for seed in range(1000)]
    assert {(case.faults[0].kind, case.command) for case in cases} == {
        (kind, command) for kind in KINDS for command in COMMANDS
    }
    assert cases == [draw(seed) for seed in range(1000)]


DOCUMENT = '{"command": "delete", "cluster_id": "c", "version": 1, "results": [%s], "errors": [%s]}'
ERROR = (
    '{"target": {"group": "soak-2-0", "topic": null, "partition": null, "broker": null}, '
    '"code": null, "name": "%s", "message": "m", "hint": null}'
)


@pytest.mark.parametrize(
    ("rows", "errors", "status", "seconds", "complaint"),
    [
        ([("deleted", None)] * 4, [], 0, 1.0, "is said to be deleted, but has"),
        ([("failed", "TIMEOUT")] * 4, ["TIMEOUT"], 4, 1.0, None),
        ([("failed", "OUTCOME_UNKNOWN")] * 4, ["OUTCOME_UNKNOWN"], 4, 1.0, None),
        ([("failed", "TIMEOUT")] * 3, ["TIMEOUT"], 4, 1.0, "is missing, and nothing says why"),
        ([("failed", "TIMEOUT")] * 4, [], 0, 1.0, "but a row has failed"),
        ([("failed", "TIMEOUT")] * 4, ["TIMEOUT"], 3, 1.0, "nothing was done"),
        ([("failed", "TIMEOUT")] * 4, ["TIMEOUT"], 4, 30.0, "more than"),
        ([("failed", "TIMEOUT")] * 4, ["TIMEOUT"], 2, 1.0, "exit status 2"),
    ],
)
def test_the_checks_see_what_is_wrong(
    rows: list[tuple[str, str | None]],
    errors: list[str],
    status: int,
    seconds: float,
    complaint: str | None,
) -> None:
    case = Case(2, "delete", (Fault("cut", 1),), 2000)
    shown = ", ".join(
        f'{{"group": "soak-2-{n}", "status": "{said}", '
        f'"error": {"null" if name is None else ERROR % name}}}'
        for n, (said, name) in enumerate(rows)
    )
    document = DOCUMENT % (shown, ", ".join(ERROR % name for name in errors))
    run = Run(("delete",), status, document, "", seconds)
    problems = problems_of(case, run, 1, dict.fromkeys(case.groups, BEFORE))
    if complaint is None:
        assert problems == []
    else:
        assert any(complaint in problem for problem in problems), problems
