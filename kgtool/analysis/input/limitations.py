"""What the inputs can't tell, and which columns and tables stay empty: said before the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from kgtool.analysis import missing_data
from kgtool.analysis.input import formats
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.words import when
from kgtool.errors import UsageError
from kgtool.retention.rules import RuleSet
from kgtool.text import listed

EXPIRING = "expiring-within"
_STATES = missing_data.GROUPS | missing_data.NEW_GROUPS
_LIVE_COLUMNS = (
    (missing_data.TRANSACTIONS, ("pending_transaction",)),
    (missing_data.COMMIT_TIMES, ("commit_timestamp_ms", "expire_timestamp_ms")),
    (missing_data.TOPIC_IDS, ("topic_id",)),
    (_STATES, ("group_type", "group_state")),
    (_STATES | missing_data.STATE_TIMES, ("state_since_ms",)),
    (_STATES | missing_data.SUBSCRIPTIONS, ("subscribed",)),
)


def limitations(files: Sequence[InputFile], rules: RuleSet) -> list[str]:
    """One sentence for each format that lacks something, and what follows for the tables."""
    incomplete: dict[str, list[InputFile]] = {}
    for file in files:
        if file.missing:
            incomplete.setdefault(file.format, []).append(file)
    sentences = []
    if rules.may_forget_date:
        sentences.append(
            "These brokers forget since when a group is Empty when they restart, and no log shows "
            "the restart of a single broker: where that decides, rule and date are null."
        )
    if not incomplete:
        return sentences
    for name, some in incomplete.items():
        paths = listed([file.path.rpartition("/")[2] for file in some], 3, " and {} more")
        words = "; ".join(missing_data.words(some[0].missing))
        sentences.append(f"{paths} ({formats.FORMATS[name].label}) can't tell {words}.")
    formatters = {kind.name: kind.label for kind in formats.FORMATTERS}
    placeless = [label for name, label in formatters.items() if name in incomplete]
    if placeless:
        sentences.append(
            f"Output of {placeless[0]} can't tell where in the log its records were. "
            "Records that the inputs have twice are counted twice."
        )
    missing = reduce(or_, (file.missing for file in files))
    sentences.append(_empty_columns(missing))
    if missing & missing_data.BLIND:
        sentences.append(f"These inputs are insufficient for {_rules_for(missing, rules)}.")
    return sentences


def check_as_of(files: Sequence[InputFile], as_of_ms: int | None) -> None:
    """Refuse --as-of where an input does not say when its records were written (UsageError)."""
    timeless = [file.path for file in files if file.missing & missing_data.TIMES]
    if timeless and as_of_ms is not None:
        raise UsageError(
            f"--as-of can't be applied to {timeless[0]}: it doesn't tell when records were written."
        )


def late_note(first: Mapping[int, int]) -> str | None:
    """The sentence about log partitions that begin before the inputs, by their first offset."""
    if not first:
        return None
    some = listed([f"{number} (first offset {at:,})" for number, at in first.items()], 3)
    return (
        f"The inputs lack the beginning of log partition {some}. Groups without a record of their "
        "own there have no state and no date, and their earlier removals no cause."
    )


def hole_note(holes: Mapping[int, tuple[int, int] | None]) -> str | None:
    """The sentence about log partitions of which something in the middle is missing."""
    if not holes:
        return None
    places = [
        f"{number} (damaged)" if hole is None else f"{number} (offsets {hole[0]:,}–{hole[1]:,})"
        for number, hole in sorted(holes.items())
    ]
    some = listed(places, 3, " and {} more")
    return (
        f"The inputs lack records in the middle of log partition {some}: groups there have no "
        "state, offsets no date (and newer ones may be missing), removals no cause."
    )


def older_note(until_ms: Mapping[int, int], rules: RuleSet) -> str | None:
    """The sentence about records of brokers with other rules, by log partition."""
    if not until_ms:
        return None
    return (
        f"Older brokers than those of the rules {rules.name} wrote until "
        f"{when(max(until_ms.values()))}. Removals up to then have no cause: --rules "
        f"OLDER@0,{rules.name}@TIME explains them, with the rules of those brokers and the time of "
        "the upgrade."
    )


def check_conditions(conditions: Iterable[Any], missing: int, rules: RuleSet) -> None:
    """Refuse --fail-on where the inputs can't tell (UsageError)."""
    asks = missing_data.COMMIT_TIMES
    if not rules.fixed_at_commit:
        asks |= missing_data.GROUPS | missing_data.STATE_TIMES | missing_data.SUBSCRIPTIONS
    for condition in conditions:
        lacks = missing & (asks if condition.kind == EXPIRING else missing_data.BLIND)
        if lacks:
            raise UsageError(
                f"--fail-on {condition} can't be told: the inputs lack "
                f"{', '.join(missing_data.words(lacks))}. An export has everything: kgtool export."
            )


def _empty_columns(missing: int) -> str:
    live = [name for bits, names in _LIVE_COLUMNS if missing & bits for name in names]
    parts = [f"live.{name}" for name in live]
    if missing & missing_data.BLIND:
        times = ("removed_at_ms",) if missing & missing_data.TIMES else ()
        removals = (*times, "cause", "expires_at_ms", "latency_ms")
        parts += [f"removals.{name}" for name in removals]
    return f"These columns are null: {', '.join(parts)}."


def _rules_for(missing: int, rules: RuleSet) -> str:
    tables = "overdue, whatif, losses and metrics, which are empty"
    if missing & missing_data.COMMIT_TIMES:
        return f"any rule set (rule and expires_at_ms are empty), nor for {tables}"
    if rules.fixed_at_commit:
        return tables
    return (
        f"the rules {rules.name} and every other set but pre-2.1 (rule and expires_at_ms are "
        f"empty where a group's state decides), nor for {tables}"
    )
