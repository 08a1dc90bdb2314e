"""librdkafka's mock cluster, whose Metadata v13 is a byte longer than Kafka's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.support.faulty import kgtool


@pytest.fixture
def bootstrap() -> Iterator[str]:
    def quiet(*_: object) -> None:
        pass

    config = {"test.mock.num.brokers": 3, "bootstrap.servers": "none", "log_level": 0}
    holder = Producer(config, error_cb=quiet)  # the cluster lives as long as this client
    brokers = holder.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del holder


def test_bytes_left_over_after_metadata_are_a_warning(bootstrap: str) -> None:
    """They ended everything; librdkafka's own clients go on."""
    done = kgtool("request", "Metadata", "--bootstrap-server", bootstrap)
    assert done.status == 0, done
    assert '"nodeId": 3' in done.out
    assert done.err.count("bytes left over after MetadataResponse") == 1
    assert "UserWarning" not in done.err and "channel.py" not in done.err


def test_doctor_knows_that_it_is_no_kafka(bootstrap: str) -> None:
    done = kgtool("doctor", "--bootstrap-server", bootstrap, "-o", "json", "--timeout", "8000")
    found = [row for row in done.document["results"] if row["finding"] == "not-kafka"]
    assert len(found) == 1, done
    assert "OffsetDelete" in found[0]["evidence"]["lacks"], done
    assert "broker-old" not in done.out, done
