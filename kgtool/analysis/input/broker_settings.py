"""Settings of the brokers that wrote the log, and the scenarios of a what-if.

They come from the options, else from cluster.json, else from Kafka's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from kgtool.errors import UsageError
from kgtool.retention import rules as retention
from kgtool.retention.phases import RulePhases
from kgtool.retention.rules import RULE_SETS, RuleSet
from kgtool.timespec import LONGEST_MS

AUTO = "auto"
DEFAULT_RULES = retention.RULES_4_1
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""offsets.retention.minutes is 10080 since 2.0."""
ASSUMED_RETENTION = "retention 7d"
DEFAULT_INTERVAL_MS = 600_000
"""offsets.retention.check.interval.ms."""
MAX_SCENARIOS = 60
"""Of one run: each replays the whole history."""
BEGINNING = -(2**62)
"""Start of the first retention."""
RetentionPhases = tuple[tuple[int, int], ...]
"""(from when, retention), both in ms."""
ListedTopic = tuple[str, "str | None", dict[int, tuple["int | None", "int | None"]]]
"""Name, id, and the log start and end offset of each partition."""


class BrokerSettings(NamedTuple):
    """How the brokers that wrote the log expired offsets."""

    rules: RuleSet
    retention_ms: int
    check_interval_ms: int
    as_of_ms: int | None
    """When the export was taken, if the input tells."""
    assumed: list[str]
    """Defaults taken for want of anything better, in words: ``rules 4.1``."""
    topics: list[Any] | None = None
    """cluster.json's ``topics``: log start and end offsets when the export was taken."""
    changes: RetentionPhases = ()
    """Retentions, if they changed while the log was written; the last one is ``retention_ms``."""
    log_starts: dict[int, int] = {}
    """cluster.json's start offset of each log partition."""
    listed: dict[str, tuple[str, str, str]] = {}
    """cluster.json's groups: type, state, protocol type."""

    rules_given: bool = False
    """Whether somebody chose the rules."""
    rule_changes: RulePhases = ()
    """Rule sets, if they changed while the log was written; the last one is ``rules``."""

    @property
    def rules_assumed(self) -> bool:
        """Whether nothing told the rules."""
        return f"rules {self.rules.name}" in self.assumed

    def with_rules(self, rules: RuleSet) -> BrokerSettings:
        """These with other rules, assumed as well."""
        names = {f"rules {self.rules.name}": f"rules {rules.name}"}
        assumed = [names.get(each, each) for each in self.assumed]
        return self._replace(rules=rules, assumed=assumed)

    @property
    def listed_topics(self) -> Iterator[ListedTopic]:
        """The topics that cluster.json tells of."""
        return _topics(self.topics)

    @property
    def wrote(self) -> RetentionPhases:
        """All retentions that the brokers had."""
        return self.changes or ((BEGINNING, self.retention_ms),)

    @property
    def older_rules(self) -> RulePhases:
        """(until when, rule set) of the brokers before those with ``rules``."""
        starts = [start for start, _ in self.rule_changes[1:]]
        return tuple(zip(starts, (rules for _, rules in self.rule_changes), strict=False))


class Scenario(NamedTuple):
    """Broker settings for which the removals are computed."""

    rules: RuleSet
    retention_ms: int
    interval_ms: int
    """Of the checks, which come at every multiple of it (since the epoch)."""


def settings_from(
    manifest: dict[str, Any] | None,
    rules: str,
    retention_ms: int | None,
    check_interval_ms: int | None,
) -> BrokerSettings:
    """The settings by options, cluster.json or default; defaults are ``assumed``."""
    content = manifest or {}
    configs, topics = content.get("configs"), content.get("topics")
    configs = configs if isinstance(configs, dict) else {}
    assumed: list[str] = []
    chosen = RULE_SETS.get(rules) or _oldest_rules(content)
    if chosen is None:
        chosen = DEFAULT_RULES
        assumed.append(f"rules {chosen.name}")
    minutes = _number(configs.get("offsets.retention.minutes"), 1, 2**31 - 1)
    if retention_ms is None:
        retention_ms = DEFAULT_RETENTION_MS if minutes is None else minutes * 60_000
        assumed += [ASSUMED_RETENTION] if minutes is None else []
    interval = _number(configs.get("offsets.retention.check.interval.ms"), 1, 2**63 - 1)
    if check_interval_ms is None:
        check_interval_ms = DEFAULT_INTERVAL_MS if interval is None else min(interval, LONGEST_MS)
        assumed += ["check interval 10m"] if interval is None else []
    return BrokerSettings(
        chosen,
        retention_ms,
        check_interval_ms,
        _number(content.get("taken_at_ms"), 1, LONGEST_MS),
        assumed,
        topics if isinstance(topics, list) else None,
        (),
        dict(_log_starts(content.get("partitions"))),
        dict(_listed(content.get("groups"))),
        rules_given=rules in RULE_SETS,
    )


