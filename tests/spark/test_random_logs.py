"""Random logs of all kinds of groups: Spark and the replay in plain Python agree on every row."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis
from kgtool.protocol.plan import encode
from kgtool.records import record_types
from kgtool.records.consumer_group import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
)
from kgtool.records.control import Marker
from kgtool.records.group_metadata import GroupMetadataValue, MemberMetadata
from kgtool.records.offset_commit import OffsetCommitValue
from kgtool.retention.audit import audit
from kgtool.retention.history import Entry, History, Key, read_entry
from kgtool.retention.rules import RULE_SETS, RuleSet
from tests.analysis.writer import CONTROL, TRANSACTIONAL, Raw, batch
from tests.retention import unseen_loads
from tests.retention.logs import subscription
from tests.support.tables import Make, rows_of, shown

pytestmark = pytest.mark.spark
START_MS = 1_795_265_000_000
RETENTION_MS = 60_000
GROUPS, EVENTS, PARTITIONS, SEED = 120, 30, 3, 4


class Writer:
    """One partition's log: bytes for Spark, entries for the replay."""

    def __init__(
        self, partition: int, rng: random.Random, *, kip_848: bool, plain: frozenset[str]
    ) -> None:
        self.partition, self.rng, self.kip_848, self.plain = partition, rng, kip_848, plain
        self.now = START_MS
        self.data = b""
        self.entries: list[Entry] = []
        self.open: dict[int, set[str]] = {}

    def write(self, *records: tuple[bytes, bytes | None], pid: int = -1, control: int = 0) -> None:
        base = len(self.entries)
        attributes = (TRANSACTIONAL if pid >= 0 else 0) | control
        raws = [Raw(key, value, self.now) for key, value in records]
        codec = self.rng.choice(["none", "none", "none", "lz4", "snappy-java"])
        self.data += batch(base, raws, attributes=attributes, producer_id=pid, codec=codec)
        for i, (key, value) in enumerate(records):
            self.entries.append(
                read_entry(
                    self.partition,
                    base + i,
                    self.now,
                    key,
                    value,
                    producer_id=pid,
                    transactional=pid >= 0,
                    is_control=bool(control),
                    base_offset=base,
                )
            )

    def key(self, number: int, group: str, **fields: Any) -> bytes:
        return struct.pack(">h", number) + encode(
            record_types()[number].key(group=group, **fields), 0
        )

    # --- one random event ---

    def event(self, group: str) -> None:
        self.now += self.rng.choice([1, 20, 500, 4000, 20_000])
        kinds = [self.commit] * 6 + [self.forget] * 2 + [self.classic] * 2
        kinds += [self.end] if group in self.plain else [self.transaction] * 3 + [self.end]
        if self.kip_848:
            kinds += [self.member] * 2 + [self.leave, self.upgrade]
        self.rng.choice(kinds)(group)

    def commit(self, group: str, pid: int = -1) -> None:
        rng = self.rng
        version = rng.choice([0, 1, 1, 2, 3, 3, 4])
        own = rng.choice([-1, self.now + rng.choice([-5000, 5000, 100_000])])
        value = OffsetCommitValue(
            offset=rng.randrange(10**6),
            commit_timestamp=self.now - rng.choice([0, 0, 0, 70_000, -30_000]),
            **({"expire_timestamp": own} if version == 1 else {}),
            **({"metadata": rng.choice(["", "é" * 100])} if version else {}),
        )
        raw = struct.pack(">h", version) + encode(value, version)
        keys = {self.offset_key(group) for _ in range(rng.choice([1, 1, 3]))}
        self.write(*[(key, raw) for key in sorted(keys)], pid=pid)

    def offset_key(self, group: str) -> bytes:
        topic, partition = self.rng.choice(["t1", "t2"]), self.rng.choice([0, 1])
        return self.key(1, group, topic=topic, partition=partition)

    def forget(self, group: str) -> None:
        keys = {self.offset_key(group) for _ in range(self.rng.choice([1, 2, 4]))}
        rows = [(key, None) for key in sorted(keys)]
        if self.rng.random() < 0.3:
            rows.append((self.key(2, group), None))
        self.write(*rows)

    def classic(self, group: str) -> None:
        rng = self.rng
        topics = rng.choice([[], [], [["t1"]], [["t1"], ["t2"]], [None]])
        members = [
            MemberMetadata(
                member_id=f"m{i}",
                session_timeout=1,
                subscription=b"\x00" if names is None else subscription(names),
            )
            for i, names in enumerate(topics)
        ]
        value = GroupMetadataValue(
            protocol_type=rng.choice(["consumer", "consumer", "connect", ""]),
            generation=rng.choice([0, 3]),
            protocol="range" if members else None,
            current_state_timestamp=rng.choice([-1, self.now, self.now - 7]),
            members=members,
        )
        self.write((self.key(2, group), b"\x00\x03" + encode(value, 3)))

    def member(self, group: str) -> None:
        value = ConsumerGroupMemberMetadataValue(
            subscribed_topic_names=self.rng.choice([["t1"], ["t2"], ["t1", "t2"], []]),
            classic_member_metadata=None,
        )
        name = self.rng.choice(["m", "n"])
        key = self.key(5, group, member_id=name)
        self.write((key, b"\x00\x00" + encode(value, 0)))

    def upgrade(self, group: str) -> None:
        """A classic group that goes on under KIP-848, in one batch."""
        value = ConsumerGroupMemberMetadataValue(
            subscribed_topic_names=["t1"], classic_member_metadata=None
        )
        self.write(
            (self.key(2, group), None),
            (self.key(5, group, member_id="u"), b"\x00\x00" + encode(value, 0)),
            (self.key(3, group), b"\x00\x00" + encode(ConsumerGroupMetadataValue(epoch=1), 0)),
        )

    def leave(self, group: str) -> None:
        # A member can only leave a group of its own kind.
        kinds = [e.record.type for e in self.entries if _is_of(e, group)]
        if kinds and kinds[-1] in (3, 5):
            self.write((self.key(5, group, member_id=self.rng.choice(["m", "n", "u"])), None))

    def end(self, group: str) -> None:
        self.write((self.key(self.rng.choice([2, 3]) if self.kip_848 else 2, group), None))

    def transaction(self, group: str) -> None:
        """A transactional commit, or the end of an open transaction."""
        pid = self.rng.randrange(4)
        if pid in self.open and self.rng.random() < 0.6:
            del self.open[pid]
            marker = struct.pack(">hh", 0, int(self.rng.random() < 0.6))
            self.write((marker, bytes(6)), pid=pid, control=CONTROL)
        else:
            self.open.setdefault(pid, set()).add(group)
            self.commit(group, pid)


