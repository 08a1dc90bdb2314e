"""What is read live of a group's log, and what the analysis makes of the same log, is the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.model import GroupDescription, Member, TopicPartition
from kgtool.queries.log.group_state import state_of
from kgtool.queries.log.removals import GroupRecords
from kgtool.queries.log.scan import GroupLog
from kgtool.records.batch import batches
from kgtool.retention import rules as r
from kgtool.retention.audit import audit
from kgtool.retention.history import History
from tests.analysis.test_lives import write
from tests.retention import unseen_loads
from tests.retention.lives import Life
from tests.support.tables import rows_of, shown

CASE = Path(__file__).parents[1] / "data/truth-cases/static-member-back-with-other-topics/segments"
R, INTERVAL_MS = 60_000, 5_000
SETS = {"2.3": r.RULES_2_3, "2.5": r.RULES_2_5, "2.4": r.RULES_2_4, "3.2": r.RULES_3_2}
SETS |= {
    "3.8-new": r.RULES_3_8_NEW,
    "4.1": r.RULES_4_1,
    "2.6": r.RULES_2_6,
    "2.6 any": r.RULES_2_6_ANY,
}


def with_epochs(data: bytes, rng: random.Random) -> bytes:
    """The same batches, some of them after a new leader was elected."""
    found, epoch = bytearray(data), 0
    for batch in batches(data):
        epoch += rng.random() < 0.15
        at = batch.start - 61 + 12
        found[at : at + 4] = epoch.to_bytes(4, "big")
    return bytes(found)


def description(group: str, *topics: str) -> GroupDescription:
    members = [
        Member(f"m{at}", f"i{at}", "c", "/h", (), (topic,)) for at, topic in enumerate(topics)
    ]
    values = {"group": group, "type": "classic", "state": "Stable", "protocol_type": "consumer"}
    blank: dict[str, Any] = dict.fromkeys(GroupDescription._fields)
    return GroupDescription(**blank | values | {"members": tuple(members)})


@pytest.mark.parametrize("author", SETS)
@pytest.mark.parametrize("seed", range(8))
def test_each_random_history_is_read_alike(author: str, seed: int, tmp_path: Path) -> None:
    """T14, with T1 to T3: generations that are written again, loads, early and late removals."""
    rules, rng = SETS[author], random.Random(f"{author} {seed}")
    entries = Life(rng, types=("classic",), groups=3, static=True).run(90, 8_000).entries
    folder = tmp_path / "__consumer_offsets-0"
    write(folder, entries, 0, rng)
    path = folder / f"{0:020}.log"
    path.write_bytes(data := with_epochs(path.read_bytes(), rng))
    names = sorted({entry.record.key.group for entry in entries if hasattr(entry.record, "key")})

    records = GroupRecords(names, 0)
    records.feed(data)
    kept = records.entries()
    history = History(rules, R)
    for entry in kept:
        history.feed(entry)

    basis = broker_settings.settings_from(None, "auto", R, INTERVAL_MS)._replace(
        rules=rules, rules_given=True
    )
    analysis = Analysis(LocalEngine(1), find_inputs([str(tmp_path)]).files, basis)
    removed = sorted(map(tuple, rows_of(analysis, "removals")), key=str)
    assert removed == sorted(map(shown, audit(kept, rules, R, INTERVAL_MS)), key=str)
    live = {(row.group, row.topic, row.partition): row for row in rows_of(analysis, "live")}
    assert live.keys() == {tuple(each.key) for each in history.live()}

    told = unseen_loads.told(kept, rules, R)
    log = GroupLog(rules, names)
    log.feed(data)
    for each in history.live():
        row = live[tuple(each.key)]
        if told[each.key] == unseen_loads.DUE:
            assert row.expires_at_ms <= kept[-1].timestamp_ms
        else:
            assert (row.rule, row.expires_at_ms) == told[each.key]
        if row.rule is None and row.group_state == r.STATE_STABLE:
            assert row.subscribed is None
        key = TopicPartition(each.key.topic, each.key.partition)
        assert log.commit(each.key.group, key) == each.stored.committed
    for name in names:
        seen, known = log.classic(name, is_whole=True), history.snapshot(name)
        if seen is not None and seen.protocol_type and known is not None:
            assert seen == known


def test_members_that_came_back_do_not_change_what_the_coordinator_goes_by() -> None:
    """T1 live: describe --expiry, explain and previews of delete-offsets. Siblings: a stretch that
    begins behind the generation's first record does not tell; a load takes what is written."""
    data = next(CASE.glob("*-0.*.log")).read_bytes()
    asked = description("t3-for-t2", "t1", "t3")
    log = GroupLog(r.RULES_4_1, ["t3-for-t2"])
    assert state_of(asked, None, is_whole=False) is None
    log.feed(data)
    for is_whole in (True, False):
        found = state_of(asked, log, is_whole)
        assert found is not None and found.snapshot is not None
        assert found.snapshot.subscribed_topics == {"t1", "t2"}
    behind = next(batch for batch in batches(data) if batch.base_offset == 10)
    late = GroupLog(r.RULES_4_1, ["t3-for-t2"])
    late.feed(data[behind.start - 61 :])
    assert state_of(asked, late, is_whole=False) is None
    last = list(batches(data))[-1]
    again = bytearray(data[last.start - 61 : last.end])
    again[12:16] = (7).to_bytes(4, "big")
    log.feed(bytes(again))
    found = state_of(asked, log, is_whole=False)
    assert found is not None and found.snapshot is not None
    assert found.snapshot.subscribed_topics == {"t1", "t3"}
