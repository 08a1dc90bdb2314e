"""What is wrong with a cluster's groups, or soon will be: the findings of ``kgtool doctor``.

``facts`` asks the cluster; the other modules judge its answers, one small function a finding,
without a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, grouped
from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.protocol.capabilities import missing_capabilities
from kgtool.queries.cluster.broker_rules import UNKNOWN_RULES, BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.doctor.denied import find_denied, is_denied
from kgtool.queries.doctor.expiry import find_in_retention, find_in_times
from kgtool.queries.doctor.facts import DoctorOptions, Facts, errors_of, gather_facts
from kgtool.queries.doctor.finding import KINDS, NOTE, PROBLEM, SEVERITIES, WARNING, Finding
from kgtool.queries.doctor.members import find_in_members, find_lost, find_piles
from kgtool.queries.doctor.offsets import find_in_offsets, no_leader
from kgtool.queries.doctor.offsets_topic import find_in_set_up
from kgtool.queries.doctor.transactions import find_pending_transactions
from kgtool.retention import rules as r
from kgtool.text import DAY_MS, listed

__all__ = ["KINDS", "SEVERITIES", "DoctorOptions", "Diagnosis", "Finding", "diagnose"]


WITHIN_MS = 2 * DAY_MS
"""Offsets that expire within this time are findings, unless another is asked for."""


class Diagnosis(NamedTuple):
    """The findings, the worst first; how many groups and brokers were examined, and what failed.

    ``is_whole``: the whole cluster was examined, not only some groups.
    """

    findings: list[Finding]
    groups: int
    brokers: int
    is_whole: bool
    errors: list[ItemError]


def diagnose(
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str], options: DoctorOptions
) -> Operation[Diagnosis]:
    """Examine groups, and the cluster as far as it concerns them.

    :param kinds: the types of groups that were listed; it is no error if those are deleted now.
    :raises KgError: no broker answered.
    """
    facts = yield from gather_facts(cluster, groups, kinds, options)
    return judge(facts)


def judge(facts: Facts) -> Diagnosis:
    """Return the findings in what was gathered."""
    findings = sorted(find_all(facts), key=_rank)
    known = sum(found.description.error is None for found in facts.groups)
    brokers = sum(isinstance(rules, BrokerRules) for rules in facts.brokers.rules.values())
    return Diagnosis(findings, known, brokers, facts.options.everywhere, _errors(facts))


_ORDER = {kind: number for number, kind in enumerate(KINDS)}


def _rank(finding: Finding) -> tuple[int, int, str, str, int]:
    return (
        SEVERITIES.index(finding.severity),
        _ORDER[finding.kind],
        finding.group or "",
        finding.topic or "",
        finding.partition or 0,
    )


def find_all(facts: Facts) -> Iterator[Finding]:
    """Judge everything."""
    yield from _not_kafka(facts)
    if facts.options.everywhere:
        yield from find_in_brokers(facts)
    yield from find_in_offsets_topic(facts)
    yield from find_lost(facts)
    yield from find_denied(facts)
    yield from no_leader(facts.groups)
    yield from find_pending_transactions(facts)
    yield from find_piles(facts)
    for found in facts.groups:
        yield from find_in_offsets(facts, found)
        yield from find_in_times(facts, found)
        yield from find_in_members(facts, found)


def _errors(facts: Facts) -> list[ItemError]:
    """Return the errors, each once; what is forbidden altogether is a finding instead."""
    found = [error for group in facts.groups for error in _of_group(errors_of(group))]
    asked = [*facts.brokers.errors, *facts.errors]
    for broker, rules in facts.brokers.rules.items():
        reason = rules if isinstance(rules, KgError) else rules.error
        if reason is not None:
            asked.append(ItemError.of(reason, Target(broker=broker)))
    found += [e for e in asked if not is_denied(e) and e.name != UNKNOWN_RULES]
    return list(dict.fromkeys(found))


def _of_group(errors: Sequence[ItemError]) -> Iterator[ItemError]:
    """Yield each reason once for all partitions of a group: a broker that is down leads many."""
    reasons = grouped(((error.name, error.message), error) for error in errors)
    for alike in reasons.values():
        first = alike[0]
        if len(alike) > 1:
            first = first._replace(target=Target(group=first.target.group))
        yield first


# ---------------------------------------------------------------------------------------------
# BrokerFacts


def find_in_brokers(facts: Facts) -> Iterator[Finding]:
    """Judge the brokers: which are down, how old they are, how long they keep offsets."""
    known = facts.brokers.rules.items()
    rules = {b: x for b, x in known if isinstance(x, BrokerRules) and x.is_kafka}
    yield from _down(facts)
    yield from _old(rules)
    yield from _mixed(facts, rules)
    yield from find_in_retention(rules)


def _down(facts: Facts) -> Iterator[Finding]:
    """Brokers that don't answer, and those that hold replicas and are not in the cluster."""
    rows = facts.brokers.offsets_topic.partitions
    known = facts.brokers.rules
    for broker, rules in known.items():
        if isinstance(rules, KgError):
            yield _broker_down(broker, rules.message, facts, rules.hint)
    missing = {b for row in rows.values() for b in row.replicas} - set(known)
    for broker in sorted(missing):
        yield _broker_down(broker, "it is not in the cluster now", facts)


