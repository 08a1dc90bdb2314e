"""``GroupAdmin``: journals, backups, explanations and findings, held to confluent-kafka."""

from __future__ import annotations

import errno
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool import GroupAdmin, KgError, TopicPartition
from kgtool.changes.cleanup.progress import PlanProgress
from kgtool.changes.policy import TooMany
from kgtool.changes.restore.decide import RestoreGroup
from kgtool.errors import ConfigError, UsageError
from kgtool.queries.offsets import fetch
from tests.cli.run import call
from tests.support import clients

KEY = "consumer.session.timeout.ms"


def statuses(groups: list[RestoreGroup]) -> dict[tuple[str, int], str]:
    return {
        (row.group, row.partition): row.error.name if row.error else row.status
        for group in groups
        for row in group.rows
    }


class TestUndo:
    def test_the_last_change_and_the_one_before(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        name, topic = at_four
        admin.reset_offsets([name], "latest")
        admin.delete_groups([name])
        newest, older = admin.history()
        assert (newest.id, newest.state) == (admin.last_journal_id, "done")
        assert (newest.command, older.command) == ("delete_groups", "reset_offsets")
        foreseen = admin.undo(dry_run=True)
        assert statuses(foreseen.groups) == {(name, 0): "would-restore", (name, 1): "would-restore"}
        assert name not in clients.group_ids(bootstrap)
        done = admin.undo()
        assert (done.journal_id, done.errors) == (newest.id, [])
        assert clients.committed(bootstrap, name) == {(topic, 0): 10, (topic, 1): 0}
        assert {entry.id: entry.state for entry in admin.history()}[newest.id] == "undone"
        assert statuses(admin.undo().groups)[name, 0] == "restored"
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}
        with pytest.raises(KgError, match="nothing to undo"):
            admin.undo()
        with pytest.raises(KgError, match="undone already"):
            admin.undo(older.id)

    def test_a_journal_that_can_not_be_marked(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        """Was: everything is back, and an OSError instead of a result."""
        name, topic = at_four
        admin.reset_offsets([name], "earliest")
        (entry,) = admin.history()
        with entry.path.open("a") as file:
            file.write('{"kind": "note"}\n' * 2000)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (entry.path.stat().st_size, limit[1]))
        try:
            with pytest.warns(UserWarning, match="can't be marked as undone"):
                done = admin.undo(entry.id)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert (done.errors, statuses(done.groups)[name, 0]) == ([], "restored")
        assert clients.committed(bootstrap, name)[topic, 0] == 4

    def test_what_somebody_has_committed_since_is_left_alone(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        name, topic = at_four
        admin.reset_offsets([name], "earliest")
        clients.commit(bootstrap, name, {(topic, 0): 9})
        done = admin.undo()
        assert statuses(done.groups)[name, 0] == "CHANGED_MEANWHILE"
        assert [error.name for error in done.errors] == ["CHANGED_MEANWHILE"]
        assert admin.undo(force=True).errors == []
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}

    def test_configs_that_the_controller_takes_no_more(
        self,
        bootstrap: str,
        admin: GroupAdmin,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Was: each refusal was taken off the changes, and the undo's journal was unreadable."""
        monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
        one, two = sorted(clients.unique("configured") for _ in range(2))
        added = f"{KEY}=50000,consumer.heartbeat.interval.ms=6000"
        done = call(
            capsys,
            "configs",
            one,
            two,
            "--bootstrap-server",
            bootstrap,
            "--alter",
            "--add-config",
            added,
            "--yes",
        )
        assert done.status == 0, done
        entry = admin.history()[0]
        lines = [json.loads(line) for line in entry.path.read_text().splitlines()]
        for line in lines:
            if line["kind"] == "config" and line["group"] == two:
                line["before"] = "1"  # below the least that the broker allows
        entry.path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        assert len(admin.undo(entry.id).errors) == 2
        undone = admin.history()[0]
        assert (undone.undoes, undone.changes) == (entry.id, 2)

    def test_configs(self, admin: GroupAdmin) -> None:
        name = clients.unique("configured")
        admin.alter_configs(name, {KEY: "50000"})
        first = admin.last_journal_id
        assert first is not None
        admin.alter_configs(name, {KEY: "55000"})
        changed = admin.undo(first).configs[name, KEY]
        assert changed is not None
        assert changed.name == "CHANGED_SINCE"
        assert admin.undo().configs == {(name, KEY): None}
        assert admin.undo(first).configs == {(name, KEY): None}
        configs = admin.configs([name])[name]
        assert isinstance(configs, dict)
        assert configs[KEY].source == "default"

    def test_a_living_group(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        name, topic = at_four
        admin.reset_offsets([name], "earliest")
        member = clients.join(bootstrap, name, [topic], group_protocol="consumer")
        try:
            assert statuses(admin.undo().groups)[name, 0] == "NON_EMPTY_GROUP"
            assert statuses(admin.undo(as_member=True).groups)[name, 0] == "restored"
        finally:
            member.close()


class TestBackups:
    def test_there_and_back(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str], tmp_path: Path
    ) -> None:
        name, topic = at_four
        path, other = tmp_path / "saved.jsonl", clients.unique("other")
        saved = admin.backup([name, "nobody"], path)
        assert (saved.groups, saved.offsets) == (1, 2)
        assert [error.code for error in saved.errors] == [69]
        assert saved.bytes == path.stat().st_size
        assert admin.diff(path) == []
        with pytest.raises(UsageError, match="exists"):
            admin.backup([name], path)
        clients.commit(bootstrap, name, {(topic, 0): 8})
        assert [(row.partition, row.status) for row in admin.diff(path)] == [(0, "moved")]
        planned = admin.restore(path, dry_run=True)
        assert statuses(planned) == {(name, 0): "would-restore", (name, 1): "unchanged"}
        assert statuses(admin.restore(path))[name, 0] == "restored"
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}
        made = admin.restore(path, groups=[name], group_names={name: other})
        assert statuses(made) == {(other, 0): "restored", (other, 1): "restored"}
        assert clients.committed(bootstrap, other) == {(topic, 0): 4, (topic, 1): 0}
        assert admin.undo().errors == []
        assert clients.committed(bootstrap, other) == {}

    def test_what_is_wrong_in_the_file_is_known_before_anything_is_restored(
        self,
        bootstrap: str,
        admin: GroupAdmin,
        at_four: tuple[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Was: the parts of a large file before it were restored."""
        monkeypatch.setattr(fetch, "FIRST", 1)
        (name, topic), two, other = at_four, clients.unique("two"), clients.unique("other")
        clients.commit(bootstrap, two, {(topic, 0): 2})
        path = tmp_path / "saved.jsonl"
        assert admin.backup([name, two], path).groups == 2
        with pytest.raises(ConfigError, match="appears twice"):
            admin.restore(path, group_names={name: other, two: other})
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:-2], lines[-1]]))
        clients.commit(bootstrap, name, {(topic, 0): 8})
        with pytest.raises(ConfigError, match="something is missing"):
            admin.restore(path)
        assert clients.committed(bootstrap, other) == {}
        assert clients.committed(bootstrap, name)[topic, 0] == 8

    def test_nothing_saved_is_no_file(self, admin: GroupAdmin, tmp_path: Path) -> None:
        saved = admin.backup(["nobody"], tmp_path / "none.jsonl")
        assert (saved.groups, len(saved.errors)) == (0, 1)
        assert list(tmp_path.glob("*none*")) == []


class TestCleanup:
    def test_a_plan_is_carried_out_once_and_undone(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str], tmp_path: Path
    ) -> None:
        name, topic = at_four
        other = clients.unique("other")
        clients.commit(bootstrap, other, {(topic, 0): 2})
        path = tmp_path / "plan.json"
        plan = admin.cleanup_plan([name, other], path=path)
        assert [(item.action, item.group) for item in plan.items] == [
            ("delete-group", name),
            ("delete-group", other),
        ]
        assert path.exists()
        assert admin.cleanup_plan([name], idle_ms=3_600_000).items == ()
        written = path.read_bytes()
        (missing,) = admin.cleanup_plan(["no such group"], path=path).errors
        assert missing.name == "GROUP_ID_NOT_FOUND" and path.read_bytes() == written
        for is_dry in (True, False):
            with pytest.raises(TooMany, match="--max-groups allows 1: nothing was changed"):
                admin.cleanup_apply(plan, max_delete=1, dry_run=is_dry)
        foreseen = admin.cleanup_apply(path, dry_run=True)
        assert [result.status for result in foreseen] == ["would-delete"] * 2
        clients.commit(bootstrap, other, {(topic, 0): 3})  # somebody uses it after all
        results = {result.item.group: result.status for result in admin.cleanup_apply(plan)}
        assert results == {name: "deleted", other: "skipped"}
        assert clients.committed(bootstrap, other) == {(topic, 0): 3}
        assert name not in clients.group_ids(bootstrap)
        again = {result.item.group: result.status for result in admin.cleanup_apply(path)}
        assert again == {name: "done-before", other: "skipped"}
        assert admin.undo().errors == []
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}

    def test_a_plan_that_does_not_say_which_cluster_it_is_about(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        """Was: "is about the cluster None"."""
        plan = admin.cleanup_plan([at_four[0]])
        nowhere = plan._replace(header=plan.header._replace(cluster_id=None))
        with pytest.raises(ConfigError, match="does not say which cluster it is about") as refused:
            admin.cleanup_apply(nowhere)
        assert f'"cluster_id": "{admin.cluster_id}"' in (refused.value.hint or "")
        assert at_four[0] in clients.group_ids(bootstrap)

    def test_results_that_can_not_be_noted_are_said(
        self, admin: GroupAdmin, at_four: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Was: the next run of the plan asks the cluster again, and nobody knows why."""
        plan = admin.cleanup_plan([at_four[0]])
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(PlanProgress, "finish", lambda *_: full)
        said = r"plan-.*\.progress can't be written: No space left on device"
        with pytest.warns(UserWarning, match=said):
            (result,) = admin.cleanup_apply(plan)
        assert result.status == "deleted"


class TestMembersAndTime:
    def test_offsets_are_kept(
        self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]
    ) -> None:
        name, topic = at_four
        before = admin.expiry([name])[name][TopicPartition(topic, 0)]
        time.sleep(0.1)
        assert {row.status for row in admin.keep([name], dry_run=True)[0].rows} == {"would-keep"}
        (kept,) = admin.keep([name])
        assert {row.status for row in kept.rows} == {"kept"}
        after = admin.expiry([name])[name][TopicPartition(topic, 0)]
        assert after.expires_at_ms is not None
        assert before.expires_at_ms is not None
        assert after.expires_at_ms >= before.expires_at_ms + 100
        assert clients.committed(bootstrap, name) == {(topic, 0): 4, (topic, 1): 0}

    def test_a_static_member_is_removed(
        self, bootstrap: str, admin: GroupAdmin, new_topic: Callable[..., str]
    ) -> None:
        topic, name = new_topic(), clients.unique("static")
        member = clients.join(bootstrap, name, [topic], **{"group.instance.id": "one"})
        member.close()  # a static member does not leave
        assert len(admin.describe_groups([name])[name].members) == 1
        (foreseen,) = admin.remove_members(name, instance_ids=["one"], dry_run=True)
        assert (foreseen.status, foreseen.member.instance_id) == ("would-remove", "one")
        (removed,) = admin.remove_members(name, instance_ids=["one"])
        assert (removed.status, removed.error) == ("removed", None)
        assert admin.describe_groups([name])[name].members == ()
        assert admin.remove_members(name, instance_ids=["one"]) == []
        with pytest.raises(KgError, match="which can't be undone"):
            admin.undo(admin.last_journal_id or "")
        with pytest.raises(KgError):
            admin.remove_members("nobody", all_members=True)


class TestAsking:
    def test_an_explanation(self, admin: GroupAdmin, at_four: tuple[str, str]) -> None:
        name, topic = at_four
        found = admin.explain(name)
        assert (found.description.state, found.errors) == ("Empty", [])
        assert [use.topic for use in found.topics] == [topic]
        assert found.expiries[TopicPartition(topic, 0)].rule == "commit"

    def test_findings(self, bootstrap: str, admin: GroupAdmin, at_four: tuple[str, str]) -> None:
        name, topic = at_four
        assert admin.doctor([name]).findings == []
        clients.commit(bootstrap, name, {(topic, 0): 99})
        found = admin.doctor([name])
        (finding,) = found.findings
        assert (finding.kind, finding.severity, finding.partition) == ("beyond-end", "problem", 0)
        assert finding.fix[:4] == ("kgtool", "reset-offsets", "--group", name)
        week = admin.doctor([name], within_ms=8 * 86_400_000).findings
        assert {one.kind for one in week} == {"beyond-end", "expiring"}
        whole = admin.doctor()
        assert whole.is_whole
        assert ("beyond-end", name) in {(one.kind, one.group) for one in whole.findings}
        assert whole.groups >= 1

    def test_raw_requests(self, admin: GroupAdmin, at_four: tuple[str, str]) -> None:
        """OffsetFetch v2 with null topics (KIP-88), as clients of 2016 sent it."""
        name, topic = at_four
        body = {"groupId": name, "topics": None}
        (reply,) = admin.request("offsetfetch", body, version=2)
        assert (reply.broker, reply.version, reply.error) == (1, 2, None)
        assert reply.response is not None
        (row,) = reply.response["topics"]
        assert (row["name"], sorted(p["committedOffset"] for p in row["partitions"])) == (
            topic,
            [0, 4],
        )
        (versions,) = admin.request("ApiVersions", broker=1)
        assert versions.response is not None
        assert versions.response["errorCode"] == 0
        (absent,) = admin.request("ApiVersions", version=3, broker=7)
        assert absent.error is not None
        with pytest.raises(KgError, match="Broker 7"):
            admin.request("ApiVersions", broker=7)
        for wrong in (
            lambda: admin.request("OffsetFitch"),
            lambda: admin.request("OffsetFetch", {"nope": 1}, version=2),
            lambda: admin.request("OffsetFetch", version=99),
        ):
            with pytest.raises(UsageError):
                wrong()
