"""The progress of a plan: what a killed run had begun and finished is known to the next one."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from kgtool.changes.cleanup.progress import BeingApplied, PlanProgress, prune
from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.jsonl import LineFile

PLAN = "20260131-120000-1f2e3d4c"


def test_the_next_run_knows_what_was_begun_and_finished(tmp_path: Path) -> None:
    with PlanProgress(tmp_path, PLAN, "c") as progress:
        assert (progress.results, progress.begun, progress.journals) == ({}, set(), [])
        progress.begin(["a", "b"], "journal-1")
        progress.finish({"a": "deleted"})
    with PlanProgress(tmp_path, PLAN, "c") as again:
        assert (again.results, again.begun) == ({"a": "deleted"}, {"a", "b"})
        again.begin(["b"], "journal-2")
        again.finish({"b": "failed"})
    with PlanProgress(tmp_path, PLAN, "c") as third:
        assert third.results == {"a": "deleted", "b": "failed"}
        assert third.journals == ["journal-1", "journal-2"]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_no_line(tmp_path: Path, cut: int) -> None:
    with PlanProgress(tmp_path, PLAN, "c") as progress:
        progress.begin(["a"], "j")
        progress.finish({"a": "deleted"})
        path = progress.path
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    with PlanProgress(tmp_path, PLAN, "c") as again:
        assert again.begun == {"a"} or cut > len(data.splitlines()[-1])
        assert again.results == {}
        again.finish({"a": "deleted"})
    with PlanProgress(tmp_path, PLAN, "c") as third:
        assert third.results == {"a": "deleted"}


def test_one_at_a_time(tmp_path: Path) -> None:
    mine = Path("/proc/self/fd")
    with PlanProgress(tmp_path, PLAN, "c"):
        before = len(list(mine.iterdir()))
        with pytest.raises(BeingApplied, match=PLAN):
            PlanProgress(tmp_path, PLAN, "c")
        assert len(list(mine.iterdir())) == before
    with PlanProgress(tmp_path, PLAN, "c"), PlanProgress(tmp_path, PLAN, "another cluster"):
        pass


def test_a_full_disk_is_told_and_the_plan_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: locked for as long as the process lived."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(LineFile, "write", full)
        with pytest.raises(JournalError, match=r"No space left .* so nothing more was changed"):
            PlanProgress(tmp_path, PLAN, "c")
    with PlanProgress(tmp_path, PLAN, "c") as progress:
        progress.begin(["a"], None)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a/b", "x" * 300, "ä"])
def test_names_of_plans_are_no_paths(tmp_path: Path, name: str) -> None:
    with PlanProgress(tmp_path / "in", name, None) as progress:
        assert progress.path.parent == tmp_path / "in"
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_says_once_whose_it_is(tmp_path: Path) -> None:
    """Its name may not: a plan may be called anything."""
    for _ in range(2):
        with PlanProgress(tmp_path, "Tuesday's", "c") as progress:
            progress.begin(["a"], "journal-1")
    first, *rest = map(json.loads, progress.path.read_text().splitlines())
    assert first == {
        "kind": "progress",
        "kgtool_progress": 1,
        "plan": "Tuesday's",
        "cluster_id": "c",
    }
    assert [line["kind"] for line in rest] == ["begin", "begin"]


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    with PlanProgress(tmp_path, PLAN, "c") as progress:
        assert progress.path.stat().st_mode & 0o777 == 0o600


def test_pruned_when_it_is_old_and_nobody_works_on_it(tmp_path: Path) -> None:
    paths = []
    for name in ("old", "busy", "young"):
        with PlanProgress(tmp_path, name, "c") as progress:
            paths.append(progress.path)
    for path in paths[:2]:
        os.utime(path, (1, 1))
    with PlanProgress(tmp_path, "busy", "c"):
        os.utime(paths[1], (1, 1))
        prune(tmp_path, 1_000_000)
    assert sorted(tmp_path.iterdir()) == sorted(paths[1:])