def _log_starts(rows: Any) -> Iterator[tuple[int, int]]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            number, start = row.get("partition"), row.get("start_offset")
            if isinstance(number, int) and isinstance(start, int):
                yield number, start


def _listed(rows: Any) -> Iterator[tuple[str, tuple[str, str, str]]]:
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            name, *told = (row.get(key) for key in ("group", "type", "state", "protocol_type"))
            if isinstance(name, str) and all(isinstance(each, str) and each for each in told[:2]):
                yield name, (str(told[0]).lower(), str(told[1]), str(told[2] or ""))


def choose_scenarios(
    manifest: dict[str, Any] | None,
    rules: Sequence[str | RulePhases],
    retentions_ms: Sequence[int],
    intervals_ms: Sequence[int],
    wrote: RetentionPhases = (),
) -> tuple[BrokerSettings, tuple[Scenario, ...]]:
    """The settings that removals are explained by, and the scenarios of a what-if.

    The brokers had the retentions of ``wrote``, else that of cluster.json, else a single retention
    given, else the default. A single value of rules or intervals is what they had; several are
    scenarios, in any order. Phases of rules are what they had, names beside them scenarios.

    :raises UsageError: too many scenarios, or phases.
    """
    names = [each for each in rules if isinstance(each, str)]
    phases = [each for each in rules if not isinstance(each, str)]
    if len(phases) > 1:
        raise UsageError("--rules takes one list of generations over time, with names beside it.")
    was = phases[0] if phases else ()
    default = settings_from(manifest, AUTO, None, None)
    retention_ms = wrote[-1][1] if wrote else None
    if retention_ms is None and ASSUMED_RETENTION in default.assumed:
        retention_ms = _only(retentions_ms)
    chosen = was[-1][1].name if was else _only(names) or AUTO
    basis = settings_from(manifest, chosen, retention_ms, _only(intervals_ms))
    basis = basis._replace(changes=wrote[1:] and tuple(wrote), rule_changes=was[1:] and was)
    sets = [basis.rules if name == AUTO else RULE_SETS[name] for name in names or (AUTO,)]
    combinations = product(
        sets, retentions_ms or (basis.retention_ms,), intervals_ms or (basis.check_interval_ms,)
    )
    scenarios = tuple(dict.fromkeys(Scenario(*each) for each in combinations))
    if len(scenarios) > MAX_SCENARIOS:
        raise UsageError(
            f"--rules, --retention and --check-interval make {len(scenarios)} scenarios, one for "
            f"each combination; up to {MAX_SCENARIOS} are played at once."
        )
    return basis, scenarios


def actual_scenario(basis: BrokerSettings) -> Scenario:
    """The scenario that is no what-if."""
    return Scenario(basis.rules, basis.retention_ms, basis.check_interval_ms)


def _only(values: Sequence[Any]) -> Any:
    """The value, if there is exactly one."""
    return values[0] if len(values) == 1 else None


def _oldest_rules(manifest: dict[str, Any]) -> RuleSet | None:
    """Rule set of the oldest broker that the export names; None if that is not enough to tell."""
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


def _number(value: object, least: int, most: int) -> int | None:
    """A number of cluster.json; None if no broker could have it."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    return number if least <= number <= most else None


def _topics(topics: Any) -> Iterator[ListedTopic]:
    for topic in topics or ():
        if isinstance(topic, Mapping):
            topic_id = topic.get("topic_id")
            yield (
                str(topic.get("name")),
                topic_id if isinstance(topic_id, str) else None,
                {
                    each["partition"]: (
                        _whole(each.get("log_start_offset")),
                        _whole(each.get("log_end_offset")),
                    )
                    for each in topic.get("partitions") or ()
                    if isinstance(each, Mapping) and isinstance(each.get("partition"), int)
                },
            )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
