"""What became of random lives: every tombstone of the log, its true cause, and kgtool's word."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kgtool.records import Record, decode
from kgtool.records.types import GROUP_METADATA, GROUP_TYPES, OFFSET_TYPES
from tests.soak.lives import World, now_ms

TOPIC = "__consumer_offsets"
SLACK_MS = 3_000
OPEN_SECONDS = 120
"""How long a transaction may stay open: the producers of lives have 40 s, a broker's start more."""


class Line(NamedTuple):
    """A record of the log, as librdkafka reads it."""

    log_partition: int
    at_ms: int
    record: Record


class Key(NamedTuple):
    """What a tombstone removes: topic and partition are None for a group."""

    group: str
    topic: str | None
    partition: int | None


class Tombstone(NamedTuple):
    """A tombstone with its true cause; ``is_due``: a check would have done the same."""

    key: Key
    at_ms: int
    cause: str
    is_due: bool
    is_sure: bool


def read_log(bootstrap: str) -> list[Line]:
    """Read __consumer_offsets up to where it ends now, by a client that is not kgtool.

    Waits for the transactions that are open before there, so that nothing behind them is missing;
    those that were aborted are left out.
    """
    with closing(_reader(bootstrap, "read_uncommitted")) as reader:
        numbers = sorted(reader.list_topics(TOPIC, timeout=20).topics[TOPIC].partitions)
        parts = [TopicPartition(TOPIC, number, 0) for number in numbers]
        ends = [reader.get_watermark_offsets(part, timeout=20)[1] for part in parts]
    with closing(_reader(bootstrap, "read_committed")) as reader:
        return [line for at in zip(parts, ends, strict=True) for line in _lines(reader, *at)]


def _reader(bootstrap: str, level: str) -> Consumer:
    config = {"group.id": "truth-reader", "enable.auto.commit": False, "enable.partition.eof": True}
    return Consumer({"bootstrap.servers": bootstrap, "isolation.level": level, **config})


def _lines(reader: Consumer, part: TopicPartition, end: int) -> Iterator[Line]:
    """The records of one partition, as soon as they are decided."""
    reader.assign([part])
    until, read = time.monotonic() + OPEN_SECONDS, 0
    while read < end:
        message = reader.poll(1)
        if time.monotonic() > until:
            raise RuntimeError(f"a transaction stays open in {part}")
        if message is None:
            continue
        error = message.error()
        if error is None:
            read = message.offset() + 1
            record = decode(message.key() or b"", message.value())
            if isinstance(record, Record) and read <= end:
                yield Line(part.partition, message.timestamp()[1], record)
        elif error.code() == KafkaError._PARTITION_EOF:
            read = message.offset()  # markers are no messages


def _key_of(record: Record) -> Key:
    topic, partition = (getattr(record.key, name, None) for name in ("topic", "partition"))
    return Key(record.key.group, topic, partition)


def tombstones(lines: list[Line], world: World, interval_ms: int) -> list[Tombstone]:
    """Every tombstone of an offset or a group, with its cause by what was asked for."""
    written: dict[tuple[int, str, int], list[Record]] = defaultdict(list)
    for line in lines:
        written[line.log_partition, line.record.key.group, line.at_ms].append(line.record)
    due: dict[Key, list[int]] = {}
    empty: dict[str, int] = {}
    changed: dict[str, int] = {}
    found = []
    for line in lines:
        record, key = line.record, _key_of(line.record)
        if record.type not in OFFSET_TYPES and not (
            record.value is None and record.type in GROUP_TYPES
        ):
            changed[key.group] = line.at_ms
        if record.value is not None:
            if record.type in OFFSET_TYPES:
                due[key] = [record.value.commit_timestamp + world.retention_ms]
                if record.version == 1:
                    due[key].append(record.value.expire_timestamp)
            if record.type == GROUP_METADATA:
                empty[key.group] = record.value.current_state_timestamp + world.retention_ms
            continue
        if record.type not in OFFSET_TYPES + GROUP_TYPES:
            continue
        mine = written[line.log_partition, key.group, line.at_ms]
        keys = [key] if key.topic is not None else _removed(mine)
        asked = [each for one in {key, *keys} for each in _asked(world, one, line.at_ms)]
        onward = any(
            each.value is not None and each.type not in (record.type, *OFFSET_TYPES)
            for each in mine
        )
        by_check = "expired" if key.topic is not None else "group-empty"
        cause = "explicit" if asked else "converted" if onward and not keys else by_check
        sure = not asked or any(each.is_sure for each in asked)
        times = (empty.get(key.group, line.at_ms + 1), changed.get(key.group, 0))
        late_ms = _late_ms(world, interval_ms, line.at_ms)
        is_due = bool(asked) and all(
            any(0 <= line.at_ms - at <= late_ms for at in _may_be_due(due.get(one, []), *times))
            for one in keys
        )
        found.append(Tombstone(key, line.at_ms, cause, is_due, sure))
    return found


def _removed(write: list[Record]) -> list[Key]:
    """The offsets that one write removes."""
    return [_key_of(each) for each in write if each.value is None and each.type in OFFSET_TYPES]


def _may_be_due(own_ms: list[int], empty_ms: int, changed_ms: int) -> list[int]:
    """When an offset may have become due, from the plain facts."""
    return [empty_ms, *own_ms, *(max(each, changed_ms) for each in own_ms)]


