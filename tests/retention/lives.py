"""Random lives of groups, as logs that a broker could have written."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kgtool.protocol.api.streams_group_describe import TopicInfo
from kgtool.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
)
from kgtool.records.share import ShareGroupMemberMetadataValue, ShareGroupMetadataValue
from kgtool.records.streams import (
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTopologyValue,
    Subtopology,
)
from tests.retention.logs import Log

START_MS = 1_700_000_000_000
TOPICS = ("t1", "t2", "t3")
PRODUCERS = (7, 8)
ALL_TYPES = ("classic", "consumer", "streams", "share")


class Life:
    """Grows the log of some groups in one partition; each call of ``step`` is one event."""

    def __init__(
        self,
        rng: random.Random,
        *,
        types: Sequence[str] = ALL_TYPES,
        groups: int = 2,
        regexes: bool = True,
        rejoins: bool = True,
        static: bool = False,
    ) -> None:
        """:param rejoins: whether a generation may be written again, at any time.

        :param static: whether it may as brokers do that, when a static member is back.
        """
        self.rng = rng
        self.log = Log()
        self.types = types
        self.regexes = regexes
        self.rejoins = rejoins
        self.static = static
        self.stable: dict[str, dict[str, Any]] = {}
        """What a group's record has, if its members may come back in that generation."""
        self.generation = 0
        self.groups = [f"g{number}" for number in range(groups)]
        self.now_ms = START_MS
        self.types_now: dict[str, str] = {}
        self.members: dict[str, list[str]] = {}
        self.open: set[int] = set()

    def run(self, events: int, longest_pause_ms: int) -> Log:
        """Let so many things happen."""
        steps: list[Callable[[str], None]] = [
            self.commit,
            self.commit,
            self.commit,
            self.commit_in_transaction,
            self.end_transaction,
            self.join,
            self.join,
            self.leave,
            self.forget,
            self.vanish,
            *([self.come_back] * 3 if self.static else []),
        ]
        for _ in range(events):
            self.now_ms += self.rng.randint(1, longest_pause_ms)
            self.rng.choice(steps)(self.rng.choice(self.groups))
        return self.log

    # --- offsets -----------------------------------------------------------------------------

    def commit(self, group: str) -> None:
        ets = None
        if self.rng.random() < 0.2:
            ets = self.now_ms + self.rng.choice((-5_000, 10_000, 100_000, 200_000))
        for _ in range(self.rng.randint(1, 2)):
            self._commit(group, ets=ets)

    def commit_in_transaction(self, group: str) -> None:
        producer = self.rng.choice(PRODUCERS)
        self.open.add(producer)
        self._commit(group, pid=producer)

    def end_transaction(self, group: str) -> None:
        if self.open:
            producer = self.rng.choice(sorted(self.open))
            self.open.discard(producer)
            self.log.end_transaction(self.now_ms, producer, commit=self.rng.random() < 0.6)

    def forget(self, group: str) -> None:
        self.log.forget(self.now_ms, self.rng.choice(TOPICS), self.rng.randint(0, 1), group=group)

    def _commit(self, group: str, *, ets: int | None = None, pid: int = -1) -> None:
        topic, partition = self.rng.choice(TOPICS), self.rng.randint(0, 1)
        # A commit is stamped when it is made, its batch when it is written.
        stamped = self.now_ms - self.rng.choice((0, 0, 3))
        self.log.commit(
            self.now_ms,
            topic,
            partition,
            offset=self.rng.randint(0, 9),
            cts=stamped,
            ets=ets,
            pid=pid,
            group=group,
        )

    # --- groups ------------------------------------------------------------------------------

    def join(self, group: str) -> None:
        """Somebody joins; an empty group may take another type for it."""
        type_ = self.types_now.get(group)
        if not self.members.get(group):
            wanted = self.rng.choice(self.types)
            if wanted != type_ and (type_ is not None or wanted != "classic"):
                # A simple group is replaced like a classic one: by a tombstone first.
                self._end(group, type_ or "classic")
            type_ = self.types_now[group] = wanted
        assert type_ is not None
        name = f"m{self.rng.randint(0, 2)}"
        members = self.members.setdefault(group, [])
        if name not in members:
            members.append(name)
        getattr(self, f"_join_{type_}")(group, name)

    def leave(self, group: str) -> None:
        members = self.members.get(group)
        if members:
            name = members.pop(self.rng.randrange(len(members)))
            getattr(self, f"_leave_{self.types_now[group]}")(group, name)

    def vanish(self, group: str) -> None:
        """The group's record goes, its offsets stay: what makes orphans."""
        if not self.members.get(group) and group in self.types_now and self.rng.random() < 0.4:
            self._end(group, self.types_now.pop(group))

    def _topics(self) -> list[str]:
        return self.rng.sample(TOPICS, self.rng.randint(0, 2))

    def _join_classic(self, group: str, name: str) -> None:
        self._classic(group)

    def _leave_classic(self, group: str, name: str) -> None:
        self._classic(group)

    def _classic(self, group: str) -> None:
        subscriptions: list[Sequence[str] | bytes] = [
            b"\x00\x00bad" if self.rng.random() < 0.1 else self._topics()
            for _ in self.members[group]
        ]
        types = ["consumer", "consumer", "consumer", "connect"]
        self.generation += 1
        # Only a group that never had members is stored without a protocol type.
        protocol_type = self.rng.choice(types if subscriptions else [*types, ""])
        cst = self.rng.choice((None, self.now_ms - 2, self.now_ms, self.now_ms))
        generation = self.rng.randint(0, 2) if self.rejoins else self.generation
        record = {"protocol_type": protocol_type, "cst": cst, "generation": generation}
        can_come_back = self.static and subscriptions and cst is not None
        self.stable.pop(group, None)
        if can_come_back:
            self.stable[group] = record
        self.log.classic(
            self.now_ms, subscriptions, static=bool(can_come_back), group=group, **record
        )

    def come_back(self, group: str) -> None:
        """A static member is back in its session, with any topics (from 1 s on)."""
        record = self.stable.get(group)
        is_stable = self.types_now.get(group) == "classic" and self.members.get(group)
        if record is not None and is_stable and self.now_ms - record["cst"] > 1_000:
            topics = [self._topics() for _ in self.members[group]]
            self.log.classic(self.now_ms, topics, static=True, group=group, **record)

    def _join_consumer(self, group: str, name: str) -> None:
        regex = "t.*" if self.regexes and self.rng.random() < 0.3 else ""
        if regex:
            topics = ConsumerGroupRegularExpressionValue(topics=self._topics())
            self._append(group, 16, topics, regular_expression=regex)
        self.log.member(self.now_ms, name, self._topics(), regex=regex, group=group)
        self._append(group, 3, ConsumerGroupMetadataValue(epoch=1))
        current = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1)
        self._append(group, 8, current, member_id=name)

    def _leave_consumer(self, group: str, name: str) -> None:
        for number in (8, 7, 5):
            self._append(group, number, None, member_id=name)
        if self.regexes and not self.members[group]:
            self._append(group, 16, None, regular_expression="t.*")
        self._append(group, 3, ConsumerGroupMetadataValue(epoch=2))

    def _join_streams(self, group: str, name: str) -> None:
        source, sink = self._topics(), [TopicInfo(name=topic) for topic in self._topics()]
        parts = [
            Subtopology(subtopology_id="0", source_topics=source),
            Subtopology(subtopology_id="1", repartition_source_topics=sink),
        ]
        self._append(group, 23, StreamsGroupTopologyValue(epoch=1, subtopologies=parts))
        self._append(group, 19, StreamsGroupMemberMetadataValue(), member_id=name)
        self._append(group, 17, StreamsGroupMetadataValue(epoch=1))

    def _leave_streams(self, group: str, name: str) -> None:
        for number in (22, 21, 19):
            self._append(group, number, None, member_id=name)
        self._append(group, 17, StreamsGroupMetadataValue(epoch=2))

    def _join_share(self, group: str, name: str) -> None:
        value = ShareGroupMemberMetadataValue(subscribed_topic_names=self._topics())
        self._append(group, 10, value, member_id=name)
        self._append(group, 11, ShareGroupMetadataValue(epoch=1))

    def _leave_share(self, group: str, name: str) -> None:
        for number in (14, 13, 10):
            self._append(group, number, None, member_id=name)

    def _end(self, group: str, type_: str) -> None:
        numbers = {
            "classic": (2,),
            "consumer": (6, 4, 3),
            "streams": (20, 17, 23),
            "share": (12, 11),
        }
        for number in numbers[type_]:
            self._append(group, number, None)

    def _append(self, group: str, number: int, value: object, **key: str) -> None:
        self.log.append(self.now_ms, number, 0, value, group=group, **key)  # type: ignore[arg-type]
