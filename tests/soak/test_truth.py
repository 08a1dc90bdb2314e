"""``make soak``'s truth: what the harness reads of a log is what is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer, TopicPartition

from kgtool.sandbox.cluster import Sandbox
from tests.soak import truth
from tests.support import clients

pytestmark = pytest.mark.broker


def test_what_comes_after_an_open_transaction_is_read_too(
    kafka: Sandbox, new_topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    """The kind: the judge misses what the judged one sees, and calls it late."""
    topic, group, at = new_topic(partitions=2), unique("open"), kafka.bootstrap
    clients.commit(at, group, {(topic, 0): 3})
    producer = Producer({"bootstrap.servers": at, "transactional.id": group, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(at, group)
    metadata = reader.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(topic, 1, 7)], metadata, 30)
    reader.close()
    clients.delete_groups(at, group)
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(truth.read_log, at)
        time.sleep(5)
        was_done = work.done()
        producer.abort_transaction(30)
        read = work.result(60)
    mine = [each.record for each in read if each.record.key.group == group]
    offsets = [(record.key.partition, record.value) for record in mine if record.type in (0, 1)]
    commits = [partition for partition, value in offsets if value is not None]
    assert commits == [0], "the commit that was aborted counts"
    assert (0, None) in offsets, "the deletion is missed"
    assert not was_done
