"""Configuration values of brokers (DescribeConfigs)."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.client.cluster import Cluster, need_brokers
from kgtool.client.ops import Operation, call, gather
from kgtool.errors import KgError
from kgtool.protocol.api import describe_configs
from kgtool.protocol.codes import broker_error

BROKER = 4
"""``ConfigResource.Type.BROKER``; a broker answers for itself only."""


def broker_configs(
    cluster: Cluster, names: Sequence[str], brokers: Sequence[int] | None = None
) -> Operation[dict[int, dict[str, str | None] | KgError]]:
    """Return the named configs of every broker, by broker id; a name it doesn't know is left out.

    Needs DESCRIBE_CONFIGS on the cluster.

    :param brokers: only these.
    """
    if brokers is None:
        yield from need_brokers(cluster)
        brokers = sorted(cluster.brokers)
    answers = yield from gather([_of_broker(broker, names) for broker in brokers])
    return dict(zip(brokers, answers, strict=True))


def _of_broker(broker: int, names: Sequence[str]) -> Operation[dict[str, str | None] | KgError]:
    resource = describe_configs.RequestResource(
        resource_type=BROKER, resource_name=str(broker), configuration_keys=list(names)
    )
    reply = yield from call(broker, describe_configs.Request(resources=[resource]))
    if isinstance(reply, KgError):
        return reply
    values: dict[str, str | None] = {}
    for result in reply.results:
        if result.error_code:
            return broker_error(result.error_code, result.error_message)
        values.update({row.name: row.value for row in result.configs})
    return values
