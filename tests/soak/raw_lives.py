"""Lives of members that no library makes: they crash, come back with other topics, speak another
protocol, send subscriptions that can't be parsed, and change the type of their group."""

from __future__ import annotations

import time
import uuid
from typing import Any

from kgtool.protocol.api import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from kgtool.records.subscription import encode_topics
from kgtool.sandbox.seeding.group_client import GroupClient, Membership, connect
from tests.soak.lives import Life, World, now_ms

SESSION_MS = 7_000


class RawMember(Life):
    """The only member of its group, over a socket of its own: it can vanish without a word."""

    kind = "raw"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        chosen = self.random.random()
        self.protocol_type = "consumer" if chosen < 0.85 else "connect"
        self.is_garbled = chosen > 0.75
        self.instance = f"i-{self.group}" if self.random.random() < 0.5 else None
        self.client: GroupClient | None = None
        self.member: Membership | None = None
        self._next = 0.0

    def act(self) -> None:
        chosen = self.random.random()
        if self.member is None:
            if chosen < 0.6:
                self.enter()
            elif chosen < 0.8:
                self.commit()
            elif chosen < 0.92:
                self.delete_offsets()
            else:
                self.delete_group()
        elif chosen < 0.4:
            self.commit(self.member, self.instance)
        elif chosen < 0.6:
            self.enter()
        elif chosen < 0.7:
            self.delete_offsets()
        elif chosen < 0.85 or self.instance is None:
            self.leave()
        else:
            self.crash()

    def _topics(self) -> list[str]:
        mine = sorted({topic for topic, _ in self.keys if topic in self.world.topics})
        return self.random.sample(mine, min(len(mine), self.random.randint(1, 2)))

    def enter(self) -> None:
        """Join; a static member that is in comes back as after a restart, a dynamic one rejoins."""
        self._closed()
        self.client = connect(self.world.at, self.group, "truth")
        known = "" if self.member is None or self.instance else self.member.member_id
        data = b"\xff" if self.is_garbled else encode_topics(self._topics())
        request = join_group.Request(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=10_000,
            member_id=known,
            group_instance_id=self.instance,
            protocol_type=self.protocol_type,
            protocols=[join_group.RequestProtocol(name="range", metadata=data)],
        )
        self.has_members, self.empty_ms = True, 0
        reply = self.client.ask(request, 5 if self.instance else 2)
        self.member = Membership(self.group, reply.generation_id, reply.member_id)
        own = sync_group.RequestAssignment(member_id=reply.member_id, assignment=b"")
        leads = reply.leader == reply.member_id
        self.client.ask(
            sync_group.Request(**self._identity(), assignments=[own] if leads else []), 3
        )

    def beat(self) -> None:
        if self.client is None or self.member is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1.5
        reply = self.client.exchange(heartbeat.Request(**self._identity()), 3)
        if reply.error_code:
            self.touch()
            self.enter() if reply.error_code == 27 else self.crash()

    def leave(self) -> None:
        """Leave in order, by the member's id."""
        if self.instance is None and self.client is not None and self.member is not None:
            self.client.ask(
                leave_group.Request(group_id=self.group, member_id=self.member.member_id), 2
            )
        self.crash()

    def crash(self) -> None:
        """Vanish: the session times out."""
        self._closed()
        self.member, self.has_members, self.empty_ms = None, False, now_ms()

    def _closed(self) -> None:
        if self.client is not None:
            self.client.close()
        self.client = None

    def _identity(self) -> dict[str, Any]:
        assert self.member is not None
        group, generation, member_id = self.member
        return {
            "group_id": group,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": self.instance,
        }

    def stop(self) -> None:
        self._closed()


class Converted(RawMember):
    """A group that changes between the classic protocol and KIP-848 whenever it is Empty."""

    kind = "converted"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.protocol_type, self.is_garbled, self.instance = "consumer", False, None
        self.is_modern = False

    def enter(self) -> None:
        if self.member is None:
            self.is_modern = self.random.random() < 0.6
        if not self.is_modern:
            super().enter()
            return
        self._closed()
        self.client = connect(self.world.at, self.group, "truth")
        self.has_members, self.empty_ms = True, 0
        known = self.member
        topics = self._topics()
        regex = f"^{topics[0]}.*" if topics and self.random.random() < 0.3 else None
        reply = self.client.ask(
            consumer_group_heartbeat.Request(
                group_id=self.group,
                member_id=known.member_id if known else str(uuid.uuid4()),
                member_epoch=known.generation if known else 0,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=[] if regex else topics,
                subscribed_topic_regex=regex or "",
                topic_partitions=None if known else [],
            ),
            1,
        )
        self.member = Membership(self.group, reply.member_epoch, reply.member_id)

    def beat(self) -> None:
        if not self.is_modern:
            super().beat()
        elif self.member is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + 1.5
            self._send(self.member.generation)

    def _send(self, epoch: int) -> None:
        if self.client is None or self.member is None:
            self.crash()
            return
        request = consumer_group_heartbeat.Request(
            group_id=self.group, member_id=self.member.member_id, member_epoch=epoch
        )
        reply = self.client.exchange(request, 1)
        if reply.error_code:
            self.touch()
            self.crash()
        else:
            self.member = self.member._replace(generation=reply.member_epoch)

    def leave(self) -> None:
        if self.is_modern and self.client is not None:
            self._send(-1)
            self.crash()
        else:
            super().leave()

    def is_young(self, key: tuple[str, int]) -> bool:
        """By the commit and by the state: either protocol may decide."""
        return super().is_young(key) and self.deadline_ms.get(key, 0) > now_ms()
