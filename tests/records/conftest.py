"""The schemas and the classes of real coordinators."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from zipfile import ZipFile

import pytest
from py4j.java_gateway import JVMView
from py4j.protocol import DEFAULT_JVM_ID, Py4JJavaError

from kgtool.sandbox.install.jars import VERSIONS, kafka_jars
from tests.protocol.jvm import Kafka, kafka_classes

Document = dict[str, Any]
Documents = dict[str, Document]


def _read(version: str) -> Documents:
    """The record schemas of a version, and those of the consumer protocol, by name."""
    wanted = (f"kafka-group-coordinator-{version}.jar", f"kafka-clients-{version}.jar")
    found: Documents = {}
    for jar in (path for path in kafka_jars(version) if path.name in wanted):
        with ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/.*\.json", name):
                    text = re.sub(r"(?m)^\s*//.*$", "", archive.read(name).decode())
                    document = json.loads(text)
                    if "coordinator" in jar.name or document["name"].startswith("ConsumerProtocol"):
                        found[document["name"]] = _in_todays_words(document)
    return found


def _in_todays_words(document: Document) -> Document:
    """Until 4.0 a key's version was the record type: say it as 4.1 does, with key version 0."""
    if document["type"] == "data" and document["name"].endswith("Key"):
        document["validVersions"] = "0"
        for field in document["fields"]:
            field["versions"] = "0"
    for field in document["fields"]:
        field.setdefault("versions", field.get("taggedVersions"))
    return document


@pytest.fixture(scope="session")
def documents() -> dict[str, Documents]:
    """Kafka version → message name → its JSON."""
    return {version: _read(version) for version in VERSIONS}


class Coordinator:
    """The record classes of a real coordinator, and Kafka's consumer protocol."""

    def __init__(self, kafka: Kafka) -> None:
        # Packages below org.apache.kafka.common are all that ``Kafka`` itself offers.
        jvm = JVMView(kafka.common._gateway_client, "records", DEFAULT_JVM_ID)
        self.kafka = kafka
        self.version = kafka.version
        self.protocol = jvm.org.apache.kafka.clients.consumer.internals.ConsumerProtocol
        self._records = jvm.org.apache.kafka.coordinator.group.generated
        self._common = kafka.common.message

    def message(self, name: str) -> Any:
        """Make an untouched key, value, subscription or assignment."""
        home = self._common if name.startswith("ConsumerProtocol") else self._records
        return getattr(home, name)()

    def write(self, data: Any, version: int) -> bytes:
        """Let a message write itself."""
        return self.kafka.write(data, version)

    def read(self, data: Any, version: int, raw: bytes) -> int:
        """Let a message read ``raw``; returns how many bytes it left."""
        buffer = self.kafka.buffer.wrap(raw)
        data.read(self.kafka.accessor(buffer), version)
        return int(buffer.remaining())

    def subscribed_topics(self, raw: bytes) -> set[str] | None:
        """As ClassicGroup.computeSubscribedTopics: ``None`` if it throws."""
        buffer = self.kafka.buffer.wrap(raw)
        try:
            self.protocol.deserializeVersion(buffer)
            return set(self.protocol.deserializeSubscription(buffer, 0).topics())
        except Py4JJavaError:
            return None


@pytest.fixture(scope="module", params=(VERSIONS[0], VERSIONS[-1]))
def coordinator(request: pytest.FixtureRequest) -> Iterator[Coordinator]:
    """The real classes of the newest and the oldest Kafka of the sandbox, in turn."""
    with kafka_classes(request.param) as kafka:
        yield Coordinator(kafka)
