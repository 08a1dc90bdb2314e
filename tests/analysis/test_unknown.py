"""No value where the mask says unknown; none that differs from the whole log's unless it says so.

Random logs are analyzed whole, and with something taken away: the first records, a log partition,
what the cleaner removes, the groups' records, those of one generation of groups, dates,
subscriptions, commit times, the times of records. What is left may say less, never something else.
Kind: an input that does not tell all is read as if it did. Siblings: any part of any input; a log
that begins late by its segment's name, by cluster.json, by the first offset of Parquet.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.analysis import missing_data as m
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.tables.cleanup import decisions
from kgtool.changes.cleanup.plan_file import PlanItem
from kgtool.protocol.plan import encode
from kgtool.records import Record
from kgtool.records.types import GROUP_METADATA, MEMBER_TYPES, OFFSET_TYPES
from kgtool.retention.history import Entry
from kgtool.retention.rules import RULE_SETS
from tests.analysis.writer import CONTROL, TRANSACTIONAL, Raw, batch, segment
from tests.retention.lives import ALL_TYPES, START_MS, Life
from tests.support import seeds

PARTITIONS, GROUPS = 2, 12
SETS = ("pre-2.1", "2.1", "2.4", "3.7-new", "4.1")


class Line(NamedTuple):
    """A record of the log as bytes."""

    partition: int
    offset: int
    at_ms: int
    type: int
    key: bytes
    value: bytes | None
    producer_id: int = -1
    attributes: int = 0

    @property
    def batch(self) -> bytes:
        """As a batch of its own."""
        raw = Raw(self.key, self.value, self.at_ms)
        return batch(self.offset, [raw], attributes=self.attributes, producer_id=self.producer_id)


class Quiet(Life):
    """No transactions: one that is older than the log's head is as unknown as old."""

    def commit_in_transaction(self, group: str) -> None:
        self.commit(group)


def lines(rng: random.Random, name: str, *, quiet: bool) -> list[Line]:
    """A random log."""
    types = ALL_TYPES if RULE_SETS[name].new_coordinator else ("classic",)
    found = []
    for partition in range(PARTITIONS):
        kind = Quiet if quiet else Life
        options = {"regexes": rng.random() < 0.5, "rejoins": False, "static": True}
        life = kind(rng, types=types, groups=GROUPS, **options)
        life.groups = [f"g{partition}{number}" for number in range(GROUPS)]
        life.log.partition = partition
        pause = rng.choice((500, 8_000, 40_000))
        found += [_line(entry) for entry in life.run(rng.randint(100, 250), pause).entries]
    return found


def _line(entry: Entry) -> Line:
    record, place = entry.record, (entry.partition, entry.offset, entry.timestamp_ms)
    if not isinstance(record, Record):
        key, attributes = struct.pack(">hh", 0, record.type), CONTROL | TRANSACTIONAL
        return Line(*place, -1, key, bytes(6), entry.producer_id, attributes)
    key, value = struct.pack(">h", record.type) + encode(record.key, 0), None
    if record.value is not None:
        assert record.version is not None
        value = struct.pack(">h", record.version) + encode(record.value, record.version)
    attributes = TRANSACTIONAL * entry.transactional
    return Line(*place, record.type, key, value, entry.producer_id, attributes)


# --- what is taken away --------------------------------------------------------------------------


class Rest(NamedTuple):
    """What is left, and how it is told."""

    lines: list[Line]
    missing: int = 0
    bases: dict[int, int] = {}
    """Base offsets of the segments; 0 unless told."""


def head(rows: list[Line], rng: random.Random) -> Rest:
    """The first segments."""
    sizes = [1 + max(row.offset for row in rows if row.partition == p) for p in range(PARTITIONS)]
    bases = {p: rng.randint(1, size - 1) for p, size in enumerate(sizes)}
    return Rest([row for row in rows if row.offset >= bases[row.partition]], 0, bases)


def partition(rows: list[Line], rng: random.Random) -> Rest:
    """A log partition."""
    gone = rng.randrange(PARTITIONS)
    return Rest([row for row in rows if row.partition != gone])


def superseded(rows: list[Line], rng: random.Random) -> Rest:
    """What the cleaner removes: of a part all but the last record of each key."""
    dirty = {p: rng.randint(1, len(rows)) for p in range(PARTITIONS)}
    last = {(row.partition, row.key): row.offset for row in rows if _is_clean(row, dirty)}
    kept = (r for r in rows if not _is_clean(r, dirty) or last[r.partition, r.key] == r.offset)
    return Rest(list(kept))


def _is_clean(row: Line, dirty: dict[int, int]) -> bool:
    return row.type >= 0 and row.producer_id < 0 and row.offset < dirty[row.partition]


