"""A user who may do some things: what is refused is named, and the rest is done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kgtool import GroupAdmin
from kgtool.client.ops import Pause
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.cluster.offsets_partition import offsets_partition
from kgtool.queries.offsets import rates
from kgtool.sandbox.broker import free_ports
from kgtool.sandbox.cluster import Sandbox
from tests.cli.pseudo import Terminal
from tests.cli.run import Result, call, command_line
from tests.support import brokers, clients
from tests.support.offsets import first_commits
from tests.support.outcomes import Outcome

TABLE = "kgtool where something is not allowed"
LOG = "__consumer_offsets"
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
WORKERS = ("master", *(f"gw{number}" for number in range(64)))
USER = f"alice-{os.environ.get('PYTEST_XDIST_WORKER', 'master')}"
"""Each worker has a user of its own: what one test allows is no right of another one's."""


@pytest.fixture(scope="session")
def guarded() -> tuple[Sandbox, str]:
    """A broker that asks its ACLs, and the address where users log in."""
    (port,) = free_ports(1)
    place = f"LOGIN://127.0.0.1:{port}"
    users = " ".join(f'user_alice-{worker}="secret"' for worker in WORKERS)
    cluster = brokers.shared_broker(
        "4.3.1",
        name="guarded",
        config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listeners": place,
            "advertised.listeners": place,
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f"{_JAAS} {users};",
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    return cluster, cluster.state.config["listeners"].removeprefix("LOGIN://")


class Guarded(NamedTuple):
    """The broker as its administrator sees it, and as alice does."""

    bootstrap: str
    run: Callable[..., Result]
    seen: str
    hidden: str
    login: tuple[str, ...]

    def allow(self, kind: ResourceType, name: str, *operations: str) -> None:
        """Let alice do something."""
        self._rule(AclPermissionType.ALLOW, kind, name, operations)

    def deny(self, kind: ResourceType, name: str, *operations: str) -> None:
        """Deny alice something, whatever else she is allowed."""
        self._rule(AclPermissionType.DENY, kind, name, operations)

    def _rule(
        self, permission: Any, kind: ResourceType, name: str, operations: Sequence[str]
    ) -> None:
        bindings = [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{USER}",
                "*",
                AclOperation[operation],
                permission,
            )
            for operation in operations
        ]
        admin = clients.admin(self.bootstrap)  # one that is only a temporary never answers
        for future in admin.create_acls(bindings).values():
            future.result(30)
        clients.wait_for(lambda: self._rules(kind, name) >= set(bindings), "the ACLs")

    def admin(self) -> GroupAdmin:
        """Return the Python API, as alice."""
        return GroupAdmin(self.login[1], command_config=self.login[3])

    def forbid(self, kind: ResourceType, name: str) -> None:
        """Take back everything that alice may do with something."""
        admin = clients.admin(self.bootstrap)
        for future in admin.delete_acls([_every(kind, name)]).values():
            future.result(30)
        clients.wait_for(lambda: not self._rules(kind, name), "the ACLs' end")

    def _rules(self, kind: ResourceType, name: str) -> set[AclBinding]:
        """What the broker goes by: the controller has answered a moment before."""
        admin = clients.admin(self.bootstrap)
        return set(admin.describe_acls(_every(kind, name)).result(30))

    def group(self, *operations: str, offsets: bool = True) -> str:
        """Make a group with commits in both topics, and let alice do something with it."""
        name = clients.unique("group")
        if offsets:
            commits = {(self.seen, 0): 1, (self.hidden, 0): 2}
            clients.commit(self.bootstrap, name, commits)
        if operations:
            self.allow(ResourceType.GROUP, name, *operations)
        return name


def _every(kind: ResourceType, name: str) -> AclBindingFilter:
    return AclBindingFilter(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


@pytest.fixture
def here(
    guarded: tuple[Sandbox, str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Guarded]:
    cluster, address = guarded
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_JAAS} username="{USER}" password="secret";\n'
    )

    login = ("--bootstrap-server", address, "--command-config", str(config))

    def run(*argv: str) -> Result:
        return call(capsys, *argv, *login, "-o", "json")

    at = cluster.bootstrap
    seen, hidden = (clients.create_topic(at, clients.unique(name)) for name in ("seen", "hidden"))
    for topic in (seen, hidden):
        clients.produce(at, topic, 5)
    made = Guarded(at, run, seen, hidden, login)
    made.allow(ResourceType.TOPIC, seen, "DESCRIBE", "READ")
    return made


