"""Generations of brokers over time: ``--rules 2.4@0,4.1@TIME``."""

from __future__ import annotations

from kgtool.errors import UsageError
from kgtool.retention.rules import RULE_SETS, RuleSet
from kgtool.timespec import time_ms

RulePhases = tuple[tuple[int, RuleSet], ...]
"""(from when in ms, rule set), in the order of time, from 0 on."""


def is_over_time(rules: str) -> bool:
    """Whether that is a list for ``rule_phases``, not a name."""
    return "@" in rules or "," in rules


def rule_phases(text: str, now_ms: int) -> RulePhases:
    """``2.4@0,4.1@TIME``: the generations of brokers over time (UsageError)."""
    phases: list[tuple[int, RuleSet]] = []
    for part in text.split(","):
        name, at, since = part.strip().partition("@")
        if name not in RULE_SETS:
            raise UsageError(
                f"--rules '{text}': '{name}' is not one of {', '.join(RULE_SETS)}. Generations "
                "over time are written like 2.4@0,4.1@2026-11-21T15:00:00Z."
            )
        if phases and not at:
            raise UsageError(f"--rules '{text}': from when on is {name}? Write {name}@TIME.")
        start_ms = _start_ms(text, since, now_ms) if at else 0
        if not phases and start_ms != 0:
            raise UsageError(f"--rules '{text}' must say what was first: begin with VERSION@0.")
        if phases and start_ms <= phases[-1][0]:
            raise UsageError(f"--rules '{text}' is not in the order of time: {part.strip()}.")
        phases.append((start_ms, RULE_SETS[name]))
    return tuple(phases)


def _start_ms(text: str, since: str, now_ms: int) -> int:
    try:
        return time_ms(since, now_ms)
    except UsageError as error:
        raise UsageError(
            f"--rules '{text}': a time is 2026-11-21T15:00:00Z, now-2h or milliseconds since the "
            f"epoch, not '{since}'."
        ) from error


def rule_sets_over_time(rules: str | RulePhases) -> RulePhases:
    """One name as rules from the beginning on; () for ``auto``."""
    if not isinstance(rules, str):
        return rules
    return ((0, RULE_SETS[rules]),) if rules in RULE_SETS else ()
