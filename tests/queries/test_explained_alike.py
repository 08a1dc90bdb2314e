"""What ``explain`` says of a removal, and what ``analyze`` makes of the same log, is the same.

T14. Random logs, whole, with a head that is cut off, compacted, with coordinators that move, and
with retentions that changed: explain, which keeps the records of one group of one log partition,
may say less than analyze, which reads all, never something else. Kind: two readers of one log that
differ in what they know. Siblings: recover, whose rows have causes too; --rules over time; a log
that older brokers began.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.queries.log import removals
from kgtool.queries.log.gone import read_gone
from kgtool.queries.log.removals import GroupRecords, group_past
from kgtool.records.batch import batches
from kgtool.records.offset_commit import OffsetCommitValue
from kgtool.retention import rules as r
from kgtool.retention.phases import RulePhases, rule_phases
from kgtool.retention.writes import Removal
from tests.analysis.test_lives import write
from tests.analysis.test_unknown import Line, Rest, head, lines, superseded, write_lines
from tests.queries.offsets_log import FakeBroker, RawLog
from tests.retention.logs import Log
from tests.support import seeds
from tests.support.tables import rows_of, shown

R, INTERVAL_MS, T0 = 60_000, 5_000, 1_700_000_000_000
SETS: dict[str, tuple[str, RulePhases]] = {
    "pre-2.1": ("pre-2.1", ((0, r.RULES_PRE_2_1),)),
    "2.3": ("2.1", ((0, r.RULES_2_3),)),
    "2.5": ("2.4", ((0, r.RULES_2_5),)),
    "2.4": ("2.4", ((0, r.RULES_2_4),)),
    "3.7-new": ("3.7-new", ((0, r.RULES_3_7_NEW),)),
    "4.1": ("4.1", ((0, r.RULES_4_1),)),
    "2.1 to 2.4": ("2.1", rule_phases("2.1@0,2.4@1700000300000", 0)),
    "2.4 to 4.1": ("4.1", rule_phases("2.4@0,4.1@1700000300000", 0)),
}
Take = Callable[[list[Line], random.Random], Rest]
Row = tuple[Any, ...]


def whole(rows: list[Line], _: random.Random) -> Rest:
    return Rest(rows)


def with_epochs(data: bytes, rng: random.Random) -> bytes:
    """The same batches, some of them after a new leader was elected."""
    found, epoch = bytearray(data), 0
    for batch in batches(data):
        epoch += rng.random() < 0.03
        at = batch.start - 61 + 12
        found[at : at + 4] = epoch.to_bytes(4, "big")
    return bytes(found)


def analyzed(folder: Path, rules: RulePhases) -> dict[str, list[Row]]:
    basis = broker_settings.settings_from(None, "auto", R, INTERVAL_MS)
    basis = basis._replace(
        rules=rules[-1][1], rules_given=True, rule_changes=rules if len(rules) > 1 else ()
    )
    found: dict[str, list[Row]] = defaultdict(list)
    analysis = Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis)
    for row in rows_of(analysis, "removals"):
        found[row.group].append(tuple(row))
    return found


def explained(
    data: bytes,
    group: str,
    rules: RulePhases | r.RuleSet,
    begin: int,
    others: int,
    elsewhere: list[Removal] | None = None,
) -> list[Row]:
    reader = GroupRecords([group], 0, others=others)
    reader.feed(data)
    rows = reader.removals(rules, R, INTERVAL_MS, begin=begin, elsewhere=elsewhere)
    return [shown(row) for row in rows if row.group == group]


def contradictions(said: list[Row], by_analysis: list[Row]) -> Iterator[str]:
    """Where explain says something that analyze does not."""
    order = sorted(said, key=str), sorted(by_analysis, key=str)
    keys = ([(*row[:4], *row[7:9]) for row in rows] for rows in order)
    left, right = map(sorted, (map(str, each) for each in keys))
    if left != right:
        yield f"other rows: {order}"
        return
    for key in set(left):
        mine, theirs = (
            [row for row in rows if str((*row[:4], *row[7:9])) == key] for rows in order
        )
        for one, other in zip(mine, theirs, strict=True):
            for at, name in ((4, "cause"), (5, "expires_at_ms"), (6, "latency_ms"), (9, "rule")):
                if one[4] is not None and one[at] != other[at]:
                    yield f"{name}: {one} is {other}"
            if one[4] is None and one[5] not in (None, other[5]):
                yield f"date without a cause: {one} is {other}"


def check(folder: Path, rest: Rest, rules: RulePhases, rng: random.Random, others: int) -> int:
    """How many removals were compared."""
    write_lines(folder, rest)
    segments = {}
    for path in sorted(folder.rglob("*.log")):
        path.write_bytes(with_epochs(path.read_bytes(), rng))
        segments[int(re.findall(r"__consumer_offsets-(\d+)", str(path))[-1])] = path
    alone: dict[int, list[Removal]] = {}
    for number, path in segments.items():
        reader = GroupRecords([], number, others=9999)
        reader.feed(path.read_bytes())
        base = rest.bases.get(number, 0)
        alone[number] = reader.judged_alone(rules, R, INTERVAL_MS, begin=base)
    found, count = analyzed(folder, rules), 0
    for group, theirs in found.items():
        number = int(group[1])
        begin, data = rest.bases.get(number, 0), segments[number].read_bytes()
        elsewhere = [row for other, rows in alone.items() if other != number for row in rows]
        said = explained(data, group, rules, begin, others, elsewhere if others else None)
        wrong = list(contradictions(said, theirs))
        assert not wrong, "\n".join(wrong)
        count += len(theirs)
    return count


@pytest.mark.parametrize("take", [whole, head, superseded], ids=lambda take: take.__name__)
@pytest.mark.parametrize("name", SETS)
def test_explain_says_less_never_something_else(name: str, take: Take, tmp_path: Path) -> None:
    author, rules = SETS[name]
    for seed in seeds.rounds(1):
        rng = random.Random(f"{name} {take.__name__} {seed}")
        for others in (0, 9999):
            rows = lines(rng, author, quiet=take is not whole)
            folder = tmp_path / f"{seed} {others}"
            check(folder, take(rows, rng), rules, rng, others)


# --- what one group alone does not tell ----------------------------------------------------------


def both(
    log: Log, group: str, rules: r.RuleSet, folder: Path, others: int, *, given: bool = True
) -> tuple[list[str | None], list[str | None]]:
    """The causes of a group's removals by explain and by analyze."""
    name = folder / "__consumer_offsets-0"
    write(name, log.entries, 0, random.Random(1))
    data = next(name.glob("*.log")).read_bytes()
    basis = broker_settings.settings_from(None, "auto", R, INTERVAL_MS)
    basis = basis._replace(rules=rules, rules_given=given)
    analysis = Analysis(LocalEngine(1), find_inputs([str(folder)]).files, basis)
    theirs = [row.cause for row in rows_of(analysis, "removals") if row.group == group]
    said = explained(data, group, ((0, rules),) if given else rules, 0, others)
    return [row[4] for row in said], theirs


