"""Tables of partitions, writers, transactions, orphans, gaps and upgrades, against a plain walk."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.analysis.decode.group_records import DECODED_TYPES
from kgtool.analysis.fold.folded_log import fold
from kgtool.analysis.fold.whatif.replay import TOMBSTONE
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.cli.analyze.table import put_table
from kgtool.cli.output.output import Output
from kgtool.protocol.plan import encode
from kgtool.records import Record, batch, control, record_types
from kgtool.records.offset_commit import OffsetCommitValue
from kgtool.retention.history import Entry, History, read_entry
from kgtool.retention.rules import RULE_SETS, RULES_4_1
from tests.analysis import writer
from tests.analysis.replayed import play
from tests.retention.counterfactual import without_expiry
from tests.spark.test_random_logs import RETENTION_MS, write_log
from tests.support.tables import Make, dicts

pytestmark = pytest.mark.spark
BUCKET_MS, INTERVAL_MS = 60_000, 5_000
WANTED = TableOptions(bucket_ms=BUCKET_MS, gaps=True)


class Sized(NamedTuple):
    """A record with what its bytes tell."""

    entry: Entry
    size: int
    producer_epoch: int


def records(folder: Path) -> Iterator[Sized]:
    """Every record, read by the reader of single batches."""
    for path in sorted(folder.rglob("*.log")):
        data, partition = path.read_bytes(), int(path.parent.name.rpartition("-")[2])
        for each in batch.batches(data):
            for record in batch.read_records(data, each):
                assert record.key is not None
                entry = read_entry(
                    partition,
                    record.offset,
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    producer_id=each.producer_id,
                    transactional=bool(each.attributes & 0x10),
                    is_control=bool(each.attributes & 0x20),
                    base_offset=each.base_offset,
                )
                size = len(record.key) + len(record.value or b"")
                yield Sized(entry, size, struct.unpack_from(">h", data, each.start - 10)[0])


class Walk:
    """What the tables must say."""

    def __init__(self, found: list[Sized]) -> None:
        self.found = found
        self.history = History(RULES_4_1, RETENTION_MS)
        self.names: set[str] = set()
        for sized in found:
            self.history.feed(sized.entry)
            record = sized.entry.record
            if isinstance(record, Record):
                self.names.add(record.key.group)

    def family(self, name: str) -> str:
        several = sum(fold(each) == fold(name) for each in self.names) > 1
        return fold(name) if several else name

    def writers(self) -> list[dict[str, Any]]:
        sums: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
        groups: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        for entry, size, _ in self.found:
            record = entry.record
            if not isinstance(record, Record) or record.type not in {0, 1, *DECODED_TYPES}:
                continue
            at = (entry.timestamp_ms // BUCKET_MS * BUCKET_MS, self.family(record.key.group))
            commits = record.type in (0, 1) and record.value is not None
            sums[at].update(commits=int(commits), records=1, bytes=size)
            groups[at].add(record.key.group)
        return [
            {
                "bucket_ms": at,
                "family": family,
                "groups": len(groups[at, family]),
                **sums[at, family],
            }
            for at, family in sums
        ]

    def transactions(self) -> list[dict[str, Any]]:
        open_ones: dict[tuple[str, int], dict[tuple[str, int], tuple[int, int]]] = {}
        for entry, _, epoch in self.found:
            record, pid = entry.record, (entry.partition, entry.producer_id)
            if isinstance(record, control.Marker):
                for group, number in [each for each in open_ones if each[1] == pid]:
                    del open_ones[group, number]
            elif isinstance(record, Record) and record.type in (0, 1):
                key = (record.key.topic, record.key.partition)
                if record.value is None:
                    for (group, _), held in open_ones.items():
                        if group == record.key.group:
                            held.pop(key, None)
                elif entry.producer_id != -1:
                    held = open_ones.setdefault((record.key.group, pid), {})
                    since, _ = held.get(key, (entry.timestamp_ms, 0))
                    held[key] = (since, epoch)
        return [
            {
                "group": group,
                "producer_id": pid[1],
                "producer_epoch": max(epoch for _, epoch in held.values()),
                "since_ms": min(since for since, _ in held.values()),
                "topics": sorted({topic for topic, _ in held}),
                "partitions": len(held),
            }
            for (group, pid), held in open_ones.items()
            if held
        ]

    def partitions(self) -> list[dict[str, Any]]:
        rows = []
        live = list(self.history.live())
        for number in sorted({sized.entry.partition for sized in self.found}):
            mine = [sized.entry for sized in self.found if sized.entry.partition == number]
            names = {e.record.key.group for e in mine if isinstance(e.record, Record)}
            held = [each for each in live if each.key.group in names]
            rows.append(
                {
                    "log_partition": number,
                    "records": len(mine),
                    "live_keys": len(held),
                    "groups": len({each.key.group for each in held}),
                    "coordinator_moves": 0,
                    "first_offset": mine[0].offset,
                    "last_offset": mine[-1].offset,
                    "newest_record_ms": max(each.timestamp_ms for each in mine),
                }
            )
        return rows

    def upgrades(self) -> list[dict[str, Any]]:
        end = max(sized.entry.timestamp_ms for sized in self.found)
        rows = []
        for group in self.history.group_names():
            known = self.history.snapshot(group)
            if known is None or known.type != "classic" or known.protocol_type != "consumer":
                continue
            found = [e for e in self.history.live() if e.key.group == group and not e.is_pending]
            lost = [each for each in found if _due(each.stored.committed) <= end]
            if found:
                rows.append(
                    {
                        "group": group,
                        "group_state": known.state,
                        "live_offsets": len(found),
                        "lost_offsets": len(lost),
                        "lost_topics": len({e.key.topic for e in lost}),
                        "oldest_commit_ms": min(
                            e.stored.committed.commit_timestamp_ms for e in found
                        ),
                    }
                )
        return rows


def _due(committed: Any) -> int:
    own: int | None = committed.expire_timestamp_ms
    return committed.commit_timestamp_ms + RETENTION_MS if own in (None, -1) else own  # type: ignore[return-value]


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert sorted(map(repr, map(sorted_items, found))) == sorted(
        map(repr, map(sorted_items, expected))
    )


def sorted_items(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(row.items())


def test_as_a_walk_finds_them(engine: Make, tmp_path: Path) -> None:
    write_log(tmp_path, 5, kip_848=True, groups_in_all=135)
    walk = Walk(list(records(tmp_path)))
    basis = broker_settings.settings_from(None, "4.1", RETENTION_MS, INTERVAL_MS)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis, None, WANTED)
    same(dicts(analysis, "writers"), walk.writers())
    transactions = dicts(analysis, "transactions")
    same(transactions, walk.transactions())
    assert len(transactions) > 5
    partitions = dicts(analysis, "partitions")
    for number, row in enumerate(sorted(partitions, key=lambda row: row["log_partition"])):
        size = sum(p.stat().st_size for p in (tmp_path / f"__consumer_offsets-{number}").iterdir())
        assert row.pop("bytes") == size
    same(partitions, walk.partitions())
    upgrades = dicts(analysis, "upgrades")
    same(upgrades, walk.upgrades())
    assert sum(row["lost_offsets"] for row in upgrades) > 10


def test_rows_are_put_out_in_one_order(engine: Make, tmp_path: Path) -> None:
    """Was: partitions in none at all, and what a family wrote or a group holds in any."""
    write_log(tmp_path, 5, kip_848=True, groups_in_all=135)
    basis = broker_settings.settings_from(None, "4.1", RETENTION_MS, INTERVAL_MS)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis, None, WANTED)
    for name, keys in (
        ("partitions", ("log_partition",)),
        ("writers", ("family", "bucket_ms")),
        ("transactions", ("group", "producer_id", "producer_epoch")),
    ):
        out = io.StringIO()
        put_table(analysis, name, Output("ndjson", "analyze", out))
        rows = [json.loads(line) for line in out.getvalue().splitlines()]
        places = [tuple(row[key] for key in keys) for row in rows]
        assert len(places) > 2 and places == sorted(set(places)), name


@pytest.mark.parametrize("name", ["pre-2.1", "2.4", "4.1"])
def test_the_safe_retention_loses_nothing_and_a_smaller_one_does(
    engine: Make, tmp_path: Path, name: str
) -> None:
    rules = RULE_SETS[name]
    entries = write_log(tmp_path, 9, kip_848=rules.new_coordinator, groups_in_all=30, plain=30)
    basis = broker_settings.settings_from(None, name, RETENTION_MS, INTERVAL_MS)
    analysis = Analysis(engine(), find_inputs([str(tmp_path)]).files, basis, None, WANTED)
    end, told = analysis.end_ms, 0
    sent = {
        number: without_expiry(
            [e for e in entries if e.partition == number], rules, RETENTION_MS, INTERVAL_MS
        )
        for number in range(3)
    }
    rows = dicts(analysis, "gaps")
    assert len(rows) > 20
    for row in rows:
        group, safe = row["family"], row["safe_retention_ms"]  # each is alone in its family
        mine = [e for e in sent[int(group[1:]) % 3] if _group(e) == group]
        missed = {}
        for retention_ms in (safe, safe - 1):
            scenario = Scenario(rules, retention_ms, INTERVAL_MS)
            lives = [life for _, life in play(mine, scenario, end + 2 * INTERVAL_MS)]
            lost = [life for life in lives if life.expired and life.rule != "explicit"]
            missed[retention_ms] = sum(life.again_ms is not None for life in lost)
        # A last commit lasts until its expiry, or until the log ends.
        missed[safe - 1] = len(lost)
        # Where a group goes, its offsets have no date in common any more: fewer or more may go.
        depends = any(life.role == TOMBSTONE for life in lives)
        assert missed[safe] == 0 or depends, row
        assert safe == 0 or missed[safe - 1] > 0 or depends, row
        told += safe > 0 and missed[safe] == 0 and missed[safe - 1] > 0
    assert told > 10


def _group(event: Any) -> Any:
    record = getattr(event, "record", None)
    if record is None:
        return event.group
    return record.key.group if isinstance(record, Record) else None


def test_orphans(engine: Make, tmp_path: Path) -> None:
    """Topics that cluster.json lacks, or knows under another id; what it does not tell is none."""
    ids = {name: uuid.UUID(int=number) for number, name in enumerate(["x", "same", "anew", "gone"])}
    raws = []
    for name in ("same", "anew", "gone", "plain"):
        topic_id = ids.get(name, uuid.UUID(int=0))
        value = OffsetCommitValue(offset=7, commit_timestamp=1, topic_id=topic_id)
        fields = record_types()[1].key(group="g", topic=name, partition=3)
        key = struct.pack(">h", 1) + encode(fields, 0)
        raws.append(writer.Raw(key, struct.pack(">h", 4) + encode(value, 4), 1))
    path = writer.segment(tmp_path, writer.batch(0, raws))
    text = {name: _text(ids[name]) for name in ids}
    topics = [
        {"name": "same", "topic_id": text["same"], "partitions": []},
        {"name": "anew", "topic_id": text["x"], "partitions": []},
        {"name": "plain", "topic_id": text["gone"], "partitions": []},
    ]
    for told, expected in (
        (topics, [("anew", "topic-recreated"), ("gone", "topic-gone")]),
        (None, []),
    ):
        basis = broker_settings.settings_from(None, "4.1", RETENTION_MS, INTERVAL_MS)._replace(
            topics=told
        )
        found = dicts(Analysis(engine(), find_inputs([str(path)]).files, basis), "orphans")
        assert sorted((row["topic"], row["reason"]) for row in found) == expected
        assert all((r["group"], r["partition"], r["offset"]) == ("g", 3, 7) for r in found)
        assert all(row["topic_id"] == text[row["topic"]] for row in found)


def _text(value: uuid.UUID) -> str:
    import base64

    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
