"""What makes a commit transactional: to the Scala coordinator a bit, to the new one a producer."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.retention.history import History, read_entry
from kgtool.retention.rules import RULE_SETS
from tests.analysis import writer
from tests.analysis.writer import TRANSACTIONAL, Raw, offset_key, offset_value
from tests.support.tables import dicts

NOW_MS = 1_795_265_000_000


@pytest.mark.parametrize("name", ["2.4", "4.1"])
@pytest.mark.parametrize(("bit", "producer"), [(0, 7), (TRANSACTIONAL, -1), (TRANSACTIONAL, 7)])
def test_as_the_specification(tmp_path: Path, name: str, bit: int, producer: int) -> None:
    key, old, new = offset_key("g"), offset_value(1, NOW_MS), offset_value(2, NOW_MS + 1)
    path = writer.segment(
        tmp_path,
        writer.batch(0, [Raw(key, old, NOW_MS)])
        + writer.batch(1, [Raw(key, new, NOW_MS + 1)], attributes=bit, producer_id=producer),
    )
    history = History(RULE_SETS[name], 60_000)
    for at, value, mine in ((0, old, False), (1, new, True)):
        history.feed(
            read_entry(
                0,
                at,
                NOW_MS + at,
                key,
                value,
                producer_id=producer if mine else -1,
                transactional=bool(bit) and mine,
                base_offset=at,
            )
        )
    analysis = Analysis(
        LocalEngine(),
        find_inputs([str(path)]).files,
        broker_settings.settings_from(None, name, 60_000, None),
    )
    assert [(row["offset"], row["pending_transaction"]) for row in dicts(analysis, "live")] == [
        (each.stored.value.offset, each.is_pending) for each in history.live()
    ]
