"""Backups: whole or not there, read back as they were, and what a restore makes of them."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool.changes.restore import backup as backup_module
from kgtool.changes.restore.backup import (
    BackupError,
    BackupSelection,
    BackupWriter,
    desired_groups,
    mapping,
    open_backup,
    save,
)
from kgtool.changes.snapshot import OffsetImage
from kgtool.errors import ConfigError, KgError, UsageError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, at, image
from tests.support.script import Script

HEADER = {"cluster_id": "c1", "at_ms": 5}
U0, U1 = TopicPartition("u", 0), TopicPartition("u", 1)


def backup(path: Path, *groups: Any) -> Path:
    found = groups or (snapshots.group({T0: image(5), T1: image(6)}), snapshots.group({}, "empty"))
    with BackupWriter(path, HEADER) as writer:
        for one in found:
            writer.group(one)
        writer.finish()
    return path


def selecting(**more: Any) -> BackupSelection:
    return BackupSelection(**{"group": lambda _: True, "partition": lambda _: True, **more})


class TestFile:
    def test_it_comes_back_as_it_was(self, tmp_path: Path) -> None:
        found = open_backup(backup(tmp_path / "b"))
        assert (found.cluster_id, found.group_count, found.offset_count) == ("c1", 2, 2)
        first, second = found.groups()
        assert dict(first.image.offsets) == {T0: image(5), T1: image(6)}
        assert (second.image.group, dict(second.image.offsets)) == ("empty", {})

    def test_nobody_else_may_read_it(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert list(tmp_path.iterdir()) == [path]

    def test_in_a_shared_folder_it_is_new_and_ours(self, tmp_path: Path) -> None:
        """Kind: a temporary file whose name can be foreseen is somebody else's.

        Siblings: files that are there already, links, in any number.
        """
        with BackupWriter(tmp_path / "b", HEADER):
            (used,) = tmp_path.iterdir()  # by one that does not finish
        for taken in (used, tmp_path / f".b.{os.getpid()}.new"):
            taken.touch(0o666)
            taken.chmod(0o666)
            before = taken.stat().st_ino
            path = backup(tmp_path / "b")
            assert path.stat().st_ino != before
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert taken.exists()

    def test_an_unfinished_one_is_not_there(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b")
        before = path.read_bytes()
        with pytest.raises(KeyboardInterrupt), BackupWriter(path, HEADER) as writer:
            writer.group(snapshots.group({T0: image(99)}))
            raise KeyboardInterrupt
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with (
            pytest.raises(BackupError, match="No space left"),
            BackupWriter(tmp_path / "b", HEADER) as writer,
        ):
            monkeypatch.setattr(os, "fsync", fails)
            writer.finish()
        assert list(tmp_path.iterdir()) == []

    def test_errors_are_in_it(self, tmp_path: Path) -> None:
        denied = ItemError(Target(group="g2"), 30, "GROUP_AUTHORIZATION_FAILED", "no")
        with BackupWriter(tmp_path / "b", HEADER) as writer:
            writer.group(snapshots.group({T0: image(5)}))
            writer.error(denied)
            writer.finish()
        found = open_backup(tmp_path / "b")
        assert found.error_count == 1
        assert [group.image.group for group in found.groups()] == ["g"]

    def test_a_stream(self) -> None:
        stream = io.BytesIO()
        with BackupWriter(Path("-"), HEADER, stream) as writer:
            writer.group(snapshots.group({T0: image(5)}))
            writer.finish()
        assert json.loads(stream.getvalue().splitlines()[-1])["offsets"] == 1
        assert not stream.closed

    def test_a_stream_that_nobody_reads_any_more_ends_it(self) -> None:
        class Closed(io.BytesIO):
            def write(self, data: Any) -> int:
                raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            BackupWriter(Path("-"), HEADER, Closed())

    def test_times_are_of_the_records_before_what_is_committed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Siblings: no offset, one that only a transaction has, a log that can't be read."""
        pending = OffsetImage(CommittedOffset(None, None, None, is_pending=True))
        unread = image(6, log=(None, None))  # type: ignore[arg-type]
        offsets = {T0: image(5, log=(2, 100)), T1: image(None), U0: pending, U1: unread}
        asked: dict[TopicPartition, tuple[int, int]] = {}

        def read(_cluster: Any, _groups: Any) -> Any:
            yield from ()
            return {"g": snapshots.reading(offsets)}

        def times(_cluster: Any, places: Any) -> Any:
            yield from ()
            asked.update(places)
            return {T0: 1234, U1: KgError("The log can't be read.")}

        monkeypatch.setattr(backup_module, "read_groups", read)
        monkeypatch.setattr(backup_module, "times_before", times)
        session = SimpleNamespace(cluster=None, run=Script(lambda *_: None).run)
        failed: list[ItemError] = []
        with BackupWriter(tmp_path / "b", HEADER) as writer:
            save(session, writer, ["g"], failed.append, times=True)
            writer.finish()
        assert asked == {T0: (5, 2), U1: (6, 0)}
        [error] = failed
        assert error.target[:3] == ("g", "u", 1)
        found = open_backup(tmp_path / "b")
        [group] = found.groups()
        assert {at: one.time_ms for at, one in group.image.offsets.items()} == {
            T0: 1234,
            T1: None,
            U0: None,
            U1: None,
        }
        assert (found.error_count, found.offset_count) == (1, 4)

    def test_cut_off_anywhere_it_is_refused(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b")
        whole = path.read_bytes()
        last = whole.rstrip(b"\n").rindex(b"\n") + 1
        for cut in range(len(whole) - 2):
            path.write_bytes(whole[:cut])
            with pytest.raises(ConfigError, match=r"is not a kgtool backup|was cut off"):
                open_backup(path)
        path.write_bytes(whole[: whole.index(b"\n") + 1] + whole[last:])
        with pytest.raises(ConfigError, match="something is missing"):
            list(open_backup(path).groups())

    @pytest.mark.parametrize(
        "content",
        [b"", b"hello\n", b"{}\n", b"[1]\n", b"\xff\xfe\n", b'{"kind":"end","kgtool_backup":1}\n'],
    )
    def test_something_else(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "b").write_bytes(content)
        why = "" if content else ": it is empty"
        with pytest.raises(ConfigError, match=rf"is not a kgtool backup{why}\."):
            open_backup(tmp_path / "b")

    def test_a_newer_format(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b")
        path.write_bytes(path.read_bytes().replace(b'"kgtool_backup": 1', b'"kgtool_backup": 9'))
        with pytest.raises(ConfigError, match="newer kgtool"):
            open_backup(path)


class TestWishes:
    def test_all_of_it(self, tmp_path: Path) -> None:
        first, second = desired_groups(open_backup(backup(tmp_path / "b")), selecting())
        assert (first.group, set(first.offsets)) == ("g", {T0, T1})
        assert first.offsets[T0].then == image(5)
        assert first.offsets[T0].any_left
        assert (second.group, second.offsets) == ("empty", {})

    def test_parts_of_it(self, tmp_path: Path) -> None:
        found = open_backup(backup(tmp_path / "b"))
        (only,) = desired_groups(
            found,
            selecting(group=lambda name: name == "g", partition=lambda partition: partition == T1),
        )
        assert set(only.offsets) == {T1}

    def test_other_names(self, tmp_path: Path) -> None:
        found = open_backup(backup(tmp_path / "b"))
        renamed = selecting(group_names={"g": "h"}, topic_names={"t": "u"})
        first, _ = desired_groups(found, renamed)
        assert (first.group, set(first.offsets)) == ("h", {U0, TopicPartition("u", 1)})
        # It is another topic: its id is none of the file's.
        assert first.offsets[U0].then == image(5, topic_id=None)

    def test_another_cluster_has_other_ids(self, tmp_path: Path) -> None:
        first, _ = desired_groups(
            open_backup(backup(tmp_path / "b")), selecting(is_other_cluster=True)
        )
        assert first.offsets[T0].then.topic_id is None

    def test_two_topics_of_one_name(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b", snapshots.group({T0: image(5), U0: image(7)}))
        with pytest.raises(UsageError, match="two topics that would both be 'u'"):
            list(desired_groups(open_backup(path), selecting(topic_names={"t": "u"})))

    def test_offsets_that_were_not_there_are_not_wished_for(self, tmp_path: Path) -> None:
        path = backup(tmp_path / "b", snapshots.group({T0: image(None), T1: image(6)}))
        (only,) = desired_groups(open_backup(path), selecting())
        assert only.offsets[T1].then.committed == at(6)
        assert set(only.offsets) == {T1}


@pytest.mark.parametrize("pair", ["a", "=b", "a=", "="])
def test_malformed_names(pair: str) -> None:
    with pytest.raises(UsageError, match="--map-group takes OLD=NEW"):
        mapping([pair], "map-group")


def test_names() -> None:
    assert mapping(["a=b", "c=d=e"], "map-topic") == {"a": "b", "c": "d=e"}
    with pytest.raises(KgError, match="two new names for 'a'"):
        mapping(["a=b", "a=c"], "map-topic")
