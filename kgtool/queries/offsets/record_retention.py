"""When unread records go: by ``retention.ms`` of their topic (DescribeConfigs).

A segment is removed once its *newest* record is older than ``retention.ms``, and no earlier than
the next look (``log.retention.check.interval.ms``): so a record is there for at least that long.
``retention.bytes`` may take it sooner, and is not told. DescribeLogDirs has the size of a
partition, not where its segments end; the oldest one goes only when the log without it is still as
large as that (``UnifiedLog.deleteRetentionSizeBreachedSegments``), which depends on what is written
meanwhile. A time made of that would be a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.client.cluster import Cluster, call_any
from kgtool.client.ops import Operation, cut
from kgtool.errors import KgError
from kgtool.protocol.api import describe_configs
from kgtool.queries.cluster.broker_configs import TOPIC

_KEYS = ("retention.ms", "cleanup.policy")
_AT_ONCE = 1000


def record_retentions(cluster: Cluster, topics: Sequence[str]) -> Operation[dict[str, int | None]]:
    """Return the ``retention.ms`` of topics; None: records are kept, or it may not be read.

    Needs DESCRIBE_CONFIGS on the topics; one request for a thousand of them.
    """
    found: dict[str, int | None] = dict.fromkeys(topics)
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
            values = {row.name: row.value for row in result.configs}
            found[result.resource_name] = _retention(values)
    return found


def _retention(values: dict[str, str | None]) -> int | None:
    span, policy = values.get("retention.ms"), values.get("cleanup.policy") or "delete"
    if "delete" not in policy.split(",") or span is None or not span.isdecimal():
        return None  # -1: forever
    return int(span)