@pytest.mark.parametrize("version", [(2, 1), (2, 1, 1)])
@pytest.mark.parametrize("ets", [-1, T0], ids=["of IBP 1.1", "OffsetCommit v2"])
def test_a_time_of_its_own_is_neither_a_deletion_nor_the_retention(
    ets: int, version: tuple[int, ...], tmp_path: Path
) -> None:
    """Was: explain said "deleted" of what a load of 2.1.1 expires (IBP 1.1 writes -1, which is read
    as a time that is past), and blamed the retention for an offset committed with 0 of its own."""
    log = Log()
    log.commit(T0, cts=T0, ets=ets)
    log.epoch = 1
    log.forget(T0 + 10_000)
    write(tmp_path / "__consumer_offsets-0", log.entries, 0, random.Random(1))
    reader = GroupRecords(["g"], 0, others=99)
    reader.feed(next((tmp_path / "__consumer_offsets-0").glob("*.log")).read_bytes())
    rules = r.rules_for_broker(version, new_coordinator=False)
    (row,) = reader.removals(((0, rules),), R, INTERVAL_MS)
    assert (row.cause, row.rule) == (r.CAUSE_EXPIRED, r.RULE_EXPLICIT)
    (tmp_path / "both").mkdir()
    mine, theirs = both(log, "g", rules, tmp_path / "both", 0)
    assert mine == theirs == [r.CAUSE_EXPIRED]