def only_error(result: Result) -> Any:
    (error,) = result.json["errors"]
    return error


def test_groups_that_may_not_be_seen_are_not_listed(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "list, with another group", "outcome") as cell:
        mine, other = here.group("DESCRIBE"), here.group()
        result = here.run("list")
        listed = {row["group"] for row in result.json["results"]}
        assert result.status == 0
        assert mine in listed
        assert other not in listed
        cell.says("not shown")


@pytest.mark.parametrize("view", ["--offsets", "--members", "--state"])
def test_a_group_that_may_not_be_described_is_an_error_of_its_own(
    here: Guarded, view: str, outcome: Outcome
) -> None:
    with outcome(TABLE, f"describe {view}, without DESCRIBE on the group", "outcome") as cell:
        mine, other = here.group("DESCRIBE"), here.group()
        result = here.run("describe", "--group", other, "--group", mine, view)
        assert result.status == 3
        error = only_error(result)
        assert (error["code"], error["target"]["group"]) == (30, other)
        assert error["hint"] == f"It needs the ACL operation DESCRIBE on group {other}."
        if view != "--members":
            assert {row["group"] for row in result.json["results"]} == {mine}
        cell.says("named, the others shown")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_is_hidden_is_pointed_out_where_a_member_has_it(
    here: Guarded, protocol: str, outcome: Outcome
) -> None:
    """OffsetFetch leaves out what may not be seen: the assignment shows that it is there."""
    with outcome(TABLE, f"describe ({protocol}), without DESCRIBE on a topic", "outcome") as cell:
        mine = here.group("DESCRIBE")
        member = clients.join(
            here.bootstrap, mine, [here.seen, here.hidden], group_protocol=protocol
        )
        try:
            clients.wait_for(lambda: len(member.assignment()) == 2, "both topics")
            result = here.run("describe", "--group", mine)
        finally:
            member.close()
        assert result.status == 3, result
        rows = {row["topic"]: row for row in result.json["results"]}
        assert (rows[here.seen]["current_offset"], rows[here.seen]["lag"]) == (1, 4)
        error = only_error(result)
        assert error["code"] == 29
        assert "ACL operation DESCRIBE on" in error["hint"]
        if protocol == "classic":
            assert rows[here.hidden]["status"] == "denied"
            assert rows[here.hidden]["current_offset"] is None
            assert here.hidden in error["hint"]
        cell.says("pointed out")


def test_the_age_of_what_is_unread_takes_read_on_the_topic(here: Guarded, outcome: Outcome) -> None:
    """Offsets and lag only take DESCRIBE: they are shown all the same."""
    with outcome(TABLE, "describe --time-lag, without READ on a topic", "outcome") as cell:
        mine = here.group("DESCRIBE")
        here.allow(ResourceType.TOPIC, here.hidden, "DESCRIBE")
        result = here.run("describe", "--group", mine, "--time-lag")
        assert result.status == 3, result
        rows = {row["topic"]: row for row in result.json["results"]}
        seen, hidden = rows[here.seen], rows[here.hidden]
        assert (seen["current_offset"], seen["lag"]) == (1, 4)
        assert seen["lag_ms"] >= 0
        assert (hidden["current_offset"], hidden["lag"], hidden["lag_ms"]) == (2, 3, None)
        error = only_error(result)
        assert (error["code"], error["target"]["topic"]) == (29, here.hidden)
        assert error["hint"] == f"It needs the ACL operation READ on topic {here.hidden}."
        cell.says("named, offsets and lag shown")


def test_offsets_of_a_topic_that_may_not_be_read_stay(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "delete-offsets, without READ on a topic", "outcome") as cell:
        mine = here.group("DESCRIBE", "DELETE")
        here.allow(ResourceType.TOPIC, here.hidden, "DESCRIBE")
        argv = ["--group", mine, "--topic", here.seen, "--topic", f"{here.hidden}:0", "--yes"]
        result = here.run("delete-offsets", *argv)
        assert result.status == 3, result
        status = {row["topic"]: row["status"] for row in result.json["results"]}
        assert status == {here.seen: "deleted", here.hidden: "failed"}
        assert only_error(result)["hint"] == (
            f"It needs the ACL operation READ on topic {here.hidden}."
        )
        assert clients.committed(here.bootstrap, mine) == {(here.hidden, 0): 2}
        cell.says("named, the others deleted")


