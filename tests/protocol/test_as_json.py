"""Messages as JSON: Kafka's own converters write the same; what people get wrong is named."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from kgtool.errors import UsageError
from kgtool.protocol.api import describe_groups, fetch, offset_commit, offset_delete, offset_fetch
from kgtool.protocol.as_json import UNKNOWN_TAGS, error_codes, from_json, to_json
from kgtool.protocol.plan import decode, encode
from tests.protocol.conftest import Documents
from tests.protocol.jvm import Kafka
from tests.protocol.messages import EVERY, Maker, Message
from tests.protocol.test_kafka_classes import versions_of
from tests.protocol.test_schemas import RENAMED

RECORDS = {"FetchResponse", "ProduceRequest"}
"""Kafka's converters leave records empty; ours are bytes like all others."""


def is_within(theirs: Any, ours: Any) -> bool:
    """Whether all that Kafka writes is there; it leaves out tagged fields with their defaults."""
    if isinstance(theirs, dict):
        return all(
            key in ours and (key == "records" or is_within(value, ours[key]))
            for key, value in theirs.items()
        )
    if isinstance(theirs, list):
        return len(theirs) == len(ours) and all(map(is_within, theirs, ours))
    return bool(theirs == ours and type(theirs) is type(ours))


def test_kafkas_converters_write_the_same(
    kafka_jvm: Kafka, documents: dict[str, Documents]
) -> None:
    messages = versions_of(kafka_jvm, documents)
    accessor, buffer = kafka_jvm.accessor, kafka_jvm.buffer
    for message in messages:
        made = Maker(message).message(message)
        name = f"{message.api}{message.kind}"
        data = kafka_jvm.message(name)
        data.read(accessor(buffer.wrap(encode(made, message.version))), message.version)
        converter = getattr(kafka_jvm.common.message, f"{name}DataJsonConverter")
        theirs = json.loads(converter.write(data, message.version).toString())
        if kafka_jvm.version == "3.9.1":
            theirs = {RENAMED.get((name, key), key): value for key, value in theirs.items()}
        assert is_within(theirs, to_json(made, message.version)), f"{message}: {theirs}"
        if name not in RECORDS:
            assert from_json(message.cls, message.version, theirs) == made, f"{message}: {theirs}"


@pytest.mark.parametrize("message", EVERY, ids=str)
def test_what_is_written_is_read_again(message: Message) -> None:
    made = Maker(message).message(message)
    document = json.loads(json.dumps(to_json(made, message.version)))
    assert from_json(message.cls, message.version, document) == made


def test_all_spellings_of_a_name_are_one() -> None:
    for body in (
        {"groupId": "g", "topics": [{"name": "t", "partitions": [{"partitionIndex": 3}]}]},
        {"GroupId": "g", "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 3}]}]},
        {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition": 3}]}]},
    ):
        request = from_json(offset_delete.Request, 0, body)
        assert request.group_id == "g"
        assert request.topics[0].partitions[0].partition == 3


def test_defaults_are_filled_in() -> None:
    request = from_json(offset_commit.Request, 2, {"groupId": "g"})
    assert (request.generation_id_or_member_epoch, request.retention_time_ms) == (-1, -1)


@pytest.mark.parametrize(
    ("version", "body", "said"),
    [
        (9, {"group": []}, "group: there is no such field (did you mean groups?)."),
        (
            9,
            {"groups": [{"topic": None}]},
            "groups[0].topic: there is no such field (did you mean topics?).",
        ),
        (9, {"xyz": 1}, "xyz: there is no such field; version 9 has groups, requireStable."),
        (9, {"groupId": "g"}, "groupId: versions 0-7 have it, and this is version 9."),
        (
            8,
            {"groups": [{"memberId": "m"}]},
            "groups[0].memberId: versions 9+ have it, and this is version 8.",
        ),
        (1, {"topics": None}, "topics: it can't be null in version 1."),
        (7, {"groupId": 5}, "groupId: a string must be here, not the number 5."),
        (7, {"groupId": "\ud800"}, "groupId: half of a surrogate pair can't be sent as text."),
        (7, {"topics": {}}, "topics: an array must be here, not an object."),
        (7, {"topics": [7]}, "topics[0]: a JSON object must be here, not the number 7."),
        (
            7,
            {"topics": [{"partitionIndexes": [0, "1"]}]},
            "topics[0].partitionIndexes[1]: a whole number (int32) must be here, not a string.",
        ),
        (
            7,
            {"topics": [{"partitionIndexes": [2**31]}]},
            "topics[0].partitionIndexes[0]: "
            "2147483648 is no int32, which goes from -2147483648 to 2147483647.",
        ),
        (
            7,
            {"topics": [{"partitionIndexes": [True]}]},
            "topics[0].partitionIndexes[0]: a whole "
            "number (int32) must be here, not true or false.",
        ),
        (7, {"requireStable": 1}, "requireStable: true or false must be here, not the number 1."),
        (7, {"groupId": "a", "group_id": "b"}, "group_id: it appears twice."),
        (7, [], "The body: a JSON object must be here, not an array."),
        (
            10,
            {"groups": [{"topics": [{"topicId": "x"}]}]},
            "groups[0].topics[0].topicId: 'x' is not a uuid, such as AAAAAAAAAAAAAAAAAAAAAA.",
        ),
    ],
)
def test_what_is_wrong_is_named(version: int, body: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_json(offset_fetch.Request, version, body)
    assert caught.value.message == said


def test_ids_are_read_in_both_forms() -> None:
    ours = UUID(int=77)
    for text in ("AAAAAAAAAAAAAAAAAAAATQ", str(ours)):
        body = {"topics": [{"topicId": text}]}
        assert from_json(fetch.Request, 13, body).topics[0].topic_id == ours


def test_bytes_that_are_no_base64_are_refused() -> None:
    with pytest.raises(UsageError, match="Base64"):
        body = {"groups": [{"members": [{"memberMetadata": "%"}]}]}
        from_json(describe_groups.Response, 0, body)


def test_tags_that_nobody_knows_are_shown() -> None:
    raw = encode(offset_fetch.Response(), 6)
    assert raw.endswith(b"\x00")
    document = to_json(decode(offset_fetch.Response, 6, raw[:-1] + b"\x01\x07\x02hi"), 6)
    assert document[UNKNOWN_TAGS] == {"7": "aGk="}


def test_error_codes_say_where_and_about_what() -> None:
    partitions = [
        offset_delete.Partition(partition=0),
        offset_delete.Partition(partition=4, error_code=86),
    ]
    topic = offset_delete.Topic(name="t", partitions=partitions)
    found = list(error_codes(offset_delete.Response(topics=[topic])))
    assert [(one.path, one.code) for one in found] == [
        ("topics[0].partitions[0].errorCode", 0),
        ("topics[0].partitions[1].errorCode", 86),
    ]
    assert found[1].target == {"topic": "t", "partition": 4}
    (whole,) = error_codes(offset_delete.Response(error_code=69))
    assert (whole.path, whole.code) == ("errorCode", 69)
