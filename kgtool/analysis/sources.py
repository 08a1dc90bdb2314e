"""By which rules and times an input is judged, as far as it tells; ``find`` finds it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kgtool.analysis.find import find
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

__all__ = ["Basis", "basis", "find"]

DEFAULT_RULES = retention.RULES_4_1
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""offsets.retention.minutes is 10080 since 2.0."""
DEFAULT_INTERVAL_MS = 600_000
"""offsets.retention.check.interval.ms."""


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


def basis(
    manifest: dict[str, Any] | None,
    rules: str,
    retention_ms: int | None,
    check_interval_ms: int | None,
) -> Basis:
    """What the options say, or else cluster.json, or else the defaults; those are ``assumed``."""
    content = manifest or {}
    configs = content.get("configs")
    configs = configs if isinstance(configs, dict) else {}
    assumed: list[str] = []
    chosen = retention.RULE_SETS.get(rules) or _rules_of(content)
    if chosen is None:
        chosen = DEFAULT_RULES
        assumed.append(f"rules {chosen.name}")
    minutes = _whole(configs.get("offsets.retention.minutes"))
    if retention_ms is None and minutes is not None:
        retention_ms = minutes * 60_000
    if retention_ms is None:
        retention_ms = DEFAULT_RETENTION_MS
        assumed.append("retention 7d")
    if check_interval_ms is None:
        check_interval_ms = _whole(configs.get("offsets.retention.check.interval.ms"))
    if check_interval_ms is None:
        check_interval_ms = DEFAULT_INTERVAL_MS
        assumed.append("check interval 10m")
    taken_at = _whole(content.get("taken_at_ms"))
    topics = content.get("topics")
    return Basis(
        chosen, retention_ms, check_interval_ms, taken_at, assumed,
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


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
