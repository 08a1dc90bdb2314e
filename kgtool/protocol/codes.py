"""Kafka's error codes: ``org.apache.kafka.common.protocol.Errors`` of 4.3.1, in ``codes.tsv``.

``tests/protocol/test_codes.py`` compares the table with the class in the real kafka-clients jar.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kgtool.errors import BrokerError


class Code(NamedTuple):
    """One error code. ``exception`` is the Java class that Kafka's own tools print."""

    code: int
    name: str
    retriable: bool
    exception: str
    message: str


def _read_table() -> dict[int, Code]:
    # By its loader, as the package is a zip file in Spark's workers.
    loader: Any = globals()["__loader__"]
    found = {}
    for line in loader.get_data(f"{__file__.removesuffix('.py')}.tsv").decode().splitlines():
        number, name, retriable, exception, message = line.split("\t")
        found[int(number)] = Code(int(number), name, bool(retriable), exception, message)
    return found


CODES = _read_table()

NONE = 0
UNKNOWN_SERVER_ERROR = -1
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
SECURITY_DISABLED = 54
KAFKA_STORAGE_ERROR = 56
SASL_AUTHENTICATION_FAILED = 58
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
FENCED_LEADER_EPOCH = 74
UNKNOWN_LEADER_EPOCH = 75
OFFSET_NOT_AVAILABLE = 78
FENCED_INSTANCE_ID = 82
GROUP_SUBSCRIBED_TO_TOPIC = 86
UNSTABLE_OFFSET_COMMIT = 88
UNKNOWN_TOPIC_ID = 100
TRANSACTIONAL_ID_NOT_FOUND = 105
FENCED_MEMBER_EPOCH = 110
STALE_MEMBER_EPOCH = 113
REBOOTSTRAP_REQUIRED = 129


def code(number: int) -> Code:
    """Look a code up; one that is not in the table has a name and message made of its number."""
    unknown = f"The broker answered error code {number}, which this kgtool does not know."
    return CODES.get(number) or Code(
        number, f"ERROR_{number}", False, "UnknownServerException", unknown
    )


def is_refusal(number: int) -> bool:
    """Whether an error code means for certain that the broker changed nothing."""
    return number > 0 and not code(number).retriable


def broker_error(
    number: int, message: str | None = None, *, hint: str | None = None
) -> BrokerError:
    """Make the error value of a code, with the broker's own message where it sent one."""
    row = code(number)
    return BrokerError(number, row.name, message or row.message, retriable=row.retriable, hint=hint)
