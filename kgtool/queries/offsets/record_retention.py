"""When unread records go: by ``retention.ms`` of their topic (DescribeConfigs).

A segment is removed once its *newest* record is older than ``retention.ms``, and no earlier than
the next look (``log.retention.check.interval.ms``): so a record is there for at least that long.
``retention.bytes`` may take it sooner; when is not told. DescribeLogDirs has the size of a
partition, not where its segments end; the oldest one goes only when the log without it is still as
large as that (``UnifiedLog.deleteRetentionSizeBreachedSegments``), which depends on what is written
meanwhile. A time made of that would be a guess. Which topics have such a limit can be told.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.client.cluster import Cluster, call_any
from kgtool.client.ops import Operation, cut
from kgtool.errors import KgError
from kgtool.protocol.api import describe_configs
from kgtool.queries.cluster.broker_configs import TOPIC

_KEYS = ("retention.ms", "retention.bytes", "cleanup.policy")
_AT_ONCE = 1000


def record_retentions(cluster: Cluster, topics: Sequence[str]) -> Operation[dict[str, int | None]]:
    """Return the ``retention.ms`` of topics; None: records are kept, or it may not be read.

    Needs DESCRIBE_CONFIGS on the topics; one request for a thousand of them.
    """
    found = yield from _configs(cluster, topics)
    return {name: _number(values, "retention.ms") for name, values in found.items()}


def limited_by_size(cluster: Cluster, topics: Sequence[str]) -> Operation[list[str]]:
    """Return which of the topics have a ``retention.bytes``, as far as that may be read."""
    found = yield from _configs(cluster, topics)
    return [name for name, own in found.items() if _number(own, "retention.bytes") is not None]


def _configs(
    cluster: Cluster, topics: Sequence[str]
) -> Operation[dict[str, dict[str, str | None]]]:
    found: dict[str, dict[str, str | None]] = {name: {} for name in topics}
    for some in cut(topics, _AT_ONCE):
        rows = [
            describe_configs.RequestResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=list(_KEYS)
            )
            for name in some
        ]
        reply = yield from call_any(describe_configs.Request(resources=rows))
        if isinstance(reply, KgError):
            continue
        for result in reply.results:
            found[result.resource_name] = {row.name: row.value for row in result.configs}
    return found


def _number(values: dict[str, str | None], key: str) -> int | None:
    """Return a limit after which records are deleted; None: there is none (-1), or it is hidden."""
    value, policy = values.get(key), values.get("cleanup.policy") or "delete"
    if "delete" not in policy.split(",") or value is None or not value.isdecimal():
        return None
    return int(value)
