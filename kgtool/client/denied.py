"""Which ACL is missing where a broker refuses a request.

Brokers don't tell. What each API needs is in ``KafkaApis`` and in the documentation's table of
operations and resources; verified: listing and describing need DESCRIBE on the group, deleting a
group DELETE, deleting its offsets DELETE on the group and READ on the topic, writing them READ on
both.
"""

from __future__ import annotations

from typing import NamedTuple

from kgtool.errors import BrokerError, KgError
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error


class Need(NamedTuple):
    """The ACL operation that an API needs on each type of resource."""

    group: str = "DESCRIBE"
    topic: str = "DESCRIBE"


DESCRIBE = Need()
DELETE_GROUP = Need(group="DELETE")
DELETE_OFFSETS = Need(group="DELETE", topic="READ")
COMMIT = Need(group="READ", topic="READ")


def explain(
    error: KgError, need: Need, *, group: str | None = None, topic: str | None = None
) -> KgError:
    """Add to a refusal the ACL operation and resource that it needs; return others unchanged."""
    if not isinstance(error, BrokerError) or error.hint:
        return error
    if error.code == codes.GROUP_AUTHORIZATION_FAILED and group is not None:
        return needs(error.code or 0, error.message, need.group, f"group {group}")
    if error.code == codes.TOPIC_AUTHORIZATION_FAILED:
        where = (
            f"topic {topic}" if topic is not None else "the topics that its members subscribe to"
        )
        return needs(error.code or 0, error.message, need.topic, where)
    return error


def needs(code: int, message: str, operation: str, resource: str) -> BrokerError:
    """Return a refusal with the ACL operation and resource that is missing."""
    return broker_error(
        code, message, hint=f"It needs the ACL operation {operation} on {resource}."
    )