def group_records(rows: list[Line], _: random.Random) -> Rest:
    """The groups' records."""
    offsets = (*OFFSET_TYPES, -1)
    return Rest([row for row in rows if row.type in offsets], m.GROUPS | m.NEW_GROUPS)


def new_groups(rows: list[Line], _: random.Random) -> Rest:
    """The records of one generation of groups."""
    old = (*OFFSET_TYPES, GROUP_METADATA, -1)
    return Rest([row for row in rows if row.type in old], m.NEW_GROUPS)


def _with_values(rows: list[Line], change: Callable[[Any, int], Any], missing: int) -> Rest:
    return Rest([_changed(row, change) for row in rows], missing)


def _changed(row: Line, change: Callable[[Any, int], Any]) -> Line:
    from kgtool.records import decode

    if row.value is None or row.type < 0:
        return row
    record = decode(row.key, row.value)
    assert isinstance(record, Record) and record.version is not None
    value = encode(change(record.value, row.type), record.version)
    return row._replace(value=struct.pack(">h", record.version) + value)


def state_times(rows: list[Line], _: random.Random) -> Rest:
    """Since when groups are Empty."""

    def without(value: Any, number: int) -> Any:
        return value.replace(current_state_timestamp=-1) if number == GROUP_METADATA else value

    return _with_values(rows, without, m.STATE_TIMES)


def subscriptions(rows: list[Line], _: random.Random) -> Rest:
    """What members subscribe to."""

    def without(value: Any, number: int) -> Any:
        if number == GROUP_METADATA:
            members = [member.replace(subscription=b"") for member in value.members]
            return value.replace(members=members)
        if number in MEMBER_TYPES and hasattr(value, "subscribed_topic_names"):
            return value.replace(subscribed_topic_names=[])
        return value

    return _with_values(rows, without, m.SUBSCRIPTIONS)


def commit_times(rows: list[Line], _: random.Random) -> Rest:
    """When offsets were committed."""

    def without(value: Any, number: int) -> Any:
        if number not in OFFSET_TYPES:
            return value
        found = value.replace(commit_timestamp=-1)
        has_expire = getattr(value, "expire_timestamp", -1) != -1
        return found.replace(expire_timestamp=-1) if has_expire else found

    return _with_values(rows, without, m.COMMIT_TIMES)


def times(rows: list[Line], _: random.Random) -> Rest:
    """When records were written, and in which order those of different kinds."""
    plain = [row for row in rows if row.type >= 0]
    ordered = sorted(plain, key=lambda row: row.type in OFFSET_TYPES)
    placed = [row._replace(offset=at, at_ms=START_MS) for at, row in enumerate(ordered)]
    return Rest(placed, m.TIMES | m.TRANSACTIONS)


TAKEN = (
    head,
    partition,
    superseded,
    group_records,
    new_groups,
    state_times,
    subscriptions,
    commit_times,
    times,
)


# --- the property --------------------------------------------------------------------------------


def write_lines(folder: Path, rest: Rest) -> None:
    """A segment of each log partition."""
    for number in {row.partition for row in rest.lines}:
        some = [row for row in rest.lines if row.partition == number]
        data = b"".join(row.batch for row in some)
        segment(folder, data, number, rest.bases.get(number, 0))


def analyzed(folder: Path, rest: Rest, name: str, end_ms: int) -> Analysis:
    write_lines(folder, rest)
    files = find_inputs([str(folder)]).files
    files = [file._replace(missing=rest.missing) for file in files]
    basis = broker_settings.settings_from(None, name, 60_000, 5_000)._replace(as_of_ms=end_ms)
    scenarios = (broker_settings.Scenario(basis.rules, 20_000, 5_000),)
    options = TableOptions(scenarios, 300_000, 10_000, gaps=True, plan=True)
    return Analysis(LocalEngine(1), files, basis, None, options)


KEY = ("group", "topic", "partition")
TOLD = {
    "live": (
        "offset",
        "group_type",
        "group_state",
        "state_since_ms",
        "subscribed",
        "pending_transaction",
        "commit_timestamp_ms",
        "expire_timestamp_ms",
    ),
    "groups": ("group_type", "group_state", "protocol_type", "members"),
    "removals": ("cause", "expires_at_ms", "latency_ms"),
    "upgrades": ("group_state",),
}
"""Columns whose values are true of the cluster, not only of what was read."""


