"""The rules by which a broker removes offsets: of its release, coordinator and configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kgtool.client import denied
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, Versions, gather
from kgtool.errors import KgError
from kgtool.protocol import codes
from kgtool.protocol.capabilities import Offered, broker_release, is_kafka
from kgtool.queries.cluster.broker_configs import broker_configs
from kgtool.retention.rules import RuleSet, rules_for_broker

RETENTION = "offsets.retention.minutes"
INTERVAL = "offsets.retention.check.interval.ms"
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_NEW_ENABLE = "group.coordinator.new.enable"
_CLEANER = "log.cleaner.enable"
CONFIGS = (RETENTION, INTERVAL, _PROTOCOLS, _NEW_ENABLE, _CLEANER)

MINUTE_MS = 60_000
UNKNOWN_RULES = "UNKNOWN_RULES"
"""The name of the error where brokers are not Apache Kafka."""


class BrokerRules(NamedTuple):
    """The rules and settings of one broker.

    ``retention_ms`` and ``interval_ms`` (between two checks) are None where ``error`` says why.
    The release is a lower bound, as precise as the rules need it. Where ``is_kafka`` is False
    neither applies: the broker removes offsets by its own rules.
    """

    rules: RuleSet
    release: tuple[int, int]
    retention_ms: int | None = None
    interval_ms: int | None = None
    error: KgError | None = None
    is_kafka: bool = True
    has_cleaner: bool = True
    """Whether compacted logs are cleaned (``log.cleaner.enable``), as far as is known."""


def rules_of(
    cluster: Cluster, brokers: Iterable[int]
) -> Operation[dict[int, BrokerRules | KgError]]:
    """Return the rules of each broker, by its id; a KgError for one that does not answer.

    The configuration needs DESCRIBE_CONFIGS on the cluster. Without it only the release is known,
    and a 3.7 - 3.9 broker is assumed to have the Scala coordinator, their default.
    """
    ids = sorted(set(brokers))
    configs, offered = yield from gather([broker_configs(cluster, CONFIGS, ids), offered_by(ids)])
    return {broker: _rules(offered[broker], configs[broker]) for broker in ids}


def offered_by(brokers: Iterable[int]) -> Operation[dict[int, Offered | KgError]]:
    """Return the APIs and features of each broker; a KgError for one that does not answer."""
    found: dict[int, Offered | KgError] = {}
    for broker in brokers:
        found[broker] = yield Versions(broker)
    return found


def _rules(
    offered: Offered | KgError, configs: Mapping[str, str | None] | KgError
) -> BrokerRules | KgError:
    if isinstance(offered, KgError):
        return offered
    version = broker_release(offered)
    if not is_kafka(offered):
        error = KgError("The brokers are not Apache Kafka: when they remove offsets is unknown.")
        error.name = UNKNOWN_RULES
        return BrokerRules(
            rules_for_broker(version, new_coordinator=False), version, error=error, is_kafka=False
        )
    if isinstance(configs, KgError):
        return BrokerRules(
            rules_for_broker(version, new_coordinator=False), version, error=_explained(configs)
        )
    protocols = configs.get(_PROTOCOLS) or ""
    new = configs.get(_NEW_ENABLE) == "true" or "consumer" in protocols.split(",")
    rules = rules_for_broker(version, new_coordinator=new)
    minutes, interval = _number(configs.get(RETENTION)), _number(configs.get(INTERVAL))
    if minutes is None:
        error = KgError(f"The broker does not tell its {RETENTION}.")
        error.name = "UNKNOWN_RETENTION"
        return BrokerRules(rules, version, None, interval, error)
    has_cleaner = configs.get(_CLEANER) != "false"
    return BrokerRules(rules, version, minutes * MINUTE_MS, interval, has_cleaner=has_cleaner)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _explained(error: KgError) -> KgError:
    if error.code != codes.CLUSTER_AUTHORIZATION_FAILED:
        return error
    said = f"Not allowed to read {RETENTION} of the broker, so when offsets expire is unknown."
    return denied.needs(error.code, said, "DESCRIBE_CONFIGS", "the cluster")
