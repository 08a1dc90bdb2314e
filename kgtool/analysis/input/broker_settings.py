"""By which rules and times an input is judged, as far as it tells; ``find`` finds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from kgtool.analysis import missing_data
from kgtool.analysis.input import formats
from kgtool.analysis.input.discover import find
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.input.resolve_inputs import join
from kgtool.errors import UsageError
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet
from kgtool.text import listed
from kgtool.timespec import LONGEST_MS

__all__ = ["Basis", "basis", "check_as_of", "find", "join", "limitations"]

DEFAULT_RULES = retention.RULES_4_1
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""offsets.retention.minutes is 10080 since 2.0."""
UNTOLD_RETENTION = "retention 7d"
DEFAULT_INTERVAL_MS = 600_000
"""offsets.retention.check.interval.ms."""


Phases = tuple[tuple[int, int], ...]
BEGINNING = -(2**62)
"""From when the first retention was there."""


class Basis(NamedTuple):
    """By what removals are judged, and where that was learnt."""

    rules: RuleSet
    retention_ms: int
    check_interval_ms: int
    as_of_ms: int | None
    """Moment at which an export was taken, if the input tells."""
    assumed: list[str]
    """What nobody told, in words: ``rules 4.1``."""
    topics: list[Any] | None = None
    """cluster.json's ``topics``: log start and end offsets when the export was taken."""
    changes: Phases = ()
    """Where the retention changed while the log was written: from when on which one."""

    @property
    def wrote(self) -> Phases:
        """The retentions that the brokers had, the last one being ``retention_ms``."""
        return self.changes or ((BEGINNING, self.retention_ms),)


def basis(
    manifest: dict[str, Any] | None,
    rules: str,
    retention_ms: int | None,
    check_interval_ms: int | None,
) -> Basis:
    """What the options say, or else cluster.json, or else the defaults; those are ``assumed``."""
    content = manifest or {}
    configs, topics = content.get("configs"), content.get("topics")
    configs = configs if isinstance(configs, dict) else {}
    assumed: list[str] = []
    chosen = retention.RULE_SETS.get(rules) or _rules_of(content)
    if chosen is None:
        chosen = DEFAULT_RULES
        assumed.append(f"rules {chosen.name}")
    minutes = _whole(configs.get("offsets.retention.minutes"), 1, 2**31 - 1)
    if retention_ms is None:
        retention_ms = DEFAULT_RETENTION_MS if minutes is None else minutes * 60_000
        assumed += [UNTOLD_RETENTION] if minutes is None else []
    interval = _whole(configs.get("offsets.retention.check.interval.ms"), 1, 2**63 - 1)
    if check_interval_ms is None:
        check_interval_ms = DEFAULT_INTERVAL_MS if interval is None else min(interval, LONGEST_MS)
        assumed += ["check interval 10m"] if interval is None else []
    return Basis(
        chosen, retention_ms, check_interval_ms,
        _whole(content.get("taken_at_ms"), 1, LONGEST_MS), assumed,
        topics if isinstance(topics, list) else None,
    )  # fmt: skip


def _rules_of(manifest: dict[str, Any]) -> RuleSet | None:
    """The rule set of the oldest broker that the export names; None where it can't be told."""
    brokers = manifest.get("brokers")
    versions = [
        tuple(int(part) for part in re.findall(r"\d+", str(broker.get("version")))[:3])
        for broker in (brokers if isinstance(brokers, list) else [])
        if isinstance(broker, dict) and re.match(r"\d+\.\d+", str(broker.get("version")))
    ]
    if not versions:
        return None
    coordinator = manifest.get("coordinator")
    version = min(versions)
    if coordinator not in ("new", "classic") and (3, 7) <= version[:2] < (4, 0):
        return None
    return retention.rules_for_broker(version, new_coordinator=coordinator == "new")


def _whole(value: object, least: int, most: int) -> int | None:
    """A number of cluster.json; None if there is none that a broker could have."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if least <= number <= most else None


_LIVE_COLUMNS = (
    (missing_data.TRANSACTIONS, ("pending_transaction",)),
    (missing_data.COMMIT_TIMES, ("commit_timestamp_ms", "expire_timestamp_ms")),
    (missing_data.TOPIC_IDS, ("topic_id",)),
    (missing_data.GROUPS | missing_data.NEW_GROUPS, ("group_type", "group_state")),
    (missing_data.GROUPS | missing_data.NEW_GROUPS | missing_data.STATE_TIMES, ("state_since_ms",)),
    (missing_data.GROUPS | missing_data.NEW_GROUPS | missing_data.SUBSCRIPTIONS, ("subscribed",)),
)


def limitations(files: Sequence[InputFile], rules: RuleSet) -> list[str]:
    """What these inputs can't tell, and what follows: sentences to be said before the results."""
    some: dict[str, list[InputFile]] = {}
    for file in files:
        if file.lacks:
            some.setdefault(file.format, []).append(file)
    told = [_tell_of(kind, among) for kind, among in some.items()]
    if not told:
        return []
    placeless = [kind.label for kind in formats.FORMATTERS if kind.name in some]
    if placeless and {file.format for file in files} - {kind.name for kind in formats.FORMATTERS}:
        told.append(
            f"Output of {placeless[0]} can't tell where in the log its records were. What other "
            "inputs hold too is counted twice."
        )
    missing = reduce(or_, (file.lacks for file in files))
    told.append(_empty_columns(missing))
    if missing & missing_data.BLIND:
        told.append(f"What these inputs tell is not enough for {_rules_for(missing, rules)}.")
    return told


def check_as_of(files: Sequence[InputFile], as_of_ms: int | None) -> None:
    """Refuse a moment to look at the log where an input does not tell times (UsageError)."""
    timeless = [file.path for file in files if file.lacks & missing_data.TIMES]
    if timeless and as_of_ms is not None:
        raise UsageError(
            f"--as-of can't be applied to {timeless[0]}: it doesn't tell when records were written."
        )


def _tell_of(kind: str, files: list[InputFile]) -> str:
    names = listed([file.path.rpartition("/")[2] for file in files], 3, " and {} more")
    what = "; ".join(missing_data.words(files[0].lacks))
    return f"{names} ({formats.FORMATS[kind].label}) can't tell {what}."


def _empty_columns(missing: int) -> str:
    live = [name for bits, names in _LIVE_COLUMNS if missing & bits for name in names]
    parts = [f"of live {', '.join(live)}"]
    if missing & missing_data.BLIND:
        times = "removed_at_ms, " if missing & missing_data.TIMES else ""
        parts.append(f"of removals {times}cause, expires_at_ms, latency_ms")
    return f"Empty where that matters: {'; '.join(parts)}."


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
