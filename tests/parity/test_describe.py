"""14–37: ``--describe``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool import __version__
from tests.cli import run
from tests.cli.run import Result
from tests.parity.behaviours import (
    OFFSETS,
    Kg,
    Offsets,
    World,
    behaviour,
    chosen,
    every_view,
    header,
    lines,
)
from tests.parity.conftest import Parity
from tests.support import clients
from tests.support.proxy import Proxies

pytestmark = pytest.mark.broker

ANY = ("any",)
Tool = Callable[..., subprocess.CompletedProcess[str]]
NO_MEMBERS = "\nConsumer group '{}' has no active members.\n"


def _members(address: str, group: str) -> set[str]:
    """The ids of a group's members, as confluent-kafka sees them."""
    admin = clients.admin(address)
    return {m.member_id for m in admin.describe_consumer_groups([group])[group].result(30).members}


def _rows(result: Result, view: list[str]) -> list[list[str]]:
    """The rows of one table behind its header; nothing on stderr."""
    assert (result.status, result.err) == (0, "")
    found = lines(result.out)
    assert found[0] == header(view)
    return found[1:]


@behaviour(14, protocols=ANY)
@every_view
def test_a_missing_group(kg: Kg, view: list[str], protocol: str) -> None:
    result = kg("--describe", "--group", "missing.group", *view)
    assert result == (1, "", "Error: Group missing.group not found.\n")


@behaviour(14, protocols=ANY)
def test_a_missing_group_has_kafkas_words(kg: Kg, tool: Tool, protocol: str) -> None:
    theirs = tool("--describe", "--group", "missing.group", "--state").stdout
    assert "Group missing.group not found." in theirs


@behaviour(15, protocols=ANY)
@every_view
def test_a_missing_group_on_an_older_broker(
    kafka_391: Any, capsys: pytest.CaptureFixture[str], view: list[str], protocol: str
) -> None:
    """DescribeGroups up to v5 calls it Dead; it is missing all the same."""
    line = ["--bootstrap-server", kafka_391.bootstrap, "--describe", "--group", "missing.group"]
    result = run.call(capsys, *line, *view)
    assert result == (1, "", "Error: Group missing.group not found.\n")


@behaviour(16)
@every_view
def test_a_group(world: World, kg: Kg, view: list[str], protocol: str) -> None:
    rows = _rows(kg("--describe", "--group", world.stable, *view), view)
    assert [row[0] for row in rows] == [world.stable]
    assert len(rows[0]) == len(header(view))


@behaviour(17)
@every_view
def test_several_groups(world: World, kg: Kg, view: list[str], protocol: str) -> None:
    """A table for each, in order of the groups' ids, each as if it were alone."""
    groups = [world.stable, world.never]
    result = kg("--describe", *chosen(*groups), *view)
    assert (result.status, result.err) == (0, "")
    alone = [kg("--describe", "--group", name, *view).out for name in sorted(groups)]
    found = lines(result.out)
    assert found == [line for text in alone for line in lines(text)]
    assert len(found) == 4


@behaviour(18, 23, protocols=ANY)
@every_view
def test_all_groups_byte_for_byte(
    worlds: dict[str, World], kg: Kg, tool: Tool, view: list[str], protocol: str
) -> None:
    theirs = tool("--describe", "--all-groups", *view)
    ours = kg("--describe", "--all-groups", *view)
    assert (ours.status, ours.out, ours.err) == (0, theirs.stdout, theirs.stderr)
    for world in worlds.values():
        for name in world.groups:
            empty = name in (world.left, world.simple)
            assert (NO_MEMBERS.format(name) in ours.err) == empty
            assert any(line[0] == name for line in lines(ours.out)) or (
                empty and "--members" in view
            )


@behaviour(19)
def test_the_owner_is_shown(world: World, address: str, kg: Kg, protocol: str) -> None:
    (row,) = _rows(kg("--describe", "--group", world.stable), [])
    assert row[1:6] == [world.one, "0", "1", "3", "2"]
    assert {row[6]} == _members(address, world.stable)
    assert row[7:] == ["/127.0.0.1", "cli-stable"]


