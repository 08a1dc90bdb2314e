"""The real Kafka classes, out of the real jars, in a JVM that the tests talk to through Py4J."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kgtool.sandbox.install.jars import class_path, kafka_jars
from kgtool.sandbox.install.java import FAST, find_java


class Kafka:
    """The kafka-clients of one version."""

    def __init__(self, version: str, gateway: Any) -> None:
        self.version = version
        self.common = gateway.jvm.org.apache.kafka.common
        self.buffer = gateway.jvm.java.nio.ByteBuffer
        # Every dot of a class's name is a question to the JVM: ask once.
        self.accessor = self.common.protocol.ByteBufferAccessor
        self._cache = self.common.protocol.ObjectSerializationCache
        self._size = self.common.protocol.MessageSizeAccumulator
        self._messages: dict[str, Any] = {}

    def message(self, name: str) -> Any:
        """Make an untouched message: ``message("FetchRequest")``."""
        if name not in self._messages:
            self._messages[name] = getattr(self.common.message, f"{name}Data")
        return self._messages[name]()

    def echo(self, name: str, version: int, raw: bytes) -> tuple[bytes, int]:
        """Let a message read ``raw`` and write itself.

        Returns what it wrote, and how many bytes of ``raw`` it did not read.
        """
        buffer = self.buffer.wrap(raw)
        data = self.message(name)
        data.read(self.accessor(buffer), version)
        return self.write(data, version), buffer.remaining()

    def write(self, data: Any, version: int) -> bytes:
        """Let a message write itself."""
        cache, size = self._cache(), self._size()
        data.addSize(size, cache, version)
        out = self.buffer.allocate(size.totalSize())
        data.write(self.accessor(out), cache, version)
        return bytes(out.array())


@contextmanager
def kafka_classes(version: str) -> Iterator[Kafka]:
    """Start a JVM with the jars of a Kafka version on its class path, and end it."""
    with jvm_of(version) as gateway:
        yield Kafka(version, gateway)


@contextmanager
def jvm_of(version: str, *flags: str) -> Iterator[Any]:
    """The gateway to such a JVM."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

    jars = class_path([*kafka_jars(version)]) + os.pathsep + find_jar_path()
    command = [
        str(find_java()),
        *FAST,
        *flags,
        "-Xmx256m",
        "-cp",
        jars,
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "--enable-auth",
        "0",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port, token = (process.stdout.readline().decode().strip() for _ in range(2))
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=int(port), auth_token=token, enable_memory_management=False
            )
        )
        try:
            yield gateway
        finally:
            gateway.close()
            process.stdin.close()
            process.wait(30)
