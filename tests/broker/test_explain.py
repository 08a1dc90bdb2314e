"""``explain`` on real brokers: what it says is what then happens."""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ResourceType

from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log import removals
from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.broker.test_authorisation import Guarded
from tests.broker.test_authorisation import guarded as guarded
from tests.broker.test_authorisation import here as here
from tests.cli.run import Result
from tests.support import clients


def topics(cluster: Sandbox) -> tuple[str, str]:
    made = [clients.create_topic(cluster.bootstrap, clients.unique(n)) for n in ("held", "left")]
    return made[0], made[1]


def explained(kgtool: Kgtool, group: str, status: int = 0) -> dict[str, Any]:
    result = kgtool("explain", group, "-o", "json")
    assert result.status == status, result.err
    (row,) = result.json["results"]
    found: dict[str, Any] = row
    return found


def test_a_living_group(cluster: Sandbox, kgtool: Kgtool) -> None:
    held, left = topics(cluster)
    group = clients.unique("living")
    member = clients.join(cluster.bootstrap, group, [held], client_id="reader")
    try:
        offsets = [TopicPartition(held, 0, 0), TopicPartition(left, 0, 0)]
        member.commit(offsets=offsets, asynchronous=False)
        row = explained(kgtool, group)
        text = kgtool("explain", group)
        delete = kgtool("delete", "--group", group, "--yes")
        reset = kgtool("reset-offsets", "--group", group, "--all-topics", "--to-latest")
        # It says what to type; typed, it works.
        (advice,) = [line for line in row["next"] if "delete-offsets" in line]
        assert kgtool(*advice.split()[1:], "--yes").status == 0
    finally:
        member.close()
    assert (row["exists"], row["type"], row["state"]) == (True, "classic", "Stable")
    (who,) = row["members"]
    assert (who["client_id"], who["subscribed"]) == ("reader", [held])
    uses = {use["topic"]: use for use in row["topics"]}
    assert (uses[held]["subscribed"], uses[held]["holders"]) == (True, [who["member_id"]])
    assert uses[held]["delete-offsets"]["error"]["name"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert (uses[left]["subscribed"], uses[left]["holders"]) == (False, [])
    assert uses[left]["delete-offsets"] == {"allowed": True, "error": None}
    rules = {offset["topic"]: offset["rule"] for offset in row["offsets"]}
    assert rules == {held: "subscribed", left: "commit"}
    for name, result in (("delete", delete), ("reset-offsets", reset)):
        assert row["actions"][name]["allowed"] is False
        assert result.status == 1
        # The same words as when one tries it.
        assert row["actions"][name]["error"]["hint"] in result.err
    for said in ("reader", "never", "refused", "Changed by"):
        assert said in text.out


def test_an_empty_group_and_then_none(cluster: Sandbox, kgtool: Kgtool) -> None:
    held, left = topics(cluster)
    group = clients.unique("empty")
    clients.commit(cluster.bootstrap, group, {(held, 0): 0, (left, 0): 0})
    row = explained(kgtool, group)
    assert (row["state"], row["protocol_type"], row["members"]) == ("Empty", "", [])
    assert row["actions"] == {
        "delete": {"allowed": True, "error": None},
        "reset-offsets": {"allowed": True, "error": None},
    }
    assert row["next_expires_at_ms"] == min(o["expires_at_ms"] for o in row["offsets"])
    assert f"kgtool keep --group {group}" in row["next"]
    assert row["removals"] == []
    shown = kgtool("coordinator", group, "-o", "json")
    assert (shown.status, shown.json["results"][0]["partition"]) == (0, row["offsets_partition"])

    assert kgtool("delete", "--group", group, "--yes").status == 0
    gone = explained(kgtool, group)
    assert (gone["exists"], gone["state"], gone["offsets"]) == (False, None, [])
    removed = {(item["topic"], item["cause"]) for item in gone["removals"]}
    assert {(held, "explicit"), (left, "explicit")} <= removed
    # kgtool has deleted it: its undo brings it back, and is not named any more then.
    (undo,) = [line for line in gone["next"] if "kgtool undo" in line]
    assert gone["next"] == [undo]
    text = kgtool("explain", group)
    assert f"Group {group} does not exist any more" in text.out
    assert "or its topic, was deleted" in text.out
    assert text.status == 0
    assert kgtool(*undo.split()[1:], "--yes").status == 0
    assert explained(kgtool, group)["next"] == row["next"]


def test_one_offset_that_was_deleted(cluster: Sandbox, kgtool: Kgtool) -> None:
    held, left = topics(cluster)
    group = clients.unique("less")
    clients.commit(cluster.bootstrap, group, {(held, 0): 0, (left, 0): 0})
    assert kgtool("delete-offsets", "--group", group, "--topic", left, "--yes").status == 0
    row = explained(kgtool, group)
    (item,) = row["removals"]
    assert (item["topic"], item["partition"], item["cause"]) == (left, 0, "explicit")
    assert [offset["topic"] for offset in row["offsets"]] == [held]
    (undo,) = [line for line in row["next"] if "kgtool undo" in line]
    assert kgtool(*undo.split()[1:], "--yes").status == 0
    assert clients.committed(cluster.bootstrap, group) == {(held, 0): 0, (left, 0): 0}


def test_other_groups_that_are_left_out_are_said(
    cluster: Sandbox, kgtool: Kgtool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind: what was not read is not told. Siblings: few records of others, nothing removed."""
    held, left = topics(cluster)
    group = clients.unique("crowded")
    count = len(clients.admin(cluster.bootstrap).list_topics(TOPIC).topics[TOPIC].partitions)
    names = (f"{group}-{number}" for number in itertools.count())
    home = offsets_partition(group, count)
    beside = next(name for name in names if offsets_partition(name, count) == home)
    for offset in range(3):
        clients.commit(cluster.bootstrap, beside, {(held, 0): offset})
    clients.commit(cluster.bootstrap, group, {(held, 0): 0, (left, 0): 0})
    monkeypatch.setattr(removals, "OTHERS", 1)
    assert "leaves out" not in kgtool("explain", group).err
    assert kgtool("delete-offsets", "--group", group, "--topic", left, "--yes").status == 0
    assert f"Note: {group}: explain leaves out other groups" in kgtool("explain", group).err
    monkeypatch.setattr(removals, "OTHERS", 1_000_000)
    assert "leaves out" not in kgtool("explain", group).err


def test_a_group_that_never_was(cluster: Sandbox, kgtool: Kgtool) -> None:
    result = kgtool("explain", "no such group")
    assert result.status == 1
    assert (result.out + result.err).count("does not exist") == 1
    assert result.out.startswith("Group no such group. Coordinator: ")
    assert "Error: Group no such group does not exist" in result.err
    several = kgtool("explain", "no-such-group", "nor-this", "-o", "ndjson")
    assert [json.loads(line)["exists"] for line in several.out.splitlines()[::2]] == [False, False]


def test_names_are_quoted_for_the_shell(cluster: Sandbox, kgtool: Kgtool) -> None:
    held, _ = topics(cluster)
    group = f"{clients.unique('odd')} 'x'; rm -rf $HOME"
    clients.commit(cluster.bootstrap, group, {(held, 0): 0})
    quoted = "'" + group.replace("'", "'\"'\"'") + "'"
    assert f"kgtool keep --group {quoted}" in explained(kgtool, group)["next"]


def test_printed_commands_mean_their_group_in_a_shell(cluster: Sandbox, kgtool: Kgtool) -> None:
    """Also where the name looks like an option, and where the terminal can't show it."""
    held, _ = topics(cluster)
    group = f"--all\n{clients.unique('odd')}\x85'\\n"
    clients.commit(cluster.bootstrap, group, {(held, 0): 0})
    printed = kgtool("explain", "--group", group).out.split("Next:\n")[1]
    told = subprocess.run(
        ["bash", "-c", f"kgtool() {{ printf '%s\\0' \"$@\"; }}\n{printed}"],
        env={"LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
        text=True,
    )
    commands = ("keep", "describe", "delete")
    assert told.stdout.count(f"--group\0{group}\0") == len(commands) == len(printed.splitlines())
    argv = told.stdout.split("\0")
    assert kgtool(*argv[:3], "--dry-run").status == 0


# ---------------------------------------------------------------------------------------------
# Somebody who may not do everything


def missing(result: Result) -> set[tuple[str, str, str]]:
    (row,) = [row for row in result.json["results"] if "missing_acls" in row]
    return {
        (acl["operation"], acl["resource_type"], acl["resource"]) for acl in row["missing_acls"]
    }


LOG = "__consumer_offsets"
UNKNOWN = {("READ", "topic", LOG), ("DESCRIBE_CONFIGS", "cluster", "kafka-cluster")}


def test_missing_acls_are_named(here: Guarded) -> None:
    group = here.group("DESCRIBE")
    result = here.run("explain", group)
    assert result.status == 3
    assert missing(result) == {("READ", "group", group), ("DELETE", "group", group), *UNKNOWN}
    (row,) = result.json["results"]
    assert [offset["rule"] for offset in row["offsets"]] == [None]
    names = {error["name"] for error in result.json["errors"]}
    assert names == {"CLUSTER_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"}
    assert (
        f"kafka-acls.sh --add --allow-principal User:YOU --operation Read --topic {LOG}"
        in (row["next"])
    )


def test_a_group_that_may_not_be_seen(here: Guarded) -> None:
    group = here.group()
    result = here.run("explain", group)
    assert result.status == 1
    assert ("DESCRIBE", "group", group) in missing(result)
    assert result.json["errors"][0]["name"] == "GROUP_AUTHORIZATION_FAILED"


def test_unknown_because(here: Guarded) -> None:
    group = here.group("DESCRIBE")
    result = here.run("describe", "--group", group, "--expiry")
    assert result.status == 3
    (row,) = result.json["results"]
    assert (row["committed_at_ms"], row["expires_at_ms"], row["rule"]) == (None, None, None)
    hints = " ".join(error["hint"] for error in result.json["errors"])
    assert f"READ on topic {LOG}" in hints
    assert "DESCRIBE_CONFIGS on the cluster" in hints
    assert here.run("list", "--match", group, "--expiring-within", "30d").status == 1


def test_with_those_acls_it_is_known_and_hidden_topics_are_found(here: Guarded) -> None:
    group = here.group("DESCRIBE", "READ", "DELETE")
    here.allow(ResourceType.TOPIC, LOG, "READ")
    here.allow(ResourceType.BROKER, "kafka-cluster", "DESCRIBE_CONFIGS")
    try:
        result = here.run("explain", group)
    finally:
        here.forbid(ResourceType.TOPIC, LOG)
        here.forbid(ResourceType.BROKER, "kafka-cluster")
    assert result.status == 0, result.err
    (row,) = result.json["results"]
    assert [(o["topic"], o["rule"]) for o in row["offsets"]] == [(here.seen, "commit")]
    # OffsetFetch leaves out what may not be seen, without a word; the log does not.
    assert missing(result) == {("DESCRIBE", "topic", here.hidden), ("READ", "topic", here.hidden)}
