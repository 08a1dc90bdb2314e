"""The event-driven replay removes what the clock-driven simulation removes, at the same check."""

from __future__ import annotations

import random

import pytest

from kgtool.analysis.fold.whatif.replay import GROUP, OFFSET
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.records import Record, record_types
from kgtool.retention.history import Entry, History, Key
from kgtool.retention.rules import RULE_SETS, RULES_2_1_X, RuleSet
from tests.analysis.replayed import in_order, play, removed
from tests.retention.counterfactual import without_expiry
from tests.retention.lives import ALL_TYPES, START_MS, Life
from tests.retention.simulation import GroupDeleted, Removed, simulate
from tests.support import seeds

SETS = {**RULE_SETS, "2.1.x": RULES_2_1_X}
ROUNDS = 100
RETENTIONS = (1_000, 20_000, 60_000, 150_000)
INTERVALS = (700, 5_000, 31_000)


def random_log(rng: random.Random, rules: RuleSet) -> list[Entry]:
    """What a coordinator of that generation may find in its log."""
    types = ALL_TYPES if rules.new_coordinator else ("classic",)
    entries: list[Entry] = []
    while not entries:  # a short life may leave nothing
        life = Life(rng, types=types, groups=rng.choice((1, 2, 4)))
        entries = life.run(rng.randint(5, 60), rng.choice((500, 8_000, 40_000))).entries
    return entries


@pytest.mark.parametrize("name", SETS)
def test_the_same_removals_as_the_simulation(name: str) -> None:
    rng = seeds.rng("replay", name)
    rules, seen = SETS[name], 0
    for _ in range(ROUNDS):
        written_by = rng.choice(list(SETS.values()))
        entries = random_log(rng, written_by)
        events = without_expiry(entries, written_by, 60_000)
        scenario = Scenario(rules, rng.choice(RETENTIONS), rng.choice(INTERVALS))
        start = START_MS // scenario.interval_ms * scenario.interval_ms
        end = entries[-1].timestamp_ms + rng.choice((0, 10_000, 400_000))
        expected = simulate(events, *scenario, end, start)
        assert removed(play(events, scenario, end)) == in_order(expected), entries
        seen += len(expected)
    assert seen > ROUNDS


@pytest.mark.parametrize("name", SETS)
def test_what_is_left_is_what_the_log_and_the_checks_leave(name: str) -> None:
    rng = seeds.rng("left", name)
    rules, seen = SETS[name], 0
    for _ in range(30):
        entries = random_log(rng, rules)
        events = without_expiry(entries, rules, 60_000)
        scenario = Scenario(rules, rng.choice(RETENTIONS), rng.choice(INTERVALS))
        end = entries[-1].timestamp_ms + 10_000
        lives = play(events, scenario, end)
        history = after(events, removed(lives), rules)
        there = [(group, life) for group, life in lives if life.until_ms is None]
        left = {
            (group, *life.key, life.offset)
            for group, life in there
            if life.role == OFFSET and life.key is not None
        }
        assert left == {(*live.key, live.stored.value.offset) for live in history.live()}
        groups = {group for group, life in there if life.role == GROUP}
        assert groups == {group for group, *_ in left}
        seen += len(left)
    assert seen > 25


def after(events: list[Entry | GroupDeleted], gone: list[Removed], rules: RuleSet) -> History:
    """A coordinator's memory after the events, with each check's removals at their time."""
    history, waiting = History(rules, 0), list(gone)

    def until(at_ms: int) -> None:
        while waiting and waiting[0].at_ms < at_ms:
            row = waiting.pop(0)
            key = Key(row.group, row.topic or "", row.partition or 0)
            if row.topic is not None:
                forget(history, row.at_ms, key)
            else:
                snapshot = history.snapshot(row.group)
                assert snapshot is not None
                number = {"classic": 2, "consumer": 3, "share": 11, "streams": 17}[snapshot.type]
                history.feed(tombstone(row.at_ms, number, group=row.group))

    for event in events:
        until(event.timestamp_ms)
        if isinstance(event, Entry):
            history.feed(event)
        else:
            pending = history.pending_keys(event.group) if rules.tombstone_drops_pending else []
            for key in {*history.offsets(event.group), *pending}:
                forget(history, event.timestamp_ms, key)
    until(2**63)
    return history


def forget(history: History, at_ms: int, key: Key) -> None:
    history.feed(tombstone(at_ms, 1, **key._asdict()))


def tombstone(at_ms: int, number: int, **fields: str | int) -> Entry:
    kind = record_types()[number]
    return Entry(0, -1, at_ms, Record(number, kind.name, kind.key(**fields), None, None))


class Client(Life):
    """Only does what clients do: nothing is deleted."""

    def forget(self, group: str) -> None:
        self.commit(group)

    def vanish(self, group: str) -> None:
        self.commit(group)


def clients_only(rng: random.Random, rules: RuleSet) -> list[Entry]:
    types = ("classic", "consumer") if rules.new_coordinator else ("classic",)
    entries: list[Entry] = []
    while not entries:
        client = Client(rng, types=types, groups=2)
        entries = client.run(rng.randint(5, 40), rng.choice((8_000, 40_000))).entries
    return entries


def with_removals(sent: list[Entry], gone: list[Removed]) -> list[Entry]:
    """The log with the broker's tombstones in their places."""
    number = {"classic": 2, "consumer": 3}
    types: dict[str, str] = {}
    log: list[Entry] = []
    waiting = list(gone)
    for entry in [*sent, None]:
        while waiting and (entry is None or waiting[0].at_ms < entry.timestamp_ms):
            row = waiting.pop(0)
            if row.topic is not None:
                fields = {"group": row.group, "topic": row.topic, "partition": row.partition or 0}
                log.append(tombstone(row.at_ms, 1, **fields))
            else:
                kind = types.pop(row.group, "classic")
                log.append(tombstone(row.at_ms, number[kind], group=row.group))
        if entry is not None:
            log.append(entry)
            record_type = getattr(entry.record, "type", None)
            if record_type in (2, 3, 5) and isinstance(entry.record, Record):
                kind = "classic" if record_type == 2 else "consumer"
                types[entry.record.key.group] = kind
    return [entry._replace(offset=at, base_offset=at) for at, entry in enumerate(log)]


@pytest.mark.parametrize("written_by", RULE_SETS)
@pytest.mark.parametrize("name", RULE_SETS)
def test_a_brokers_own_removals_leave_no_trace(written_by: str, name: str) -> None:
    """The log of clients that a broker expired, played to another broker: as if to them alone."""
    rng = seeds.rng(written_by, name)
    basis, rules = RULE_SETS[written_by], RULE_SETS[name]
    checked = 0
    for _ in range(20):
        sent = clients_only(rng, basis)
        end = sent[-1].timestamp_ms + 100_000
        start = START_MS // 5_000 * 5_000
        log = with_removals(sent, simulate(sent, basis, 60_000, 5_000, end, start))
        other = Scenario(rules, rng.choice((20_000, 60_000, 150_000)), 5_000)
        events = without_expiry(log, basis, 60_000)
        expected = simulate(sent, *other, end, start)
        assert removed(play(events, other, end)) == in_order(expected)
        checked += len(expected)
    assert checked > 20
