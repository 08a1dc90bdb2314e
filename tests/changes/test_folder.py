"""The folder of the journals is private.

Kind: a file that another user plants, or may change, decides what kgtool writes or undoes.
Siblings: every file of the folder (counter, locks, progress, journals), every way to plant one
(a link, another owner, write permission, a FIFO), every reader (history, undo ID, undo last).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.journal import folder, history
from kgtool.changes.journal.folder import NotPrivate, check_folder, make_folder
from kgtool.changes.journal.journal import Journal, next_number
from kgtool.changes.journal.locks import GroupLocks
from kgtool.errors import KgError
from tests.changes.test_journal import header

STRANGER = 4711


def someone_else(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file or folder another user's: for root by chown, else by being somebody else."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(folder.os, "geteuid", lambda: STRANGER)


def write_all(place: Path) -> None:
    """Use every file of the folder."""
    next_number(place)
    GroupLocks(place, "c").close()
    with PlanProgress(place, "plan", "c") as progress:
        progress.begin(["a"], None)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702, 0o720, 0o770])
def test_a_folder_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "journal"
    place.mkdir()
    place.chmod(mode)
    for use in (make_folder, lambda p: history.entries(p, print), lambda p: history.find(p, "x")):
        with pytest.raises(NotPrivate, match="Other users may write"):
            use(place)
    with pytest.raises(NotPrivate, match="Other users may write"):
        Journal(place, header())
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o711, 0o750])
def test_a_folder_that_others_may_read(tmp_path: Path, mode: int) -> None:
    """Only who may write there could plant something to undo."""
    place = tmp_path / "journal"
    place.mkdir()
    place.chmod(mode)
    write_all(place)


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "journal"
    place.mkdir(0o755)
    someone_else(place, monkeypatch)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        make_folder(place)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        history.entries(place, print)


@pytest.mark.parametrize("mode", [0o042775, 0o040777])
def test_a_volume_of_a_pod(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes gives a volume to root and to the pod's group; the image's is open to any user."""
    real = Path.stat

    def of_root(path: Path, **more: bool) -> os.stat_result:
        found = list(real(path, **more))
        found[0], found[4] = mode, 0
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", of_root)
    monkeypatch.setattr(folder.os, "geteuid", lambda: 1000)
    check_folder(tmp_path)


@pytest.mark.parametrize("name", ["sequence", "cluster-*.lock", "plan-*.progress"])
@pytest.mark.parametrize("way", ["link", "dangling", "owner", "mode", "fifo"])
def test_a_planted_file(
    tmp_path: Path, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, victim = tmp_path / "journal", tmp_path / "victim"
    place.mkdir(0o700)
    write_all(place)
    (path,) = place.glob(name)
    path.unlink()
    if way in ("link", "dangling"):
        path.symlink_to(victim)
    elif way == "fifo":
        os.mkfifo(path)
    else:
        path.write_text("")
        path.chmod(0o666 if way == "mode" else 0o600)
    if way == "owner":
        someone_else(path, monkeypatch)
    if way != "dangling":
        victim.write_text("precious")
    with pytest.raises(NotPrivate):
        write_all(place)
    assert not victim.exists() if way == "dangling" else victim.read_text() == "precious"


def test_a_file_that_is_replaced_after_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it stay open: an admin of a long-lived program may try it often."""
    path = tmp_path / "sequence"
    path.touch()
    path.chmod(0o666)
    monkeypatch.setattr(folder, "check_file", lambda _path: None)
    mine = Path("/proc/self/fd")
    opened = len(list(mine.iterdir()))
    with pytest.raises(NotPrivate, match="Other users may write"):
        folder.open_private(path, os.O_RDWR)
    assert len(list(mine.iterdir())) == opened


def _as_link(path: Path) -> None:
    shutil.move(path, path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize("plant", [_as_link, lambda path: path.chmod(0o666), None])
def test_a_planted_journal_is_nothing_to_undo(
    tmp_path: Path, plant: Callable[[Path], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "journal"
    paths = []
    for name in ("1", "2"):
        made = Journal(place, header()._replace(id=f"2026-{name}", at_ms=int(name)))
        made.close("done", 5)
        paths.append(made.path)
    head = json.loads(paths[1].read_text().splitlines()[0])
    assert head["sequence"] == 2
    if plant is None:
        someone_else(paths[1], monkeypatch)
        if os.geteuid():
            return  # nothing of ours is left
    else:
        plant(paths[1])
    problems: list[KgError] = []
    assert [one.id for one in history.entries(place, problems.append)] == ["2026-1"]
    assert [type(one) for one in problems] == [NotPrivate]
    for named in ("2026-2", "2026"):
        with pytest.raises(KgError):
            history.find(place, named)
    assert history.find(place, "2026-1").id == "2026-1"
