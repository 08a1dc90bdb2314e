"""Images made by hand, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from kgtool.changes.snapshot import GroupChange, GroupImage, GroupReading, OffsetImage
from kgtool.model import (
    Broker,
    CommittedOffset,
    GroupDescription,
    ItemError,
    Member,
    Target,
    TopicPartition,
)

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
MISSING = ItemError(Target(group="g"), 69, "GROUP_ID_NOT_FOUND", "Group g not found.")


def at(offset: int | None, epoch: int | None = None, metadata: str | None = "") -> CommittedOffset:
    return CommittedOffset(offset, epoch, metadata)


def image(
    offset: int | None,
    log: tuple[int, int] = (0, 100),
    topic_id: str | None = "id-1",
    epoch: int | None = None,
    metadata: str | None = "",
) -> OffsetImage:
    committed = None if offset is None else at(offset, epoch, metadata)
    return OffsetImage(committed, topic_id, *log)


def group(
    offsets: dict[TopicPartition, OffsetImage], name: str = "g", **more: object
) -> GroupImage:
    values = {"type": "classic", "state": "Empty", "protocol_type": "", "exists": True, **more}
    return GroupImage(name, offsets=offsets, **values)  # type: ignore[arg-type]


def change(
    offsets: dict[TopicPartition, OffsetImage],
    after: dict[TopicPartition, CommittedOffset | None] | None = None,
    name: str = "g",
) -> GroupChange:
    gone: dict[TopicPartition, CommittedOffset | None] = dict.fromkeys(offsets)
    return GroupChange(group(offsets, name), gone if after is None else after)


def reading(
    offsets: dict[TopicPartition, OffsetImage],
    state: str = "Empty",
    *,
    exists: bool = True,
    errors: list[ItemError] | None = None,
    type: str = "classic",
) -> GroupReading:
    members = ()
    if state == "Stable":
        members = (Member("m-1", None, "client-1", "/10.0.0.1", (), ("t",)),)
    description = GroupDescription(
        "g",
        type,
        state,
        "consumer",
        "",
        Broker(1, "b", 9092),
        members,
        error=None if exists else MISSING,
    )
    found = group(offsets, type=type, state=state, exists=exists)
    return GroupReading(description, found, errors or [])


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
longs = st.integers(0, 2**63 - 1)
committed = st.builds(
    CommittedOffset,
    longs,
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=30),
    is_pending=st.just(False),
)
offset_images = st.builds(
    OffsetImage,
    st.none() | committed | committed.map(lambda value: value._replace(is_pending=True)),
    st.none() | st.text("abcXYZ019-_", min_size=22, max_size=22),
    st.none() | longs,
    st.none() | longs,
    st.none() | longs,
)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
group_images = st.builds(
    GroupImage,
    names,
    st.none() | st.sampled_from(["classic", "consumer", "streams"]),
    names,
    st.text(max_size=8).filter(lambda text: text.isascii()),
    st.booleans(),
    st.dictionaries(partitions, offset_images, max_size=4),
)
