"""Reads the records around an offset with confluent-kafka, and touches no group by it.

The consumer is given its partitions by hand (``assign``) and commits nothing: no member joins, and
nothing is written. It has the group's own name, because librdkafka looks for a coordinator of
whatever name it has, and that takes an ACL which the user has for this group only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kgtool.config import Settings
from kgtool.errors import AuthenticationError, ConfigError, KgError, NetworkError, TimedOut
from kgtool.protocol.codes import broker_error
from kgtool.queries.peek import Kept, Record, Window, read_window

POLL_SECONDS = 0.2
_PRIVATE = -100
"""librdkafka's own error codes are below; Kafka's are above."""


class OwnReader:
    """Reads with kgtool's own client, where librdkafka can't log in or is not installed."""

    def __init__(self, settings: Settings, *, committed_only: bool) -> None:
        from kgtool.net.session import Session

        self._session = Session(settings, progress=True)
        self._committed_only = committed_only

    def __enter__(self) -> OwnReader:
        return self

    def __exit__(self, *_error: object) -> None:
        self._session.loop.close()

    def read(self, window: Window) -> list[Record]:
        """Return the records of a window in their order.

        :raises KgError: they can't be read.
        """
        operation = read_window(self._session.cluster, window, committed_only=self._committed_only)
        return self._session.run(operation)


def open_reader(settings: Settings, group: str, *, committed_only: bool) -> Reader | OwnReader:
    """Return a reader that can use the login of these settings.

    librdkafka lacks delegation tokens, and its wheels lack Kerberos; kgtool has logged in with
    these settings already, so that what librdkafka has against them is its own limit.
    """
    try:
        return Reader(settings, group, committed_only=committed_only)
    except (ConfigError, ImportError):
        return OwnReader(settings, committed_only=committed_only)


class Reader:
    """A context manager around one consumer.

    :raises ConfigError: librdkafka can't use the configuration.
    :raises ImportError: confluent-kafka is not installed.
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

        from kgtool.cli.flows.librdkafka import client_config

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
            raise ConfigError(f"librdkafka, which reads the records, can't: {said}.") from error

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
            return _kept(self._records(window), window)
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
                hint="Allow more time with --timeout.",
            )


def _kept(records: Iterator[Record], window: Window) -> list[Record]:
    kept = Kept(window)
    if window.before + window.after:
        any(map(kept.take, records))  # until it says that this is enough
    return kept.records


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
        return broker_error(error.code(), error.str())
    if error.name() == "_AUTO_OFFSET_RESET":
        return KgError("The records were removed from the log meanwhile.")
    return NetworkError(f"librdkafka: {error.str().rstrip('.')}.")
