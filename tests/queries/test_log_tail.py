"""The four numbers of KIP-496, from records as coordinators write them.

Stands for: why a tombstone is there. Siblings: due or not, committed again since the last look,
with its group, with its topic, a rebalance or a static member that is back.
"""

from __future__ import annotations

from typing import Any

from kgtool.model import TopicPartition
from kgtool.queries.log import tail
from kgtool.records import Record
from kgtool.records import group_metadata as gm
from kgtool.records import offset_commit as oc

NOW = 1_800_000_000_000


def offset(group: str, partition: int, value: bool = True) -> Record:
    key = oc.OffsetCommitKey(group=group, topic="t", partition=partition)
    return Record(1, "offset", key, 4, oc.OffsetCommitValue(offset=1) if value else None)


def metadata(group: str, generation: int | None, members: int = 1) -> Record:
    value = None
    if generation is not None:
        rows: list[Any] = [gm.MemberMetadata(member_id=str(n)) for n in range(members)]
        value = gm.GroupMetadataValue(generation=generation, members=rows)
    return Record(2, "group", gm.GroupMetadataKey(group=group), 4, value)


def counted(*records: Record, due: dict[int, int] | None = None, topics: str = "t") -> list[int]:
    log = tail.LogTail()
    for record in records:
        log._take(record, NOW)

    def expires_at(_group: str, at: TopicPartition) -> int | None:
        return (due or {}).get(at.partition)

    log.judge(expires_at, {topics})
    return [log.counts[name] for name in (tail.COMMITS, tail.EXPIRATIONS, tail.DELETIONS)]


def test_commits_and_why_offsets_went() -> None:
    gone = offset("g", 0, value=False)
    assert counted(offset("g", 0), offset("g", 0), offset("h", 1)) == [3, 0, 0]
    assert counted(gone, due={0: NOW}) == [0, 1, 0]
    assert counted(gone, due={0: NOW + 1}) == [0, 0, 1]
    assert counted(gone) == [0, 0, 1]
    # Its clock began again: it was not due.
    assert counted(offset("g", 0), gone, due={0: NOW}) == [1, 0, 1]
    # With its group, or its topic: brokers count neither.
    assert counted(gone, metadata("g", None)) == [0, 0, 0]
    assert counted(gone, metadata("other", None)) == [0, 0, 1]
    assert counted(gone, topics="another") == [0, 0, 0]


def test_completed_rebalances() -> None:
    log = tail.LogTail()
    for record in (
        metadata("g", 1),
        metadata("g", 1),  # a static member that is back
        metadata("g", 2, members=0),  # Empty
        metadata("g", 3, members=2),
        metadata("h", 1),
    ):
        log._take(record, NOW)
    assert log.counts[tail.REBALANCES] == 3
