"""Which broker wrote the log, and which others are to be played: from options and cluster.json."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import UNTOLD_RETENTION, Basis, Phases
from kgtool.errors import UsageError
from kgtool.retention.rules import RULE_SETS, RuleSet

AUTO = "auto"
MOST = 60
"""Scenarios of one run: each is a replay of the whole history."""


class Scenario(NamedTuple):
    """One broker that might have been."""

    rules: RuleSet
    retention_ms: int
    interval_ms: int
    """Of the checks, which come at every multiple of it (since the epoch)."""


def choose(
    manifest: dict[str, Any] | None,
    rules: Sequence[str],
    retentions_ms: Sequence[int],
    intervals_ms: Sequence[int],
    wrote: Phases = (),
) -> tuple[Basis, tuple[Scenario, ...]]:
    """The basis, by which removals are explained, and the scenarios of a what-if.

    The brokers had the retentions of ``wrote``, or else what cluster.json says, or else a single
    retention given, or else the default. Of rules and intervals one value given is what they had;
    several are scenarios, in whatever order.

    :raises UsageError: too many scenarios.
    """
    told = broker_settings.basis(manifest, AUTO, None, None)
    retention = next((ms for _, ms in wrote[-1:]), None)
    if retention is None and len(retentions_ms) == 1 and UNTOLD_RETENTION in told.assumed:
        retention = retentions_ms[0]
    basis = broker_settings.basis(manifest, _only(rules) or AUTO, retention, _only(intervals_ms))
    basis = basis._replace(changes=wrote[1:] and tuple(wrote))
    sets = [basis.rules if name == AUTO else RULE_SETS[name] for name in rules or (AUTO,)]
    scenarios = tuple(
        dict.fromkeys(
            Scenario(*each)
            for each in product(
                sets,
                retentions_ms or (basis.retention_ms,),
                intervals_ms or (basis.check_interval_ms,),
            )
        )
    )
    if len(scenarios) > MOST:
        raise UsageError(
            f"--rules, --retention and --check-interval make {len(scenarios)} scenarios, one for "
            f"each combination; up to {MOST} are played at once."
        )
    return basis, scenarios


def _only(values: Sequence[Any]) -> Any:
    """The value, if there is one and no other."""
    return values[0] if len(values) == 1 else None


def as_it_was(basis: Basis) -> Scenario:
    """The scenario that is no what-if."""
    return Scenario(basis.rules, basis.retention_ms, basis.check_interval_ms)
