"""A real Kafka with as many groups and offsets as a measurement asks for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgtool.config import Settings
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from kgtool.sandbox import processes
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.install.jars import class_path
from kgtool.sandbox.tools import tool_class
from tests.support import clients
from tests.support.offsets import first_commits

SCRIPT_FLAGS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""How ``kafka-run-class.sh`` starts Kafka's tools."""


class World:
    """One broker and the folder for what commands leave."""

    def __init__(self, cluster: Sandbox, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.bootstrap = cluster.bootstrap

    def kafka(self, tool: str, *args: str) -> list[str]:
        """The command line of one of Kafka's own tools, with its script's JVM flags."""
        return [
            str(self.cluster.java),
            *SCRIPT_FLAGS,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp",
            class_path(self.cluster.jars),
            tool_class(tool, self.cluster.version),
            "--bootstrap-server",
            self.bootstrap,
            *args,
        ]

    def topic(self, name: str, partitions: int, records: int = 5) -> str:
        """Make a topic with a few records in each partition."""
        clients.create_topic(self.bootstrap, name, partitions)
        for partition in range(partitions):
            clients.produce(self.bootstrap, name, records, partition=partition)
        return name

    def _address(self) -> tuple[str, int]:
        host, _, port = self.bootstrap.partition(":")
        return host, int(port)

    def commit(
        self,
        topic: str,
        groups: list[str],
        partitions: int,
        *,
        streams: bool = False,
        times: int = 1,
    ) -> None:
        """Commit offset 3 in every partition, for every group, so many times.

        :param streams: with a leader epoch, and metadata as Kafka Streams has it: 12 characters.
        """
        value = CommittedOffset(3, 0, "AQAAAYvPw0gA") if streams else CommittedOffset(3, None, "")
        offsets = {TopicPartition(topic, partition): value for partition in range(partitions)}
        with Session(Settings((self._address(),), timeout_ms=600_000)) as session:
            for _ in range(times):
                done = session.run(first_commits(session.cluster, dict.fromkeys(groups, offsets)))
                failed = [error for parts in done.values() for error in parts.values() if error]
                assert not failed, failed[:3]


@contextmanager
def world(name: str, heap: str = "1g") -> Iterator[World]:
    """Start a broker with a JVM like that of a real one, and stop it at the end."""
    os.environ["KAFKA_HEAP_OPTS"] = f"-Xmx{heap} -XX:TieredStopAtLevel=4"
    with tempfile.TemporaryDirectory(prefix="kgtool-bench-") as folder:
        with Sandbox.start(f"bench-{name}", root=Path(folder) / "state") as cluster:
            yield World(cluster, Path(folder))
        processes.end([Path(folder)])


def groups(count: int, prefix: str = "group") -> list[str]:
    """Return that many names."""
    return [f"{prefix}-{number:05d}" for number in range(count)]
