"""What a change asks of the connection to a cluster: ``kgtool.net.session.Session`` is one."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.config import Settings

T = TypeVar("T")


class Deadline(Protocol):
    """When the command has to end."""

    def extend(self, seconds: float) -> None:
        """Move it: that time was not the brokers'."""


class Session(Protocol):
    """Runs operations against one cluster, which is known once it is connected."""

    cluster: Cluster
    settings: Settings

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None: the broker does not tell it."""

    @property
    def loop(self) -> Deadline:
        """The loop that runs the operations."""

    def run(self, operation: Operation[T]) -> T:
        """Run an operation to its end."""
