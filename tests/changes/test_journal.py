"""The journal's file: who may read it, when it is on the disk, what it says after any end."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.journal import history
from kgtool.changes.journal.folder import UNNAMED, JournalError, default_folder, make_folder, sweep
from kgtool.changes.journal.history import (
    JournalEntry,
    entries,
    failed_items,
    find,
    last,
    prune,
    read_entry,
)
from kgtool.changes.journal.journal import ConfigChange, Journal, JournalHeader, mark
from kgtool.errors import ConfigError, KgError
from kgtool.model import ItemError, Target, TopicPartition
from tests.changes import snapshots
from tests.changes.snapshots import T0, T1, at, change, image

DENIED = ItemError(Target("g", "t", 1), 86, "GROUP_SUBSCRIBED_TO_TOPIC", "no")


def header(id: str = "20260131-120000-0001", at_ms: int = 1000, **more: Any) -> JournalHeader:
    values = {
        "at": "1970",
        "command": "delete-offsets",
        "arguments": ("--delete-offsets",),
        "cluster_id": "c1",
        "bootstrap_server": "b:9092",
        "user": "me",
        "host": "here",
        "pid": 1,
        "kgtool": "0",
        "reason": "because",
        **more,
    }
    return JournalHeader(id=id, at_ms=at_ms, **values)


def finished(folder: Path, id: str, at_ms: int = 1000, **more: Any) -> Journal:
    made = Journal(folder, header(id, at_ms, **more))
    made.before([change({T0: image(5), T1: image(6)})])
    made.close("done", at_ms + 1)
    return made


def read(folder: Path, id: str = "20260131-120000-0001") -> JournalEntry:
    return find(folder, id)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def no_problem(error: KgError) -> None:
    raise error


class TestWriting:
    def test_nobody_else_may_read_it(self, tmp_path: Path) -> None:
        folder = tmp_path / "state" / "journal"
        made = finished(folder, "a")
        assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_what_is_in_it(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before(
            [change({T0: image(5, epoch=2, metadata="m"), T1: image(None)}, {T0: None, T1: at(7)})]
        )
        made.result("g", "t", 0, "deleted")
        made.result("g", "t", 1, "failed", DENIED)
        made.close("done", 2000)
        head, group, first, second, ready, good, bad, end = lines(made.path)
        assert head["kgtool_journal"] == 1
        assert (head["user"], head["host"], head["reason"]) == ("me", "here", "because")
        assert (group["type"], group["state"]) == ("classic", "Empty")
        assert (first["offset"], first["leader_epoch"], first["metadata"]) == (5, 2, "m")
        assert (first["topic_id"], first["log_start_offset"], first["log_end_offset"]) == (
            "id-1",
            0,
            100,
        )
        assert first["after"] == "absent"
        assert (second["offset"], second["after"]["offset"]) == (None, 7)
        assert ready == {"kind": "ready", "groups": 1, "changes": 2}
        assert good["status"] == "deleted"
        assert bad["error"] == {"code": 86, "name": "GROUP_SUBSCRIBED_TO_TOPIC", "message": "no"}
        assert (end["state"], end["changes"], end["failed"]) == ("done", 1, 1)

    def test_it_is_on_the_disk_before_the_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced = []
        real = os.fsync

        def fsync(number: int) -> None:
            synced.append(str(Path(f"/proc/self/fd/{number}").readlink()))
            real(number)

        monkeypatch.setattr(os, "fsync", fsync)
        made = Journal(tmp_path, header())
        assert synced == [str(tmp_path / "sequence")]
        synced.clear()
        made.before([change({T0: image(5)})])
        assert synced == [str(made.path), str(tmp_path)]
        assert lines(made.path)[-1]["kind"] == "ready"
        synced.clear()
        made.before([change({T0: image(5)}, name="b")])
        assert synced == [str(made.path)], "every part, not only the first"
        assert lines(made.path)[-1]["groups"] == 2
        made.close("done", 2)

    @pytest.mark.parametrize("call", ["open", "fsync"])
    def test_a_disk_that_refuses(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
    ) -> None:
        def fails(*_: Any, **__: Any) -> Any:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if call == "open":
            monkeypatch.setattr(os, "open", fails)
        made: Callable[[], Any] = lambda: Journal(tmp_path, header())  # noqa: E731
        if call == "fsync":
            existing = made()
            monkeypatch.setattr(os, "fsync", fails)
            made = lambda: existing.before([change({T0: image(5)})])  # noqa: E731
        with pytest.raises(JournalError, match="No space left on device") as caught:
            made()
        assert "nothing was changed" in caught.value.message
        assert "KGTOOL_JOURNAL_DIR" in str(caught.value.hint)
        if call == "fsync":
            existing.discard()
            assert list(tmp_path.glob("*.jsonl")) == []

    def test_a_folder_that_can_not_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(JournalError, match="nothing was changed"):
            Journal(tmp_path / "file" / "journal", header())
        with pytest.raises(JournalError, match="nothing was changed"):
            make_folder(tmp_path / "file" / "journal")

    def test_after_the_change_nothing_raises(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)})])
        os.close(made._file.number)  # the disk is gone
        for _ in range(20_000):
            made.result("g", "t", 0, "deleted")
        made.close("done", 2000)
        assert made.problem is not None
        assert read(tmp_path).state == "interrupted"
        assert read(tmp_path).changes == 1

    def test_a_failed_group_counts_for_all_of_it(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5), T1: image(6)})])
        made.result("g", None, None, "failed", DENIED)
        made.result("other", "t", 0, "failed", DENIED)
        made.close("done", 2000)
        assert (made.outcomes["failed"], read(tmp_path).changes) == (2, 0)

    def test_a_copy_has_every_byte_once_and_each_part_before_its_change(
        self, tmp_path: Path
    ) -> None:
        parts: list[bytes] = []
        made = Journal(tmp_path, header(), parts.append)
        for count, name in enumerate(("a", "b"), start=1):
            made.before([change({T0: image(5)}, name=name)])
            assert len(parts) == count
            assert b"".join(parts) == made.path.read_bytes()
            made.result(name, "t", 0, "deleted")
        made.close("done", 2000)
        assert b"".join(parts) == made.path.read_bytes()

    def test_a_copy_that_fails_is_told_before_a_change_and_a_problem_behind_it(
        self, tmp_path: Path
    ) -> None:
        def refuse(_data: bytes) -> None:
            raise JournalError("The copy can't be stored.")

        made = Journal(tmp_path, header(), refuse)
        with pytest.raises(JournalError, match="copy can't be stored"):
            made.before([change({T0: image(5)})])
        assert (made.groups, made.changes) == (0, 0)
        made.close("done", 2000)
        assert "copy can't be stored" in str(made.problem)

    def test_configs_count_each(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before((), configs=[ConfigChange("g", name, None, "1") for name in ("a", "b")])
        made.result("g", None, None, "altered", config="a")
        made.result("g", None, None, "failed", DENIED, config="b")
        made.close("done", 2000)
        found = read(tmp_path)
        assert (made.groups, made.changes, made.outcomes["failed"], found.changes) == (1, 2, 1, 1)

    def test_configs_that_were_not_going_to_be_changed_do_not_count(self, tmp_path: Path) -> None:
        """Was: their failures were taken off the changes, and a journal with -1 is unreadable."""
        made = Journal(tmp_path, header())
        made.before((), configs=[ConfigChange("g", "a", None, "1")])
        made.result("g", None, None, "altered", config="a")
        for name in ("a", "b"):
            made.result("other", None, None, "failed", DENIED, config=name)
        made.close("done", 2000)
        assert (read(tmp_path).changes, made.outcomes["failed"]) == (1, 0)


class TestDamage:
    """The disk is full, and has room again before the end is written."""

    def two_parts(self, folder: Path, limit: Callable[[int], None]) -> Journal:
        """The second part does not fit; ``limit`` sets how large files may be."""
        made = Journal(folder, header())
        made.before([change({T0: image(5)}, name="a")])
        limit(made.path.stat().st_size + 300)
        many = {TopicPartition("t", n): image(5) for n in range(3000)}
        with pytest.raises(JournalError, match="nothing more was changed"):
            made.before([change(many, name="b")])
        limit(resource.RLIM_INFINITY)
        made.result("a", "t", 0, "deleted")
        return made

    def test_a_torn_part_is_cut_off(self, tmp_path: Path, limit: Callable[[int], None]) -> None:
        made = self.two_parts(tmp_path, limit)
        made.before([change({T0: image(7)}, name="c")])
        made.close("interrupted", 2000)
        kinds = [line["kind"] for line in lines(made.path)]
        assert kinds == [
            "journal",
            "group",
            "offset",
            "ready",
            "result",
            "group",
            "offset",
            "ready",
            "end",
        ]
        entry = read(tmp_path)
        assert (entry.state, entry.groups, entry.changes) == ("interrupted", 2, 2)
        assert [g.image.group for g in history.changed_groups(made.path)] == ["a", "c"]
        assert history.readable_extent(made.path).damage is None

    def test_results_wait_until_there_is_room(
        self, tmp_path: Path, limit: Callable[[int], None]
    ) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)})])
        limit(made.path.stat().st_size + 150)
        for _ in range(5):
            made.result("g", "t", 0, "deleted")
        made.flush()
        assert made.problem is not None
        assert made.path.read_bytes().endswith(b"}\n")
        limit(resource.RLIM_INFINITY)
        made.close("done", 2000)
        assert [line["kind"] for line in lines(made.path)][4:] == ["result"] * 5 + ["end"]

    @pytest.mark.parametrize("is_lost", [False, True])
    def test_it_is_read_up_to_the_damage(self, tmp_path: Path, is_lost: bool) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)}, name="a")])
        made.before([change({T0: image(6)}, name="b")])
        made.result("b", "t", 0, "deleted")
        made.close("done", 2000)
        torn = made.path.read_bytes().splitlines(keepends=True)
        torn[5] = torn[5][:40] + (b"\n" if is_lost else b"")
        if not is_lost:  # what an older kgtool left: the end behind a part that did not fit
            torn = [*torn[:6], torn[-1]]
        made.path.write_bytes(b"".join(torn))
        assert [g.image.group for g in history.changed_groups(made.path)] == ["a"]
        found = history.readable_extent(made.path)
        assert (found.groups, found.is_lost) == (1, is_lost)
        assert found.damage is not None and "damaged from line 6 on" in found.damage.message
        failed_items(made.path)
        mark(made.path, "undone", "x", 3000)
        assert read_entry(made.path).state == "undone"


@pytest.fixture
def limit() -> Iterator[Callable[[int], None]]:
    """Sets how large this process may make a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


