"""What fingers type, on a real broker: names as arguments, ``lag``, ``--lag``, ``--by``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.run import Result, call
from tests.support import clients

pytestmark = pytest.mark.broker
Kgtool = Callable[..., Result]


@pytest.fixture
def kgtool(capsys: pytest.CaptureFixture[str], bootstrap: str) -> Kgtool:
    return lambda *argv: call(capsys, "-b", bootstrap, *argv)


@pytest.fixture
def world(bootstrap: str) -> tuple[str, str]:
    """Two groups with lags of 10 and 4 (6 + 1 of two partitions in the first)."""
    topic = clients.create_topic(bootstrap, clients.unique("hands-topic"), 2)
    clients.produce(bootstrap, topic, 10, partition=0)
    clients.produce(bootstrap, topic, 10, partition=1)
    name = clients.unique("hands")
    clients.commit(bootstrap, f"{name}-a", {(topic, 0): 0, (topic, 1): 9})
    clients.commit(bootstrap, f"{name}-b", {(topic, 0): 6, (topic, 1): 10})
    return name, topic


def results(result: Result) -> list[dict[str, Any]]:
    assert result.status == 0, result
    rows: list[dict[str, Any]] = json.loads(result.out)["results"]
    return rows


def test_names_patterns_and_what_matches_nothing(kgtool: Kgtool, world: tuple[str, str]) -> None:
    name, _ = world
    groups = [f"{name}-a", f"{name}-b"]
    for argv in ([f"{name}-*"], groups, [f"{name}-?"], ["-g", groups[0], groups[1]]):
        assert [row["group"] for row in results(kgtool("ls", *argv, "-ojson"))] == groups
        for command in ("explain", "coordinator"):
            rows = results(kgtool(command, *argv, "-o", "json"))
            assert sorted(row["group"] for row in rows) == groups
    missed = kgtool("describe", f"{name}-x*", groups[0], "-o", "json")
    assert missed.status == 3
    assert [error["name"] for error in missed.json["errors"]] == ["NO_MATCH"]
    assert kgtool("explain", f"{name}-x*").status == 1
    for how, status in (([f"{name}-x*"], 1), (["--match", f"{name}-x*"], 0)):
        nothing = kgtool("delete", *how, "--yes")
        assert (nothing.status, nothing.out) == (status, ""), nothing
        assert nothing.err.count("No group matches") == 1 == nothing.err.count("\n")
    for argv in (
        ["ls", "--match", f"{name}-x*"],
        ["delete", *groups, "--exclude", f"{name}*", "--yes"],
    ):
        assert kgtool(*argv) == (0, "", "No group matches.\n")


def test_lag_is_worst_first_and_leaves_out_what_does_not(
    kgtool: Kgtool, world: tuple[str, str]
) -> None:
    name, topic = world
    rows = results(kgtool("lag", f"{name}-*", "-o", "json"))
    seen = [(row["group"], row["partition"], row["lag"]) for row in rows]
    assert seen == [(f"{name}-a", 0, 10), (f"{name}-b", 0, 4), (f"{name}-a", 1, 1)]
    rows = results(kgtool("lag", "-o", "json"))  # without a selection: every group, one row each
    assert [row["group"] for row in rows if row["group"].startswith(name)] == [
        f"{name}-a",
        f"{name}-b",
    ]
    every = [row["group"] for row in rows]
    assert len(every) == len(set(every))
    rows = results(kgtool("lag", "--by", "partition", "-o", "json"))
    assert [row["lag"] for row in rows if row["group"].startswith(name)] == [10, 4, 1]
    for limit, lags in ((">4", [10]), (">=4", [10, 4]), ("<4", [1, 0]), ("=0", [0])):
        rows = results(kgtool("describe", f"{name}-*", "--lag", limit, "-o", "json"))
        assert sorted((row["lag"] for row in rows), reverse=True) == lags, limit
    assert "no such" not in kgtool("describe", f"{name}-*", "--lag", ">100").err
    assert topic


def test_one_row_a_group_or_a_topic(kgtool: Kgtool, world: tuple[str, str]) -> None:
    name, topic = world
    rows = results(kgtool("describe", f"{name}-*", "--by", "group", "-o", "json"))
    same = {"state": "Empty", "members": 0, "partitions": 2, "lag_ms": None, "lost_at_ms": None}
    assert rows == [
        {"group": f"{name}-a", "lag": 11, "max_lag": 10, **same},
        {"group": f"{name}-b", "lag": 4, "max_lag": 4, **same},
    ]
    assert list(rows[0]) == (
        ["group", "state", "members", "partitions", "lag", "max_lag", "lag_ms", "lost_at_ms"]
    )
    # The topic's partitions count once, however many groups read them.
    rows = results(kgtool("lag", f"{name}-*", "--by", "topic", "-o", "json"))
    assert rows == [{"topic": topic, "partitions": 2, "lag": 15, "max_lag": 10, "lag_ms": None}]
    text = kgtool("describe", f"{name}-*", "--by", "group").out.splitlines()
    assert text[0].split() == ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "LAG", "MAX-LAG"]
    rows = results(kgtool("lag", f"{name}-*", "--by", "group", "--lag", ">10", "-o", "json"))
    assert [row["group"] for row in rows] == [f"{name}-a"]  # the sum: no partition has so much
    nothing = kgtool("lag", f"{name}-*", "--by", "group", "--lag", ">99")
    assert nothing == (0, "", "No lag to show.\n")
    refused = kgtool("describe", f"{name}-*", "--by", "group", "--totals")
    assert (refused.status, refused.out) == (2, "")


def test_names_that_do_not_exist_get_a_suggestion(kgtool: Kgtool, world: tuple[str, str]) -> None:
    """Kind: a name with a slip. Siblings: group, topic, partition; describe, peek, keep, list."""
    name, topic = world
    slip, other = f"{name}-q", topic.replace("topic", "topc")
    near = f"Did you mean {name}-"
    for argv in (["describe", slip], ["keep", slip, "-n"], ["describe", slip, "--state"]):
        said = kgtool(*argv).err
        assert said.startswith(f"Error: Group {slip} does not exist. {near}"), said
    assert f"No group matches '{slip}'. {near}" in kgtool("list", slip).err
    said = kgtool("describe", f"{name}-a", "-t", other).err
    assert f"Error: Topic {other} does not exist. Did you mean {topic}?" in said
    for argv in (
        ["explain", slip],
        ["doctor", slip],
        ["delete-offsets", slip, "-t", topic, "-n"],
        ["reset", slip, "-t", topic, "--to-latest", "-n"],
        ["remove-members", slip, "--all", "-n"],
    ):
        said = kgtool(*argv).err
        assert f"Error: Group {slip} does not exist. {near}" in said, said
    assert near in kgtool("peek", slip).err and near in kgtool("recover", slip, "-n").err
    for argv in (["delete-offsets"], ["reset", "--to-latest"]):
        said = kgtool(*argv, f"{name}-a", "-t", other, "-n").err
        assert f"Error: Topic {other} does not exist. Did you mean {topic}?" in said, said
    said = kgtool("reset", f"{name}-a", "-t", f"{topic}:7", "--to-latest", "-n").err
    assert f"Error: Partition {topic}:7 does not exist." in said
    said = kgtool("lag", f"{name}-a,{name}-b").err
    assert f"Did you mean {name}-a {name}-b, with blanks?" in said
    assert kgtool("doctor", slip, "-o", "json").json["errors"][0]["hint"].startswith(near)
    said = kgtool("--delete-offsets", "--group", slip, "--topic", topic).err
    assert "Did you mean" not in said
    document = kgtool("describe", slip, "-o", "json").json
    assert document["errors"][0]["hint"].startswith(near)
    # Kafka's form keeps Kafka's words.
    said = kgtool("--describe", "--group", slip).err
    assert "Did you mean" not in said and f"{slip}" in said


def test_topics_may_follow_the_groups(
    kgtool: Kgtool, world: tuple[str, str], bootstrap: str
) -> None:
    name, topic = world
    rows = results(kgtool("delete-offsets", f"{name}-b", f"{topic}:0", "-n", "-o", "json"))
    assert [(row["topic"], row["partition"]) for row in rows] == [(topic, 0)]
    rows = results(kgtool("delete-offsets", f"{name}-*", f"{topic}:0,1", "-n", "-o", "json"))
    assert len(rows) == 4
    assert kgtool("delete-offsets", f"{topic}:0", "-n").status == 2
    rows = results(kgtool("peek", f"{name}-b", f"{topic}:0", "-o", "json"))
    assert {(row["topic"], row["partition"]) for row in rows} == {(topic, 0)}
    # --group is always exact, and leaves every argument to the topics.
    rows = results(kgtool("delete-offsets", "-g", f"{name}-b", f"{topic}:1", "-n", "-o", "json"))
    assert [(row["group"], row["partition"]) for row in rows] == [(f"{name}-b", 1)]
    argv = ["delete-offsets", "-g", f"{name}-b", "-g", f"{topic}:0", "-n"]
    assert "Which offsets?" in kgtool(*argv).err
    # A bare name is a topic where there is no such group.
    for command in (["delete-offsets", "-n"], ["peek"]):
        rows = results(kgtool(*command, f"{name}-b", topic, "-o", "json"))
        assert {(row["topic"], row["partition"]) for row in rows} == {(topic, 0), (topic, 1)}
    assert kgtool("delete-offsets", f"{name}-a", f"{name}-b", "-n").status == 2
    clients.commit(bootstrap, topic, {(topic, 0): 1})
    assert kgtool("delete-offsets", f"{name}-a", topic, "-n").status == 2
    results(kgtool("reset", f"{name}-a", "-t", topic, "--to", "earliest", "-n", "-o", "json"))