@behaviour(20)
def test_a_member_and_what_it_has(world: World, address: str, kg: Kg, protocol: str) -> None:
    view = ["--members", "--verbose"]
    (row,) = _rows(kg("--describe", "--group", world.stable, *view), view)
    assert {row[1]} == _members(address, world.stable)
    assert row[2:5] == ["/127.0.0.1", "cli-stable", "1"]
    assigned = f"{world.one}:0"
    if protocol == "classic":
        assert row[5:] == ["-", assigned, "-", "-"]
    else:
        assert (row[6], row[8]) == (assigned, assigned)
        assert int(row[5]) == int(row[7]) > 0


@behaviour(21)
def test_the_state(world: World, address: str, kg: Kg, protocol: str) -> None:
    (row,) = _rows(kg("--describe", "--group", world.stable, "--state"), ["--state"])
    assert row[-2:] == ["Stable", "1"]
    brokers = clients.admin(address).list_topics(timeout=10).brokers
    assert row[1] in {f"{broker.host}:{broker.port}" for broker in brokers.values()}
    assert row[2] in {f"({broker})" for broker in brokers}


@behaviour(22)
def test_the_assignor(world: World, kg: Kg, protocol: str) -> None:
    for name, classic, consumer in (
        (world.both, "roundrobin", "range"),
        (world.stable, "range", "uniform"),
    ):
        (row,) = _rows(kg("--describe", "--group", name, "--state"), ["--state"])
        assert row[3] == (classic if protocol == "classic" else consumer)


@behaviour(23)
@every_view
def test_members_that_left(world: World, kg: Kg, view: list[str], protocol: str) -> None:
    result = kg("--describe", "--group", world.left, *view)
    assert (result.status, result.err) == (0, NO_MEMBERS.format(world.left))
    assert lines(result.out)[0][:5] == header(view)[:5]


@behaviour(24)
def test_the_offsets_of_members_that_left(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--describe", "--group", world.left, "--offsets")
    assert lines(result.out) == [OFFSETS, [world.left, world.one, "0", "2", "3", "1", *"---"]]
    assert [world.left, "Empty"] in lines(kg("--list", "--state").out)


@behaviour(25)
def test_no_members_are_left(world: World, kg: Kg, protocol: str) -> None:
    for more in ([], ["--verbose"]):
        view = ["--members", *more]
        assert lines(kg("--describe", "--group", world.left, *view).out) == [header(view)]


@behaviour(26)
def test_the_state_of_a_group_that_was_left(world: World, kg: Kg, protocol: str) -> None:
    found = lines(kg("--describe", "--group", world.left, "--state").out)
    assert [row[-2:] for row in found[1:]] == [["Empty", "0"]]


@behaviour(27)
@every_view
def test_two_members_for_one_partition(
    world: World, kg: Kg, view: list[str], protocol: str
) -> None:
    rows = _rows(kg("--describe", "--group", world.pair, *view), view)
    assert len(rows) == (2 if "--members" in view else 1)
    if "--state" in view:
        assert rows[0][-2:] == ["Stable", "2"]


@behaviour(28)
def test_one_of_two_members_has_nothing(world: World, kg: Kg, protocol: str) -> None:
    view = ["--members"]
    rows = _rows(kg("--describe", "--group", world.pair, *view), view)
    assert sorted(row[-1] for row in rows) == ["0", "1"]
    assert world.one not in str(rows)
    view.append("--verbose")
    rows = _rows(kg("--describe", "--group", world.pair, *view), view)
    assert sorted((row[4], row[6]) for row in rows) == [("0", "-"), ("1", f"{world.one}:0")]


@behaviour(29)
@every_view
def test_two_members_for_two_partitions(
    world: World, kg: Kg, view: list[str], protocol: str
) -> None:
    rows = _rows(kg("--describe", "--group", world.both, *view), view)
    assert len(rows) == (1 if "--state" in view else 2)
    if "--members" in view:
        assert [row[4] for row in rows] == ["1", "1"]
    elif "--state" in view:
        assert rows[0][-2:] == ["Stable", "2"]
    else:
        assert sorted(row[1:4] for row in rows) == [[world.two, p, "1"] for p in ("0", "1")]
        assert len({row[6] for row in rows}) == 2


@behaviour(30)
def test_assign_only_consumers(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--describe", "--group", world.simple)
    assert (result.status, result.err) == (0, NO_MEMBERS.format(world.simple))
    assert lines(result.out)[1:] == [
        [world.simple, world.two, "0", "1", "3", "2", *"---"],
        [world.simple, world.two, "1", "2", "3", "1", *"---"],
    ]


@behaviour(31)
@every_view
def test_a_timeout_of_a_millisecond(world: World, kg: Kg, view: list[str], protocol: str) -> None:
    result = kg("--describe", "--group", world.stable, "--timeout", "1", *view)
    assert (result.status, result.out) == (4, "")
    assert len(result.err.splitlines()) == 1
    assert "1 ms" in result.err


@behaviour(32, 37)
def test_a_member_that_never_commits(world: World, address: str, kg: Kg, protocol: str) -> None:
    (row,) = _rows(kg("--describe", "--group", world.never), [])
    assert row[1:6] == [world.one, "0", "-", "3", "-"]
    assert {row[6]} == _members(address, world.never)
    assert row[7:] == ["/127.0.0.1", "cli-never"]


@behaviour(33, 34, protocols=ANY)
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["--members", "--state"],
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (["--state", "Stable"], "Option [describe] does not take a value for [state]"),
        (["--state=Stable"], "Option [describe] does not take a value for [state]"),
    ],
)
def test_options_of_describe_that_exclude_each_other(
    kg: Kg, argv: list[str], said: str, protocol: str
) -> None:
    result = kg("--describe", "--group", "g", *argv)
    assert (result.status, result.out) == (2, "")
    assert result.err.removeprefix("Error: ") == f"{said}\n"


