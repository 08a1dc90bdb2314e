"""The cluster's topics, and which of the topics and partitions asked for exist."""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.client.cluster import Cluster, fetch_metadata, fetch_topic
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import ItemError, Target, TopicPartition, TopicSpec
from kgtool.protocol.codes import UNKNOWN_TOPIC_OR_PARTITION, broker_error


def all_topics(cluster: Cluster) -> Operation[list[str]]:
    """Return the names of all topics that this login may see.

    :raises KgError: no broker answered.
    """
    yield from fetch_metadata(cluster, None)
    return sorted(name for name, topic in cluster.topics.items() if topic.error is None)


def topic_sizes(cluster: Cluster) -> dict[str, int]:
    """Return how many partitions the known topics have."""
    return {name: len(topic.leaders) for name, topic in cluster.topics.items()}


def refresh(cluster: Cluster) -> Operation[None]:
    """Forget topics and coordinators, which may have changed, and fetch the brokers.

    :raises KgError: no broker answered.
    """
    cluster.topics.clear()
    cluster.coordinators.clear()
    yield from fetch_metadata(cluster)


def missing_topics(
    cluster: Cluster, asked: Iterable[TopicSpec], found: Iterable[TopicPartition]
) -> Operation[list[ItemError]]:
    """Return an error for each topic or partition that does not exist, or may not be seen.

    :param found: partitions known from elsewhere: offsets outlive their topic.
    """
    known = set(found)
    topics = {partition.topic for partition in known}
    missing = broker_error(UNKNOWN_TOPIC_OR_PARTITION)
    errors = []
    for spec in asked:
        numbers = [n for n in spec.partitions or () if (spec.topic, n) not in known]
        # Only what is not known is asked for: silent brokers may have used up the time.
        if not numbers and (spec.partitions is not None or spec.topic in topics):
            continue
        info = yield from fetch_topic(cluster, spec.topic)
        if info.error is None:
            absent = [number for number in numbers if number not in info.leaders]
            errors += [ItemError.of(missing, Target(None, spec.topic, n)) for n in absent]
        elif spec.topic not in topics:
            errors.append(ItemError.of(info.error, Target(topic=spec.topic)))
    return errors


def expand(
    cluster: Cluster, specs: Iterable[TopicSpec]
) -> tuple[list[TopicPartition], dict[str, KgError]]:
    """Return the partitions that ``--topic`` arguments name, and why some topics have none.

    The cluster knows the topics already.
    """
    wanted: set[TopicPartition] = set()
    unknown: dict[str, KgError] = {}
    for spec in specs:
        topic = None if spec.partitions is not None else cluster.topics[spec.topic]
        if topic is not None and topic.error is not None:
            unknown[spec.topic] = topic.error
            continue
        numbers = spec.partitions if topic is None else topic.leaders
        wanted.update(TopicPartition(spec.topic, number) for number in numbers or ())
    return sorted(wanted), unknown
