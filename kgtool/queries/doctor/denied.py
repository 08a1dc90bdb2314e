"""Findings about missing ACLs, and which other findings can't be made without them."""

from __future__ import annotations

from collections.abc import Iterator

from kgtool.errors import KgError
from kgtool.model import ItemError
from kgtool.protocol import codes
from kgtool.queries.cluster.broker_rules import BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.doctor.facts import Facts, errors_of
from kgtool.queries.doctor.finding import NOTE, WARNING, Finding

_DENIED = (
    codes.TOPIC_AUTHORIZATION_FAILED,
    codes.GROUP_AUTHORIZATION_FAILED,
    codes.CLUSTER_AUTHORIZATION_FAILED,
)
_HIDDEN = (*_DENIED, codes.UNKNOWN_TOPIC_OR_PARTITION)
"""Some managed clouds say of ``__consumer_offsets`` that there is no such topic."""
_NO_RETENTION = "UNKNOWN_RETENTION"
"""Others leave the retention out of the brokers' configuration."""
OF_THE_LOG = ("expiring", "loses-when-empty", "retention-gap", "topic-recreated")
"""Findings that only ``__consumer_offsets`` has the evidence for."""
OF_CONFIGS = (
    "expiring",
    "loses-when-empty",
    "retention-gap",
    "retention-short",
    "retention-differs",
    "check-interval",
)


def is_denied(error: ItemError) -> bool:
    """Whether an error means that the log or the configuration may not be read at all."""
    if error.target.topic == TOPIC and error.code in _HIDDEN:
        return True
    is_named = error.target.group is not None
    return (error.code in _DENIED or error.name == _NO_RETENTION) and not is_named


def find_denied(facts: Facts) -> Iterator[Finding]:
    """Find what is forbidden; a warning for single groups, which were asked for."""
    if facts.brokers.sees_all is False and facts.options.everywhere:
        yield _cluster("DESCRIBE", "groups that this login may not DESCRIBE are left out", ())
    yield from _log(facts)
    if any(_configs_denied(rules) for rules in facts.brokers.rules.values()):
        yield _cluster("DESCRIBE_CONFIGS", "how long brokers keep offsets", OF_CONFIGS)
    for found in facts.groups:
        seen = dict.fromkeys(
            _resource(error) for error in errors_of(found) if error.code in _DENIED
        )
        for kind, name in seen:
            yield _of_group(found.description.group, kind, name)


def _configs_denied(rules: BrokerRules | KgError) -> bool:
    error = rules.error if isinstance(rules, BrokerRules) else rules
    return error is not None and (error.code in _DENIED or error.name == _NO_RETENTION)


def _log(facts: Facts) -> Iterator[Finding]:
    errors = [each for each in facts.times.values() if isinstance(each, KgError)]
    seen = {
        error.code for error in [*errors, facts.brokers.offsets_topic.error] if error is not None
    }
    costs = f"not checked without it: {', '.join(OF_THE_LOG)}"
    if seen & set(_DENIED):
        yield Finding(
            "denied",
            NOTE,
            f"{TOPIC}: {costs}",
            _evidence("READ", "topic", TOPIC, OF_THE_LOG),
            _acl("Read", "--topic", TOPIC),
            topic=TOPIC,
        )
    elif codes.UNKNOWN_TOPIC_OR_PARTITION in seen:  # a cloud that hides it, or another product
        yield Finding(
            "denied",
            NOTE,
            f"this cluster shows no topic {TOPIC}; {costs}",
            _evidence(None, "topic", TOPIC, OF_THE_LOG),
            topic=TOPIC,
        )


def _cluster(operation: str, what: str, costs: tuple[str, ...]) -> Finding:
    without = f": not checked without it: {', '.join(costs)}" if costs else ""
    return Finding(
        "denied",
        NOTE,
        f"{what}{without}",
        _evidence(operation, "cluster", "kafka-cluster", costs),
        _acl("".join(part.capitalize() for part in operation.split("_")), "--cluster"),
    )


def _of_group(group: str, kind: str, name: str | None) -> Finding:
    where = f"{kind} {name}" if name is not None else "a topic that its members subscribe to"
    fix = () if name is None else _acl("Describe", f"--{kind}", name)
    return Finding(
        "denied",
        WARNING,
        f"it takes DESCRIBE on {where}",
        _evidence("DESCRIBE", kind, name, ()),
        fix,
        group,
        name if kind == "topic" else None,
    )


def _resource(error: ItemError) -> tuple[str, str | None]:
    if error.code == codes.TOPIC_AUTHORIZATION_FAILED:
        return "topic", error.target.topic
    return "group", error.target.group


def _evidence(
    operation: str | None, kind: str, name: str | None, costs: tuple[str, ...]
) -> dict[str, object]:
    return {
        "operation": operation,
        "resource_type": kind,
        "resource": name,
        "findings_missing": list(costs),
    }


def _acl(operation: str, *resource: str) -> tuple[str, ...]:
    return (
        "kafka-acls.sh",
        "--add",
        "--allow-principal",
        "User:YOU",
        "--operation",
        operation,
        *resource,
    )
