"""Configuration values of brokers (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.client.cluster import Cluster, call_any, ensure_brokers
from kgtool.client.ops import ANY, Operation, call, gather
from kgtool.errors import KgError
from kgtool.protocol.api import describe_configs
from kgtool.protocol.codes import broker_error

TOPIC, BROKER = 2, 4
"""``ConfigResource.Type``; a broker answers for itself only."""


def broker_configs(
    cluster: Cluster, names: Sequence[str], brokers: Sequence[int] | None = None
) -> Operation[dict[int, dict[str, str | None] | KgError]]:
    """Return the named configs of every broker, by broker id; a name it doesn't know is left out.

    Needs DESCRIBE_CONFIGS on the cluster.

    :param brokers: only these.
    """
    if brokers is None:
        yield from ensure_brokers(cluster)
        brokers = sorted(cluster.brokers)
    answers = yield from gather([configs_of(BROKER, str(b), names, b) for b in brokers])
    return dict(zip(brokers, answers, strict=True))


def configs_of(
    kind: int, name: str, configs: Sequence[str], broker: int = ANY
) -> Operation[dict[str, str | None] | KgError]:
    """Return the named configs of one resource. Needs DESCRIBE_CONFIGS on it."""
    row = describe_configs.RequestResource(
        resource_type=kind, resource_name=name, configuration_keys=list(configs)
    )
    request = describe_configs.Request(resources=[row])
    reply = yield from (call_any(request) if broker == ANY else call(broker, request))
    if isinstance(reply, KgError):
        return reply
    values: dict[str, str | None] = {}
    for result in reply.results:
        if result.error_code:
            return broker_error(result.error_code, result.error_message)
        values.update({row.name: row.value for row in result.configs})
    return values
