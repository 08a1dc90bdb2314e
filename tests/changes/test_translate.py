"""Where an offset lies in the logs of another cluster: by times, and by checkpoints."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kgtool.changes.restore import translate
from kgtool.changes.restore.backup import header_of
from kgtool.changes.restore.decide import DesiredGroup, DesiredOffset
from kgtool.changes.restore.translate import Checkpoint, Translator, Untranslated, decode
from kgtool.changes.snapshot import OffsetImage
from kgtool.client.cluster import Cluster, TopicInfo
from kgtool.errors import KgError
from kgtool.model import ItemError, TopicPartition
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.list_offsets import LogPoint, LogRange
from kgtool.queries.peek import Window
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, image
from tests.support.script import Script

TOPIC = "source.checkpoints.internal"


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None


def checkpoint(
    upstream: int, downstream: int, at: TopicPartition = T0, group: str = "g", version: int = 0
) -> Record:
    """As ``Checkpoint.recordKey`` and ``recordValue`` write it; the value has more behind."""
    texts = (each.encode() for each in (group, at.topic))
    key = b"".join(struct.pack(">h", len(text)) + text for text in texts)
    value = struct.pack(">hqq", version, upstream, downstream) + b"\0\4meta"
    return Record(key + struct.pack(">i", at.partition), value)


def desired(**offsets: int) -> DesiredGroup:
    """``t0=5``: offset 5 of partition 0."""
    images = {TopicPartition("t", int(name[1:])): image(n) for name, n in offsets.items()}
    wanted = {at: DesiredOffset(one, any_left=True) for at, one in images.items()}
    return DesiredGroup("renamed", wanted, snapshots.group(images))


class Target:
    """The target cluster: logs of the checkpoints' topic, each with its records from ``start``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *logs: Any, start: int = 3) -> None:
        self.logs, self.start = logs, start
        self.windows: list[Window] = []
        self.cluster = Cluster()
        for name in ("fetch_metadata", "log_ranges", "read_window"):
            monkeypatch.setattr(translate, name, getattr(self, f"_{name}"))

    def run(self, operation: Any) -> Any:
        return Script(lambda *_: None).run(operation)

    def _fetch_metadata(self, cluster: Any, names: list[str]) -> Any:
        yield from ()
        leaders = dict.fromkeys(range(len(self.logs)), 1)
        error = None if self.logs else broker_error(3)
        cluster.topics = {name: TopicInfo(name, None, leaders, error) for name in names}

    def _log_ranges(self, _cluster: Any, partitions: Any) -> Any:
        yield from ()
        return {at: self._range(self.logs[at.partition]) for at in partitions}

    def _range(self, log: Any) -> Any:
        if isinstance(log, KgError):
            return log
        return LogRange(LogPoint(self.start, 0), LogPoint(self.start + len(log), 0))

    def _read_window(self, _cluster: Any, window: Window) -> Any:
        yield from ()
        self.windows.append(window)
        return self.logs[window.partition.partition]


def by_checkpoints(target: Target, group: DesiredGroup) -> dict[TopicPartition, Any]:
    found = translate.by_checkpoints(target, TOPIC)(group)
    return {at: one.offset if isinstance(one, LogPoint) else str(one) for at, one in found.items()}


def test_the_newest_checkpoint_that_is_not_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the group's name on the source. An empty partition is not read."""
    log = [
        checkpoint(10, 100),
        checkpoint(20, 190),
        checkpoint(25, 240, T1),
        checkpoint(30, 280),
        checkpoint(19, 1, group="another"),
        Record(b"deleted", None),
        Record(None, b"without key"),
    ]
    target = Target(monkeypatch, [], log)
    for offset, there in ((29, 190), (20, 190), (19, 100), (30, 280), (99, 280)):
        assert by_checkpoints(target, desired(t0=offset)) == {T0: there}
    none = f"{TOPIC} has no checkpoint at or before offset 9."
    assert by_checkpoints(target, desired(t0=9, t1=25)) == {T0: none, T1: 240}
    [window] = set(target.windows)
    assert window == Window(TopicPartition(TOPIC, 1), 3, 10, 3, 0, 7)


def test_a_topic_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the answer says so, or leaves it out."""
    target = Target(monkeypatch)
    with pytest.raises(Untranslated, match=f"There is no topic {TOPIC}"):
        translate.by_checkpoints(target, TOPIC)
    monkeypatch.setattr(translate, "fetch_metadata", lambda *_: (each for each in ()))
    target.cluster.topics = {}
    with pytest.raises(Untranslated, match=f"There is no topic {TOPIC}"):
        translate.by_checkpoints(target, TOPIC)


def test_a_log_that_can_t_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    error = KgError("no leader")
    with pytest.raises(KgError, match="no leader"):
        translate.by_checkpoints(Target(monkeypatch, [checkpoint(1, 1)], error), TOPIC)


def test_a_checkpoint_is_decoded() -> None:
    record: Any = checkpoint(7, 9, TopicPartition("ü", 2), "ä")
    assert decode(*record) == (("ä", TopicPartition("ü", 2)), Checkpoint(7, 9))
    later: Any = checkpoint(7, 9, version=1)
    with pytest.raises(Untranslated, match="checkpoints of version 1; kgtool knows 0"):
        decode(*later)


def test_something_else_is_none() -> None:
    record: Any = checkpoint(7, 9)
    key, value = record
    long = struct.pack(">h", -1) + key[2:]
    for bad in (
        (key[:-1], value),
        (b"", value),
        (key, value[:17]),
        (long, value),
        (b"\0\1\xff", b""),
    ):
        with pytest.raises(Untranslated, match="something else than checkpoints"):
            decode(*bad)


@pytest.mark.parametrize("has_times", [False, True])
def test_by_time(monkeypatch: pytest.MonkeyPatch, has_times: bool) -> None:
    """The first record of that time, or the end where there is none."""
    asked: list[dict[TopicPartition, int]] = []

    def log_ranges(_cluster: Any, _partitions: Any, times: Any) -> Any:
        yield from ()
        asked.append(dict(times))
        end = LogPoint(90, 1)
        points = {T0: LogPoint(40, 1), T1: None}
        return {at: LogRange(LogPoint(0, 0), end, points[at]) for at in times}

    monkeypatch.setattr(translate, "log_ranges", log_ranges)
    session = SimpleNamespace(cluster=None, run=Script(lambda *_: None).run)
    made = header_of("c1", 0, {}, times=True) if has_times else header_of("c1", 0, {})
    backup: Any = SimpleNamespace(header=made, file="b")
    if not has_times:
        with pytest.raises(KgError, match="b has no times of records"):
            translate.by_time(session, backup)
        return
    u0 = TopicPartition("u", 0)
    images = {T0: image(5)._replace(time_ms=0), T1: image(6)._replace(time_ms=7), u0: image(8)}
    wanted = {at: DesiredOffset(one, any_left=True) for at, one in images.items()}
    failed: list[ItemError] = []
    translator = Translator(translate.by_time(session, backup), failed.append)
    group = DesiredGroup("g", wanted, snapshots.group(images))
    for _ in range(2):  # the question's and the change's: it is asked once
        [found] = translator.translate([group])
    assert asked == [{T0: 0, T1: 7}]
    values = {at: one.then for at, one in found.offsets.items()}
    then = images[T0].committed
    assert then is not None
    assert values[T0] == OffsetImage(then._replace(offset=40, leader_epoch=1))
    assert values[T1].committed is not None and values[T1].committed.offset == 90
    [error] = failed
    assert (error.target[:3], error.name) == (("g", "u", 0), "UNTRANSLATED")
