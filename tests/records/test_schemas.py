"""Our record tables against the JSON inside the real coordinator jars."""

from __future__ import annotations

import pytest

from kgtool.protocol.schema import VersionRange, parse_versions
from kgtool.records import record_types
from kgtool.records.types import GROUP_TYPES, KNOWN_TYPES
from kgtool.sandbox.install.jars import VERSIONS
from tests.protocol.test_schemas import differences
from tests.records.conftest import Document, Documents
from tests.records.messages import EARLY, EVERY, IDS, Form

LATER_TAGS = {
    "3.9.1": {
        "OffsetCommitValue": [(4, "topicId")],
        "ConsumerGroupMetadataValue": [(0, "metadataHash")],
        "ConsumerGroupTargetAssignmentMetadataValue": [(0, "assignmentTimestamp")],
        "ConsumerGroupCurrentMemberAssignmentValue": [
            (0, "assignedPartitions.assignmentEpochs"),
            (0, "partitionsPendingRevocation.assignmentEpochs"),
        ],
    },
    "4.3.1": {
        "StreamsGroupMetadataValue": [
            (0, "failedDescriptionTopologyEpoch"),
            (0, "storedDescriptionTopologyEpoch"),
        ]
    },
}
"""Tagged fields that a later Kafka added without a new version, by version: unknown tags to this
one (KIP-915)."""

CHANGED_IN_4 = {EARLY.__name__: ("3.9.1",), "ShareGroupMetadataValue": ("4.3.1", "4.4.0")}


def _documents_of(form: Form, documents: dict[str, Documents]) -> dict[str, Document]:
    versions = CHANGED_IN_4.get(form.cls.__name__, tuple(documents))
    return {v: documents[v][form.name] for v in versions if form.name in documents[v]}


@pytest.mark.parametrize("form", EVERY, ids=IDS)
def test_every_field_at_every_version_is_what_the_jars_say(
    form: Form, documents: dict[str, Documents]
) -> None:
    found = _documents_of(form, documents)
    assert found, f"no jar has {form.name}"
    for version, document in found.items():
        later = LATER_TAGS.get(version, {}).get(form.name, ())
        unknown = differences(form.name, form.cls, _keyed(form, document))
        assert unknown == [f"v{v} {path} is not Kafka's" for v, path in later], version


def _keyed(form: Form, document: Document) -> Document:
    """3.9's JSON does not name the record type."""
    return {"apiKey": form.cls.KEY, **document}


@pytest.mark.parametrize("form", EVERY, ids=IDS)
def test_versions_are_the_union_of_both_jars(form: Form, documents: dict[str, Documents]) -> None:
    ranges = [parse_versions(d["validVersions"]) for d in _documents_of(form, documents).values()]
    union = VersionRange(min(low for low, _ in ranges), max(high for _, high in ranges))
    assert union == form.cls.VERSIONS


def test_no_record_of_either_coordinator_is_missing(documents: dict[str, Documents]) -> None:
    known = {form.name for form in EVERY}
    for version, found in documents.items():
        assert set(found) <= known, version


def test_numbers_and_names_are_kafkas(documents: dict[str, Documents]) -> None:
    theirs = {
        document["apiKey"]: name.removesuffix("Key")
        for name, document in documents[VERSIONS[0]].items()
        if document["type"] == "coordinator-key"
    }
    ours = {known.number: known.name for known in record_types().values()}
    assert ours.keys() == KNOWN_TYPES
    assert [ours[number] for number in GROUP_TYPES] == [
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ShareGroupMetadata",
        "StreamsGroupMetadata",
    ]
    # Gone since 4.1: its number was the version of the key in 3.9, see the facts in share.py.
    assert ours.pop(9) == "ShareGroupPartitionMetadata"
    assert ours == theirs
    assert len(theirs) == 22
