"""Which broker wrote the log, and which others are to be played: from options and cluster.json."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from kgtool.analysis import sources
from kgtool.analysis.due import Scenario
from kgtool.analysis.sources import Basis
from kgtool.errors import UsageError
from kgtool.retention.rules import RULE_SETS

AUTO = "auto"
MOST = 60
"""Scenarios of one run: each is a replay of the whole history."""


def choose(
    manifest: dict[str, Any] | None,
    rules: Sequence[str],
    retentions_ms: Sequence[int],
    intervals_ms: Sequence[int],
) -> tuple[Basis, tuple[Scenario, ...]]:
    """The basis, by which removals are explained, and the scenarios of a what-if.

    One value given is what the broker had. Of several, each is a scenario, and the broker had what
    cluster.json says, or else the first of them.

    :raises UsageError: too many scenarios.
    """
    told = sources.basis(manifest, AUTO, None, None)
    unknown = {words.rpartition(" ")[0] for words in told.assumed}

    def one(values: Sequence[Any], what: str) -> Any:
        return values[0] if len(values) == 1 or (values and what in unknown) else None

    basis = sources.basis(
        manifest,
        one(rules, "rules") or AUTO,
        one(retentions_ms, "retention"),
        one(intervals_ms, "check interval"),
    )
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
