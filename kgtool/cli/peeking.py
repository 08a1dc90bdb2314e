"""Reads the records around an offset with confluent-kafka, and touches no group by it.

The consumer is given its partitions by hand (``assign``) and commits nothing: no member joins, and
nothing is written. It has the group's own name, because librdkafka looks for a coordinator of
whatever name it has, and that takes an ACL which the user has for this group only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.errors import AuthenticationError, ConfigError, KgError, NetworkError, TimedOut
from kgtool.model import TopicPartition

if TYPE_CHECKING:
    from kgtool.config import Settings

POLL_SECONDS = 0.2
_PRIVATE = -100
"""librdkafka's own error codes are below; Kafka's are above."""


class Record(NamedTuple):
    """One record as it is in the log, decompressed; times in ms since the epoch.

    ``timestamp_type``: ``create`` (the producer's clock) or ``append`` (the broker's).
    """

    offset: int
    timestamp_ms: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None


class Window(NamedTuple):
    """What to read of a partition: from ``start`` up to, not including, ``end``.

    ``position`` is the committed offset; of the records from there on ``after`` are wanted, and of
    those before it the last ``before``.
    """

    partition: TopicPartition
    start: int
    end: int
    position: int
    before: int
    after: int


class Reader:
    """A context manager around one consumer.

    :raises ConfigError: librdkafka can't use the configuration.
    :raises MissingExtra: confluent-kafka is not installed.
    """

    def __init__(self, settings: Settings, group: str, *, committed_only: bool = False) -> None:
        self._group = group
        self._settings = settings
        self._seconds = settings.timeout_ms / 1000
        self._fatal: KgError | None = None
        self._said: str | None = None
        self._consumer = self._make(committed_only)

    def _make(self, committed_only: bool) -> Any:
        import logging

        from confluent_kafka import Consumer, KafkaException

        from kgtool.cli.librdkafka import client_config

        quiet = logging.getLogger("kgtool.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        config = client_config(self._settings)
        self._tokens = config.get("oauth_cb")
        config |= {
            "group.id": self._group or "kgtool-peek",  # librdkafka refuses the empty name
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "check.crcs": True,
            "isolation.level": "read_committed" if committed_only else "read_uncommitted",
            "error_cb": self._on_error,
        }
        try:
            return Consumer(config, logger=quiet)
        except KafkaException as error:
            said = error.args[0].str().rstrip(".")
            hint = "pip install --no-binary confluent-kafka confluent-kafka builds one that can."
            raise ConfigError(
                f"librdkafka, which reads the records, can't: {said}.",
                hint=hint if "GSSAPI" in said else None,
            ) from error

    def _on_error(self, error: Any) -> None:
        """Hear of what is wrong with brokers: a login that is refused will not get better."""
        self._said = error.str().rstrip(".")
        if error.name() in ("_AUTHENTICATION", "_SSL") or error.fatal():
            kind = AuthenticationError if error.name() == "_AUTHENTICATION" else NetworkError
            self._fatal = kind(error.str().rstrip(".") + ".")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self._consumer.close()

    def read(self, window: Window) -> list[Record]:
        """Return the records of a window in their order.

        :raises KgError: they can't be read; nothing came for the time of ``--timeout``.
        """
        if window.start >= window.end:
            return []
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as TheirPartition

        topic, number = window.partition
        try:
            self._consumer.assign([TheirPartition(topic, number, window.start)])
            return _trimmed(self._records(window), window)
        except KafkaException as error:
            raise _translated(error.args[0]) from error
        finally:
            self._consumer.unassign()

    def _records(self, window: Window) -> Iterator[Record]:
        deadline = time.monotonic() + self._seconds
        while True:
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                self._check(deadline)
                continue
            deadline = time.monotonic() + self._seconds
            problem = message.error()
            if problem is not None and problem.name() == "_PARTITION_EOF":
                return
            if problem is not None:
                raise _translated(problem)
            if message.offset() >= window.end:
                return
            yield _record(message)
            if message.offset() == window.end - 1:
                return

    def _check(self, deadline: float) -> None:
        failed = getattr(self._tokens, "error", None) or self._fatal
        if failed is not None:
            raise failed
        if time.monotonic() >= deadline:
            why = f" ({self._said})" if self._said else ""
            raise TimedOut(
                f"No record came within {self._settings.timeout_ms} ms{why}.",
                hint="Give it more time with --timeout.",
            )


def _trimmed(records: Iterator[Record], window: Window) -> list[Record]:
    """Keep the last so many before the position, and the first so many from it on."""
    read: list[Record] = []
    unread: list[Record] = []
    if window.after == 0 and window.before == 0:
        return []
    for record in records:
        if record.offset < window.position:
            read.append(record)
            del read[: max(0, len(read) - window.before)]
        elif len(unread) < window.after:
            unread.append(record)
        if len(unread) >= window.after and record.offset >= window.position - 1:
            break
    return read + unread


def _record(message: Any) -> Record:
    from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE

    kind, at_ms = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE
    epoch = message.leader_epoch()
    return Record(
        message.offset(),
        at_ms if known else None,
        ("create" if kind == TIMESTAMP_CREATE_TIME else "append") if known else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        epoch if epoch is not None and epoch >= 0 else None,
    )


def _translated(error: Any) -> KgError:
    if error.code() > _PRIVATE:
        from kgtool.protocol.codes import broker_error

        return broker_error(error.code(), error.str())
    if error.name() == "_AUTO_OFFSET_RESET":
        return KgError("The records are gone from the log since it was looked at.")
    return NetworkError(f"librdkafka: {error.str().rstrip('.')}.")
