"""Java's and Kafka's own classes, as oracles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocol.jvm import kafka_classes


@pytest.fixture(scope="session")
def java() -> Iterator[Any]:
    """A JVM with Kafka 4.4.0 on its class path: ``java.org.apache.kafka…``, ``java.java.util…``."""
    from py4j.java_gateway import JVMView

    with kafka_classes("4.4.0") as kafka:
        yield JVMView(kafka.common._gateway_client, "default", "rj")
