"""The world an admin really meets, made with real clients."""

from __future__ import annotations

from kgtool.errors import SandboxError
from kgtool.sandbox.cluster import Cluster
from kgtool.sandbox.watcher import Watcher


def seed(cluster: Cluster, watcher: Watcher) -> None:
    """Fill a running sandbox; idempotent."""
    raise SandboxError(f"seeding {cluster.name!r} is not possible yet")