def test_offsets_of_a_hidden_topic_can_t_be_deleted(here: Guarded) -> None:
    mine = here.group("DESCRIBE", "DELETE")
    argv = ["--group", mine, "--topic", f"{here.seen}:0", "--topic", f"{here.hidden}:0", "--yes"]
    result = here.run("delete-offsets", *argv)
    assert result.status == 3, result
    status = {row["topic"]: row["status"] for row in result.json["results"]}
    assert status == {here.seen: "deleted", here.hidden: "failed"}
    assert here.hidden in only_error(result)["hint"]
    assert clients.committed(here.bootstrap, mine) == {(here.hidden, 0): 2}


def test_a_hidden_topic_without_partitions_is_no_unknown_one(here: Guarded) -> None:
    mine = here.group("DESCRIBE", "DELETE")
    result = here.run("delete-offsets", "--group", mine, "--topic", here.hidden, "--yes")
    assert result.status == 1, result
    error = only_error(result)
    assert (error["code"], error["name"]) == (29, "TOPIC_AUTHORIZATION_FAILED")
    assert here.hidden in error["hint"]


def test_a_group_whose_offsets_may_not_be_deleted(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "delete-offsets, without DELETE on the group", "outcome") as cell:
        mine, other = here.group("DESCRIBE", "DELETE"), here.group("DESCRIBE")
        argv = ["--group", mine, "--group", other, "--topic", f"{here.seen}:0", "--yes"]
        result = here.run("delete-offsets", *argv)
        assert result.status == 3
        assert only_error(result)["hint"] == f"It needs the ACL operation DELETE on group {other}."
        assert (here.seen, 0) in clients.committed(here.bootstrap, other)
        assert (here.seen, 0) not in clients.committed(here.bootstrap, mine)
        cell.says("named, the others deleted")


def test_a_group_that_may_not_be_deleted(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "delete, without DELETE on the group", "outcome") as cell:
        mine, other = here.group("DESCRIBE", "DELETE"), here.group("DESCRIBE")
        result = here.run("delete", "--group", mine, "--group", other, "--yes")
        assert result.status == 3
        status = {row["group"]: row["status"] for row in result.json["results"]}
        assert status == {mine: "deleted", other: "failed"}
        assert only_error(result)["hint"] == f"It needs the ACL operation DELETE on group {other}."
        assert clients.committed(here.bootstrap, other)
        cell.says("named, the others deleted")


def test_a_group_that_may_not_be_written(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "reset-offsets, without READ on the group", "outcome") as cell:
        mine, other = here.group("DESCRIBE", "READ"), here.group("DESCRIBE")
        named = ["--group", mine, "--group", other]
        result = here.run(
            "reset-offsets", *named, "--topic", here.seen, "--to-latest", "--execute", "--yes"
        )
        assert result.status == 3, result
        error = only_error(result)
        assert error["code"] == 30
        assert error["hint"] == f"It needs the ACL operation READ on group {other}."
        assert clients.committed(here.bootstrap, mine)[here.seen, 0] == 5
        assert clients.committed(here.bootstrap, other)[here.seen, 0] == 1
        cell.says("named, the others reset")


def test_offsets_that_may_not_be_put_back(here: Guarded, outcome: Outcome) -> None:
    """DELETE on a group without READ: what was taken away can't be given back."""
    with outcome(TABLE, "undo, without READ on the group", "outcome") as cell:
        mine = here.group("DESCRIBE", "DELETE")
        argv = ["--group", mine, "--topic", f"{here.seen}:0", "--yes"]
        assert here.run("delete-offsets", *argv).status == 0
        result = here.run("undo", "last", "--yes")
        assert result.status == 1, result
        assert only_error(result)["hint"] == f"It needs the ACL operation READ on group {mine}."
        here.allow(ResourceType.GROUP, mine, "READ")
        assert here.run("undo", "last", "--yes").status == 0
        assert clients.committed(here.bootstrap, mine)[here.seen, 0] == 1
        cell.says("named; done once it was allowed")


