"""A session without a cluster: operations are canned results, or errors to raise."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.errors import ConnectFailed, KgError


class Loop:
    extended = 0.0

    def extend(self, seconds: float) -> None:
        self.extended += seconds


class FakeSession:
    """Stands in for ``kgtool.net.session.Session``: ``run`` gives back what it is given."""

    cluster_id = "cluster-1"
    error: KgError | None = None

    def __init__(self, settings: Any, **_options: Any) -> None:
        self.settings = settings
        self.cluster = Cluster()
        self.loop = Loop()

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def connect(self) -> None:
        if self.error is not None:
            raise self.error

    def run(self, operation: Any) -> Any:
        self.connect()
        if isinstance(operation, BaseException):
            raise operation
        if isinstance(operation, Generator):  # of canned parts, which ask nobody
            try:
                next(operation)
            except StopIteration as ended:
                return ended.value
        return operation

    run_long = run


class Unreachable(FakeSession):
    """Nobody answers."""

    error = ConnectFailed("Nothing listens on 127.0.0.1:1.", hint="Check the port.")
