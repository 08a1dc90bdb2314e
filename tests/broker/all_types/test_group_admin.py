"""``from kgtool import GroupAdmin``: the commands as methods, held to confluent-kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

import kgtool
from kgtool import CommittedOffset, GroupAdmin, KgError, TopicPartition, TopicSpec
from kgtool.errors import ConnectFailed, UsageError
from tests.cli.run import call
from tests.support import clients
from tests.support.streams import StreamsMember


@pytest.fixture
def group(at_four: tuple[str, str]) -> tuple[str, str]:
    """A group at 4 of 10 records, and at 0 of none."""
    return at_four


def undo(
    admin: GroupAdmin,
    bootstrap: str,
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Take back the last change with the command."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(journal))
    assert admin.last_journal_id is not None
    result = call(capsys, "--bootstrap-server", bootstrap, "undo", admin.last_journal_id, "--yes")
    assert result.status == 0, result.err


def test_the_letters_of_one_name_are_no_groups(
    bootstrap: str, admin: GroupAdmin, group: tuple[str, str], tmp_path: Path
) -> None:
    """A string is iterable too: "ab" for ["ab"] would delete the groups "a" and "b"."""
    _, topic = group
    at = TopicPartition(topic, 0)
    clients.commit(bootstrap, "a", {at: 1})
    clients.commit(bootstrap, "b", {at: 2})
    saved = tmp_path / "saved"
    admin.backup(["a"], saved)
    calls: list[Callable[[], object]] = [
        lambda: admin.delete_groups("ab"),
        lambda: admin.reset_offsets("ab", "latest"),
        lambda: admin.keep("ab"),
        lambda: admin.restore(saved, groups="ab"),
        lambda: admin.backup("ab", saved, overwrite=True),
        lambda: admin.cleanup_plan("ab"),
        lambda: admin.doctor("ab"),
        lambda: admin.describe_groups("ab"),
        lambda: admin.describe_offsets("ab"),
        lambda: admin.expiry("ab"),
        lambda: admin.coordinators("ab"),
        lambda: admin.configs("ab"),
    ]
    for refused in calls:
        with pytest.raises(UsageError, match=r"groups takes several groups: \['ab'\], not 'ab'"):
            refused()
    for argument in ("instance_ids", "member_ids", "client_ids"):
        with pytest.raises(UsageError, match=rf"{argument} takes several .*: \['ab'\], not 'ab'"):
            admin.remove_members("a", **{argument: "ab"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"states takes several states: \['Empty'\], not 'Empty'"):
        admin.list_groups("Empty")
    with pytest.raises(UsageError, match="types takes several types"):
        admin.list_groups(types="classic")
    for wrong in (
        lambda: admin.delete_groups([None]),  # type: ignore[list-item]
        lambda: admin.delete_offsets("a", [(topic, 0)]),  # type: ignore[list-item]
        lambda: admin.commit_offsets("a", {(topic, 0): 5}),  # type: ignore[dict-item]
    ):
        with pytest.raises(UsageError):
            wrong()
    assert clients.committed(bootstrap, "a") == {at: 1}
    assert clients.committed(bootstrap, "b") == {at: 2}
    assert admin.last_journal_id is None


class TestLooking:
    def test_groups(self, bootstrap: str, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, _ = group
        found = admin.list_groups()
        assert found.errors == []
        assert name in clients.group_ids(bootstrap)  # the others are other tests', and come and go
        (mine,) = [one for one in found.groups if one.group == name]
        assert (mine.type, mine.state) == ("classic", "Empty")
        assert name in {one.group for one in admin.list_groups(["empty"], ["classic"]).groups}
        assert name not in {one.group for one in admin.list_groups(["stable"]).groups}

    def test_all_types_and_missing_groups_are_described(
        self, bootstrap: str, admin: GroupAdmin, group: tuple[str, str]
    ) -> None:
        name, topic = group
        living, streams = clients.unique("living"), clients.unique("streams")
        member = clients.join(bootstrap, living, [topic], group_protocol="consumer")
        try:
            with StreamsMember(bootstrap, streams, [topic]):
                found = admin.describe_groups([name, living, streams, "nobody"])
                offsets = admin.describe_offsets([streams], [topic])[streams]
        finally:
            member.close()
        assert [one.type for one in found.values()][:3] == ["classic", "consumer", "streams"]
        assert found[living].members[0].epoch is not None
        assert found[streams].members[0].assignment == (("0", (0, 1)),)
        assert found["nobody"].error is not None
        assert found["nobody"].error.code == 69
        assert [row.log_end_offset for row in offsets.rows] == [10, 0]

    def test_offsets_and_lag(self, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, topic = group
        found = admin.describe_offsets([name], time_lag=True)[name]
        assert [(row.partition, row.current_offset, row.lag) for row in found.rows] == [
            (0, 4, 6),
            (1, 0, 0),
        ]
        age = time.time() * 1000 - 1_700_000_000_000
        assert found.rows[0].lag_ms == pytest.approx(age, abs=60_000)
        one = admin.describe_offsets([name], [TopicPartition(topic, 1)])[name]
        assert [row.partition for row in one.rows] == [1]
        committed = admin.committed_offsets(name)
        assert committed[TopicPartition(topic, 0)] == CommittedOffset(4, None, "kept\0")
        assert admin.committed_offsets("nobody") == {}

    def test_expiry(self, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, topic = group
        found = admin.expiry([name, "nobody"])
        assert set(found) == {name}
        one = found[name][TopicPartition(topic, 0)]
        assert one.committed_at_ms is not None
        assert abs(one.committed_at_ms - time.time() * 1000) < 60_000
        assert one.expires_at_ms == one.committed_at_ms + 7 * 86_400_000

    def test_coordinators_and_configs(self, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, _ = group
        place = admin.coordinators([name])[name]
        assert place.coordinator is not None
        assert (place.coordinator.id, place.leader, place.is_loading) == (1, 1, False)
        configs = admin.configs([name])[name]
        assert isinstance(configs, dict)
        assert configs["consumer.session.timeout.ms"].default == "45000"

    def test_an_export(self, admin: GroupAdmin, tmp_path: Path) -> None:
        done = admin.export(tmp_path / "export")
        assert (done.errors, done.partitions) == ([], 10)
        manifest = json.loads((tmp_path / "export" / "cluster.json").read_text())
        assert manifest["cluster_id"] == admin.cluster_id


class TestChanging:
    def test_commit_keeps_metadata_and_is_undone(
        self,
        bootstrap: str,
        admin: GroupAdmin,
        group: tuple[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        name, topic = group
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        wanted = {first: 7, second: CommittedOffset(0, 0, "mine")}
        planned = admin.commit_offsets(name, wanted, dry_run=True)
        assert [row.status for row in planned.rows] == ["would-reset", "would-reset"]
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}
        done = admin.commit_offsets(name, wanted)
        assert [(row.new_offset, row.status) for row in done.rows] == [(7, "reset"), (0, "reset")]
        now = admin.committed_offsets(name)
        assert now == {
            first: CommittedOffset(7, 0, "kept\0"),
            second: CommittedOffset(0, 0, "mine"),
        }
        undo(admin, bootstrap, tmp_path / "journal", monkeypatch, capsys)
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}

    def test_what_can_not_be_committed_fails_alone(
        self, bootstrap: str, admin: GroupAdmin, group: tuple[str, str]
    ) -> None:
        name, topic = group
        wanted = {TopicPartition(topic, n): offset for n, offset in ((0, 11), (1, 0), (9, 0))}
        done = admin.commit_offsets(name, wanted)
        errors = {row.partition: row.error.name if row.error else None for row in done.rows}
        assert errors == {0: "OUT_OF_RANGE", 1: None, 9: "UNKNOWN_TOPIC_OR_PARTITION"}
        assert clients.committed(bootstrap, name)[topic, 0] == 4
        new = clients.unique("made")
        refused = admin.commit_offsets(new, {TopicPartition(topic, 0): 1})
        assert refused.error is not None
        assert refused.error.code == 69
        made = admin.commit_offsets(new, {TopicPartition(topic, 0): 1}, create=True)
        assert made.rows[0].status == "reset"

    def test_resets(self, bootstrap: str, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, topic = group
        goals: list[tuple[dict[str, object], int]] = [
            ({"to": "earliest"}, 0),
            ({"to": "latest"}, 10),
            ({"shift_by": -3}, 7),
            ({"to": 5}, 5),
            ({"to": datetime(2023, 1, 1, tzinfo=timezone.utc)}, 0),
            ({"to": datetime(2024, 1, 1, tzinfo=timezone.utc)}, 10),
            ({"like": name}, 10),
        ]
        for goal, offset in goals:
            (done,) = admin.reset_offsets([name], topics=[TopicSpec(topic, (0,))], **goal)  # type: ignore[arg-type]
            assert (done.error, done.rows[0].new_offset) == (None, offset), goal
            assert clients.committed(bootstrap, name)[topic, 0] == offset

    def test_a_living_group_is_refused(
        self, bootstrap: str, admin: GroupAdmin, group: tuple[str, str]
    ) -> None:
        _, topic = group
        living = clients.unique("living")
        member = clients.join(bootstrap, living, [topic])
        try:
            (reset,) = admin.reset_offsets([living], "earliest", topics=[topic])
            (deleted,) = admin.delete_groups([living])
            offsets = admin.delete_offsets(living, [topic])
        finally:
            member.close()
        assert reset.error is not None
        assert deleted.error is not None
        assert (reset.error.code, deleted.error.code) == (68, 68)
        assert [row.error and row.error.code for row in offsets.rows] == [86, 86]

    def test_deletions_are_undone(
        self,
        bootstrap: str,
        admin: GroupAdmin,
        group: tuple[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        name, topic = group
        foreseen = admin.delete_offsets(name, [topic], dry_run=True)
        assert [row.status for row in foreseen.rows] == ["would-delete", "would-delete"]
        done = admin.delete_offsets(name, [TopicPartition(topic, 1)])
        assert [(row.partition, row.status) for row in done.rows] == [(1, "deleted")]
        assert clients.committed(bootstrap, name) == {(topic, 0): 4}
        undo(admin, bootstrap, tmp_path / "journal", monkeypatch, capsys)
        assert admin.delete_groups([name, "nobody"], dry_run=True)[0].status == "would-delete"
        gone, missing = admin.delete_groups([name, "nobody"])
        assert (gone.status, missing.status) == ("deleted", "failed")
        assert name not in clients.group_ids(bootstrap)
        undo(admin, bootstrap, tmp_path / "journal", monkeypatch, capsys)
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}

    def test_configs(
        self,
        bootstrap: str,
        admin: GroupAdmin,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        name, key = clients.unique("configured"), "consumer.session.timeout.ms"
        assert admin.alter_configs(name, {key: "50000"}, dry_run=True) == {key: None}
        refused = admin.alter_configs(name, {key: "1"})[key]
        assert refused is not None
        assert refused.name == "INVALID_CONFIG"
        assert admin.alter_configs(name, {key: "50000"}) == {key: None}
        configs = admin.configs([name])[name]
        assert isinstance(configs, dict)
        assert (configs[key].value, configs[key].source) == ("50000", "group")
        undo(admin, bootstrap, tmp_path / "journal", monkeypatch, capsys)
        after = admin.configs([name])[name]
        assert isinstance(after, dict)
        assert after[key].source == "default"

    def test_without_a_journal_nothing_is_changed(
        self, bootstrap: str, group: tuple[str, str], tmp_path: Path
    ) -> None:
        name, topic = group
        (tmp_path / "file").write_text("in the way")
        with GroupAdmin(bootstrap, journal=tmp_path / "file") as admin:
            for change in (
                lambda: admin.delete_offsets(name, [topic]),
                lambda: admin.delete_groups([name]),
                lambda: admin.commit_offsets(name, {TopicPartition(topic, 0): 1}),
                lambda: admin.alter_configs(name, {"consumer.session.timeout.ms": "50000"}),
            ):
                with pytest.raises(KgError, match="nothing was changed"):
                    change()
            assert admin.last_journal_id is None
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}


class TestTheObject:
    def test_threads_may_share_it(self, admin: GroupAdmin, group: tuple[str, str]) -> None:
        name, topic = group
        found: list[object] = []

        def look() -> None:
            for _ in range(20):
                rows = admin.describe_offsets([name])[name].rows
                found.append([row.current_offset for row in rows])

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert found == [[4, 0]] * 80

    def test_each_call_has_its_own_time_and_sees_what_is_new(
        self, bootstrap: str, new_topic: Callable[..., str]
    ) -> None:
        name = clients.unique("later")
        with GroupAdmin(bootstrap, timeout_ms=3000) as admin:
            assert admin.describe_offsets([name])[name].description.error is not None
            time.sleep(3.5)
            topic = new_topic()
            clients.commit(bootstrap, name, {(topic, 0): 0})
            (row,) = admin.describe_offsets([name])[name].rows
            assert (row.topic, row.status) == (topic, "ok")

    def test_nobody_there(self) -> None:
        with GroupAdmin("127.0.0.1:1", timeout_ms=500) as admin, pytest.raises(ConnectFailed):
            admin.list_groups()

    def test_after_the_end(self, bootstrap: str, group: tuple[str, str], tmp_path: Path) -> None:
        """Long work too, which has connections of its own: an undo would still change things."""
        name, topic = group
        admin = GroupAdmin(bootstrap, journal=tmp_path / "journal")
        saved = tmp_path / "saved"
        admin.backup([name], saved)
        plan = admin.cleanup_plan([name])
        admin.commit_offsets(name, {TopicPartition(topic, 0): 7})
        admin.close()
        admin.close()
        calls: list[Callable[[], object]] = [
            admin.list_groups,
            admin.undo,
            lambda: admin.restore(saved),
            lambda: admin.diff(saved),
            lambda: admin.backup([name], tmp_path / "another"),
            lambda: admin.export(tmp_path / "log"),
            lambda: admin.cleanup_plan([name]),
            lambda: admin.cleanup_apply(plan),
        ]
        for refused in calls:
            with pytest.raises(KgError, match="This GroupAdmin is closed"):
                refused()
        assert clients.committed(bootstrap, name)[TopicPartition(topic, 0)] == 7
        assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "saved"]

    def test_wrong_arguments(self, admin: GroupAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KGTOOL_BOOTSTRAP_SERVER", raising=False)
        wrong: list[Callable[[], object]] = [
            GroupAdmin,
            lambda: GroupAdmin("b:1", properties={}, command_config="x"),
            lambda: GroupAdmin("b:1", timeout_ms=0),
            lambda: admin.reset_offsets(["g"]),
            lambda: admin.reset_offsets(["g"], "earliest", shift_by=1),
            lambda: admin.reset_offsets(["g"], "somewhere"),
            lambda: admin.reset_offsets(["g"], shift_by=1.5),  # type: ignore[arg-type]
            lambda: admin.peek("g", before=-1),
            lambda: admin.peek("g", after="1"),  # type: ignore[arg-type]
            lambda: admin.reset_offsets(["g"], datetime(2024, 1, 1)),  # noqa: DTZ001
            lambda: admin.commit_offsets("g", {TopicPartition("t", 0): -1}),
            lambda: admin.delete_offsets("g", "topic"),
            lambda: admin.alter_configs("g", {"no.such.config": "1"}),
        ]
        for one in wrong:
            with pytest.raises(UsageError):
                one()

    def test_properties_are_those_of_java(self, bootstrap: str) -> None:
        with GroupAdmin(properties={"bootstrap.servers": bootstrap, "client.id": "me"}) as admin:
            assert admin.cluster_id
        with pytest.raises(KgError, match="security.protocol"):
            GroupAdmin("b:1", properties={"security.protocol": "NONSENSE"})

    def test_importing_costs_nothing_until_it_is_used(self) -> None:
        code = (
            "import sys, kgtool; before = {m for m in sys.modules if m.startswith('kgtool')};"
            "kgtool.GroupAdmin; import json;"
            "print(json.dumps([sorted(before), 'click' in sys.modules, 'ssl' in sys.modules]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        assert json.loads(done.stdout) == [["kgtool"], False, False]

    def test_the_public_names(self) -> None:
        assert set(kgtool.__all__) <= {"__version__", *kgtool._PLACES}
        for name in kgtool.__all__:
            assert getattr(kgtool, name) is not None
        with pytest.raises(AttributeError):
            kgtool.nonsense  # noqa: B018

    def test_every_method_says_what_it_does(self) -> None:
        for name in dir(GroupAdmin):
            if not name.startswith("_"):
                text = getattr(GroupAdmin, name).__doc__ or ""
                assert len(text) > 20, name