def test_a_backup_that_may_not_be_put_back_whole(
    here: Guarded, outcome: Outcome, tmp_path: Path
) -> None:
    with outcome(TABLE, "restore, without READ on a topic", "outcome") as cell:
        here.allow(ResourceType.TOPIC, here.hidden, "DESCRIBE")
        mine, file = here.group("DESCRIBE", "READ"), str(tmp_path / "backup.json")
        assert here.run("backup", "--group", mine, "--out", file).status == 0
        moved = {(here.seen, 0): 4, (here.hidden, 0): 4}
        clients.commit(here.bootstrap, mine, moved)
        result = here.run("restore", file, "--yes")
        assert result.status == 3, result
        assert only_error(result)["hint"] == (
            f"It needs the ACL operation READ on topic {here.hidden}."
        )
        assert clients.committed(here.bootstrap, mine) == {(here.seen, 0): 1, (here.hidden, 0): 4}
        cell.says("named, the others restored")


def test_offsets_that_may_not_be_kept(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "keep, without READ on the group", "outcome") as cell:
        mine, other = here.group("DESCRIBE", "READ"), here.group("DESCRIBE")
        here.allow(ResourceType.TOPIC, "__consumer_offsets", "DESCRIBE", "READ")
        try:
            result = here.run("keep", mine, other, "--yes")
        finally:
            here.forbid(ResourceType.TOPIC, "__consumer_offsets")
        hints = {error["hint"] for error in result.json["errors"]}
        assert f"It needs the ACL operation READ on group {other}." in hints, result
        kept = {row["topic"] for row in result.json["results"] if row["status"] == "kept"}
        assert here.seen in kept
        cell.says("named")


def test_the_export_says_what_it_takes(here: Guarded, outcome: Outcome, tmp_path: Path) -> None:
    with outcome(TABLE, "export, without READ on __consumer_offsets", "outcome") as cell:
        partitions = fill_the_log(here.bootstrap, here.seen)
        here.allow(ResourceType.TOPIC, "__consumer_offsets", "DESCRIBE")
        try:
            result = here.run("export", "--out", str(tmp_path / "export"))
        finally:
            here.forbid(ResourceType.TOPIC, "__consumer_offsets")
        assert result.status == 1, result
        hints = {error["hint"] for error in result.json["errors"]}
        assert hints == {"It needs the ACL operation READ on topic __consumer_offsets."}
        assert {error["target"]["partition"] for error in result.json["errors"]} == partitions
        cell.says("named")


def fill_the_log(bootstrap: str, topic: str) -> set[int]:
    """Let each partition of ``__consumer_offsets`` hold something; return their numbers."""
    count = len(clients.admin(bootstrap).list_topics(LOG, timeout=10).topics[LOG].partitions)
    homes: dict[int, str] = {}
    while len(homes) < count:
        group = clients.unique("home")
        homes.setdefault(offsets_partition(group, count), group)
    offsets = {TopicPartition(topic, 0): CommittedOffset(0, None, "")}
    with Session(Settings(parse_bootstrap(bootstrap))) as session:
        done = session.run(first_commits(session.cluster, dict.fromkeys(homes.values(), offsets)))
    assert [outcome for parts in done.values() for outcome in parts.values()] == [None] * count
    return set(homes)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_backup_says_that_a_topic_is_hidden_from_it(
    here: Guarded, protocol: str, outcome: Outcome, tmp_path: Path
) -> None:
    with outcome(TABLE, f"backup ({protocol}), without DESCRIBE on a topic", "outcome") as cell:
        mine = here.group("DESCRIBE")
        member = clients.join(
            here.bootstrap, mine, [here.seen, here.hidden], group_protocol=protocol
        )
        try:
            clients.wait_for(lambda: len(member.assignment()) == 2, "both topics")
            result = here.run("backup", "--group", mine, "--out", str(tmp_path / "backup.jsonl"))
        finally:
            member.close()
        assert result.status == 3, result
        error = only_error(result)
        assert error["code"] == 29
        assert "ACL operation DESCRIBE on" in error["hint"]
        saved = [json.loads(line) for line in (tmp_path / "backup.jsonl").read_text().splitlines()]
        (kept,) = [line for line in saved if line["kind"] == "offset"]
        assert (kept["topic"], kept["offset"]) == (here.seen, 1)
        (group,) = [line for line in saved if line["kind"] == "group"]
        assert (group["group"], group["exists"]) == (mine, True)
        assert [line["group"] for line in saved if line["kind"] == "error"] == [mine]
        cell.says("pointed out")


