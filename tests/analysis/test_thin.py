"""What is left out of a large group before it is folded changes no table, and nobody's clock."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import schema
from kgtool.analysis.decode.blobs import empty
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.fold import buckets, compact
from kgtool.analysis.fold.folded_log import FoldedLog, TableOptions
from kgtool.analysis.fold.removals import explain_removals
from kgtool.analysis.fold.whatif.client_events import build_client_events
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.partition_tables import _tables
from tests.analysis.test_in_pieces import tables
from tests.analysis.test_lives import SCENARIOS, SETS, partitions, some_scenarios, write
from tests.retention.lives import ALL_TYPES, TOPICS, Life
from tests.retention.logs import Log

LONG = tuple(each for each in SCENARIOS if each.retention_ms > 50_000)
"""Commits follow each other sooner, so that some can be left out."""


def all_long(_: str) -> tuple[Scenario, ...]:
    return LONG


def some_long(author: str) -> tuple[Scenario, ...]:
    return tuple(each for each in some_scenarios(author) if each in LONG)


def none(_: str) -> tuple[Scenario, ...]:
    return ()


class Busy(Life):
    """Groups that commit all the time, and sometimes do something else."""

    def run(self, events: int, longest_pause_ms: int) -> Log:
        others = [
            self.commit,
            self.end_transaction,
            self.join,
            self.join,
            self.leave,
            self.forget,
            self.vanish,
        ]
        jumps = (0,) if self.rng.random() < 0.5 else (100_000, -50, -8_000, -8_000)
        for _ in range(events):
            self.now_ms += self.rng.randint(1, longest_pause_ms)
            group = self.rng.choice(self.groups)
            chance = self.rng.random()
            if chance < 0.03:
                self.rng.choice(others)(group)
            elif chance < 0.04:
                self.ahead(self.rng.choice((self.forget, self.join)), group)
            elif chance < 0.045 and group == "g0":
                self.commit_in_transaction(group)
            elif chance < 0.07:
                self.now_ms += self.rng.choice(jumps)
            else:
                for _ in range(self.rng.randint(1, 6)):
                    self._commit(group)
        return self.log

    def ahead(self, step: Callable[[str], None], group: str) -> None:
        """By a broker whose clock is."""
        self.now_ms += 30_000
        step(group)
        self.now_ms -= 30_000

    def _commit(self, group: str, *, ets: int | None = None, pid: int = -1) -> None:
        topic, partition = self.rng.choice(TOPICS), self.rng.randint(0, 1)
        stamped = self.now_ms - self.rng.choice((0, 0, 0, 3, 20_000, -20_000))
        self.log.commit(
            self.now_ms,
            topic,
            partition,
            offset=self.rng.randint(0, 9),
            cts=stamped,
            ets=ets,
            pid=pid,
            group=group,
        )


def busy_log(folder: Path, author: str, pause_ms: int) -> None:
    rng = random.Random(f"{author} {pause_ms}")
    types = ALL_TYPES if SETS[author].new_coordinator else ("classic",)
    for partition in range(4):
        entries = Busy(rng, types=types, groups=3).run(150, pause_ms).entries
        write(folder / f"__consumer_offsets-{partition}", entries, partition % 3 * 20, rng)


@pytest.mark.parametrize("author", SETS)
@pytest.mark.parametrize(
    ("chosen", "pause_ms", "gaps"),
    [(all_long, 1_500, True), (some_long, 4_000, True), (none, 1_500, True), (none, 1_500, False)],
    ids=["whatif", "whatif-slow", "gaps", "none"],
)
def test_what_is_left_out_changes_nothing(
    author: str,
    chosen: Callable[[str], tuple[Scenario, ...]],
    pause_ms: int,
    gaps: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenarios = chosen(author)
    busy_log(tmp_path, author, pause_ms)
    if not gaps:  # the decoder would leave out almost as much
        every = DecodeOptions((700,), 10_000)
        monkeypatch.setattr(TableOptions, "decode_options", lambda *_: every)
    expected = tables(tmp_path, author, scenarios, gaps=gaps)
    rows: Counter[str] = Counter()
    thinned = compact._drop_unneeded

    def noted(table: Any, *given: Any) -> Any:
        found = thinned(table, *given)
        rows.update(had=len(table), left_out=len(table) - len(found))
        return found

    monkeypatch.setattr(compact, "_drop_unneeded", noted)
    monkeypatch.setattr(compact, "STEP", 50)
    monkeypatch.setattr(buckets, "ROWS", 60)
    found = tables(tmp_path, author, scenarios, gaps=gaps)
    assert rows["left_out"] > 100, rows
    for name, some in expected.items():
        assert found[name] == some, name


@pytest.mark.parametrize("author", ["2.4", "4.1"])
def test_nobodys_clock_changes(
    author: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks of brokers go back, and a tombstone's may be ahead: by itself it counts for none."""
    busy_log(tmp_path, author, 1_500)
    monkeypatch.setattr(compact, "STEP", 50)
    had = left = 0
    for partition, kinds, plan in partitions(tmp_path, SETS[author], LONG):
        rows = kinds[schema.KIND_OFFSET]
        own = compact.group_record_times(kinds.get(schema.KIND_GROUP, empty(schema.KIND_GROUP)))
        pieces = [rows.slice(at, 50) for at in range(0, len(rows), 50)]
        some = compact.drop_unneeded(pieces, own, plan, len(rows))
        had, left = had + len(rows), left + len(some)
        expected = clocks(FoldedLog(partition, dict(kinds), plan))
        found = clocks(FoldedLog(partition, {**kinds, schema.KIND_OFFSET: some}, plan))
        assert found.items() <= expected.items()
    assert left < had * 0.9