@pytest.mark.parametrize(
    ("others", "out_of_phase", "said"),
    [
        (0, False, None),
        (0, True, None),
        (9, False, r.CAUSE_EXPIRED),
        (9, True, None),
        (1, True, None),
    ],
)
def test_the_phase_of_checks_is_told_by_other_groups(
    others: int, out_of_phase: bool, said: str | None, tmp_path: Path
) -> None:
    """KAFKA-13636: a removal shortly before a generation is the rebalance's, unless the checks were
    at other times, which the removals of other groups show."""
    log = Log()
    log.commit(T0, cts=T0)
    log.classic(T0 + 50_000, cst=T0 + 50_000)
    if out_of_phase:
        log.commit(T0 + 51_000, "t2", cts=T0 + 3_000, group="o")
        log.forget(T0 + 63_333, "t2", group="o")
    log.forget(T0 + 70_000)
    log.classic(T0 + 72_000, [["t2"]], cst=T0 + 70_000, generation=2)
    mine, theirs = both(log, "g", r.RULES_2_6, tmp_path, others)
    assert mine == [said]
    assert theirs == [None if out_of_phase else r.CAUSE_EXPIRED]


@pytest.mark.parametrize("others", [0, 9])
def test_the_generation_that_ends_a_static_members_old_topics_is_kept(
    others: int, tmp_path: Path
) -> None:
    """Was a later date: the members that explain has seen last are the same, but the topics of a
    static member that is back count from the next generation on (KIP-345)."""
    log = Log()
    log.classic(T0, [["t1"]], cst=T0, static=True)
    log.classic(T0 + 150_000, [["t2"]], cst=T0, static=True)
    log.commit(T0 + 160_000, cts=T0 + 160_000)
    for generation in (2, 3):
        at_ms = T0 + 140_000 + generation * 30_000
        log.classic(at_ms, [["t2"]], cst=at_ms, generation=generation, static=True)
    log.forget(T0 + 235_000)
    name, rules = tmp_path / "__consumer_offsets-0", ((0, r.RULES_4_1),)
    write(name, log.entries, 0, random.Random(1))
    said = explained(next(name.glob("*.log")).read_bytes(), "g", rules, 0, others)
    assert not list(contradictions(said, analyzed(tmp_path, rules)["g"]))
    assert [row[4:6] for row in said] == [(r.CAUSE_EXPIRED, T0 + 220_000)]


@pytest.mark.parametrize(
    ("pause_ms", "is_whole", "said"),
    [
        (0, True, r.CAUSE_CONVERTED),
        (0, False, r.CAUSE_CONVERTED),
        (1, True, r.CAUSE_EXPLICIT),
        (1, False, None),
    ],
)
@pytest.mark.parametrize("is_downgrade", [False, True])
def test_only_one_write_tells_that_a_group_was_converted(
    is_downgrade: bool, pause_ms: int, is_whole: bool, said: str | None, tmp_path: Path
) -> None:
    """Was "converted" in a compacted log, whenever the group came back as one of another type: the
    records of that write may be superseded by those, or the group was deleted between."""
    log = Log()
    log.commit(T0, "t2", cts=T0)
    log.commit(T0, cts=T0)
    log.commit(T0, "t2", cts=T0)
    log.end_group(T0 + 5_000, 3 if is_downgrade else 2)
    if is_downgrade:
        log.classic(T0 + 5_000 + pause_ms, [["t1"]], cst=T0)
    else:
        log.member(T0 + 5_000 + pause_ms, "m", ["t1"])
    log.entries[:] = log.entries[not is_whole :]
    mine, theirs = both(log, "g", r.RULES_4_1, tmp_path, 9)
    assert mine == theirs == [said]