def _late_ms(world: World, interval_ms: int, at_ms: int) -> int:
    """How late a check may be: later after a restart."""
    loaded = max((at for at in world.loads if at <= at_ms), default=0)
    return 2 * interval_ms + SLACK_MS + (60_000 if at_ms - loaded < 30_000 else 0)


def _asked(world: World, key: Key, at_ms: int) -> list[Any]:
    return [each for each in world.asked if each.covers(*key, at_ms)]


def save(path: Path, true: list[Tombstone]) -> None:
    """Keep the truth, to judge by it again."""
    path.write_text(json.dumps(true), encoding="utf-8")


def load(path: Path) -> list[Tombstone]:
    """Read what ``save`` has kept."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Tombstone(Key(*key), *rest) for key, *rest in rows]


def kgtool(*args: str) -> Any:
    """Run kgtool and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "kgtool", *args], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"kgtool {' '.join(args)}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout) if "json" in args else done.stdout


def said_by_analyze(folder: Path) -> list[dict[str, Any]]:
    """The table of removals."""
    args = ("analyze", str(folder), "--engine", "local", "--rules", "auto", "--table", "removals")
    return list(kgtool(*args, "-o", "json")["results"])


class Judged(NamedTuple):
    """Counts, and the wrong ones in words."""

    counts: Counter[str]
    wrong: list[str]
    due: list[str]


def judge(true: list[Tombstone], said: list[dict[str, Any]]) -> Judged:
    """Compare the causes, tombstone by tombstone."""
    by_key: dict[tuple[Key, int], list[dict[str, Any]]] = defaultdict(list)
    for row in said:
        key = Key(row["group"], row["topic"], row["partition"])
        by_key[key, row["removed_at_ms"]].append(row)
    counts: Counter[str] = Counter()
    wrong, due = [], []
    for each in true:
        counts["tombstones"] += 1
        rows = by_key[each.key, each.at_ms]
        row = rows.pop(0) if rows else None
        verdict = _verdict(each, row)
        counts[verdict] += 1
        if verdict in ("wrong", "due already"):
            (wrong if verdict == "wrong" else due).append(f"{each} but {row}")
    for rows in by_key.values():
        counts["wrong"] += len(rows)
        wrong += [f"no such tombstone: {row}" for row in rows]
    return Judged(counts, wrong, due)


def _verdict(true: Tombstone, row: dict[str, Any] | None) -> str:
    if row is None:
        return "wrong"
    if row["cause"] == true.cause:
        return "right"
    if row["cause"] is None:
        return "unknown"
    if true.is_due:
        return "due already"
    return "wrong" if true.is_sure else "not sure"


# --- describe --expiry ----------------------------------------------------------------------------


class Sample(NamedTuple):
    """What ``describe --expiry`` said at a moment; ``expires_ms`` None: never, or unknown."""

    key: Key
    at_ms: int
    until_ms: int
    expires_ms: int | None
    is_told: bool


def sample(bootstrap: str) -> list[Sample]:
    """Ask for every offset of every group."""
    began = now_ms()
    told = kgtool("describe", "--all-groups", "--expiry", "-b", bootstrap, "-o", "json")["results"]
    ended = now_ms()
    return [
        Sample(
            Key(row["group"], row["topic"], row["partition"]),
            began,
            ended,
            row["expires_at_ms"],
            row["rule"] is not None,
        )
        for row in told
        if row["current_offset"] is not None
    ]


def judge_samples(
    samples: list[Sample], lines: list[Line], true: list[Tombstone], world: World, interval_ms: int
) -> Judged:
    """Compare dates with tombstones, where nothing happened in between that changes a date."""
    happened: dict[str, list[int]] = defaultdict(list)
    gone: dict[Key, list[Tombstone]] = defaultdict(list)
    for line in lines:
        if line.record.value is not None or line.record.type not in OFFSET_TYPES:
            happened[line.record.key.group].append(line.at_ms)
    for group, times in world.touched.items():
        happened[group] += times
    for group in happened:
        happened[group] = sorted(happened[group] + world.loads)
    for each in true:
        gone[each.key].append(each)
    last = max(line.at_ms for line in lines)
    counts: Counter[str] = Counter()
    wrong = []
    for each in samples:
        moments, tombstones = happened[each.key.group], gone[each.key]
        verdict = "unknown"
        if each.is_told:
            verdict = _timely(each, moments, tombstones, last, interval_ms)
        counts[verdict] += 1
        if verdict in ("early", "late"):
            near = [moment - each.at_ms for moment in moments if abs(moment - each.at_ms) < 90_000]
            wrong.append(f"{verdict}: {each}, {tombstones}; ms from it to what happened: {near}")
    return Judged(counts, wrong, [])


def _timely(
    told: Sample, happened: list[int], gone: list[Tombstone], last_ms: int, interval_ms: int
) -> str:
    after = bisect_left(happened, told.at_ms)
    quiet_until = happened[after] if after < len(happened) else last_ms
    came = next((each for each in gone if each.at_ms >= told.until_ms), None)
    due = told.expires_ms
    if came is not None and came.at_ms <= quiet_until:
        if came.cause != "expired":
            return "deleted"
        if due is None or came.at_ms < due:
            return "early"
        return "late" if came.at_ms > due + interval_ms + SLACK_MS else "on time"
    if due is None or quiet_until <= due + interval_ms + SLACK_MS:
        return "changed before"
    if any(told.at_ms <= each.at_ms <= told.until_ms for each in gone):
        return "changed before"
    return "late"
