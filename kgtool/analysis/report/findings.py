"""What the report says first: findings, the worst first, from the facts of the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kgtool.analysis.words import duration
from kgtool.text import counted, shell_word

BAD, WARN, GOOD = "bad", "warn", "good"
LARGE = 0.5
"""The share of all live offsets from which a family is a finding."""
ANALYZE = "kgtool analyze PATH"


def findings(
    facts: Mapping[str, Any], families: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return level, text and command of each finding; one that is ``good`` if there is none."""
    order = (BAD, WARN)
    found = sorted(_all(facts, families), key=lambda one: order.index(one[0]))
    found = found or [(GOOD, "Nothing is overdue, damaged or about to expire.", "")]
    return [dict(zip(("level", "text", "command"), one, strict=True)) for one in found]


def _all(
    facts: Mapping[str, Any], families: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    if facts["overdue"]:
        text = f"{counted(facts['overdue'], 'offset')} should have been removed before the log ends"
        yield BAD, f"{text}: brokers don't expire them.", f"{ANALYZE} --table overdue"
    quality = facts["quality"]
    if quality["skipped"]:
        text = f"{counted(quality['skipped'], 'record')} of {quality['records']:,} can't be read."
        yield BAD, text, f"{ANALYZE} --table quality"
    live = facts["live_offsets"]
    if facts["next_24h"]:
        text = f"{counted(facts['next_24h'], 'offset')} of {live:,} may expire within 24 h."
        yield WARN, text, "kgtool list --expiring-within 24h"
    for family in families[:1]:
        share = family["live_offsets"] / live if live else 0
        if family["groups"] > 1 and share >= LARGE:
            name = family["family"]
            text = f"{name} holds {share:.0%} of the live offsets, in {family['groups']:,} groups."
            plan = f"kgtool cleanup plan --match {shell_word(name)} --idle 7d --out plan.json"
            yield WARN, text, plan
    if facts["untold"]:
        text = f"When {counted(facts['untold'], 'offset')} expire is not known from this input."
        yield WARN, text, "kgtool export --out DIR"
    missed = [row for row in facts.get("whatif") or () if row["missed_offsets"]]
    for row in sorted(missed, key=lambda row: -row["retention_ms"])[:1]:
        text = (
            f"With a retention of {duration(row['retention_ms'])}, "
            f"{counted(row['missed_offsets'], 'offset')} would have been lost that consumers came "
            "back for."
        )
        yield WARN, text, f"{ANALYZE} --table losses"