def _is_of(entry: Entry, group: str) -> bool:
    record = entry.record
    is_group = getattr(record, "type", None) in (2, 3, 5) and hasattr(record, "key")
    return is_group and getattr(record.key, "group", None) == group


def write_log(
    folder: Path, seed: int, *, kip_848: bool, groups_in_all: int = GROUPS, plain: int = 0
) -> list[Entry]:
    """Groups overlap in time, each in its partition; every partition is two segments.

    :param plain: how many of the groups never commit within a transaction.
    """
    without = frozenset(f"g{number}" for number in range(plain))
    rng = random.Random(seed)
    entries: list[Entry] = []
    for partition in range(PARTITIONS):
        writer = Writer(partition, rng, kip_848=kip_848, plain=without)
        groups = [f"g{n}" for n in range(partition, groups_in_all, PARTITIONS)]
        target = folder / f"__consumer_offsets-{partition}"
        target.mkdir(parents=True)
        first, half = 0, len(groups) // 2
        for at in range(0, len(groups), 5):
            some = groups[at : at + 5]
            for _ in range(EVENTS * len(some)):
                writer.event(rng.choice(some))
            if at + 5 >= len(groups) or first == 0 and at >= half:
                (target / f"{first:020}.log").write_bytes(writer.data)
                first, writer.data = len(writer.entries), b""
        entries += writer.entries
    return sorted(entries, key=lambda entry: (entry.partition, entry.offset))


@pytest.mark.parametrize("name", RULE_SETS)
def test_same_rows_as_the_replay(engine: Make, tmp_path: Path, name: str) -> None:
    rules = RULE_SETS[name]
    # A Scala coordinator never met the records of KIP-848.
    entries = write_log(tmp_path, SEED, kip_848=rules.new_coordinator)
    basis = broker_settings.settings_from(None, name, RETENTION_MS, 5000)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis)
    found = Counter(map(tuple, rows_of(analysis, "removals")))
    expected = Counter(map(shown, audit(entries, rules, RETENTION_MS, 5000)))
    assert sum(expected.values()) > 500
    assert {row[4] for row in expected} >= {"expired", "explicit", "group-empty", None}
    _same(found, expected)

    history = History(rules, RETENTION_MS)
    for entry in entries:
        history.feed(entry)
    unknown = _unknown(entries, rules)
    _same(
        Counter(
            (
                r.group,
                r.topic,
                r.partition,
                r.offset,
                r.commit_timestamp_ms,
                r.rule,
                r.expires_at_ms,
                r.pending_transaction,
            )
            for r in rows_of(analysis, "live")
        ),
        Counter(
            (
                *e.key,
                e.stored.value.offset,
                e.stored.committed.commit_timestamp_ms,
                *((None, None) if e.key in unknown else (e.verdict.rule, e.expires_at_ms)),
                e.is_pending,
            )
            for e in history.live()
        ),
    )


def _unknown(entries: list[Entry], rules: RuleSet) -> set[Key]:
    """The offsets of which a load decides that no log shows; each group's by itself, which is
    enough and faster."""
    markers: dict[int, list[Entry]] = {}
    groups: dict[str, list[Entry]] = {}
    for entry in entries:  # in log order, so that markers stay behind what they end
        if isinstance(entry.record, Marker):
            markers.setdefault(entry.partition, []).append(entry)
        else:
            groups.setdefault(entry.record.key.group, []).append(entry)
    found: set[Key] = set()
    for own in groups.values():
        some = sorted([*own, *markers.get(own[0].partition, [])], key=lambda each: each.offset)
        told = unseen_loads.told(some, rules, RETENTION_MS)
        found.update(key for key, said in told.items() if said == (None, None))
    return found


def _same(found: Counter[Any], expected: Counter[Any]) -> None:
    missing, extra = expected - found, found - expected
    shown = sorted(map(str, missing))[:5], sorted(map(str, extra))[:5]
    assert not missing and not extra, (sum(missing.values()), sum(extra.values()), *shown)