@behaviour(35, protocols=ANY)
def test_the_version(capsys: pytest.CaptureFixture[str], protocol: str) -> None:
    assert run.call(capsys, "--version") == (0, f"kgtool {__version__}\n", "")


LIST_OFFSETS, OFFSET_FETCH, DESCRIBE_GROUPS, DESCRIBE_CONSUMERS = 2, 9, 15, 69


@behaviour(36)
def test_one_request_of_a_kind(
    world: World, parity: Parity, capsys: pytest.CaptureFixture[str], tmp_path: Path, protocol: str
) -> None:
    """Kafka's tool asks for the log ends once for every member; ours once, however many groups."""
    config = tmp_path / "client.properties"
    config.write_text(f"client.id=counted-{protocol}\n")
    argv = ["--describe", *chosen(*world.groups), "--command-config", str(config)]
    with Proxies({1: (parity.outer, parity.inner)}) as proxies:
        result = run.call(capsys, "--bootstrap-server", proxies.bootstrap, *argv)
    sent = proxies.requests[f"counted-{protocol}"]
    assert result.status == 0
    assert sent[OFFSET_FETCH] == 1
    assert sent[DESCRIBE_CONSUMERS] == 1
    assert sent[DESCRIBE_GROUPS] == 1
    # Committed beyond the end and the like is asked again to be sure; here is none of that.
    assert sent[LIST_OFFSETS] <= 2  # log start and log end


@behaviour(37)
def test_a_negative_offset_is_none(
    address: str,
    kg: Kg,
    tool: Tool,
    filled: Callable[..., str],
    empty: Callable[[Offsets], str],
    protocol: str,
) -> None:
    """Brokers store it; Kafka's tool takes it for no commit, and so do its consumers."""
    from kgtool.model import CommittedOffset, TopicPartition
    from tests.queries.conftest import open_session
    from tests.support.offsets import first_commits

    topic = filled(4, 4)
    group = empty({(topic, 0): 1})
    with open_session(address) as session:
        offsets = {TopicPartition(topic, 1): CommittedOffset(-5, None, "")}
        (outcome,) = session.run(first_commits(session.cluster, {group: offsets})).values()
    assert set(outcome.values()) == {None}
    rows = kg("--describe", "--group", group)
    assert rows.out == tool("--describe", "--group", group).stdout
    assert [row[1:6] for row in lines(rows.out)[1:]] == [
        [topic, "0", "1", "4", "3"],
        [topic, "1", "-", "4", "-"],
    ]
    document = kg("--describe", "--group", group, "-o", "json").out
    assert [row["current_offset"] for row in json.loads(document)["results"]] == [1, None]
