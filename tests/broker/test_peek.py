"""``peek``: what a consumer of the group would read, and no trace of having looked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import ResourceType

from kgtool import GroupAdmin, KgError
from kgtool import TopicPartition as ModelPartition
from tests.broker.test_authorisation import Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.cli.run import Result, call
from tests.support import clients

Kgtool = Callable[..., Result]


@pytest.fixture
def kgtool(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Kgtool:
    return lambda *argv: call(capsys, "--bootstrap-server", bootstrap, *argv)


def rows(result: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.json["results"]
    return found


def send(bootstrap: str, topic: str, *records: dict[str, Any], **config: Any) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50, **config}
    producer = Producer(settings)
    for record in records:
        producer.produce(topic, partition=0, **record)
    assert producer.flush(30) == 0


def theirs(bootstrap: str, topic: str) -> dict[int, Any]:
    """All records of partition 0, as a plain consumer reads them."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": clients.unique("all"),
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, Any] = {}
    try:
        while True:
            message = reader.poll(30)
            assert message is not None
            if message.error() is not None:
                return found
            found[message.offset()] = message
    finally:
        reader.close()


@pytest.fixture
def group(bootstrap: str, new_topic: Callable[..., str]) -> tuple[str, str]:
    """A group at 6 of 12 records."""
    topic, name = new_topic(), clients.unique("looked-at")
    records = [
        {"key": f"k{n}", "value": f"v{n}", "headers": {"n": str(n)}, "timestamp": 1000 + n}
        for n in range(12)
    ]
    send(bootstrap, topic, *records)
    clients.commit(bootstrap, name, {(topic, 0): 6})
    return name, topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_as_a_consumer_reads_them(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str], codec: str
) -> None:
    topic, name = new_topic(), clients.unique("codec")
    big = [
        {"key": f"k{n}", "value": f"{n} " * 200, "headers": [("a", b"1"), ("a", None)]}
        for n in range(9)
    ]
    send(bootstrap, topic, *big, **{"compression.type": codec})
    clients.commit(bootstrap, name, {(topic, 0): 4})
    found = rows(
        kgtool("peek", name, "--topic", f"{topic}:0", "--before", "2", "--after", "3", "-o", "json")
    )
    assert [row["offset"] for row in found] == [2, 3, 4, 5, 6]
    assert [row["is_next"] for row in found] == [False, False, True, False, False]
    messages = theirs(bootstrap, topic)
    for row in found:
        message = messages[row["offset"]]
        assert row["key"].encode() == message.key()
        assert row["value"].encode() == message.value()
        assert (row["timestamp_ms"], row["timestamp_type"]) == (message.timestamp()[1], "create")
        assert [(h["name"], h["value"]) for h in row["headers"]] == [("a", "1"), ("a", None)]


