"""Group members that no consumer library makes, over blocking sockets.

A Connect worker has a protocol type of its own, a streams group needs Kafka Streams, and two
hundred console consumers that come and go within seconds need no two hundred clients.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.errors import KgError, SandboxError
from kgtool.protocol.api import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    streams_group_heartbeat,
    sync_group,
)
from kgtool.protocol.as_json import error_codes
from kgtool.protocol.codes import code
from kgtool.protocol.frame import encode_request, skip_response_header
from kgtool.protocol.plan import decode, encode
from kgtool.protocol.schema import Struct
from kgtool.records.subscription import ConsumerProtocolAssignment, OwnedPartitions
from kgtool.sandbox.ready import wait_until

HEARTBEAT_S = 2.0
JOIN_EPOCH = 0


class Membership(NamedTuple):
    """One member of one generation of a group."""

    group: str
    generation: int
    member_id: str


class GroupClient:
    """One connection to one broker; the last versions without tagged fields, mostly."""

    def __init__(self, host: str, port: int, client_id: str, timeout: float = 30.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout)
        self._replies = self._socket.makefile("rb")
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> GroupClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the coordinator notices when the session times out."""
        self._replies.close()
        self._socket.close()

    def join(self, group: str, protocol_type: str, protocol: str, metadata: bytes) -> Membership:
        """Join as the only member, hence the leader (v2: without MEMBER_ID_REQUIRED)."""
        request = join_group.Request(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            protocol_type=protocol_type,
            protocols=[join_group.RequestProtocol(name=protocol, metadata=metadata)],
        )
        reply = self.ask(request, 2)
        return Membership(group, reply.generation_id, reply.member_id)

    def sync(self, member: Membership, assignment: bytes) -> None:
        """Give the only member its assignment."""
        own = sync_group.RequestAssignment(member_id=member.member_id, assignment=assignment)
        self.ask(sync_group.Request(**_identity(member), assignments=[own]), 0)

    def heartbeat(self, member: Membership) -> None:
        """Send the heartbeat of a classic member."""
        self.ask(heartbeat.Request(**_identity(member)), 0)

    def leave(self, member: Membership) -> None:
        """Leave the group."""
        self.ask(leave_group.Request(group_id=member.group, member_id=member.member_id), 0)

    def commit(self, member: Membership, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of the partitions of one topic."""
        rows = [
            offset_commit.RequestPartition(partition=partition, offset=offset)
            for partition, offset in offsets.items()
        ]
        request = offset_commit.Request(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[offset_commit.RequestTopic(name=topic, partitions=rows)],
        )
        self.ask(request, 6)

    def coordinator(self, group: str) -> tuple[str, int]:
        """Return host and port of a group's coordinator, once there is one."""
        request = find_coordinator.Request(key=group)
        for _ in range(300):
            reply = self.exchange(request, 0)
            if not code(reply.error_code).retriable:
                break
            time.sleep(0.1)
        _check(request, group, reply)
        return reply.host, reply.port

    def ask(self, request: Any, version: int) -> Any:
        """Send a request of a group and return the reply.

        :raises SandboxError: the reply has an error code.
        """
        reply = self.exchange(request, version)
        _check(request, request.group_id, reply)
        return reply

    def exchange(self, request: Struct, version: int) -> Any:
        """Send a request and return the reply, error codes and all."""
        self._correlation_id += 1
        frame = encode_request(request, version, self._correlation_id, self._client_id)
        self._socket.sendall(frame)
        reply = self._read(int.from_bytes(self._read(4), "big"))
        body = skip_response_header(reply, request.KEY, version in request.FLEXIBLE)
        return decode(request.REPLY, version, reply, body)

    def _read(self, size: int) -> bytes:
        data = self._replies.read(size)
        if len(data) < size:
            raise SandboxError("The broker closed the connection while groups were seeded")
        return data


def connect(bootstrap: str, group: str, client_id: str) -> GroupClient:
    """Connect to the coordinator of a group."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with GroupClient(host, int(port), client_id) as first:
        return GroupClient(*first.coordinator(group), client_id)


def assignment(topic: str, partitions: Sequence[int]) -> bytes:
    """Write a consumer's assignment in SyncGroup, version 0, for one topic."""
    owned = OwnedPartitions(topic=topic, partitions=list(partitions))
    return b"\0\0" + encode(ConsumerProtocolAssignment(assigned_partitions=[owned]), 0)


def _identity(member: Membership) -> dict[str, Any]:
    group, generation, member_id = member
    return {"group_id": group, "generation_id": generation, "member_id": member_id}


def _check(request: Struct, group: str, reply: Struct) -> None:
    for error in error_codes(reply):
        if error.code:
            raise SandboxError(
                f"{request.NAME} of {group!r} failed: the broker answered with error code "
                f"{error.code}"
            )


class HeartbeatMember:
    """A member that joins when it is not in, and sends heartbeats whenever ``poll`` is called."""

    def __init__(self, bootstrap: str, group: str, client_id: str) -> None:
        self._bootstrap, self._group, self._client_id = bootstrap, group, client_id
        self._client: GroupClient | None = None
        self._next = 0.0

    def enter(self, within: float) -> None:
        """Try to join until it is a member.

        :raises SandboxError: it is not one after ``within`` seconds.
        """
        complaint = f"{self._group!r} had no member after {within:.0f} s"
        wait_until(self.poll, within, complaint)

    def poll(self) -> bool:
        """Join or send a heartbeat, if it is time for that; return whether it is a member."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + HEARTBEAT_S
            try:
                if self._client is None:
                    self._client = connect(self._bootstrap, self._group, self._client_id)
                    self.join(self._client)
                self.beat(self._client)
            except (OSError, KgError):
                # The broker went away or forgot the member: join again next time.
                if self._client is not None:
                    self._client.close()
                self._client = None
        return self._client is not None

    def join(self, client: GroupClient) -> None:
        """Become a member."""
        raise NotImplementedError

    def beat(self, client: GroupClient) -> None:
        """Send a heartbeat."""
        raise NotImplementedError


class ConnectWorker(HeartbeatMember):
    """The only member of a Connect cluster's group."""

    _membership: Membership

    def join(self, client: GroupClient) -> None:
        """Join; of Connect's own protocol nothing is needed."""
        self._membership = client.join(self._group, "connect", "default", b"")
        client.sync(self._membership, b"")

    def beat(self, client: GroupClient) -> None:
        """Send a heartbeat."""
        client.heartbeat(self._membership)


class StreamsGroupMember(HeartbeatMember):
    """The only member of a streams group (KIP-1071), without Kafka Streams.

    Its first heartbeat declares the topology; as it takes every task, it has nothing to report.

    :param topology: the source topics of each subtopology.
    """

    def __init__(self, bootstrap: str, group: str, topology: Mapping[str, Sequence[str]]) -> None:
        super().__init__(bootstrap, group, f"{group}-1")
        subtopologies = [
            streams_group_heartbeat.Subtopology(subtopology_id=name, source_topics=list(topics))
            for name, topics in topology.items()
        ]
        self._first = streams_group_heartbeat.Request(
            group_id=group,
            member_id=str(uuid.uuid4()),
            member_epoch=JOIN_EPOCH,
            endpoint_information_epoch=-1,
            rebalance_timeout_ms=60_000,
            topology=streams_group_heartbeat.Topology(subtopologies=subtopologies),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=f"{group}-process",
        )
        self._following = streams_group_heartbeat.Request(
            group_id=group, member_id=self._first.member_id, endpoint_information_epoch=-1
        )
        self._epoch = JOIN_EPOCH

    def join(self, client: GroupClient) -> None:
        """Start over: the first heartbeat joins."""
        self._epoch = JOIN_EPOCH

    def beat(self, client: GroupClient) -> None:
        """Send a heartbeat; the reply has the epoch of the next one."""
        request = self._first if self._epoch == JOIN_EPOCH else self._following
        self._epoch = client.ask(request.replace(member_epoch=self._epoch), 0).member_epoch
