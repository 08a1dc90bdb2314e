"""The codec against the generated classes of the real Kafka: same bytes, same headers."""

from __future__ import annotations

import struct

from kgtool.protocol import api
from kgtool.protocol.frame import encode_request, skip_response_header
from kgtool.protocol.plan import encode
from kgtool.protocol.schema import parse_versions
from tests.protocol.conftest import Documents
from tests.protocol.jvm import Kafka
from tests.protocol.messages import EVERY, Maker, Message

SAMPLES = 3


def versions_of(kafka: Kafka, documents: dict[str, Documents]) -> list[Message]:
    """The messages and versions that this Kafka knows."""
    known = documents[kafka.version]
    return [
        message
        for message in EVERY
        if f"{message.api}{message.kind}" in known
        and message.version
        in parse_versions(known[f"{message.api}{message.kind}"]["validVersions"])
    ]


def test_kafka_reads_what_we_write_and_writes_the_same_bytes(
    kafka_jvm: Kafka, documents: dict[str, Documents]
) -> None:
    messages = versions_of(kafka_jvm, documents)
    assert len({message.api for message in messages}) >= 34
    for message in messages:
        maker = Maker(message, unknown_tags=True)
        for _ in range(SAMPLES):
            made = maker.message(message)
            raw = encode(made, message.version)
            name = f"{message.api}{message.kind}"
            again, unread = kafka_jvm.echo(name, message.version, raw)
            assert (again.hex(), unread) == (raw.hex(), 0), f"{message}: {made}"


def test_defaults_are_what_kafka_writes_for_an_empty_object(
    kafka_jvm: Kafka, documents: dict[str, Documents]
) -> None:
    for message in versions_of(kafka_jvm, documents):
        ours = encode(message.cls(), message.version)
        untouched = kafka_jvm.message(f"{message.api}{message.kind}")
        theirs = kafka_jvm.write(untouched, message.version)
        assert ours.hex() == theirs.hex(), str(message)


def test_kafka_reads_our_request_headers(kafka_jvm: Kafka, documents: dict[str, Documents]) -> None:
    parse = kafka_jvm.common.requests.RequestHeader.parse
    for message in versions_of(kafka_jvm, documents):
        if message.kind != "Request":
            continue
        frame = encode_request(message.cls(), message.version, 77, "kgtool-größe")
        (length,) = struct.unpack_from(">i", frame)
        buffer = kafka_jvm.buffer.wrap(frame[4:])
        header = parse(buffer)
        body = encode(message.cls(), message.version)
        data = header.data()
        found = (data.requestApiKey(), data.requestApiVersion(), data.correlationId())
        assert found == (message.cls.KEY, message.version, 77), str(message)
        assert header.clientId() == "kgtool-größe"
        assert (length, buffer.remaining()) == (len(frame) - 4, len(body)), str(message)


def test_we_skip_kafkas_response_headers(kafka_jvm: Kafka, documents: dict[str, Documents]) -> None:
    header_of = kafka_jvm.common.requests.ResponseHeader
    key_of = kafka_jvm.common.protocol.ApiKeys.forId
    for message in versions_of(kafka_jvm, documents):
        if message.kind != "Response":
            continue
        key = api.load(message.api).Request.KEY
        version = key_of(key).responseHeaderVersion(message.version)
        header = kafka_jvm.write(header_of(5, version).data(), version)
        assert skip_response_header(header + b"rest", key, message.flexible) == len(header)