def test_from_python(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    nowhere = ModelPartition("no-such", 0)
    messages = theirs(bootstrap, topic)
    with GroupAdmin(bootstrap) as admin:
        (following,) = admin.peek(name).values()
        found = admin.peek(name, [topic, nowhere], before=2, after=2)
        with pytest.raises(KgError, match="no committed offset"):
            admin.peek(clients.unique("nobody"))
    assert isinstance(following, list)
    assert [record.value for record in following] == [b"v6"]
    assert isinstance(found[nowhere], KgError)
    around = found[ModelPartition(topic, 0)]
    assert isinstance(around, list)
    assert [record.offset for record in around] == [4, 5, 6, 7]
    for record in around:
        message = messages[record.offset]
        assert (record.key, record.value) == (message.key(), message.value())
        assert list(record.headers) == message.headers()
        assert (record.timestamp_ms, record.leader_epoch) == (
            message.timestamp()[1],
            message.leader_epoch(),
        )


def test_nobody_notices(bootstrap: str, kgtool: Kgtool, group: tuple[str, str]) -> None:
    name, topic = group
    before = clients.group_ids(bootstrap)
    assert kgtool("peek", name).status == 0
    made = clients.group_ids(bootstrap) - before
    others = {found for found in made if clients.UNIQUE.search(found) and name not in found}
    assert made == others, "other tests make groups beside this one"
    assert clients.committed(bootstrap, name) == {(topic, 0): 6}


def test_text_marks_what_is_read_next(kgtool: Kgtool, group: tuple[str, str]) -> None:
    name, topic = group
    result = kgtool("peek", name, "--topic", topic, "--before", "1", "--after", "2")
    head, columns, *lines = result.out.splitlines()
    assert head == f"{topic}:0: committed 6, log 0–11: 6 offsets left to read"
    assert columns.split() == ["OFFSET", "TIME", "KEY", "HEADERS", "VALUE"]
    assert [line.split() for line in lines if line] == [
        ["5", "1970-01-01T00:00:01.005Z", "k5", "n=5", "v5"],
        ["->", "6", "1970-01-01T00:00:01.006Z", "k6", "n=6", "v6"],
        ["7", "1970-01-01T00:00:01.007Z", "k7", "n=7", "v7"],
    ]


def test_bytes_are_safe_on_a_terminal(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic, name = new_topic(), clients.unique("binary")
    evil = [
        {"key": b"\x00\x01\xff", "value": b"\x1b[31mred"},
        {"key": "größe ☃", "value": "line\nbreak\ttab"},
        {"key": None, "value": None},
        {"key": b"", "value": '{"a": [1, "\u202e"]}'},
    ]
    send(bootstrap, topic, *evil)
    clients.commit(bootstrap, name, {(topic, 0): 0})
    argv = ("peek", name, "--topic", f"{topic}:0")
    text = kgtool(*argv).out
    assert all(char.isprintable() or char == "\n" for char in text)
    for said in ("0x0001ff", "0x1b5b33316d726564", "größe ☃", "line\\nbreak\\ttab", "(null)", '""'):
        assert said in text
    found = rows(kgtool(*argv, "-o", "json"))
    assert [(row["key"], row["key_encoding"]) for row in found] == [
        ("0001ff", "hex"),
        ("größe ☃", "text"),
        (None, None),
        ("", "text"),
    ]
    as_json = rows(kgtool(*argv, "--format", "json", "--key-format", "hex", "-o", "json"))
    assert as_json[3]["value"] == {"a": [1, "\u202e"]}
    assert (as_json[3]["value_encoding"], as_json[1]["value_encoding"]) == ("json", "text")
    assert as_json[1]["key"] == "größe ☃".encode().hex()
    as_hex = rows(kgtool(*argv, "--format", "hex", "-o", "json"))
    assert bytes.fromhex(as_hex[1]["value"]) == b"line\nbreak\ttab"
    as_text = rows(kgtool(*argv, "--format", "text", "-o", "json"))
    assert as_text[0]["value"] == "\x1b[31mred"


def test_the_ends_of_a_log(bootstrap: str, kgtool: Kgtool, group: tuple[str, str]) -> None:
    _, topic = group
    places = {"end": 12, "beyond": 50, "start": 0}
    for name, offset in places.items():
        clients.commit(bootstrap, f"{topic}-{name}", {(topic, 0): offset})
    said = {
        "end": ("nothing is left to read", [10, 11], None),
        "beyond": ("beyond its end", [10, 11], None),
        "start": ("12 offsets left to read", [0, 1], 0),
    }
    for name, (words, offsets, following) in said.items():
        argv = ("peek", f"{topic}-{name}", "--before", "2", "--after", "2")
        found = rows(kgtool(*argv, "-o", "json"))
        assert [row["offset"] for row in found] == offsets
        assert [row["offset"] for row in found if row["is_next"]] == (
            [] if following is None else [following]
        )
        assert words in kgtool(*argv).out


def test_records_that_are_gone(bootstrap: str, kgtool: Kgtool, group: tuple[str, str]) -> None:
    name, topic = group
    admin = clients.admin(bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        future.result(30)
    result = kgtool("peek", name, "--after", "1")
    assert "before its start, 2 offsets are gone unread" in result.out
    assert ["->", "8"] in [line.split()[:2] for line in result.out.splitlines()]


def test_transactions(bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]) -> None:
    """Markers leave gaps; aborted records are there unless only committed ones are wanted."""
    topic, name = new_topic(), clients.unique("tx")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"v{number}", partition=0)
        producer.flush(30)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    clients.markers_written(bootstrap, name)
    clients.commit(bootstrap, name, {(topic, 0): 12})
    argv = ("peek", name, "--before", "3", "--after", "0", "-o", "json")
    assert [row["value"] for row in rows(kgtool(*argv))] == ["v3", "v4", "v5"]
    assert [row["value"] for row in rows(kgtool(*argv, "--committed"))] == ["v0", "v2", "v4"]


def test_what_can_not_be_shown_does_not_hide_the_rest(
    kgtool: Kgtool, group: tuple[str, str]
) -> None:
    name, topic = group
    partly = kgtool("peek", name, "--topic", f"{topic}:0,7", "--topic", "no-such:0", "-o", "json")
    assert partly.status == 3
    assert {row["partition"] for row in rows(partly)} == {0}
    assert [error["name"] for error in partly.json["errors"]] == ["UNKNOWN_TOPIC_OR_PARTITION"] * 2
    none = kgtool("peek", clients.unique("nobody"))
    assert (none.status, none.err.count("\n")) == (1, 1)
    assert "has no committed offset" in none.err


def test_a_missing_group_hides_no_other(kgtool: Kgtool, group: tuple[str, str]) -> None:
    missing = clients.unique("missing")
    result = kgtool("peek", missing, group[0], "--after", "1", "-o", "json")
    assert result.status == 3
    assert [row["group"] for row in rows(result)] == [group[0]] * 6
    (error,) = result.json["errors"]
    assert (error["target"]["group"], error["name"]) == (missing, "NO_COMMIT")


def test_an_uncommitted_partition(
    bootstrap: str, kgtool: Kgtool, new_topic: Callable[..., str]
) -> None:
    topic, name = new_topic(partitions=2), clients.unique("half")
    clients.commit(bootstrap, name, {(topic, 0): 0})
    result = kgtool("peek", name, "--topic", f"{topic}:1")
    assert (result.status, "Nothing is committed for" in result.err) == (1, True)


def test_ndjson_goes_to_a_pipe(kgtool: Kgtool, group: tuple[str, str]) -> None:
    name, _ = group
    lines = kgtool("peek", name, "--before", "0", "--after", "3", "-o", "ndjson").out.splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["v6", "v7", "v8"]


def test_a_missing_acl_is_named(here: Guarded, tmp_path: Path) -> None:
    group = here.group("DESCRIBE")
    result = here.run("peek", group, "--topic", f"{here.hidden}:0")
    assert result.status == 1
    assert "ACL" in result.err
    topic = here.hidden
    here.allow(ResourceType.TOPIC, topic, "DESCRIBE")
    try:
        clients.produce(here.bootstrap, topic, 3)
        refused = here.run("peek", group, "--topic", f"{topic}:0")
        assert refused.status == 1, refused
        assert f"READ on topic {topic}" in refused.err
    finally:
        here.forbid(ResourceType.TOPIC, topic)
