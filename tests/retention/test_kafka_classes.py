"""The rules and the replay against Kafka's own group coordinators, on random lives of groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kgtool.records import Record
from kgtool.records.types import GROUP_TYPES
from kgtool.retention.history import Entry, History
from kgtool.retention.rules import RULE_SETS
from tests.retention.coordinator import Coordinators, RefusedError, coordinators
from tests.retention.lives import ALL_TYPES, START_MS, Life
from tests.retention.simulation import Removed, simulate
from tests.support import seeds

RETENTION_MINUTES = 1
INTERVAL_MS = 20_000
CHECKS = 12
END_MS = START_MS + CHECKS * INTERVAL_MS
LIVES = 80
RULES_AND_TYPES = {
    # Offsets of a share group, which no broker takes, break the check of both.
    "4.4.0": ("4.1", tuple(name for name in ALL_TYPES if name != "share")),
    # Streams groups did not exist.
    "3.9.1": ("3.8-new", ("classic", "consumer")),
}


@pytest.fixture(scope="module", params=RULES_AND_TYPES)
def kafka(request: pytest.FixtureRequest) -> Iterator[Coordinators]:
    with coordinators(request.param) as found:
        yield found


def removals_by_kafka(
    kafka: Coordinators, entries: list[Entry]
) -> tuple[list[Entry], list[Removed]]:
    """Feed a real coordinator; what it took in, and what its checks removed.

    A life doesn't know what the checks remove, so it may go on with a group that is gone. A
    broker would not have written that, and 3.9 refuses to replay it: it is left out.
    """
    coordinator = kafka.coordinator(RETENTION_MINUTES)
    taken: list[Entry] = []
    removed: list[Removed] = []
    waiting, offset = list(entries), len(entries)
    for now_ms in range(START_MS + INTERVAL_MS, END_MS + 1, INTERVAL_MS):
        while waiting and waiting[0].timestamp_ms <= now_ms:
            entry = waiting.pop(0)
            try:
                coordinator.replay(entry)
            except RefusedError:
                continue
            taken.append(entry)
        for record in coordinator.check(now_ms):
            offset += 1
            coordinator.replay(Entry(0, offset, now_ms, record))
            if record.type == 1 or record.type in GROUP_TYPES:
                removed.append(_removed(now_ms, record))
    return taken, removed


def _removed(now_ms: int, record: Record) -> Removed:
    key = record.key
    if record.type in GROUP_TYPES:
        return Removed(now_ms, key.group)
    return Removed(now_ms, key.group, key.topic, key.partition)


def _order(removed: Removed) -> tuple[object, ...]:
    return removed.at_ms, removed.group, removed.topic or "~", removed.partition or 0


def test_the_same_is_removed_at_the_same_checks(kafka: Coordinators) -> None:
    name, types = RULES_AND_TYPES[kafka.version]
    offsets = groups = 0
    for seed in range(LIVES):
        log = Life(
            seeds.rng(name, seed), rejoins=False, types=types, regexes=kafka.version >= "4"
        ).run(30, 12_000)
        taken, theirs = removals_by_kafka(kafka, log.entries)
        ours = simulate(
            taken, RULE_SETS[name], RETENTION_MINUTES * 60_000, INTERVAL_MS, END_MS, START_MS
        )
        assert sorted(ours, key=_order) == sorted(theirs, key=_order), f"seed {seed}"
        offsets += sum(removed.topic is not None for removed in theirs)
        groups += sum(removed.topic is None for removed in theirs)
    assert offsets > LIVES
    assert groups > LIVES // 3


def test_the_scala_coordinator_expires_the_same_offsets() -> None:
    """3.9's default, on the state that a log leaves, to the millisecond."""
    rules, retention_ms = RULE_SETS["2.4"], RETENTION_MINUTES * 60_000
    went = kept = 0
    with coordinators("3.9.1") as kafka:
        for seed in range(LIVES):
            life = Life(seeds.rng("scala", seed), rejoins=False, types=("classic",))
            log = life.run(30, 6_000)
            history, metadata = History(rules, retention_ms), dict.fromkeys(life.groups)
            for entry in log.entries:
                history.feed(entry)
                if isinstance(entry.record, Record) and entry.record.type == 2:
                    gone = entry.record.value is None
                    metadata[entry.record.key.group] = None if gone else entry.record
            for group in life.groups:
                offsets = history.offsets(group)
                times = {
                    key: live.verdict.expires_at_ms
                    for key in offsets
                    if (live := history.live_offset(key)) is not None
                }
                moments = {at + shift for at in times.values() if at for shift in (-1, 0)}
                for now_ms in moments | {life.now_ms, END_MS}:
                    ours = {key for key, at in times.items() if at is not None and at <= now_ms}
                    theirs = kafka.expired_in_scala(metadata[group], offsets, now_ms, retention_ms)
                    assert ours == theirs, f"seed {seed}, {group} at {now_ms}"
                    went += len(ours)
                    kept += len(offsets) - len(ours)
    assert went > LIVES
    assert kept > LIVES
