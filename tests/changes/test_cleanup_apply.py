"""What is looked at before a plan of cleanup is applied, without brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool.changes.cleanup.apply import Blind, PlanRun
from kgtool.changes.cleanup.plan_file import DELETE_GROUP, CleanupPlan, PlanItem
from kgtool.errors import KgError
from kgtool.queries.log.reader import Stretch
from tests.changes.test_plan_file import HEADER


@pytest.mark.parametrize(
    ("unread", "groups", "is_refused"), [("a", "a", True), ("ab", "ab", True), ("b", "ab", False)]
)
def test_a_log_of_which_nothing_can_be_read_refuses_all(
    unread: str, groups: str, is_refused: bool
) -> None:
    """A part that can't be read refuses its own groups, later."""
    log: Any = SimpleNamespace(holders=lambda _: [], changed_ms=lambda _: None)
    read = {g: KgError("It is away.") if g in unread else Stretch(log, 0) for g in groups}
    session: Any = SimpleNamespace(cluster_id=HEADER.cluster_id, cluster=None, run=lambda it: it)
    items = tuple(PlanItem(DELETE_GROUP, g, "classic", "Empty", (), (), ()) for g in groups)
    said: list[str] = []
    run = PlanRun(session, CleanupPlan(HEADER, items), Path("plan.json"), said.append)
    run.watch = SimpleNamespace(read=lambda *_: read)  # type: ignore[assignment]
    if is_refused:
        with pytest.raises(Blind, match=r"is unknown: It is away\."):
            run.check_log(items)
    else:
        run.check_log(items)
    assert said == []