class TestFolder:
    def test_where_it_is(self) -> None:
        home = Path("/home/me")
        state = home / ".local/state/kgtool/journal"
        assert default_folder({}, home) == state
        assert default_folder({"XDG_STATE_HOME": "relative"}, home) == state
        assert default_folder({"XDG_STATE_HOME": "/s"}, home) == Path("/s/kgtool/journal")
        assert default_folder({"XDG_STATE_HOME": "/s", "KGTOOL_JOURNAL_DIR": "/j"}, home) == Path(
            "/j"
        )


class TestStates:
    def test_done(self, tmp_path: Path) -> None:
        finished(tmp_path, "a")
        entry = read(tmp_path, "a")
        assert (entry.state, entry.groups, entry.changes) == ("done", 1, 2)
        assert (entry.command, entry.cluster_id, entry.at_ms) == ("delete-offsets", "c1", 1000)

    def test_undone_and_done_again(self, tmp_path: Path) -> None:
        path = finished(tmp_path, "a").path
        mark(path, "undone", "b", 3000)
        assert read(tmp_path, "a").state == "undone"
        mark(path, "redone", "c", 4000)
        assert read(tmp_path, "a").state == "done"
        mark(path, "undone", "d", 5000)
        assert read(tmp_path, "a").state == "undone"

    def test_a_writer_that_lives_is_running(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)})])
        assert read(tmp_path).state == "running"
        assert made.path.read_bytes().endswith(b"\n")
        made.close("done", 2)

    def test_cut_off_anywhere_it_is_interrupted(self, tmp_path: Path) -> None:
        whole = finished(tmp_path, "a").path.read_bytes()
        path = tmp_path / "a.jsonl"
        first = whole.index(b"\n") + 1
        ready = whole.index(b'{"kind": "ready"')
        end = whole.index(b'{"kind": "end"')
        for cut in sorted({*range(first, len(whole), 9), ready, end - 1, end, len(whole) - 1}):
            path.write_bytes(whole[:cut])
            entry = read_entry(path)
            assert entry.state == "interrupted", cut
            known = list(history.changed_groups(path))
            if cut < ready:
                assert (entry.changes, known) == (0, []), cut
            elif cut >= end:
                assert entry.changes == 2
                assert [len(group.after) for group in known] == [2]
            mark(path, "undone", "b", 3000)
            assert read_entry(path).state == "undone", cut

    def test_a_long_journal_is_read_from_its_end(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)})])
        for _ in range(2000):
            made.result("g", "t", 0, "deleted")
        made.close("done", 2000)
        assert made.path.stat().st_size > history.TAIL_BYTES
        assert (read(tmp_path).state, read(tmp_path).changes) == ("done", 1)

    def test_several_parts(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5)}, name="a")])
        made.result("a", "t", 0, "restored")
        made.before([change({T0: image(5), T1: image(6)}, name="b")])
        made.close("interrupted", 2000)
        entry = read(tmp_path)
        assert (entry.state, entry.groups, entry.changes) == ("interrupted", 2, 3)
        assert [g.image.group for g in history.changed_groups(entry.path)] == ["a", "b"]


