"""Two changes at once in one process: locks hold, and each thread learns of its own journal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kgtool import GroupAdmin
from kgtool.changes.journal.change import Change, Locked
from kgtool.changes.journal.locks import GroupLocks
from tests.changes.world import seen
from tests.support import clients

pytestmark = pytest.mark.broker


@pytest.fixture
def groups(bootstrap: str) -> list[str]:
    topic = clients.create_topic(bootstrap, clients.unique("both"))
    made = [clients.unique("both") for _ in range(2)]
    for group in made:
        clients.commit(bootstrap, group, {(topic, 0): 0})
    return made


def test_one_group_admin_waits_for_the_other(
    bootstrap: str, groups: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one has written its journal, and before it sends anything."""
    real = Change.before
    refused: list[Locked] = []

    def before(change: Change, changes: Any, *more: Any) -> None:
        real(change, changes, *more)
        # Another descriptor of the lock's file, closed again, drops nothing.
        with GroupAdmin(bootstrap, journal=tmp_path, timeout_ms=2000) as other:
            with pytest.raises(Locked) as caught:
                other.delete_groups(groups[:1])
            refused.append(caught.value)

    with GroupAdmin(bootstrap, journal=tmp_path) as admin:
        monkeypatch.setattr(Change, "before", before)
        done = admin.delete_groups(groups[:1])
    assert [row.status for row in done] == ["deleted"]
    assert "is still changing group" in refused[0].message
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_each_way_to_change_a_group_waits_for_who_changes_it(
    bootstrap: str, groups: list[str], tmp_path: Path
) -> None:
    group = groups[0]
    with GroupAdmin(bootstrap, journal=tmp_path) as admin:
        saved = admin.backup([group], tmp_path / "saved").path
        (at,) = admin.committed_offsets(group)
        clients.produce(bootstrap, at.topic, 1)
        admin.commit_offsets(group, {at: 1})
        plan = admin.cleanup_plan([group])
    with GroupAdmin(bootstrap, journal=tmp_path, timeout_ms=2000) as admin:
        changes: list[Callable[[], object]] = [
            lambda: admin.commit_offsets(group, {at: 0}),
            lambda: admin.reset_offsets([group], "earliest"),
            lambda: admin.delete_offsets(group, [at.topic]),
            lambda: admin.delete_groups([group]),
            lambda: admin.keep([group]),
            lambda: admin.cleanup_apply(plan),
            lambda: admin.restore(saved),
            admin.undo,
        ]
        with closing(GroupLocks(tmp_path, admin.cluster_id)) as locks:
            assert locks.take([group]) is None
            for change in changes:
                with pytest.raises(Locked):
                    change()
        assert seen(bootstrap, group)[group][at.topic, 0][0] == 1


def test_each_thread_has_its_own_journal_id(
    bootstrap: str, groups: list[str], tmp_path: Path
) -> None:
    ids: dict[str, str | None] = {}
    both = threading.Barrier(2, timeout=60)

    def work(group: str) -> None:
        assert admin.delete_groups([group])[0].error is None
        both.wait()
        ids[group] = admin.last_journal_id

    with GroupAdmin(bootstrap, journal=tmp_path) as admin:
        threads = [threading.Thread(target=work, args=(group,)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert admin.last_journal_id is None, "this thread changed nothing"
        for group in groups:
            assert group not in str(list(seen(bootstrap, group)[group]))
            found = admin.undo(str(ids[group]))
            assert [each.group for each in found.groups] == [group]
            assert len(seen(bootstrap, group)[group]) == 1
