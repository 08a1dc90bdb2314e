"""``analyze --fail-on``: what the user wants to be warned of by the exit status."""

from __future__ import annotations

from typing import Any, NamedTuple

from kgtool.analysis.words import duration
from kgtool.cli.output.output import Output
from kgtool.errors import UsageError
from kgtool.timespec import span_ms

OVERDUE, EXPIRING, LOSSES = "overdue", "expiring-within", "losses"


class Warned(NamedTuple):
    """One thing to be warned of."""

    what: str
    within_ms: int = 0

    def is_met(self, analysis: Any, output: Output) -> bool:
        """Look for it; say on stderr how much of it there is."""
        if self.what == OVERDUE:
            found = analysis.count("overdue", "expires_at_ms")
            words = "should be gone already (--table overdue)"
        elif self.what == LOSSES:
            found = analysis.count("losses", "committed_again_ms")
            words = "would have been missed: removed, and committed again later (--table losses)"
        else:
            found = analysis.count("live", "expires_at_ms", analysis.end_ms + self.within_ms)
            words = "may expire within that time (--table live)"
        if found:
            output.note(f"--fail-on {self}: {found:,} {words}")
        return bool(found)

    def __str__(self) -> str:
        return f"{self.what}={duration(self.within_ms)}" if self.within_ms else self.what


def condition(text: str) -> Warned:
    """Read ``overdue``, ``losses`` or ``expiring-within=DURATION``."""
    what, equals, span = text.partition("=")
    if what == EXPIRING and equals:
        return Warned(what, span_ms(span, f"fail-on {EXPIRING}"))
    if what in (OVERDUE, LOSSES) and not equals:
        return Warned(what)
    raise UsageError(
        f"--fail-on takes {OVERDUE}, {LOSSES} or {EXPIRING}=DURATION such as "
        f"{EXPIRING}=48h, not '{text}'."
    )
