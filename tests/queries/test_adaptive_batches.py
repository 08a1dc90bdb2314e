"""How many groups are asked about at a time."""

from __future__ import annotations

from kgtool.queries.offsets.fetch import FIRST, AdaptiveBatches

NAMES = [f"g{number}" for number in range(10 * FIRST)]


def _dealt(offsets_a_group: int) -> list[list[str]]:
    waves, dealt = AdaptiveBatches(NAMES, offsets=1000 * FIRST), []
    while part := waves.next():
        dealt.append(list(part))
        waves.learn(len(part), len(part) * offsets_a_group)
    return dealt


def test_every_group_has_its_turn_once() -> None:
    for size in (0, 1, 999, 10_000_000):
        assert [name for part in _dealt(size) for name in part] == NAMES


def test_large_groups_come_fewer_at_a_time() -> None:
    sizes = [len(part) for part in _dealt(100_000)]
    assert sizes[0] == FIRST
    assert set(sizes[1:]) == {FIRST // 100}


def test_a_single_huge_group_is_asked_about_all_the_same() -> None:
    assert {len(part) for part in _dealt(10_000_000)[1:]} == {1}


def test_small_groups_come_in_few_waves() -> None:
    assert len(_dealt(0)) == 3
