"""The rows of the benchmark: what was measured, against what, and what was aimed at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    """One row of the table at the end."""

    work: str
    against: str
    ratio: float
    goal: float
    faster: bool = False
    """The goal is "at least so many times faster": the ratio is theirs by ours."""
    seconds: float = 0.0
    note: str = ""
    is_less_than: str = "x"

    @property
    def is_met(self) -> bool:
        """Whether the goal is reached."""
        return self.ratio >= self.goal if self.faster else self.ratio <= self.goal

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row as shown."""
        sign = "≥" if self.faster else "≤"
        unit = {"x": " ×", "MiB": " MiB"}[self.is_less_than]
        return (
            self.work,
            self.against,
            f"{self.ratio:.2f}{unit}",
            f"{sign} {self.goal:g}{unit}{' faster' if self.faster else ''}",
            "met" if self.is_met else "NOT MET",
            f"{self.seconds:.2f} s",
            self.note,
        )


HEADERS = ("WORK", "AGAINST", "MEASURED", "GOAL", "", "OURS TOOK", "NOTE")


def table(results: Sequence[Result]) -> str:
    """Return the table of all results."""
    rows = [HEADERS, *(result.cells for result in results)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADERS))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def save(path: Path, results: Iterable[Result], about: dict[str, object]) -> None:
    """Keep the results as JSON."""
    rows = [{**result._asdict(), "met": result.is_met} for result in results]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, "results": rows}, indent=1) + "\n", encoding="utf-8")
