"""The record codec against the generated classes of the real coordinators."""

from __future__ import annotations

from typing import Any

from kgtool.protocol.plan import decode, encode
from kgtool.protocol.schema import parse_versions
from tests.protocol.messages import Maker, Message
from tests.records.conftest import Coordinator, Documents
from tests.records.messages import EARLY, EVERY, Form

SAMPLES = 5


def _known(coordinator: Coordinator, documents: dict[str, Documents], form: Form) -> list[int]:
    """The versions of a form that this Kafka knows."""
    document = documents[coordinator.version].get(form.name)
    is_old = coordinator.version == "3.9.1"
    only_old = {EARLY.__name__: True, "ShareGroupMetadataValue": False}
    if document is None or only_old.get(form.cls.__name__, is_old) != is_old:
        return []
    valid = parse_versions(document["validVersions"])
    return [version for version in form.versions if version in valid]


def _java_version(coordinator: Coordinator, form: Form, version: int) -> int:
    """Until 4.0 the version of a key was its record type."""
    is_old_key = coordinator.version == "3.9.1" and form.name.endswith("Key")
    return form.cls.KEY if is_old_key else version


def _samples(coordinator: Coordinator, documents: dict[str, Documents]) -> Any:
    for form in EVERY:
        for version in _known(coordinator, documents, form):
            message = Message(form.name, "", form.cls, version)
            maker = Maker((form.cls.__name__, version), unknown_tags=True)
            for _ in range(SAMPLES):
                yield form, version, maker.message(message)


def test_kafka_reads_what_we_write_and_writes_the_same_bytes(
    coordinator: Coordinator, documents: dict[str, Documents]
) -> None:
    seen = set()
    for form, version, made in _samples(coordinator, documents):
        raw = encode(made, version)
        data = coordinator.message(form.name)
        java_version = _java_version(coordinator, form, version)
        assert coordinator.read(data, java_version, raw) == 0, form.name
        assert coordinator.write(data, java_version).hex() == raw.hex(), f"{form.name}: {made}"
        assert decode(form.cls, version, raw) == made
        seen.add(form.name)
    assert len(seen) == (24 if coordinator.version == "3.9.1" else 46)


def test_defaults_are_what_kafka_writes_for_an_empty_object(
    coordinator: Coordinator, documents: dict[str, Documents]
) -> None:
    for form in EVERY:
        for version in _known(coordinator, documents, form):
            data = coordinator.message(form.name)
            theirs = coordinator.write(data, _java_version(coordinator, form, version))
            assert encode(form.cls(), version).hex() == theirs.hex(), f"{form.name} v{version}"
