"""``configs``: what Kafka's own tool sees, and what undo makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from kgtool.changes.groups.configs import config_type, describe_group_configs
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.sandbox.cluster import Sandbox
from tests.broker.test_authorisation import Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.cli.run import Result, call
from tests.support import clients, faulty
from tests.support.proxy import Fault, Plan

Kgtool = Callable[..., Result]
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture
def kgtool(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kgtool:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return lambda *argv: call(capsys, "--bootstrap-server", bootstrap, *argv)


def theirs(kafka: Sandbox, group: str) -> dict[str, str]:
    """What is set at a group, by kafka-configs.sh."""
    done = kafka.run_tool(
        "kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", group
    )
    return dict(re.findall(r"^ *([a-z.]+)=(\S+) sensitive", done.stdout, re.MULTILINE))


def at(place: tuple[str, int], group: str) -> str | None:
    """The session timeout that is set at a group, by the one broker at that address."""
    with Session(Settings((place,))) as session:
        configs = session.run(describe_group_configs(session.cluster, [group]))[group]
    assert not isinstance(configs, KgError), configs
    return configs[SESSION].own


def wait_for_brokers(kafka: Sandbox, group: str, value: str) -> None:
    """Wait until every broker has applied what the controller has answered for."""
    places = parse_bootstrap(kafka.bootstrap)
    clients.wait_for(lambda: {at(each, group) for each in places} == {value}, "the config")


def ours(kgtool: Kgtool, group: str) -> dict[str, Any]:
    result = kgtool("configs", "--group", group, "--all", "-o", "json")
    assert result.status == 0, result.err
    return {row["name"]: row for row in result.json["results"]}


def alter(kgtool: Kgtool, group: str, *argv: str) -> Result:
    return kgtool("configs", "--group", group, "--alter", *argv, "-o", "json")


@pytest.fixture
def group(bootstrap: str, new_topic: Callable[..., str]) -> str:
    """A KIP-848 group that is empty."""
    name, topic = clients.unique("modern"), new_topic()
    clients.join(bootstrap, name, [topic], group_protocol="consumer").close()
    return name


def test_changes_are_what_kafkas_tool_sees_and_undo_takes_them_back(
    kafka: Sandbox, kgtool: Kgtool, group: str
) -> None:
    kafka.run_tool(
        "kafka-configs",
        "--alter",
        "--entity-type",
        "groups",
        "--entity-name",
        group,
        "--add-config",
        f"{SESSION}=50000",
    )
    clients.wait_for(lambda: ours(kgtool, group)[SESSION]["source"] == "group", "the config")
    before = ours(kgtool, group)[SESSION]
    assert (before["value"], before["default"], before["type"]) == ("50000", "45000", "int")
    assert ours(kgtool, group)[HEARTBEAT]["source"] == "static broker"

    done = alter(kgtool, group, "--add-config", f"{SESSION}=60000,{HEARTBEAT}=7000", "--yes")
    assert done.status == 0, done.err
    assert [
        (row["name"], row["old_value"], row["new_value"], row["status"])
        for row in done.json["results"]
    ] == [(SESSION, "50000", "60000", "altered"), (HEARTBEAT, None, "7000", "altered")]
    assert theirs(kafka, group) == {SESSION: "60000", HEARTBEAT: "7000"}
    (entry,) = kgtool("history", "-o", "json").json["results"]
    assert (entry["command"], entry["groups"], entry["changes"]) == ("configs", 1, 2)

    undone = kgtool("undo", "last", "--yes")
    assert undone.status == 0, undone.err
    assert theirs(kafka, group) == {SESSION: "50000"}
    # And the undo can be undone.
    newest = kgtool("history", "-o", "json").json["results"][0]["id"]
    assert kgtool("undo", newest, "--yes").status == 0
    assert theirs(kafka, group) == {SESSION: "60000", HEARTBEAT: "7000"}


def test_deleting_lets_the_brokers_value_hold_again(kgtool: Kgtool, group: str) -> None:
    assert alter(kgtool, group, "--add-config", f"{SESSION}=50000", "--yes").status == 0
    done = alter(kgtool, group, "--delete-config", f"{SESSION},{HEARTBEAT}", "--yes")
    assert {row["name"]: row["status"] for row in done.json["results"]} == {
        SESSION: "altered",
        HEARTBEAT: "unchanged",
    }
    row = ours(kgtool, group)[SESSION]
    assert (row["value"], row["source"]) == ("45000", "default")


def test_somebody_elses_change_is_not_undone(kafka: Sandbox, kgtool: Kgtool, group: str) -> None:
    assert alter(kgtool, group, "--add-config", f"{SESSION}=50000", "--yes").status == 0
    journal = kgtool("history", "-o", "json").json["results"][0]["id"]
    assert alter(kgtool, group, "--add-config", f"{SESSION}=55000", "--yes").status == 0
    refused = kgtool("undo", journal, "--yes")
    assert refused.status == 1
    assert "it is 55000" in refused.err
    assert ours(kgtool, group)[SESSION]["value"] == "55000"
    assert kgtool("undo", journal, "--yes", "--force").status == 0
    assert ours(kgtool, group)[SESSION]["source"] == "default"


@pytest.mark.parametrize("is_raced", [False, True])
def test_a_change_whose_answer_is_lost_is_not_made_again(tmp_path: Path, is_raced: bool) -> None:
    """Was: sent again over what somebody else has set meanwhile, and told as done."""
    kafka, group = faulty.shared(), clients.unique("lost")
    last = "50000" if is_raced else "60000"

    def meanwhile() -> None:
        if is_raced:
            kafka.cluster.run_tool(
                "kafka-configs",
                "--alter",
                "--entity-type",
                "groups",
                "--entity-name",
                group,
                "--add-config",
                f"{SESSION}={last}",
            )
        wait_for_brokers(kafka.cluster, group, last)

    # The first of these requests only lets the controller check.
    plan = Plan(
        *(Fault("lost-answer", broker, api=44, at=1, hook=meanwhile) for broker in kafka.ports)
    )
    with kafka.proxies() as proxies:
        proxies.plans[group] = plan
        done = faulty.kgtool(
            "configs",
            "--group",
            group,
            "--alter",
            "--add-config",
            f"{SESSION}=60000",
            "--yes",
            "-o",
            "json",
            "--bootstrap-server",
            proxies.bootstrap,
            "--command-config",
            faulty.client_config(tmp_path, group),
            environ={"KGTOOL_JOURNAL_DIR": str(tmp_path / "journal")},
        )
        assert proxies.requests[group][44] == 2, done
    assert plan.struck == 1, done
    assert theirs(kafka.cluster, group) == {SESSION: last}
    (row,) = done.document["results"]
    expected = (1, "changed-meanwhile") if is_raced else (0, "altered")
    assert (done.status, row["status"]) == expected, done


def test_what_is_wrong_fails_alone_before_anything_is_changed(kgtool: Kgtool, group: str) -> None:
    wrong = {
        SESSION: ("10", "greater than or equal"),
        "consumer.hartbeat.interval.ms": ("5", f"Did you mean {HEARTBEAT}?"),
        "share.isolation.level": ("read_committed", "it applies to share groups"),
    }
    argv = [f"{name}={value}" for name, (value, _) in wrong.items()]
    added = [word for one in argv for word in ("--add-config", one)]
    good = ("--add-config", f"{HEARTBEAT}=7000")
    result = alter(kgtool, group, *added, *good, "--yes")
    assert result.status == 3
    status = {row["name"]: row["status"] for row in result.json["results"]}
    assert status == {**dict.fromkeys(wrong, "failed"), HEARTBEAT: "altered"}
    for _, said in wrong.values():
        assert said.lower() in result.err.lower()
    assert {name for name, row in ours(kgtool, group).items() if row["source"] == "group"} == {
        HEARTBEAT
    }
    assert alter(kgtool, group, *added, "--yes").status == 1


def test_a_dry_run_checks_and_changes_nothing(kgtool: Kgtool, group: str) -> None:
    dry = alter(kgtool, group, "--add-config", f"{SESSION}=50000", "--dry-run")
    assert (dry.status, dry.json["results"][0]["status"]) == (0, "would-alter")
    assert alter(kgtool, group, "--add-config", f"{SESSION}=abc", "--dry-run").status == 1
    assert ours(kgtool, group)[SESSION]["source"] == "default"
    assert kgtool("history", "-o", "json").json["results"] == []


def test_each_group_shows_what_counts_for_its_type(
    bootstrap: str, kgtool: Kgtool, group: str, new_topic: Callable[..., str]
) -> None:
    classic = clients.unique("classic")
    clients.commit(bootstrap, classic, {(new_topic(), 0): 0})
    text = kgtool("configs", "--group", group, "--group", classic, "--group", "not-there")
    kinds: dict[str, set[str]] = {}
    for line in text.out.splitlines()[1:]:
        name, config, *_ = line.split()
        kinds.setdefault(name, set()).add(config_type(config) or config)
    assert kinds == {
        group: {"consumer"},
        classic: {"consumer"},
        "not-there": {"consumer", "share", "streams"},
    }
    assert config_type("errors.deadletterqueue.topic.name") == "share"
    assert f"{classic} is classic" in text.err
    assert "there is no group not-there" in text.err


def test_groups_that_do_not_exist_are_shown_with_their_configs(
    kafka: Sandbox, kgtool: Kgtool
) -> None:
    """By pattern, those of other types too; changes take only what is named or listed."""
    ghost, other = clients.unique("ghost"), clients.unique("other")
    for name in (ghost, other):
        kgtool("configs", name, "--alter", "--add-config", f"{SESSION}=50000", "--yes")
    assert theirs(kafka, ghost) == {SESSION: "50000"}
    shown = kgtool("configs", "--match", f"{ghost}*", "-o", "json").json["results"]
    assert {row["group"] for row in shown} == {ghost}
    assert {(row["name"], row["value"]) for row in shown if row["source"] == "group"} == {
        (SESSION, "50000")
    }
    assert {ghost, other} <= {
        row["group"] for row in kgtool("configs", "--all-groups", "-o", "json").json["results"]
    }
    unset = ("--alter", "--delete-config", SESSION, "--yes")
    assert "No group matches" in kgtool("configs", "--match", f"{ghost}*", *unset).err
    assert [kgtool("configs", name, *unset).status for name in (ghost, other)] == [0, 0]
    gone = kgtool("configs", "--match", f"{ghost}*", "-o", "json").json["results"]
    assert gone == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "configs takes groups: names"),
        (["--group", "g", "--alter"], "--alter takes --add-config"),
        (["--group", "g", "--add-config", "a=1"], "go with --alter"),
        (["--group", "g", "--alter", "--add-config", "a"], "NAME=VALUE"),
        (["--group", "g", "--alter", "--add-config", "a=1,a=2"], "a appears twice"),
        (["--group", "g", "--alter", "--describe"], "Give --describe or --alter, not both"),
        (["--group", "g", "--alter", "--delete-config", "a"], "give --yes"),
    ],
    ids=str,
)
def test_wrong_usage_is_told_without_a_cluster(
    capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    result = call(capsys, "--bootstrap-server", "127.0.0.1:1", "configs", *argv)
    assert (result.status, said in result.err, result.err.count("\n")) == (2, True, 1)


def test_values_may_have_commas_as_kafkas_tool_takes_them() -> None:
    from kgtool.cli.commands.configs import _changes

    assert _changes(["a=1,b=[x,y]", "c="], ["d, e"]) == {
        "a": "1",
        "b": "x,y",
        "c": "",
        "d": None,
        "e": None,
    }


def test_missing_acls_are_named(here: Guarded) -> None:
    group = here.group("DESCRIBE")
    shown = here.run("configs", "--group", group)
    assert (shown.status, f"DESCRIBE_CONFIGS on group {group}" in shown.err) == (1, True)
    here.allow(ResourceType.GROUP, group, "DESCRIBE_CONFIGS")
    assert here.run("configs", "--group", group).status == 0
    altered = here.run(
        "configs", "--group", group, "--alter", "--add-config", f"{SESSION}=50000", "--yes"
    )
    assert (altered.status, f"ALTER_CONFIGS on group {group}" in altered.err) == (1, True)


def test_a_kafka_with_the_old_coordinator(
    kafka_391: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--bootstrap-server", kafka_391.bootstrap)
    for more in ((), ("--alter", "--add-config", f"{SESSION}=50000", "--yes")):
        result = call(capsys, *server, "configs", "--group", "g", *more)
        assert result.status == 1
        assert "knows no configs of groups: that needs Kafka ≥ 4.0" in result.err
