"""``kgtool --version`` and ``--help`` against importing Click alone."""

from __future__ import annotations

from tests.bench.installed import KGTOOL, PYTHON
from tests.bench.measure import Command, Run, in_turn, seconds
from tests.bench.results import Result


def measure(runs: int, pairs: int) -> list[Result]:
    """Time both; many runs, for each is short."""
    click = Command([PYTHON, "-c", "import click"])
    results = []
    for option in ("--version", "--help"):
        pair = in_turn(Command([KGTOOL, option]), click, max(runs, pairs), _said_something)
        results.append(
            Result(
                f"kgtool {option}",
                'python -c "import click"',
                pair.ratio,
                1.3,
                seconds=seconds(pair.ours),
            )
        )
    return results


def _said_something(ours: Run, _theirs: Run) -> None:
    assert b"kgtool" in ours.out
