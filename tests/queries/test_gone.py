"""What recover takes for gone: what stood before the tombstone, by a replay of its own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kgtool.errors import ConfigError, KgError
from kgtool.protocol import codes
from kgtool.queries.log.gone import GoneGroup, GoneOffset, find_gone, read_gone
from kgtool.queries.log.log_files import LogFiles
from kgtool.queries.log.removals import GroupRecords
from kgtool.records import Record, control
from kgtool.records.types import GROUP_TYPES, OFFSET_TYPES
from kgtool.retention.rules import RULES_2_4, RULES_4_1, RuleSet
from tests.queries.offsets_log import FakeBroker, RawLog
from tests.retention.lives import Life

HOUR_MS = 3_600_000
Key = tuple[str, str, int]


class Model:
    """Offsets, record by record: what is committed, what an open transaction holds, what went."""

    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.live: dict[Key, tuple[int, Any]] = {}
        self.held: dict[int, dict[Key, tuple[int, Any]]] = {}
        self.gone: dict[Key, tuple[Any, int]] = {}

    def feed(self, entry: Any) -> None:
        record = entry.record
        if isinstance(record, control.Marker):
            for key, new in self.held.pop(entry.producer_id, {}).items():
                if record.type == control.COMMIT and new[0] > self.live.get(key, (-1,))[0]:
                    self.live[key] = new
        elif isinstance(record, Record) and record.type in OFFSET_TYPES:
            key = (record.key.group, record.key.topic, record.key.partition)
            if record.value is None:
                if key in self.live:
                    self.gone[key] = (self.live.pop(key)[1], entry.timestamp_ms)
                if self.rules.tombstone_drops_pending:
                    for held in self.held.values():
                        held.pop(key, None)
            elif entry.producer_id != -1:
                self.held.setdefault(entry.producer_id, {})[key] = (entry.offset, record.value)
            else:
                self.live[key] = (entry.offset, record.value)


def life(seed: int) -> tuple[RawLog, list[str]]:
    made = Life(random.Random(seed), regexes=False)
    made.log = log = RawLog()
    made.run(40, 12_000)
    return log, made.groups


def found_in(
    log: RawLog, groups: list[str], rules: RuleSet, at_ms: int | None = None
) -> dict[Key, GoneOffset]:
    readers = [GroupRecords(groups, 0), GroupRecords(groups, 0, at_ms)]
    for reader in readers:
        reader.feed(b"".join(log.raw))
    before = None if at_ms is None else readers[1].entries()
    found = find_gone(readers[0], before, rules, HOUR_MS)
    return {(group, *at): one for group, own in found.items() for at, one in own.items()}


@pytest.mark.parametrize("rules", [RULES_4_1, RULES_2_4], ids=lambda rules: rules.name)
@pytest.mark.parametrize("seed", range(100))
def test_what_stood_before_the_tombstone_of_random_histories(seed: int, rules: RuleSet) -> None:
    """Commits, transactions that commit, abort or stay open, tombstones, groups of all types."""
    log, groups = life(seed)
    model = Model(rules)
    for entry in log.entries:
        model.feed(entry)
    found = found_in(log, groups, rules)
    lost = {key: one for key, one in found.items() if one.removed_at_ms is not None}
    for key, (value, at_ms) in model.gone.items():
        if key in lost:
            assert (lost[key].value, lost[key].removed_at_ms) == (value, at_ms), key
        else:  # committed again, and then orphaned: the later one
            assert found[key].value == model.live[key][1]
    assert {key for key, one in lost.items() if one.value is not None} <= model.gone.keys()
    for key, one in found.items():
        if one.removed_at_ms is None:
            assert (one.rule, one.value) == ("orphan", model.live[key][1])
        elif one.value is None:
            assert key not in model.gone


@pytest.mark.parametrize("seed", range(100))
def test_what_stood_at_a_time_in_random_histories(seed: int) -> None:
    log, groups = life(seed)
    at_ms = random.Random(-seed).choice(log.entries).timestamp_ms
    model = Model(RULES_4_1)
    for entry in log.entries:
        if entry.timestamp_ms <= at_ms:
            model.feed(entry)
    stood = dict(model.live)
    found = found_in(log, groups, RULES_4_1, at_ms)
    known = _known_groups(log, at_ms)
    expected = {key: value for key, (_, value) in stood.items() if key[0] in known}
    assert {key: one.value for key, one in found.items()} == expected


def _known_groups(log: RawLog, at_ms: int) -> set[str]:
    """The groups that a coordinator knows: a commit or a record of their own since their end."""
    known: set[str] = set()
    for entry in log.entries:
        record = entry.record
        if entry.timestamp_ms > at_ms or not isinstance(record, Record):
            continue
        if record.value is not None:
            known.add(record.key.group)
        elif record.type in GROUP_TYPES:
            rest = [e.record for e in log.entries if e.timestamp_ms == entry.timestamp_ms]
            later = rest[rest.index(record) + 1 :]
            if not any(isinstance(e, Record) and e.value is not None for e in later):
                known.discard(record.key.group)
    return known


# ---------------------------------------------------------------------------------------------
# Single cases


def test_a_tombstone_without_a_value_is_counted() -> None:
    log = RawLog()
    log.forget(1_000, "t1", 0)
    log.commit(2_000, "t1", 1, offset=5)
    log.forget(3_000, "t1", 1)
    broker = FakeBroker(log)
    (group,) = broker.run(read_gone(broker.cluster, ["g"])).values()
    assert isinstance(group, GoneGroup)
    assert group.lost == 1
    assert {
        (at.partition, one.value and one.value.offset) for at, one in group.offsets.items()
    } == {(0, None), (1, 5)}
    assert group.first == (0, 1_000)


def test_a_pending_commit_that_is_deleted_was_none() -> None:
    log = RawLog()
    log.commit(1_000, "t1", 0, offset=5, pid=7)
    log.forget(2_000, "t1", 0)
    log.end_transaction(3_000, 7, commit=True)
    assert found_in(log, ["g"], RULES_4_1) == {}


def test_files_are_read_as_the_living_log(tmp_path: Path) -> None:
    log, groups = life(3)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    half = len(log.raw) // 2
    (folder / f"{0:020}.log").write_bytes(b"".join(log.raw[:half]))
    # A copy of a segment that was still being written: it overlaps, and its end is torn.
    (folder / f"{half:020}.log").write_bytes(b"".join(log.raw[half:]) + b"\0" * 7)
    found = LogFiles(tmp_path).read(groups)
    both = {(g, *at): one for g, gone in found.items() for at, one in gone.offsets.items()}
    assert both == found_in(log, groups, RULES_4_1)


def export(folder: Path, *numbers: int, cluster: str | None = "a") -> Path:
    """An export with an empty segment of each of these partitions."""
    for number in numbers:
        (folder / "segments" / f"__consumer_offsets-{number}").mkdir(parents=True)
        (folder / "segments" / f"__consumer_offsets-{number}" / f"{0:020}.log").touch()
    if cluster is not None:
        (folder / "cluster.json").write_text(f'{{"cluster_id": "{cluster}"}}')
    return folder


@pytest.mark.parametrize("at", [".", "one", "one/segments", "one/segments/__consumer_offsets-1"])
def test_the_nearest_cluster_json_says_whose_log_it_is(at: str, tmp_path: Path) -> None:
    """Was: below the folder that was named, none was seen, and no cluster was compared: offsets of
    another cluster were restored. Siblings: above it, a broker's folder without any."""
    export(tmp_path / "one", 1, 2, cluster="mine")
    assert LogFiles(tmp_path / at).cluster_id == "mine"


