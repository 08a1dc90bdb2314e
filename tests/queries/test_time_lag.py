"""The age of the first unread record: a real consumer, reading there, says what is right."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgtool.client.cluster import Cluster
from kgtool.errors import KgError
from kgtool.model import Broker
from kgtool.model import TopicPartition as Partition
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.api import fetch, metadata
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.queries.offsets.lag import NONE_LEFT
from kgtool.queries.offsets.time_lag import (
    Position,
    ReadOn,
    Timestamp,
    first_timestamp,
    first_unread,
)
from tests.support import clients, seeds
from tests.support.script import Script, living

broker = pytest.mark.broker
Unique = Callable[[str], str]
NewTopic = Callable[..., str]

BEGAN = 1_700_000_000_000


def write(
    bootstrap: str,
    topic: str,
    times: Sequence[int],
    *,
    partition: int = 0,
    size: int = 5,
    **config: Any,
) -> None:
    """Produce one record a timestamp, all of them in as few batches as possible."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 300, **settings})
    if "transactional_id" in config:
        producer.init_transactions(30)
        producer.begin_transaction()
    for ms in times:
        producer.produce(topic, b"x" * size, partition=partition, timestamp=ms)
    assert producer.flush(30) == 0
    if "transactional_id" in config:
        producer.commit_transaction(30)
        clients.markers_written(bootstrap, config["transactional_id"])


def abort(bootstrap: str, topic: str, times: Sequence[int]) -> None:
    name = clients.unique("tx")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for ms in times:
        producer.produce(topic, b"gone", timestamp=ms)
    producer.flush(30)
    producer.abort_transaction(30)
    clients.markers_written(bootstrap, name)