class TestReading:
    def test_newest_first(self, tmp_path: Path) -> None:
        """By the folder's own numbers: the clock went back between a and c."""
        for id, at_ms in (("b", 2000), ("a", 3000), ("c", 1000)):
            finished(tmp_path, id, at_ms)
        assert [entry.id for entry in entries(tmp_path, no_problem)] == ["c", "a", "b"]
        found = last(entries(tmp_path, no_problem), "c1")
        assert found is not None and found.id == "c"

    def test_a_lost_counter_goes_on_behind_the_newest(self, tmp_path: Path) -> None:
        for id in ("a", "b"):
            finished(tmp_path, id)
        for content in (None, b"", b"x"):
            counter = tmp_path / "sequence"
            counter.unlink() if content is None else counter.write_bytes(content)
            finished(tmp_path, f"next-{content}")
        numbers = [entry.sequence for entry in entries(tmp_path, no_problem)]
        assert numbers == [5, 4, 3, 2, 1]

    def test_no_folder_is_no_history(self, tmp_path: Path) -> None:
        assert entries(tmp_path / "none", no_problem) == []

    def test_a_folder_that_is_a_file_can_not_be_read(self, tmp_path: Path) -> None:
        """Was: there is no history, and nothing to undo."""
        (tmp_path / "file").touch()
        for ask in (lambda folder: entries(folder, no_problem), lambda folder: find(folder, "a")):
            with pytest.raises(ConfigError, match="Can't read the journal .*: Not a directory"):
                ask(tmp_path / "file")

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"nonsense\n",
            b"{}\n",
            b'{"kind": "journal"}\n',
            b'{"kgtool_journal": 1, "kind": "journal"}\n',
            b"\x00" * 99,
        ],
    )
    def test_one_bad_file_does_not_hide_the_others(self, tmp_path: Path, content: bytes) -> None:
        finished(tmp_path, "a")
        (tmp_path / "b.jsonl").write_bytes(content)
        problems: list[KgError] = []
        assert [entry.id for entry in entries(tmp_path, problems.append)] == ["a"]
        assert len(problems) == 1
        assert "b.jsonl is not a kgtool journal" in problems[0].message

    def test_a_newer_format_is_refused(self, tmp_path: Path) -> None:
        path = finished(tmp_path, "a").path
        path.write_bytes(path.read_bytes().replace(b'"kgtool_journal": 1', b'"kgtool_journal": 2'))
        with pytest.raises(ConfigError, match="newer kgtool"):
            read_entry(path)

    def test_the_beginning_of_an_id(self, tmp_path: Path) -> None:
        finished(tmp_path, "20260131-aaaa")
        finished(tmp_path, "20260131-bbbb")
        assert find(tmp_path, "20260131-b").id == "20260131-bbbb"
        with pytest.raises(ConfigError, match="Several journal IDs begin with '20260131'"):
            find(tmp_path, "20260131")
        for name in ("*", "2026013?", "[2]", "nosuch"):
            with pytest.raises(KgError, match="There is no journal"):
                find(tmp_path, name)
        for name in ("../x", "", ".."):
            with pytest.raises(ConfigError, match="is not a journal ID"):
                find(tmp_path, name)

    def test_last_goes_back_step_by_step(self, tmp_path: Path) -> None:
        finished(tmp_path, "a", 1000)
        second = finished(tmp_path, "b", 2000)
        finished(tmp_path, "c", 3000, cluster_id="c2")

        def newest() -> str | None:
            found = last(entries(tmp_path, no_problem), "c1")
            return found.id if found else None

        assert newest() == "b"
        mark(second.path, "undone", "u", 4000)
        finished(tmp_path, "u", 4000, undoes="b")
        assert newest() == "a"
        mark(second.path, "redone", "v", 5000)
        assert newest() == "b"

    def test_last_passes_over_what_has_failed_and_stops_at_what_has_no_undo(
        self, tmp_path: Path
    ) -> None:
        finished(tmp_path, "a")
        refused_ = Journal(tmp_path, header("b"))
        refused_.before([change({T0: image(5)})])
        refused_.result("g", "t", 0, "failed", DENIED._replace(code=86))
        refused_.close("done", 2000)
        found = last(entries(tmp_path, no_problem), "c1")
        assert found is not None and found.id == "a"
        finished(tmp_path, "c", command="keep")
        with pytest.raises(KgError, match="nothing to undo in the last change, c"):
            last(entries(tmp_path, no_problem), "c1")
        doubtful = Journal(tmp_path, header("d"))
        doubtful.before([change({T0: image(5)})])
        lost = ItemError(Target("g", "t", 0), None, "OUTCOME_UNKNOWN", "no answer")
        doubtful.result("g", "t", 0, "unknown", lost)
        doubtful.close("done", 2000)
        found = last(entries(tmp_path, no_problem), "c1")
        assert found is not None and (found.id, found.changes) == ("d", 1)
        bare = Journal(tmp_path, header("e"))
        bare.before([change({})])
        bare.result("g", None, None, "deleted")
        bare.close("done", 3000)
        with pytest.raises(KgError, match=r"the last change, e .*: its groups had no offsets"):
            last(entries(tmp_path, no_problem), "c1")

    def test_done_failed_or_unknown(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5), T1: image(6)})])
        foreign = ItemError(Target("g", "t", 1), None, "CHANGED_MEANWHILE", "somebody else")
        late = ItemError(Target("g", "t", 1), 7, "REQUEST_TIMED_OUT", "no answer in time")
        for status, error in (
            ("reset", None),
            ("failed", DENIED),
            ("changed-meanwhile", foreign),
            ("failed", late),
            ("unknown", DENIED),
        ):
            made.result("g", "t", 1, status, error)
        made.close("done", 2000)
        found = [line["outcome"] for line in lines(made.path) if line["kind"] == "result"]
        assert found == ["done", "failed", "failed", "unknown", "unknown"]
        assert failed_items(made.path).offsets == {("g", "t", 1)}

    def test_what_the_broker_refused(self, tmp_path: Path) -> None:
        made = Journal(tmp_path, header())
        made.before([change({T0: image(5), T1: image(6)})])
        lost = ItemError(Target("g", "t", 0), None, "TIMEOUT", "no answer")
        made.result("g", "t", 0, "failed", lost)
        made.result("g", "t", 1, "failed", DENIED)
        made.result("h", None, None, "failed", DENIED)
        made.close("done", 2000)
        # As an older kgtool wrote it: only codes.
        text = re.sub(r'"outcome": "[a-z]+", ', "", made.path.read_text())
        made.path.write_text(text)
        answers = failed_items(made.path)
        assert answers == (frozenset({"h"}), frozenset({("g", "t", 1)}))
        in_time = text.replace('"code": 86', '"code": 7')
        assert in_time != text
        made.path.write_text(in_time)  # REQUEST_TIMED_OUT: it may have been made
        assert failed_items(made.path) == (frozenset(), frozenset())