def test_logs_of_two_clusters_are_not_one(tmp_path: Path) -> None:
    """Was: partition 1 of one cluster and 2 of the other were read as one log."""
    export(tmp_path / "one", 1, cluster="a")
    export(tmp_path / "two", 2, cluster="b")
    with pytest.raises(ConfigError, match=r"logs of different clusters \(a, b\)"):
        LogFiles(tmp_path)


@pytest.mark.parametrize("cluster", [None, "a"])
def test_two_copies_of_a_partition_are_not_one_log(cluster: str | None, tmp_path: Path) -> None:
    """Was: the copies were read one after the other, batch by batch whichever came first: the tail
    of a dead leader gave the offsets to restore. Siblings: replicas, two exports of one cluster."""
    export(tmp_path / "one", 1, 2, cluster=cluster)
    export(tmp_path / "two", 2, cluster=cluster)
    with pytest.raises(ConfigError, match="__consumer_offsets-2 is in .*one.* and in .*two"):
        LogFiles(tmp_path)


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_segment_that_is_missing_in_the_middle_is_named(is_cut: bool, tmp_path: Path) -> None:
    """Was: what came before it was taken for what the group had last."""
    log = RawLog()
    for at in range(9):
        log.commit(1_000 + at, "t1", 0, offset=at)
    log.forget(2_000, "t1", 0)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for base, end in ((0, 3), (3, 6), (6, 10)):
        if base != 3 or not is_cut:
            (folder / f"{base:020}.log").write_bytes(b"".join(log.raw[base:end]))
    files = LogFiles(tmp_path)
    files.read(["g"])
    assert files.holes == ({0: (3, 5)} if is_cut else {})


@pytest.mark.parametrize("order", [(4, 8, 0, 4), (0, 2, 4, 8, 2, 4), (0, 8, 0, 8)], ids=str)
def test_one_file_that_goes_back_is_no_log(order: tuple[int, ...], tmp_path: Path) -> None:
    """Was: what came late was left out without a word, and with it the last commit. Kind: parts
    joined by hand. Siblings: a later part first, one in the middle last, twice the same."""
    log = RawLog()
    for at in range(7):
        log.commit(1_000 + at, "t1", 0, offset=at)
    log.forget(2_000, "t1", 0)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    raw = [b"".join(log.raw[a:b]) for a, b in zip(order[::2], order[1::2], strict=True)]
    (folder / f"{0:020}.log").write_bytes(b"".join(raw))
    with pytest.raises(ConfigError, match=r"0{20}\.log: after offset 7 comes \d again"):
        LogFiles(tmp_path).read(["g"])


def test_no_read_on_the_log_names_the_acl() -> None:
    broker = FakeBroker(RawLog(), errors={3: codes.TOPIC_AUTHORIZATION_FAILED})
    (found,) = broker.run(read_gone(broker.cluster, ["g"])).values()
    assert isinstance(found, KgError)
    assert "READ on topic __consumer_offsets" in str(found.hint)