def differences(whole: Analysis, less: Analysis) -> Iterable[str]:
    """What the smaller input says that the whole one does not."""
    for table, columns in TOLD.items():
        ids = ("removed_at_ms",) if table == "removals" else ()
        expected = {_id(row, ids): row for row in whole.rows(table)}
        for row in less.rows(table):
            if table == "removals" and row["removed_at_ms"] is None:
                assert row["cause"] is None and row["expires_at_ms"] is None
                continue
            true = expected.get(_id(row, ids))
            if true is None:
                yield f"{table}: {row} is not in the whole log"
                continue
            for name in columns:
                if row[name] is not None and row[name] != true[name]:
                    yield f"{table}.{name}: {row[name]}, not {true[name]}: {_id(row, ids)}"
    yield from _dates(whole, less)
    yield from _rows(whole, less)


def _dates(whole: Analysis, less: Analysis) -> Iterable[str]:
    """A rule without a date says "never"; without a rule neither is told."""
    expected = {_id(row): row for row in whole.rows("live")}
    soonest: dict[str, int] = {}
    unsure = {row["group"] for row in less.rows("live") if row["rule"] is None}
    for row in less.rows("live"):
        true = expected.get(_id(row))
        if row["rule"] is None:
            if row["expires_at_ms"] is not None:
                yield f"live: a date without a rule: {row}"
            continue
        told = row["rule"], row["expires_at_ms"]
        if true is not None and told != (true["rule"], true["expires_at_ms"]):
            yield f"live: {told}, not {true['rule'], true['expires_at_ms']}: {_id(row)}"
        if row["expires_at_ms"] is not None:
            best = soonest.get(row["group"], row["expires_at_ms"])
            soonest[row["group"]] = min(best, row["expires_at_ms"])
    for row in less.rows("groups"):
        following = None if row["group"] in unsure else soonest.get(row["group"])
        if row["next_expiry_ms"] != following:
            yield f"groups.next_expiry_ms: {row['next_expiry_ms']} of {row['group']}"


def _rows(whole: Analysis, less: Analysis) -> Iterable[str]:
    """What would be acted upon."""
    live = {_id(row): row for row in less.rows("live")}
    expected = {_id(row) for row in whole.rows("overdue")}
    for row in less.rows("overdue"):
        if _id(row) not in expected:
            yield f"overdue: {_id(row)}"
    wanted = {each.group for each in _items(whole)}
    for each in _items(less):
        if each.group not in wanted:
            yield f"plan: {each.group}"
    unknown = {row["group"] for row in live.values() if row["group_state"] is None}
    orphans = {row["group"] for row in whole.rows("live") if row["group_state"] is None}
    if not whole.plan.rules.fixed_at_commit:
        for row in less.rows("losses"):
            if row["group"] in unknown and row["group"] not in orphans:
                yield f"losses: {row['group']} is unknown"


def _items(analysis: Analysis) -> list[PlanItem]:
    return [each for each in decisions(analysis.decisions()) if isinstance(each, PlanItem)]


def _id(row: dict[str, Any], more: tuple[str, ...] = ()) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in (*KEY, *more))


@pytest.mark.parametrize("take", TAKEN, ids=lambda take: take.__name__)
@pytest.mark.parametrize("name", SETS)
def test_less_input_says_less_never_something_else(
    take: Callable[[list[Line], random.Random], Rest], name: str, tmp_path: Path
) -> None:
    for seed in seeds.rounds(1):
        rng = random.Random(f"{take.__name__} {name} {seed}")
        rows = lines(rng, name, quiet=take in (head, superseded, times))
        rest = take(rows, rng)
        end_ms = max(row.at_ms for row in rows) + 1000
        whole = analyzed(tmp_path / f"whole{seed}", Rest(rows), name, end_ms)
        less = analyzed(tmp_path / f"less{seed}", rest, name, end_ms)
        if rest.lines:
            found = list(differences(whole, less))
            assert not found, "\n".join(found[:4])


PRINTED = Path(__file__).parents[1] / "data" / "export-samples"
SAMPLES = sorted(
    path for path in PRINTED.glob("*.txt") if not re.search("default|print-data", path.name)
)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_groups_next_expiry_is_that_of_its_offsets(path: Path) -> None:
    """Was: told of a printed log without states, where no date of an offset was."""
    basis, _ = broker_settings.choose_scenarios(None, [], (60_000,), (5_000,))
    found = Analysis(LocalEngine(1), find_inputs([str(path)]).files, basis)
    soonest: dict[str, int | None] = {}
    for row in found.rows("live"):
        dates = (row["expires_at_ms"], soonest.get(row["group"]))
        soonest[row["group"]] = min((date for date in dates if date is not None), default=None)
    for row in found.rows("groups"):
        assert row["next_expiry_ms"] == soonest.get(row["group"]), row["group"]
