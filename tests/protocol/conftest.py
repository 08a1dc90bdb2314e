"""The jars and the classes of real Kafkas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from zipfile import ZipFile

import pytest

from kgtool.sandbox.install.jars import VERSIONS, kafka_jars
from tests.protocol.jvm import Kafka, kafka_classes

Documents = dict[str, dict[str, Any]]


def read_documents(version: str) -> Documents:
    """All message JSONs inside a version's kafka-clients jar, by message name."""
    wanted = f"kafka-clients-{version}.jar"
    (jar,) = (path for path in kafka_jars(version) if path.name == wanted)
    found = {}
    with ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = archive.read(name).decode()
                document = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
                found[document["name"]] = document
    return found


@pytest.fixture(scope="session")
def documents() -> dict[str, Documents]:
    """Kafka version → message name → its JSON."""
    return {version: read_documents(version) for version in VERSIONS}


@pytest.fixture(scope="module", params=(VERSIONS[0], VERSIONS[-1]))
def kafka_jvm(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """The real classes of the newest and the oldest Kafka of the sandbox, in turn."""
    with kafka_classes(request.param) as kafka:
        yield kafka
