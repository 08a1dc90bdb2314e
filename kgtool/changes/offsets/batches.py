"""Deletions in requests whose tombstones fit into one batch of the coordinator's log.

A coordinator appends the tombstones of a request (of DeleteGroups: those of one partition of
``__consumer_offsets``) as one batch, of at most ``max.message.bytes`` (1 MiB by default). A larger
one fails as a whole: 4.3.1 answers -1 for every group in it and deletes none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kgtool.client.ops import Call, Operation, pipelined
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol import codes
from kgtool.queries.cluster import broker_configs
from kgtool.queries.cluster.broker_configs import configs_of
from kgtool.queries.cluster.offsets_partition import TOPIC as OFFSETS_TOPIC

T = TypeVar("T")

BATCH_BYTES = 512 * 1024
"""Of tombstones in one request: half of Kafka's default."""
FEW_BYTES = 4096
"""Fit into any batch."""
RECORD_BYTES = 24
"""A tombstone without its names: 18 on 4.3.1, plus some for long lengths."""

_LIMITS = ("max.message.bytes", "segment.bytes")

TOO_LARGE = (codes.UNKNOWN_SERVER_ERROR, 10, 18, 28)
"""The answers to a batch that is too large: of 4.3.1 the first, of older ones
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE or INVALID_COMMIT_OFFSET_SIZE."""


def tombstone_bytes(group: str, at: TopicPartition) -> int:
    """Estimate the bytes of one offset's tombstone."""
    names = (group + at.topic).encode("utf-8", "surrogateescape")  # as they are sent
    return RECORD_BYTES + len(names)


def batch_bytes(total: int) -> Operation[int]:
    """Return how many bytes of tombstones a request may cause.

    Before 4.0 a coordinator reports success for a batch that its log refuses, and the deleted
    offsets come back when it is loaded the next time. So the topic's configs are read, where more
    than a few bytes are deleted and the login may do that.

    :param total: the bytes of all tombstones.
    """
    if total <= FEW_BYTES:
        return BATCH_BYTES
    found = yield from configs_of(broker_configs.TOPIC, OFFSETS_TOPIC, _LIMITS)
    known = [] if isinstance(found, KgError) else [found.get(name) for name in _LIMITS]
    return min([BATCH_BYTES, *(int(value) // 2 for value in known if value and value.isdigit())])


def split(items: Sequence[T], size: Callable[[T], int], limit: int) -> list[list[T]]:
    """Split items into parts of at most ``limit`` bytes; a larger item is alone.

    >>> split(["a", "b", "c"], lambda _: 10, 20)
    [['a', 'b'], ['c']]
    """
    parts: list[list[T]] = []
    room = 0
    for item in items:
        taken = size(item)
        if not parts or taken > room:
            parts.append([])
            room = limit
        parts[-1].append(item)
        room -= taken
    return parts


def send_parts(
    parts: Sequence[list[T]],
    request: Callable[[list[T]], Call],
    read: Callable[[list[T], Any], dict[T, Any]],
) -> Operation[dict[T, Any]]:
    """Send a request for each part; what is refused as too large is sent again in halves.

    :param read: returns the answer for each item of a reply, a ``KgError`` or a code.
    """
    answers: dict[T, Any] = {}
    queue = list(parts)
    while queue:
        replies = yield from pipelined([request(part) for part in queue])
        halves: list[list[T]] = []
        for part, reply in zip(queue, replies, strict=True):
            found = read(part, reply)
            answers.update(found)
            large = [item for item in part if is_too_large(found[item])]
            if len(part) > 1:
                middle = (len(large) + 1) // 2
                halves += filter(None, (large[:middle], large[middle:]))
        queue = halves
    return answers


def is_too_large(answer: Any) -> bool:
    """Whether an answer may be about the size of a batch."""
    return getattr(answer, "code", answer) in TOO_LARGE