class TestPruning:
    def test_only_old_ones_and_never_a_running_one(self, tmp_path: Path) -> None:
        for id, at_ms in (("old", 1000), ("young", 3000)):
            finished(tmp_path, id, at_ms)
        running = Journal(tmp_path, header("running", 500))
        gone, failed = prune(entries(tmp_path, no_problem), 2000)
        assert ([entry.id for entry in gone], failed) == (["old"], [])
        assert [entry.id for entry in entries(tmp_path, no_problem)] == ["running", "young"]
        running.close("done", 4000)

    def test_sweeping(self, tmp_path: Path) -> None:
        left = tmp_path / f".dead{UNNAMED}"
        left.write_bytes(b"{")
        finished(tmp_path, "a")
        sweep(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "sequence"]


def test_images_survive(tmp_path: Path) -> None:
    before = change({T0: image(5, (3, 9), None, 2, "m")}, {T0: at(8, 1, "x")})
    made = Journal(tmp_path, header())
    made.before([before._replace(deletes_group=True)])
    made.close("done", 2)
    (found,) = history.changed_groups(made.path)
    assert found.image._replace(offsets=dict(found.image.offsets)) == snapshots.group(
        {T0: image(5, (3, 9), None, 2, "m")}
    )
    assert (found.after, found.deletes_group) == ({T0: at(8, 1, "x")}, True)
