"""The rules as array expressions say what the rules in plain Python say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import NONE
from kgtool.retention import rules as r
from tests.support import seeds

RETENTION_MS = 60_000
SETS = {**r.RULE_SETS, "2.1.x": r.RULES_2_1_X, "13636": r.RULES_2_6, "2.5": r.RULES_2_5}
COUNT = 20_000


def _snapshots() -> list[tuple[Any, ...]]:
    rng = seeds.rng("snapshots")
    times = [0, 1, 59_999, 10**12, 2**62, r.MAX_TIMESTAMP_MS - 1, r.MAX_TIMESTAMP_MS]
    states = [
        r.STATE_EMPTY,
        r.STATE_STABLE,
        r.STATE_PREPARING_REBALANCE,
        r.STATE_COMPLETING_REBALANCE,
        r.STATE_DEAD,
    ]
    types = [r.TYPE_CLASSIC, r.TYPE_CLASSIC, r.TYPE_CONSUMER, r.TYPE_SHARE, r.TYPE_STREAMS]
    return [
        (
            rng.random() > 0.05,
            rng.choice(types),
            rng.choice(states),
            rng.choice(["", "consumer", "connect"]),
            rng.choice([None, -1, *times]),
            rng.choice([None, [], ["t1"], ["t1", "t2"]]),
            rng.choice(["t1", "t2"]),
            rng.choice(times),
            rng.choice([None, None, -1, *times]),
            rng.random() < 0.3,
        )
        for _ in range(COUNT)
    ]


ROWS = _snapshots()
_COLUMNS = list(zip(*ROWS, strict=True))


def _ints(values: Any) -> Any:
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)


GROUP = rc.Group(
    np.array(_COLUMNS[0]),
    _ints(rc.TYPE[name] for name in _COLUMNS[1]),
    _ints(rc.STATE[name] for name in _COLUMNS[2]),
    _ints(map(rc.protocol, _COLUMNS[3])),
    _ints(_COLUMNS[4]),
    np.array([topics is not None for topics in _COLUMNS[5]]),
)
OFFSET = rc.Offset(
    _ints(_COLUMNS[7]),
    _ints(_COLUMNS[8]),
    np.array([row[6] in (row[5] or ()) for row in ROWS]),
    np.array(_COLUMNS[9]),
)


def _group(row: tuple[Any, ...]) -> r.GroupSnapshot | None:
    known, kind, state, protocol, since, topics = row[:6]
    names = None if topics is None else frozenset(topics)
    return r.GroupSnapshot(kind, state, protocol, since, names) if known else None


@pytest.mark.parametrize("name", SETS)
def test_same_verdict_as_the_specification(name: str) -> None:
    rules = SETS[name]
    at_ms, rule = rc.verdict(rules, GROUP, OFFSET, RETENTION_MS)
    seen = set()
    for row, at, number in zip(ROWS, at_ms.tolist(), rule.tolist(), strict=True):
        offset = r.CommittedOffset(row[7], row[8])
        expected = r.verdict(rules, _group(row), offset, row[6], RETENTION_MS, row[9])
        assert (None if at == NONE else at, r.RULES[number]) == tuple(expected), row
        seen.add(expected.rule)
    assert seen >= {r.RULE_EXPLICIT, r.RULE_COMMIT}


@pytest.mark.parametrize("name", SETS)
def test_same_groups_go_as_the_specification_says(name: str) -> None:
    rules, rng = SETS[name], seeds.rng("groups")
    left = _ints(rng.choice([0, 0, 1]) for _ in ROWS)
    had = np.array([rng.random() < 0.5 for _ in ROWS])
    found = rc.may_go(rules, GROUP, left=left, pending=OFFSET.pending, had=had)
    for at, row in enumerate(ROWS):
        group = _group(row)
        if group is not None:
            assert bool(found[at]) == r.group_may_go(
                rules,
                group,
                offsets_before=bool(had[at]),
                offsets_left=bool(left[at]),
                pending=row[9],
            ), row
    assert 0 < found.sum() < COUNT


def test_subscribed_is_unknown_where_the_subscription_is() -> None:
    told = rc.subscribed(GROUP, OFFSET.holds).tolist()
    for row, answer in zip(ROWS, told, strict=True):
        simple = row[1] == r.TYPE_CLASSIC and not row[3]
        if simple or row[2] in (r.STATE_EMPTY, r.STATE_DEAD):
            assert answer == rc.NO
        elif row[5] is None:
            assert answer == rc.UNKNOWN
        else:
            assert answer == (rc.YES if row[6] in row[5] else rc.NO)