def _broker_down(broker: int, why: str, facts: Facts, hint: str | None = None) -> Finding:
    rows = facts.brokers.offsets_topic.partitions
    held = sum(broker in row.replicas for row in rows.values())
    detail = f"broker {broker}: {why.rstrip('.')}; it holds {held} partitions of {TOPIC}"
    detail += f". {hint}" if hint else ""
    return Finding("broker-down", PROBLEM, detail, {"offsets_partitions": held}, broker=broker)


def _not_kafka(facts: Facts) -> Iterator[Finding]:
    """Brokers that are not Apache Kafka: what they lack of the protocol."""
    known = facts.brokers.rules.items()
    brokers = [b for b, x in known if isinstance(x, BrokerRules) and not x.is_kafka]
    if not brokers:
        return
    offered = {b: x for b, x in facts.brokers.offered.items() if not isinstance(x, KgError)}
    missing = missing_capabilities(offered, has_log=facts.brokers.offsets_topic.size > 0)
    said = "; ".join(f"{each.name} ({each.commands})" for each in missing)
    detail = "when they remove offsets is unknown" + (f"; they lack {said}" if said else "")
    evidence = {"brokers": sorted(brokers), "lacks": [each.name for each in missing]}
    yield Finding("not-kafka", NOTE, detail, evidence)


_OLD = {
    r.RULES_PRE_2_1.name: (WARNING, "offsets of active groups expire too, and can't be deleted"),
    r.RULES_2_1.name: (WARNING, "offsets of dropped topics never expire, and can't be deleted"),
    r.RULES_3_7_NEW.name: (WARNING, "a preview coordinator: transactions undo newer commits"),
    r.RULES_3_8_NEW.name: (NOTE, "groups with open transactions may lose or keep too much"),
}


def _old(rules: dict[int, BrokerRules]) -> Iterator[Finding]:
    for broker, found in sorted(rules.items()):
        if found.rules.name in _OLD:
            severity, why = _OLD[found.rules.name]
            detail = f"broker {broker} ({found.rules.brokers}): {why}"
            evidence = {"release_at_least": _version(found), "rules": found.rules.name}
            yield Finding("broker-old", severity, detail, evidence, broker=broker)


def _mixed(facts: Facts, rules: dict[int, BrokerRules]) -> Iterator[Finding]:
    """Brokers that offer different APIs are of different releases."""
    offered = {b: x for b, x in facts.brokers.offered.items() if not isinstance(x, KgError)}
    kinds = {tuple(sorted(each.items())) for each in offered.values()}
    if len(kinds) > 1 and rules:
        releases = {str(b): _version(rules[b]) for b in sorted(offered) if b in rules}
        said = ", ".join(f"broker {b}: {release} or later" for b, release in releases.items())
        evidence = {"release_at_least": releases, "different_sets_of_apis": len(kinds)}
        yield Finding("brokers-mixed", WARNING, said, evidence)


def _version(rules: BrokerRules) -> str:
    return ".".join(map(str, rules.release)) if any(rules.release) else "2.0"


# ---------------------------------------------------------------------------------------------
# __consumer_offsets


def find_in_offsets_topic(facts: Facts) -> Iterator[Finding]:
    """Judge ``__consumer_offsets``, or the partitions of it that matter."""
    topic = facts.brokers.offsets_topic
    rows = topic.partitions
    leaderless = [n for n, row in rows.items() if row.leader_id < 0]
    if leaderless:
        yield _of_topic("offsets-no-leader", PROBLEM, facts, leaderless, "have no leader")
    behind = [
        n for n, row in rows.items() if row.leader_id >= 0 and len(row.isr) < len(row.replicas)
    ]
    if behind:
        yield _of_topic("offsets-under-replicated", WARNING, facts, behind, "lack replicas in sync")
    for broker, numbers in topic.loading.items():
        finding = _of_topic("coordinator-loading", WARNING, facts, numbers, "are being loaded")
        yield finding._replace(broker=broker, detail=f"broker {broker}: {finding.detail}")
    if facts.options.everywhere:
        yield from find_in_set_up(facts)


def _of_topic(kind: str, severity: str, facts: Facts, numbers: Sequence[int], what: str) -> Finding:
    topic, rows = facts.brokers.offsets_topic, facts.brokers.offsets_topic.partitions
    detail = f"{len(numbers)} of {topic.size} partitions {what} ({listed(sorted(numbers), 5)})"
    absent = sorted({b for n in numbers for b in set(rows[n].replicas) - set(rows[n].isr)})
    evidence = {"partitions": sorted(numbers), "of": topic.size, "not_in_sync": absent}
    one = numbers[0] if len(numbers) == 1 else None
    return Finding(kind, severity, detail, evidence, (), None, TOPIC, one)