def timestamp_at(
    bootstrap: str, topic: str, offset: int, partition: int = 0, isolation: str = "read_committed"
) -> int | None:
    """What a consumer that starts at an offset gets first; None if nothing comes."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": clients.unique("oracle"),
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        client.assign([TopicPartition(topic, partition, offset)])
        message = client.poll(30)
        assert message is not None
        return None if message.error() else int(message.timestamp()[1])
    finally:
        client.close()


def ask(session: Session, topic: str, offsets: Sequence[int], end: int, **options: Any) -> Any:
    positions = [Position(Partition(topic, 0), offset, end) for offset in offsets]
    found = session.run(first_unread(session.cluster, positions, **options))
    return [found[position] for position in positions]


@broker
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("step", [0, 1, 977, -5])
def test_every_record_of_a_batch(
    session: Session, bootstrap: str, new_topic: NewTopic, codec: str, step: int
) -> None:
    topic = new_topic()
    times = [BEGAN + number * step for number in range(30)]
    write(bootstrap, topic, times, compression_type=codec)
    assert ask(session, topic, range(30), 30) == times
    assert timestamp_at(bootstrap, topic, 17) == times[17]


@broker
def test_batches_too_large_for_the_first_glance(
    session: Session, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    times = [BEGAN + number for number in range(40)]
    for partition in range(3):
        write(bootstrap, topic, times, partition=partition, size=4000)
    positions = [Position(Partition(topic, p), o, 40) for p in range(3) for o in (0, 21, 39)]
    found = session.run(first_unread(session.cluster, positions))
    assert [found[position] for position in positions] == [BEGAN, BEGAN + 21, BEGAN + 39] * 3


@broker
def test_the_brokers_time_counts_where_the_topic_says_so(
    session: Session, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    write(bootstrap, topic, [BEGAN, BEGAN + 1])
    (found,) = ask(session, topic, [1], 2)
    assert found == timestamp_at(bootstrap, topic, 1)
    assert found > BEGAN + 1000


@broker
def test_markers_and_aborted_records_are_not_read(
    session: Session, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    write(bootstrap, topic, [BEGAN, BEGAN + 1], transactional_id=clients.unique("tx"))  # 0 1, m 2
    abort(bootstrap, topic, [BEGAN + 2, BEGAN + 3])  # 3 4, marker 5
    write(bootstrap, topic, [BEGAN + 4])  # 6
    abort(bootstrap, topic, [BEGAN + 5])  # 7, marker 8
    everything = ask(session, topic, range(9), 9)
    committed = ask(session, topic, range(9), 9, isolation=1)
    assert committed == [BEGAN, BEGAN + 1] + [BEGAN + 4] * 5 + [NONE_LEFT] * 2
    for isolation, told in (("read_uncommitted", everything), ("read_committed", committed)):
        for offset in range(9):
            read = timestamp_at(bootstrap, topic, offset, isolation=isolation)
            assert told[offset] == (NONE_LEFT if read is None else read)


@broker
def test_the_rows_of_describe(
    session: Session, bootstrap: str, new_topic: NewTopic, unique: Unique
) -> None:
    topic, group, other = new_topic(partitions=3), unique("age"), unique("age")
    times = [BEGAN + 1000 * number for number in range(10)]
    for partition in range(3):
        write(bootstrap, topic, times, partition=partition)
    clients.commit(bootstrap, group, {(topic, 0): 4, (topic, 1): 10, (topic, 2): 15})
    clients.commit(bootstrap, other, {(topic, 0): 7})
    now = BEGAN + 60_000
    found = session.run(describe_offsets(session.cluster, [group, other], clock=lambda: now))
    first, second = ({row.partition: row.lag_ms for row in group.rows} for group in found)
    assert first == {0: 56_000, 1: None, 2: None}  # read to the end, and committed beyond it
    assert second == {0: 53_000}
    client = clients.admin(bootstrap)
    for future in client.delete_records([TopicPartition(topic, 0, 6)]).values():
        future.result(30)
    found = session.run(describe_offsets(session.cluster, [group], clock=lambda: now))
    assert found[0].rows[0].lag_ms == 54_000  # what it should read next is gone


@broker
def test_lag_against_the_last_stable_offset(
    session: Session, bootstrap: str, new_topic: NewTopic, unique: Unique
) -> None:
    topic, group, ahead = new_topic(), unique("stable"), unique("stable")
    write(bootstrap, topic, [BEGAN] * 10)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"open", timestamp=BEGAN + 1)
    producer.flush(30)
    try:
        clients.commit(bootstrap, group, {(topic, 0): 4})
        clients.commit(bootstrap, ahead, {(topic, 0): 12})
        plain = session.run(describe_offsets(session.cluster, [group, ahead]))
        stable = session.run(describe_offsets(session.cluster, [group, ahead], committed=True))
    finally:
        producer.abort_transaction(30)
    assert [found.rows[0].lag for found in plain] == [11, 3]
    assert [found.rows[0].last_stable_offset for found in plain] == [None, None]
    assert [found.rows[0].lag for found in stable] == [6, 0]
    assert [found.rows[0].last_stable_offset for found in stable] == [10, 10]
    assert [found.rows[0].log_end_offset for found in stable] == [15, 15]
    assert [found.rows[0].status for found in stable] == ["ok", "ok"]


# -- without a broker ---------------------------------------------------------------------------


def scripted(answer: Callable[[Any], Any], positions: Sequence[Position]) -> tuple[Any, Script]:
    """Run against one broker that leads every partition of ``t``."""
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}

    def reply(_to: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            parts = [metadata.Partition(partition=n, leader_id=1) for n in range(5)]
            topic = metadata.Topic(name="t", partitions=parts)
            return metadata.Response(brokers=living(1), topics=[topic])
        return answer(request)

    script = Script(reply)
    return script.run(first_unread(cluster, positions)), script


def fetched(**row: Any) -> Any:
    def answer(request: Any) -> Any:
        topics = [
            fetch.Topic(
                topic=topic.topic,
                partitions=[
                    fetch.Partition(partition=p.partition, **row) for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return fetch.Response(topics=topics)

    return answer


def test_no_fetch_has_a_partition_twice() -> None:
    positions = [Position(Partition("t", n % 2), n, 99) for n in range(6)]
    denied = fetched(error_code=codes.TOPIC_AUTHORIZATION_FAILED)
    found, script = scripted(denied, positions)
    requests = [r for _, r in script.calls if isinstance(r, fetch.Request)]
    assert len(requests) == 3
    for request in requests:
        (topic,) = request.topics
        assert sorted(p.partition for p in topic.partitions) == [0, 1]
    for error in found.values():
        assert isinstance(error, KgError)
        assert error.hint == "It needs the ACL operation READ on topic t."


def test_an_empty_answer_ends_the_search() -> None:
    position = Position(Partition("t", 0), 5, 99)
    found, script = scripted(fetched(records=b""), [position])
    assert found == {position: None}
    assert len([r for _, r in script.calls if isinstance(r, fetch.Request)]) == 2


def test_a_log_cut_at_its_beginning_is_read_from_there() -> None:
    position = Position(Partition("t", 0), 5, 99)
    asked: list[int] = []

    def answer(request: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        asked.append(offset)
        if offset < 50:
            return fetched(error_code=codes.OFFSET_OUT_OF_RANGE, log_start_offset=50)(request)
        return fetched(records=_batch(50, [7]))(request)

    found, _ = scripted(answer, [position])
    assert found == {position: 7}
    assert asked == [5, 50]


def _batch(base: int, times: Sequence[int], attributes: int = 0) -> bytes:
    records = b""
    for number, ms in enumerate(times):
        body = b"\x00" + _varint(ms - times[0]) + _varint(number) + b"\x01\x01\x00"
        records += _varint(len(body)) + body
    rest = struct.pack(
        ">ibIhiqqqhii",
        0,
        2,
        0,
        attributes,
        len(times) - 1,
        times[0],
        max(times),
        -1,
        -1,
        -1,
        len(times),
    )
    return struct.pack(">qi", base, len(rest) + len(records)) + rest + records


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def test_a_batch_that_is_cut_off_tells_nothing() -> None:
    data = _batch(10, [100, 200, 300])
    assert first_timestamp(data, 11) == Timestamp(200)
    for size in range(len(data)):
        assert first_timestamp(data[:size], 11) == ReadOn(-1)
    assert first_timestamp(data + data[:40], 99) == ReadOn(13)


def test_no_garbage_raises() -> None:
    rng = seeds.rng("garbage")
    good = _batch(10, [100, 200, 300]) + _batch(13, [400])
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        answer = first_timestamp(bytes(data), rng.randrange(20))
        assert isinstance(answer, (Timestamp, ReadOn))


def test_the_messages_before_record_batches() -> None:
    def message(offset: int, magic: int, ms: int) -> bytes:
        body = struct.pack(">Ibb", 0, magic, 0) + (struct.pack(">q", ms) if magic else b"")
        body += struct.pack(">ii", -1, -1)
        return struct.pack(">qi", offset, len(body)) + body

    data = message(3, 1, 111) + message(4, 1, 222)
    assert first_timestamp(data, 4) == Timestamp(222)
    assert first_timestamp(message(3, 0, 0) + message(4, 0, 0), 4) == Timestamp(None)
    assert first_timestamp(data, 5) == ReadOn(5)