def test_a_last_use_that_is_unknown_counts_as_recent(
    here: Guarded, guarded: tuple[Sandbox, str], tmp_path: Path
) -> None:
    """Without READ on __consumer_offsets no one can tell: the name is to be typed."""
    name = here.group("DESCRIBE", "DELETE")
    here.allow(ResourceType.TOPIC, here.hidden, "DESCRIBE")
    argv = command_line(
        "delete",
        "--match",
        f"{name}*",
        "--timeout",
        "60000",  # a broker that is slower than a share of 5 s would be the reason instead
        "--bootstrap-server",
        guarded[1],
        "--command-config",
        str(tmp_path / "alice.properties"),
    )
    for typed, status in (("no", 1), (name, 0)):
        with Terminal(argv, columns=200, env=dict(os.environ)) as terminal:
            terminal.read_until(r"\[y/N\]: ")
            terminal.type("y\n")
            asked = terminal.read_until(r"Type the latest, .*: ")
            assert f"When {name} last committed is unknown. Type the latest, {name}: " in asked
            terminal.type(f"{typed}\n")
            assert terminal.read_all() == status
        # However wide the terminal is: COLUMNS of whoever runs the tests counts too.
        told = " ".join(terminal.output.split())
        assert f"when group {name} last committed is unknown: Not allowed" in told
        assert (name in clients.group_ids(here.bootstrap)) == (status == 1)


def test_a_policy_may_refuse_what_undo_may_not_cover(
    here: Guarded, guarded: tuple[Sandbox, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the group can't be read: whether it has more offsets is unknown."""
    name = here.group("DESCRIBE", "DELETE")
    path = tmp_path / "policy.toml"
    path.write_text("refuse_blind = true")
    monkeypatch.setenv("KGTOOL_POLICY", str(path))
    for argv in (["--delete", "--group", name], ["delete", "--group", name, "--yes"]):
        refused = here.run(*argv)
        assert (refused.status, only_error(refused)["name"]) == (1, "POLICY_REFUSED")
        assert f"undo may not cover all of group '{name}'" in refused.err
    config = tmp_path / "alice.properties"
    with GroupAdmin(guarded[1], command_config=config) as admin, pytest.warns(UserWarning):  # noqa: SIM117
        with pytest.raises(KgError, match="undo may not cover all"):
            admin.delete_groups([name])
    assert name in clients.group_ids(here.bootstrap)
    monkeypatch.delenv("KGTOOL_POLICY")
    assert here.run("--delete", "--group", name).status == 0


def test_recover_without_the_log_names_the_acl(here: Guarded, outcome: Outcome) -> None:
    with outcome(TABLE, "recover, without READ on the log", "outcome") as cell:
        group = here.group("DESCRIBE", "READ")
        clients.delete_groups(here.bootstrap, group)
        result = here.run("recover", group, "--yes")
        assert result.status == 1
        error = only_error(result)
        assert (error["code"], error["target"]["group"]) == (29, group)
        assert error["hint"] == f"It needs the ACL operation READ on topic {LOG}."
        assert clients.committed(here.bootstrap, group) == {}
        here.allow(ResourceType.TOPIC, LOG, "DESCRIBE", "READ")
        here.allow(ResourceType.TOPIC, here.hidden, "DESCRIBE", "READ")
        try:
            done = here.run("recover", group, "--yes")
        finally:
            for topic in (LOG, here.hidden):
                here.forbid(ResourceType.TOPIC, topic)
        assert done.status == 0, done
        assert sorted(clients.committed(here.bootstrap, group).values()) == [1, 2]
        cell.says("named; done once it was allowed")


def test_rates_without_the_log_are_of_two_looks(
    here: Guarded, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is still told by ListOffsets; what is read by two looks, and it says so."""
    with outcome(TABLE, "lag --rates, without READ on the log", "outcome") as cell:
        group = here.group("DESCRIBE", offsets=False)
        paused = []

        def read_on(seconds: float) -> Pause:
            for offset in (5, 4):
                clients.commit(here.bootstrap, group, {(here.seen, 0): offset})
            paused.append(seconds)
            return Pause(seconds)

        monkeypatch.setattr(rates, "Pause", read_on)
        for offset in (0, 1):
            clients.commit(here.bootstrap, group, {(here.seen, 0): offset})
        result = here.run("lag", group, "--rates", "--by", "group")
        (row,) = result.json["results"]
        assert result.status == 0
        assert row["in_per_s"] == pytest.approx(5 / 600, abs=0.001)
        assert (row["out_per_s"], paused) == (3 / 5, [5.0])
        assert row["stuck_since_ms"] is None
        assert f"READ on topic {LOG}" in result.err
        assert "OUT/S of 1 group is from two looks, 5 s apart" in result.err
        cell.says("two looks, and says so")
