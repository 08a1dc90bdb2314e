"""Which of the topics and partitions that were asked for the cluster has."""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.client.cluster import Cluster, know_topic
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import ItemError, Target, TopicPartition, TopicSpec
from kgtool.protocol.codes import UNKNOWN_TOPIC_OR_PARTITION, broker_error


def missing_topics(
    cluster: Cluster, asked: Iterable[TopicSpec], found: Iterable[TopicPartition]
) -> Operation[list[ItemError]]:
    """Return an error for each topic or partition that is not there, or may not be seen.

    :param found: partitions known from elsewhere: offsets outlive their topic.
    """
    known = set(found)
    topics = {partition.topic for partition in known}
    missing = broker_error(UNKNOWN_TOPIC_OR_PARTITION)
    errors = []
    # Of the others no question: brokers that are silent may have used up the time.
    for spec in [spec for spec in asked if _not_in(known, topics, spec)]:
        info = yield from know_topic(cluster, spec.topic)
        if info.error is not None:
            if spec.topic not in topics:
                errors.append(ItemError.of(info.error, Target(topic=spec.topic)))
            continue
        errors += [
            ItemError.of(missing, Target(None, spec.topic, number))
            for number in spec.partitions or ()
            if number not in info.leaders and TopicPartition(spec.topic, number) not in known
        ]
    return errors


def _not_in(known: set[TopicPartition], topics: set[str], spec: TopicSpec) -> bool:
    if spec.partitions is None:
        return spec.topic not in topics
    return any(TopicPartition(spec.topic, number) not in known for number in spec.partitions)


def expand(
    cluster: Cluster, specs: Iterable[TopicSpec]
) -> tuple[list[TopicPartition], dict[str, KgError]]:
    """Turn ``--topic`` arguments into partitions, and topics that can't be had, and why.

    The cluster knows the topics already.
    """
    wanted: set[TopicPartition] = set()
    unknown: dict[str, KgError] = {}
    for spec in specs:
        if spec.partitions is not None:
            wanted.update(TopicPartition(spec.topic, number) for number in spec.partitions)
            continue
        topic = cluster.topics[spec.topic]
        if topic.error is not None:
            unknown[spec.topic] = topic.error
        else:
            wanted.update(TopicPartition(spec.topic, number) for number in topic.leaders)
    return sorted(wanted), unknown