def test_a_retention_that_was_raised_is_no_deletion(tmp_path: Path) -> None:
    """Somebody raised the retention after offsets had expired, and asks why they went."""
    log = Log()
    for at in range(12):
        group = f"g{at % 3}"
        log.commit(T0 + at, "t1", at, cts=T0 + at * 2_500, group=group)
    for at in range(12):
        group = f"g{at % 3}"
        log.forget(T0 + 70_000 + at * 2_500, "t1", at, group=group)
    name = tmp_path / "__consumer_offsets-0"
    write(name, log.entries, 0, random.Random(1))
    reader = GroupRecords(["g0"], 0, others=99)
    reader.feed(next(name.glob("*.log")).read_bytes())
    rows = reader.removals(((0, r.RULES_4_1),), 7 * 86_400_000, INTERVAL_MS)
    assert {row.cause for row in rows if row.group == "g0"} == {None}
    few = GroupRecords(["g0"], 0, others=3)
    few.feed(next(name.glob("*.log")).read_bytes())
    assert (few.lacks_others, reader.lacks_others) == (True, False), "which explain says"
    rows = few.removals(((0, r.RULES_4_1),), 7 * 86_400_000, INTERVAL_MS)
    assert {row.cause for row in rows} == {None}, "others, which were left out, tell"
    basis = broker_settings.settings_from(None, "4.1", 7 * 86_400_000, INTERVAL_MS)
    analysis = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis)
    assert {row.cause for row in rows_of(analysis, "removals")} == {None}


@pytest.mark.parametrize("is_raised", [True, False])
def test_what_other_log_partitions_tell_is_not_left_out_in_silence(
    is_raised: bool, tmp_path: Path
) -> None:
    """Was "explicit", somebody deleted it: four removals in each of four log partitions, which were
    expiry before the retention was raised, are too few to tell where only one is read; analyze,
    which reads all, did not know. Siblings: recover; a partition that can't be read, or is large.
    """
    judge, judged = (r.RULES_4_1, 7 * 86_400_000, INTERVAL_MS), {}
    readers = {}
    for number in range(4):
        log, folder = Log(), tmp_path / f"__consumer_offsets-{number}"
        for at in range(4 if is_raised else number == 0):
            when = T0 + at * 7_500 + number * 2_000
            log.commit(when, "t1", at, cts=when, group=f"g{number}")
        for at in range(4 if is_raised else number == 0):
            when = T0 + 70_000 + at * 7_500 + number * 2_000
            log.forget(when, "t1", at, group=f"g{number}")
        log.commit(T0 + 150_000, "t1", 9, cts=T0 + 150_000, group=f"g{number}")
        write(folder, log.entries, 0, random.Random(1))
        readers[number] = GroupRecords([f"g{number}"], number, others=99)
        readers[number].feed(next(folder.glob("*.log")).read_bytes())
        judged[number] = readers[number].judged_alone(*judge, begin=0)
    causes = {row.cause for row in readers[0].removals(*judge)}
    assert causes == {None}, "other partitions were not read"
    elsewhere = [row for number in (1, 2, 3) for row in judged[number]]
    causes = {row.cause for row in readers[0].removals(*judge, elsewhere=elsewhere)}
    basis = broker_settings.settings_from(None, "4.1", 7 * 86_400_000, INTERVAL_MS)
    analysis = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis)
    theirs = {row.cause for row in rows_of(analysis, "removals")}
    assert causes == theirs == {None if is_raised else r.CAUSE_EXPLICIT}