def test_nor_where_one_goes_back_between_two_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row of a step may be later than all that come behind it."""
    log = Log()
    commits(log, 0, 1, 2, 3, 10)
    commits(log, 1, 5, 6, 7, 8)
    commits(log, 0, 11, 12, 13, 14)
    write(tmp_path / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    every = Scenario(SETS["4.1"], 60_000, 700)
    ((partition, kinds, plan),) = partitions(tmp_path, SETS["4.1"], (every,))
    monkeypatch.setattr(compact, "STEP", 4)
    rows = kinds[schema.KIND_OFFSET]
    own = compact.group_record_times(empty(schema.KIND_GROUP))
    pieces = [rows.slice(at, 4) for at in range(0, len(rows), 4)]
    some = compact.drop_unneeded(pieces, own, plan, len(rows))
    assert len(some) < len(rows)
    found = clocks(FoldedLog(partition, {**kinds, schema.KIND_OFFSET: some}, plan))
    assert found.items() <= clocks(FoldedLog(partition, dict(kinds), plan)).items()


def test_every_row_is_looked_at_once_with_some_keys_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    for at in range(20):
        for partition in range(100):
            commits(log, partition, at)
    write(tmp_path / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    every = Scenario(SETS["4.1"], 60_000, 700)
    ((_, kinds, plan),) = partitions(tmp_path, SETS["4.1"], (every,))
    rows, held = kinds[schema.KIND_OFFSET], []
    thinned = compact._drop_unneeded

    def noted(table: Any, *given: Any) -> Any:
        held.append(len(table))
        return thinned(table, *given)

    monkeypatch.setattr(compact, "_drop_unneeded", noted)
    monkeypatch.setattr(compact, "STEP", 200)
    own = compact.group_record_times(empty(schema.KIND_GROUP))
    found = compact.drop_unneeded([rows], own, plan, len(rows))
    assert sum(held) == len(rows) == 2000
    assert max(held) < 400
    assert len(found) < 500


def test_where_an_offset_was_lost_the_first_commits_of_others_keep_their_place(
    tmp_path: Path,
) -> None:
    """Else the group would have none in between."""
    log = Log()
    commits(log, 0, 0)
    commits(log, 1, 1)
    log.forget(START_MS + 2_000, "t", 0)
    commits(log, 1, 3, 4)
    write(tmp_path / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    every = Scenario(SETS["2.4"], 60_000, 700)
    ((partition, kinds, plan),) = partitions(tmp_path, SETS["2.4"], (every,))
    plan = plan._replace(options=TableOptions(bucket_ms=1000))
    rows = kinds[schema.KIND_OFFSET]
    own = compact.group_record_times(empty(schema.KIND_GROUP))
    some = compact.drop_unneeded([rows], own, plan, len(rows))
    assert len(some) < len(rows)
    found = dict(_tables(FoldedLog(partition, {**kinds, schema.KIND_OFFSET: some}, plan)))
    expected = dict(_tables(FoldedLog(partition, kinds, plan)))
    changes = [each["offset_changes"].sort_by("at_ms").to_pylist() for each in (found, expected)]
    assert changes[0] == changes[1]


def clocks(folded: FoldedLog) -> dict[tuple[int, int], int]:
    """By position and kind of event."""
    events = build_client_events(folded, explain_removals(folded), LONG)
    places = zip(events.position.tolist(), events.kind.tolist(), strict=True)
    return dict(zip(places, events.clock_ms.tolist(), strict=True))


START_MS = 1_700_000_000_000


def check(folder: Path, log: Log, table: str, column: str) -> None:
    """A table says the same without some rows."""
    write(folder / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    often = Scenario(SETS["4.1"], 60_000, 700)  # so that the decoder leaves them all
    ((partition, kinds, plan),) = partitions(folder, SETS["4.1"], (often,))
    plan = plan._replace(options=plan.options._replace(gaps=True))
    own = compact.group_record_times(kinds.get(schema.KIND_GROUP, empty(schema.KIND_GROUP)))
    rows = kinds[schema.KIND_OFFSET]
    some = compact.drop_unneeded([rows], own, plan, len(rows))
    assert len(some) < len(rows)
    found = dict(_tables(FoldedLog(partition, {**kinds, schema.KIND_OFFSET: some}, plan)))
    expected = dict(_tables(FoldedLog(partition, kinds, plan)))
    assert found[table][column].to_pylist() == expected[table][column].to_pylist()


def commits(log: Log, partition: int, *at_s: int, early_s: int = 0) -> None:
    for at in at_s:
        log.commit(START_MS + at * 1000, "t", partition, cts=START_MS + (at - early_s) * 1000)


def test_a_pause_over_a_record_of_the_group_counts_up_to_it(tmp_path: Path) -> None:
    """From there on a member holds the topic."""
    log = Log()
    log.classic(START_MS, [["u"]], cst=START_MS)
    commits(log, 0, 1, 2, 27, 28, 29, 33)
    log.classic(START_MS + 33_500, [["t"]], cst=START_MS)
    commits(log, 0, 80, 81, 82)
    check(tmp_path, log, "gaps", "safe_retention_ms")


def test_a_tombstone_of_the_brokers_is_nobodys_clock(tmp_path: Path) -> None:
    log = Log()
    commits(log, 9, 0, early_s=900)
    commits(log, 0, 1, 2)
    log.forget(START_MS + 50_000, "t", 9)  # expired, by a broker whose clock is ahead
    commits(log, 0, 3, 4)
    commits(log, 1, 62, 63, 64, 65, early_s=20)
    commits(log, 1, 80, 81, 82)
    commits(log, 2, 83, 84, 85, 103)
    check(tmp_path, log, "gaps", "safe_retention_ms")


def test_nor_of_what_comes_between_it_and_the_next_check(tmp_path: Path) -> None:
    log = Log()
    commits(log, 9, 0, early_s=900)
    commits(log, 0, 1, 2)
    log.forget(START_MS + 51_000, "t", 9)
    commits(log, 0, 3, 4, 53, 54, 55)
    commits(log, 1, 60, 61, 62, 112, 113, 114, early_s=-40)
    check(tmp_path, log, "gaps", "safe_retention_ms")


def test_who_is_behind_the_time_of_another_waits_for_it(tmp_path: Path) -> None:
    log = Log()
    commits(log, 0, 1, 2, 3)
    commits(log, 1, 30)
    commits(log, 0, 4, 5, 6)
    commits(log, 2, 40, 41, 42, 67, 68, 69, early_s=-40)
    check(tmp_path, log, "gaps", "safe_retention_ms")


def test_the_last_commit_may_not_be_the_latest(tmp_path: Path) -> None:
    log = Log()
    log.classic(START_MS + 30_000, [["t"]], cst=START_MS)
    commits(log, 0, -8, 20, 21, 22, 23)
    commits(log, 1, 1, 2, 25, 3, 4)
    check(tmp_path, log, "groups", "last_commit_ms")


def test_the_first_commit_may_not_be_the_earliest(tmp_path: Path) -> None:
    log = Log()
    log.classic(START_MS + 30_000, [["t"]], cst=START_MS)
    commits(log, 1, 10, 11, 2, 12, 13)
    commits(log, 0, 14, 35, 36, 37, 38)
    check(tmp_path, log, "groups", "first_seen_ms")
