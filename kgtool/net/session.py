"""A session: operations run over the connections to one cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from kgtool.client.cluster import Cluster, ensure_brokers
from kgtool.client.ops import Operation
from kgtool.net.loop import Loop

if TYPE_CHECKING:
    from kgtool.config import Settings

T = TypeVar("T")


class Session:
    """A context manager that runs operations against one cluster.

    Nothing is sent before the first operation. Not safe to share between threads.

    :param progress: ``settings.timeout_ms`` is then the longest time without an answer, not the
        time of the whole command (export, backup and other long work).
    """

    def __init__(self, settings: Settings, *, progress: bool = False) -> None:
        self.settings = settings
        self.cluster = Cluster()
        self.around: AbstractContextManager[object] = nullcontext()
        """Entered and left with the session, which still works then."""
        self._unchecked = settings.context
        self.loop = Loop(self.cluster, settings, progress=progress)

    def __enter__(self) -> Session:
        self.around.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self.around.__exit__(*error)
        finally:
            self.loop.close()

    def run(self, operation: Operation[T]) -> T:
        """Run an operation to its end.

        :raises NetworkError: no broker of the cluster could be reached.
        :raises WrongCluster: the cluster is not that of the context; no other request was sent.
        """
        if self._unchecked is not None:
            self.loop.run(ensure_brokers(self.cluster))
            self._unchecked.check(self.cluster.cluster_id, may_pin=self.settings.is_own_address)
            self._unchecked = None
        result: T = self.loop.run(operation)
        return result

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None before the first answer of a broker."""
        return self.cluster.cluster_id

    def connect(self) -> None:
        """Reach the cluster and learn its brokers and its id.

        :raises NetworkError: no broker could be reached.
        """
        self.run(ensure_brokers(self.cluster))
