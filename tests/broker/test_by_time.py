"""Offsets translated by the times of records, or by MirrorMaker's checkpoints."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support import clients
from tests.support.faulty import kgtool

pytestmark = pytest.mark.broker
BEGAN_MS = 1_790_000_000_000
TIMES = [0, 10, 10, 10, 20, 30, 30, 40, 50, 60]
"""Ordered, some of them the same: what a producer writes."""
BEFORE = 4
"""Records that only the target has, before the others."""


def write(bootstrap: str, topic: str, count_before: int, compression: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 50}
    )
    for number in range(count_before):
        producer.produce(topic, b"older", timestamp=BEGAN_MS - 1000 + number)
    for number, at in enumerate(TIMES):
        producer.produce(topic, b"record %d" % number * 20, timestamp=BEGAN_MS + at)
    assert producer.flush(30) == 0


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_nothing_is_skipped(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path, compression: str
) -> None:
    source, target = new_topic("from"), new_topic("to")
    write(bootstrap, source, 0, compression)
    write(bootstrap, target, BEFORE, compression)
    prefix = clients.unique("mover")
    names = {f"{prefix}-{offset}": offset for offset in range(len(TIMES) + 1)}
    for name, offset in names.items():
        clients.commit(bootstrap, name, {(source, 0): offset}, metadata="kept")
    saved, at = tmp_path / "saved.jsonl", ["--bootstrap-server", bootstrap]
    done = kgtool("backup", "--match", f"{prefix}-*", "--times", "--out", str(saved), *at)
    assert done.status == 0, done
    renamed = [word for name in names for word in ("--map-group", f"{name}={name}-new")]
    argv = ["restore", str(saved), "--by-time", "--map-topic", f"{source}={target}", *renamed]
    done = kgtool(*argv, "--yes", *at)
    assert done.status == 0, done
    for name, offset in names.items():
        ((_, found),) = clients.committed(bootstrap, f"{name}-new").items()
        unread = offset + BEFORE
        # The last record that was read, and others of its time, may come once more.
        first = TIMES.index(TIMES[offset - 1]) + BEFORE if offset else 0
        assert found <= unread, name
        assert found == first or (compression != "none" and found < first), name


@pytest.mark.usefixtures("journal")
def test_a_backup_without_times_is_refused(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, group = new_topic("timeless"), clients.unique("timeless")
    clients.commit(bootstrap, group, {(topic, 0): 0})
    saved, at = tmp_path / "saved.jsonl", ["--bootstrap-server", bootstrap]
    assert kgtool("backup", "--group", group, "--out", str(saved), *at).status == 0
    done = kgtool("restore", str(saved), "--by-time", "--yes", *at)
    assert done.status == 2 and "kgtool backup --times" in done.err, done


@pytest.mark.usefixtures("journal")
def test_what_has_no_time_is_left_out_and_named(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, group = new_topic("holes", partitions=2), clients.unique("holes")
    for partition in (0, 1):
        clients.produce(bootstrap, topic, 5, partition=partition)
    clients.commit(bootstrap, group, {(topic, 0): 3, (topic, 1): 3})
    saved, at = tmp_path / "saved.jsonl", ["--bootstrap-server", bootstrap]
    assert kgtool("backup", "--group", group, "--times", "--out", str(saved), *at).status == 0
    lines = [json.loads(line) for line in saved.read_text().splitlines()]
    for line in lines:
        if line.get("partition") == 1:
            del line["time_ms"]
    saved.write_text("".join(json.dumps(line) + "\n" for line in lines))
    argv = ["restore", str(saved), "--by-time", "--map-group", f"{group}={group}-new"]
    done = kgtool(*argv, "--all-or-nothing", "--yes", *at)
    assert done.status == 1 and done.err.count("does not say when") == 1, done
    assert clients.committed(bootstrap, f"{group}-new") == {}
    done = kgtool(*argv, "--yes", *at)
    assert done.status == 3 and "does not say when its last record was written" in done.err
    assert done.err.count("does not say when") == 1, done
    assert clients.committed(bootstrap, f"{group}-new").keys() == {(topic, 0)}


def checkpoint(producer: Producer, to: str, group: str, at: tuple[str, int], *how: int) -> None:
    """Write one as MirrorMaker does (Checkpoint.java: key, and value behind a version)."""
    words = [word.encode() for word in (group, at[0])]
    key = b"".join(struct.pack(">h", len(word)) + word for word in words)
    value = struct.pack(">hqqh", 0, *how, 0)
    producer.produce(to, value, key + struct.pack(">i", at[1]))


@pytest.mark.usefixtures("journal")
def test_checkpoints_of_mirrormaker(
    bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The newest that is not beyond the offset; without one the partition is left out."""
    source, target = new_topic("orders", partitions=2), new_topic("mirrored", partitions=2)
    clients.produce(bootstrap, target, 9, key=b"x")
    topic, group = new_topic("checkpoints"), clients.unique("mm")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "gzip"})
    for how in ((0, 0), (3, 2), (5, 4), (8, 7)):
        checkpoint(producer, topic, group, (target, 0), *how)
    checkpoint(producer, topic, "another", (target, 0), 6, 6)
    producer.flush(30)
    clients.produce(bootstrap, source, 9)
    clients.commit(bootstrap, group, {(source, 0): 6, (source, 1): 0})
    saved, at = tmp_path / "saved.jsonl", ["--bootstrap-server", bootstrap]
    assert kgtool("backup", "--group", group, "--out", str(saved), *at).status == 0
    argv = [
        "restore",
        str(saved),
        "--map-topic",
        f"{source}={target}",
        "--map-group",
        f"{group}={group}-new",
        "--yes",
        *at,
    ]
    done = kgtool(*argv, "--checkpoints", topic)
    assert done.status == 3 and "has no checkpoint at or before offset 0" in done.err, done
    assert clients.committed(bootstrap, f"{group}-new") == {(target, 0): 4}
    for wrong, said in ((f"{topic}-no", "There is no topic"), (target, "something else than")):
        done = kgtool(*argv, "--checkpoints", wrong)
        assert done.status == 1 and said in done.err, done
    assert kgtool(*argv, "--checkpoints", topic, "--by-time").status == 2