@pytest.mark.parametrize(("most", "said"), [(20_000, r.CAUSE_EXPLICIT), (5, None)])
def test_a_small_log_is_read_whole(
    most: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason why it is not is told; nothing more is read where the group's records tell."""
    monkeypatch.setattr(removals, "OTHERS", most)
    log = RawLog()
    log.commit(T0, cts=T0)
    log.commit(T0, "t2", cts=T0)
    log.forget(T0 + 3_600_000)
    broker = FakeBroker(log, partitions=3, retention_minutes="10080")
    past = broker.run(group_past(broker.cluster, "g", r.RULES_4_1, 7 * 86_400_000, None))
    assert [row.cause for row in past.removals] == [r.CAUSE_EXPLICIT], "t2, as old, was kept"
    assert (broker.fetched, past.lacks_others) == ([0], False)
    log.forget(T0 + 3_600_000, "t2")
    past = broker.run(group_past(broker.cluster, "g", r.RULES_4_1, 7 * 86_400_000, None))
    assert [row.cause for row in past.removals] == [said, said]
    assert (past.lacks_others, len(broker.fetched)) == (said is None, 2 if said is None else 4)
    gone = broker.run(read_gone(broker.cluster, ["g"]))["g"]
    assert [each.cause for each in gone.offsets.values()] == [said, said], "recover"


@pytest.mark.parametrize(
    ("age_ms", "kept_ms", "own_date", "said"),
    [
        (3_600_000, None, False, None),
        (3_600_000, 3_500_000, False, None),
        (3_600_000, 3_600_000, False, r.CAUSE_EXPLICIT),
        (3_600_000, 3_700_000, False, r.CAUSE_EXPLICIT),
        (59_000, None, False, r.CAUSE_EXPLICIT),
        (3_630_000, None, False, r.CAUSE_EXPLICIT),
        (3_600_000, None, True, r.CAUSE_EXPLICIT),
    ],
)
def test_what_no_retention_removes_was_deleted_whoever_else_is_left_out(
    age_ms: int, kept_ms: int | None, own_date: bool, said: str | None, tmp_path: Path
) -> None:
    """More than 20,000 records of other groups: was "explicit" where they show another retention.
    Siblings: an offset as old or older that is kept, less than the shortest retention, an age that
    is no number of minutes and a check, a date of its own; one that is kept and younger."""
    log, at_ms = Log(), T0 + 9_000_000
    if kept_ms is not None:
        log.commit(at_ms - kept_ms, "t2", cts=at_ms - kept_ms)
    ets = T0 + 30 * 86_400_000 if own_date else -1
    log.commit(at_ms - age_ms, cts=at_ms - age_ms, ets=ets)
    log.commit(at_ms - 10, "t1", cts=at_ms - 10, group="o")
    log.commit(at_ms - 5, "t1", cts=at_ms - 5, group="o")
    log.forget(at_ms)
    write(tmp_path / "__consumer_offsets-0", sorted(log.entries), 0, random.Random(1))
    few = GroupRecords(["g"], 0, others=1)
    few.feed(next(tmp_path.rglob("*.log")).read_bytes())
    rules = r.RULES_2_3 if own_date else r.RULES_4_1
    assert [row.cause for row in few.removals(rules, 7 * 86_400_000, INTERVAL_MS)] == [said]
    assert few.lacks_others


def test_what_older_brokers_removed_is_not_judged_by_todays_rules(tmp_path: Path) -> None:
    log = Log()
    log.commit(T0, cts=T0)
    log.forget(T0 + 70_000)
    log.commit(T0 + 80_000, "t2", group="o")
    value = OffsetCommitValue(offset=1, commit_timestamp=T0 + 90_000, topic_id=UUID(int=1))
    log.append(T0 + 90_000, 1, 4, value, topic="t2", partition=1)
    log.forget(T0 + 160_000, "t2", 1)
    mine, theirs = both(log, "g", r.RULES_4_1, tmp_path, 0, given=False)
    assert mine == theirs == [None, r.CAUSE_EXPIRED]
