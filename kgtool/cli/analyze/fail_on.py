"""``kgtool analyze --fail-on``: the conditions for exit status 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kgtool.analysis.input.limitations import EXPIRING
from kgtool.analysis.words import duration
from kgtool.cli.output.output import Output
from kgtool.errors import UsageError
from kgtool.timespec import span_ms

if TYPE_CHECKING:
    from kgtool.analysis.pipeline import Analysis

OVERDUE, LOSSES = "overdue", "losses"

_CONDITIONS = {
    OVERDUE: ("overdue", "expires_at_ms", "should be gone already (--table overdue)"),
    LOSSES: (
        "losses",
        "committed_again_ms",
        "would have been missed: removed, and committed again later (--table losses)",
    ),
    EXPIRING: ("live", "expires_at_ms", "may expire within that time (--table live)"),
}
"""Of each condition: the table and its column that count, and what is said."""


class FailCondition(NamedTuple):
    """A condition of ``--fail-on``."""

    kind: str
    within_ms: int = 0

    def is_met(self, analysis: Analysis, output: Output) -> bool:
        """Whether it is met; a note on stderr says how often."""
        table, column, words = _CONDITIONS[self.kind]
        until = [analysis.end_ms + self.within_ms] if self.kind == EXPIRING else []
        found = analysis.count(table, column, *until)
        if found:
            output.note(f"--fail-on {self}: {found:,} {words}")
        elif self.kind != LOSSES:
            self._check_told(analysis, output)
        return bool(found)

    def _check_told(self, analysis: Analysis, output: Output) -> None:
        """Say how many offsets have no date that can be told; UsageError: none has."""
        kinds = analysis.small("group_kinds")
        live, untold = (sum(kinds[name].to_pylist()) for name in ("offsets", "untold"))
        if untold and untold == live:
            raise UsageError(f"--fail-on {self} can't be told of any of the {live:,} offsets.")
        if untold:
            output.note(f"--fail-on {self}: can't be told of {untold:,} of {live:,} offsets")

    def __str__(self) -> str:
        return f"{self.kind}={duration(self.within_ms)}" if self.within_ms else self.kind


def parse_condition(text: str) -> FailCondition:
    """Read ``overdue``, ``losses`` or ``expiring-within=DURATION``."""
    what, equals, span = text.partition("=")
    if what == EXPIRING and equals:
        return FailCondition(what, span_ms(span, f"fail-on {EXPIRING}"))
    if what in (OVERDUE, LOSSES) and not equals:
        return FailCondition(what)
    raise UsageError(
        f"--fail-on takes {OVERDUE}, {LOSSES} or {EXPIRING}=DURATION such as "
        f"{EXPIRING}=48h, not '{text}'."
    )
