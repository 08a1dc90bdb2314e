"""What differs between two states: every kind, and only those."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.changes.restore.diff import GroupFile, compare
from kgtool.changes.snapshot import OffsetImage
from kgtool.errors import ConfigError
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, image
from tests.changes.test_backup import backup


def status(old: OffsetImage, new: OffsetImage, **options: bool) -> str | None:
    rows = list(compare("g", {T0: old}, {T0: new}, **options))
    return rows[0].status if rows else None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (image(5), image(5), None),
        (image(5), image(7), "moved"),
        (image(5), image(3), "went-backwards"),
        (image(0), image(1), "moved"),
        (image(1), image(0), "went-backwards"),
        (image(5), image(None), "vanished"),
        (image(None), image(5), "new"),
        (image(None), image(None), None),
        (image(5), image(5, metadata="x"), "changed"),
        (image(5, epoch=2), image(5, epoch=1), "changed"),
        (image(5), image(5, epoch=1), None),  # an unknown epoch may be any
        (image(5, metadata=None), image(5, metadata=""), None),
        (image(5), image(5, (3, 200)), None),
        (image(5), image(5, topic_id="id-2"), "topic-recreated"),
        (image(5), image(7, topic_id="id-2"), "topic-recreated"),
        (image(5, topic_id=None), image(7, topic_id="id-2"), "moved"),
    ],
)
def test_kinds(old: OffsetImage, new: OffsetImage, expected: str | None) -> None:
    assert status(old, new) == expected


def test_ids_of_two_clusters_are_not_compared() -> None:
    assert status(image(5), image(5, topic_id="id-2"), with_topic_ids=False) is None


def test_differences() -> None:
    old = {T0: image(5), T1: image(6)}
    rows = list(compare("g", old, {T1: image(2)}))
    assert [(row.partition, row.status, row.difference) for row in rows] == [
        (0, "vanished", None),
        (1, "went-backwards", -4),
    ]


states = st.dictionaries(
    st.sampled_from([T0, T1]), st.builds(image, st.none() | st.integers(0, 3)), max_size=2
)


@given(states, states)
def test_both_ways(old: dict[object, OffsetImage], new: dict[object, OffsetImage]) -> None:
    mirror = {"moved": "went-backwards", "vanished": "new"}
    mirror |= {value: key for key, value in mirror.items()}
    there = list(compare("g", old, new))  # type: ignore[arg-type]
    back = list(compare("g", new, old))  # type: ignore[arg-type]
    assert [mirror.get(row.status, row.status) for row in there] == [row.status for row in back]
    assert list(compare("g", old, old)) == []  # type: ignore[arg-type]


class TestFile:
    def test_any_group_can_be_read(self, tmp_path: Path) -> None:
        names = ["b", "offset", "a", '"offset"', "日本", "kind"]
        found = [snapshots.group({T0: image(n)}, name) for n, name in enumerate(names)]
        file = GroupFile(backup(tmp_path / "b", *found))
        assert list(file.groups) == names
        for order in itertools.islice(itertools.permutations(range(len(names))), 5):
            for n in order:
                recorded = file.read(names[n])
                assert recorded is not None
                assert dict(recorded.image.offsets) == {T0: image(n)}
        assert file.read("nosuch") is None

    def test_twice(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b", snapshots.group({}), snapshots.group({}))
        with pytest.raises(ConfigError, match="line 3: group 'g' appears twice"):
            GroupFile(path)
