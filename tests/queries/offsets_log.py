"""A broker with one partition of ``__consumer_offsets``, in memory: answers without sockets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from kgtool.client.cluster import Cluster
from kgtool.model import Broker, GroupDescription, Member
from kgtool.protocol.api import (
    describe_configs,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    streams_group_describe,
)
from kgtool.retention.history import Entry
from kgtool.retention.rules import GroupSnapshot
from tests.analysis.writer import CONTROL, TRANSACTIONAL, Raw, batch
from tests.retention.logs import Log
from tests.support.script import Script, living

TOPIC = "__consumer_offsets"
EVERYWHERE = dict.fromkeys([*range(43), 55, 57, 64], (0, 0))
"""What is offered by every release, and by every one with KRaft."""
OFFERS = {
    "pre-2.1": {9: (0, 4)},
    "2.1": {9: (0, 5), 44: (0, 0)},
    "2.4": {9: (0, 5), 47: (0, 0)},
    "2.6": {9: (0, 7), 47: (0, 0), 48: (0, 0)},
    "2.7": {9: (0, 7), 47: (0, 0), 48: (0, 0), 50: (0, 0)},
    "3.7-new": {47: (0, 0), 69: (0, 0), 9: (0, 9)},
    "3.8-new": {10: (0, 6), 2: (1, 10), 9: (0, 9), 16: (0, 5)},
    "4.1": {9: (1, 10), 66: (0, 2), 89: (0, 0)},
}
"""What brokers of each rule set offer, of that by which their release is told."""


class RawLog(Log):
    """Keeps the bytes of each record too."""

    def __init__(self, partition: int = 0) -> None:
        super().__init__(partition)
        self.raw: list[bytes] = []

    def _add(
        self,
        at_ms: int,
        key: bytes,
        value: bytes | None,
        *,
        pid: int = -1,
        base: int | None = None,
        is_control: bool = False,
    ) -> Entry:
        attributes = (TRANSACTIONAL if pid != -1 else 0) | (CONTROL if is_control else 0)
        self.raw.append(
            batch(
                len(self.raw),
                [Raw(key, value, at_ms)],
                attributes=attributes,
                producer_id=pid,
                crc=lambda _: 0,
            )
        )
        return super()._add(at_ms, key, value, pid=pid, base=base, is_control=is_control)


class FakeBroker:
    """Answers as broker 1, which leads and coordinates everything.

    ``fetched`` are the offsets at which reading began, ``errors`` maps API keys to error codes.
    """

    def __init__(
        self,
        log: RawLog,
        rules: str = "4.1",
        *,
        retention_minutes: str | None = "60",
        interval_ms: str = "600000",
        errors: Mapping[int, int] = {},
        topologies: Mapping[str, frozenset[str]] = {},
        partitions: int = 1,
        epoch: int = -1,
    ) -> None:
        self.log = log
        self.errors = errors
        self.topologies = topologies
        self.partitions = partitions
        self.epoch = epoch
        self.fetched: list[int] = []
        self.times_asked: list[int] = []
        self.configs = {
            "offsets.retention.minutes": retention_minutes,
            "offsets.retention.check.interval.ms": interval_ms,
        }
        if rules in ("3.7-new", "3.8-new"):
            self.configs["group.coordinator.rebalance.protocols"] = "classic,consumer"
        self.script = Script(self.answer, {**EVERYWHERE, 10: (0, 4), **OFFERS[rules]})
        self.cluster = Cluster()
        self.cluster.brokers = {1: Broker(1, "b", 9092)}

    def run(self, operation: Any) -> Any:
        return self.script.run(operation)

    def answer(self, _broker: int, request: Any) -> Any:
        handlers = {
            find_coordinator.Request: self._coordinators,
            metadata.Request: self._metadata,
            describe_configs.Request: self._configs,
            list_offsets.Request: self._list_offsets,
            fetch.Request: self._fetch,
            streams_group_describe.Request: self._streams,
        }
        return handlers[type(request)](request)

    def _coordinators(self, request: Any) -> Any:
        rows = [
            find_coordinator.Coordinator(key=key, node_id=1, host="b", port=9092)
            for key in request.coordinator_keys
        ]
        return find_coordinator.Response(coordinators=rows, node_id=1, host="b", port=9092)

    def _metadata(self, request: Any) -> Any:
        parts = [
            metadata.Partition(partition=number, leader_id=1, leader_epoch=self.epoch)
            for number in range(self.partitions)
        ]
        error = self.errors.get(3, 0)
        topic = metadata.Topic(error_code=error, name=TOPIC, partitions=[] if error else parts)
        return metadata.Response(brokers=living(1), topics=[topic], controller_id=1)

    def _configs(self, request: Any) -> Any:
        code = self.errors.get(32, 0)
        rows = [
            describe_configs.Config(name=name, value=value)
            for name, value in self.configs.items()
            if value is not None
        ]
        result = describe_configs.Result(
            error_code=code, error_message=None, resource_name="1", configs=[] if code else rows
        )
        return describe_configs.Response(results=[result])

    def _list_offsets(self, request: Any) -> Any:
        times = [entry.timestamp_ms for entry in self.log.entries]
        rows = []
        for part in request.topics[0].partitions:
            asked = part.timestamp
            offset = {-1: len(times), -2: 0}.get(asked)
            if offset is None:
                self.times_asked.append(asked)
                at = bisect_left(times, asked)
                offset = at if at < len(times) else -1
            code = self.errors.get(2, 0)
            rows.append(
                list_offsets.Partition(
                    partition=part.partition, error_code=code, offset=-1 if code else offset
                )
            )
        return list_offsets.Response(topics=[list_offsets.Topic(name=TOPIC, partitions=rows)])

    def _fetch(self, request: Any) -> Any:
        rows = []
        for part in request.topics[0].partitions:
            self.fetched.append(part.fetch_offset)
            code = self.errors.get(1, 0)
            data = b"".join(self.log.raw[part.fetch_offset : part.fetch_offset + 7])
            rows.append(
                fetch.Partition(
                    partition=part.partition,
                    error_code=code,
                    high_watermark=len(self.log.raw),
                    records=None if code else data,
                )
            )
        return fetch.Response(topics=[fetch.Topic(topic=TOPIC, partitions=rows)])

    def _streams(self, request: Any) -> Any:
        groups = []
        for name in request.group_ids:
            part = streams_group_describe.Subtopology(
                subtopology_id="0", source_topics=sorted(self.topologies[name])
            )
            topology = streams_group_describe.Topology(epoch=1, subtopologies=[part])
            groups.append(
                streams_group_describe.Group(group_id=name, group_state="Stable", topology=topology)
            )
        return streams_group_describe.Response(groups=groups)


def described(
    group: str, snapshot: GroupSnapshot | None, *, instance: str | None = None
) -> GroupDescription:
    """A group as DescribeGroups would describe it."""
    seen = snapshot or GroupSnapshot()
    members: tuple[Member, ...] = ()
    if seen.state != "Empty":
        members = (member(seen.subscribed_topics, instance=instance),)
    return GroupDescription(group, seen.type, seen.state, seen.protocol_type, "", None, members)


def member(
    topics: Iterable[str] | None, regex: str | None = None, *, instance: str | None = None
) -> Member:
    subscribed = None if topics is None else tuple(sorted(topics))
    return Member("m", instance, "client", "/1", (), subscribed, subscribed_regex=regex)
