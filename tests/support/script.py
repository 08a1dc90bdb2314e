"""Drives operations without sockets: calls are answered by functions, pauses are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgtool.client.ops import Call, Gather, HangUp, Long, Pause, Versions, Within
from kgtool.errors import KgError
from kgtool.protocol.api import metadata

ALL_VERSIONS = dict.fromkeys(range(100), (0, 100))


def living(*ids: int) -> list[metadata.Broker]:
    """Brokers as Metadata names them: an answer without any is none."""
    hosts = {1: "one", 2: "two"}
    return [metadata.Broker(node_id=id, host=hosts[id], port=9092) for id in ids]


class Script:
    """Answers each call with ``answer(broker, request)``, one operation after the other.

    ``calls``, ``pauses`` and ``hung_up`` record what was asked. Gathered operations run one by
    one, which is one of the orders that the real loop may choose.
    """

    def __init__(
        self, answer: Callable[[int, Any], Any], versions: dict[int, tuple[int, int]] | None = None
    ) -> None:
        self.answer = answer
        self.versions = ALL_VERSIONS if versions is None else versions
        self.calls: list[tuple[int, Any]] = []
        self.pauses: list[float] = []
        self.hung_up: list[int] = []

    def run(self, operation: Any) -> Any:
        value = None
        error: KgError | None = None
        while True:
            try:
                wish = operation.send(value) if error is None else operation.throw(error)
            except StopIteration as stop:
                return stop.value
            try:
                value, error = self._grant(wish), None
            except KgError as raised:
                error = raised

    def _grant(self, wish: Any) -> Any:
        if isinstance(wish, Pause):
            self.pauses.append(wish.seconds)
            return None
        if isinstance(wish, HangUp):
            self.hung_up.append(wish.to)
            return None
        if isinstance(wish, Versions):
            return self.versions
        if isinstance(wish, Within | Long):
            return self.run(wish.operation)
        if isinstance(wish, Gather):
            return [self.run(operation) for operation in wish.operations]
        replies = []
        for call in wish:
            assert isinstance(call, Call)
            self.calls.append((call.to, call.request))
            replies.append(self.answer(call.to, call.request))
        return replies
