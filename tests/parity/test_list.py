"""1–13: ``--list``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli import run
from tests.cli.run import Result
from tests.parity.behaviours import BOTH, Kg, World, behaviour, chosen, lines
from tests.support import clients

pytestmark = pytest.mark.broker

ANY = ("any",)
Tool = Callable[..., subprocess.CompletedProcess[str]]


def _known(result: Result, world: World) -> dict[str, list[str]]:
    """The rows of the world's groups, by group; every group once."""
    assert (result.status, result.err) == (0, "")
    rows = [line for line in lines(result.out) if line[0] in world.groups]
    assert len(rows) == len({row[0] for row in rows})
    return {row[0]: row[1:] for row in rows}


@behaviour(1)
def test_plain_list_shows_every_group_once(world: World, kg: Kg, protocol: str) -> None:
    assert _known(kg("--list"), world) == {name: [] for name in world.groups}


@behaviour(1, 3, 6, 7, protocols=ANY)
def test_every_form_shows_what_kafkas_tool_shows(
    worlds: dict[str, World], kg: Kg, tool: Tool, protocol: str
) -> None:
    """Kafka's order is that of a hash table; the header is the first line of both."""
    for argv in (["--list"], ["--list", "--type", "--state"], ["--list", "--state=STABLE"]):
        theirs, ours = tool(*argv), kg(*argv)
        assert (ours.status, ours.err) == (0, theirs.stderr)
        assert sorted(ours.out.splitlines()) == sorted(theirs.stdout.splitlines())
        if len(argv) > 1:
            assert ours.out.splitlines()[0] == theirs.stdout.splitlines()[0]
        assert all(any(name in ours.out for name in w.living) for w in worlds.values())


@behaviour(2, protocols=ANY)
@pytest.mark.parametrize("action", ["list", "describe", "delete", "reset-offsets"])
def test_new_consumer_is_no_option(action: str, kg: Kg, protocol: str) -> None:
    result = kg("--new-consumer", f"--{action}", *chosen("g"), "--topic", "t")
    assert (result.status, result.out) == (2, "")
    assert result.err == "Error: new-consumer is not a recognized option\n"


@behaviour(3)
def test_states(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--list", "--state")
    assert lines(result.out)[0] == ["GROUP", "STATE"]
    states = _known(result, world)
    assert states[world.simple] == states[world.left] == ["Empty"]
    assert {name: states[name] for name in world.living} == {n: ["Stable"] for n in world.living}


@behaviour(4, 5)
@pytest.mark.parametrize("word", ["Stable", "stable", "STABLE"])
def test_state_filter_in_any_case(world: World, kg: Kg, word: str, protocol: str) -> None:
    result = kg("--list", "--state", word)
    assert lines(result.out)[0] == ["GROUP", "STATE"]
    assert set(_known(result, world)) == set(world.living)
    assert {row[1] for row in lines(result.out)[1:]} == {"Stable"}


@behaviour(4)
def test_state_filter_without_a_match(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--list", "--state", "PreparingRebalance")
    assert lines(result.out) == [["GROUP", "STATE"]]
    assert (result.status, result.err) == (0, "")


@behaviour(6)
def test_types(world: World, kg: Kg, protocol: str) -> None:
    result = kg("--list", "--type")
    assert lines(result.out)[0] == ["GROUP", "TYPE"]
    types = _known(result, world)
    expected = {name: [protocol.capitalize()] for name in world.groups}
    assert types == expected | {world.simple: ["Classic"]}  # whatever the client's protocol


@behaviour(7)
@pytest.mark.parametrize("flags", [["--type", "--state"], ["--state", "--type"]])
def test_columns_are_type_then_state(world: World, kg: Kg, flags: list[str], protocol: str) -> None:
    result = kg("--list", *flags)
    assert lines(result.out)[0] == ["GROUP", "TYPE", "STATE"]
    assert _known(result, world)[world.stable] == [protocol.capitalize(), "Stable"]


@behaviour(8)
@pytest.mark.parametrize("change", [str.lower, str.upper, str.capitalize])
def test_type_filter_in_any_case(
    world: World, worlds: dict[str, World], kg: Kg, change: Any, protocol: str
) -> None:
    result = kg("--list", "--type", change(protocol))
    assert {row[1] for row in lines(result.out)[1:]} == {protocol.capitalize()}
    found = {row[0] for row in lines(result.out)}
    assert set(world.living) <= found
    other = worlds[next(name for name in BOTH if name != protocol)]
    assert not found & set(other.living)
    assert (world.simple in found) == (protocol == "classic")


@behaviour(8, protocols=ANY)
def test_type_filter_on_a_classic_cluster(
    kafka_391: Any, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    bootstrap = kafka_391.bootstrap
    group = clients.unique("old")
    clients.commit(bootstrap, group, {(clients.create_topic(bootstrap, group), 0): 0})
    line = ["--bootstrap-server", bootstrap, "--list", "--type"]
    none = run.call(capsys, *line, "consumer")
    assert (none.status, lines(none.out), none.err) == (0, [["GROUP", "TYPE"]], "")
    assert [group, "Classic"] in lines(run.call(capsys, *line, "classic").out)


@behaviour(9)
def test_filters_combine(world: World, kg: Kg, protocol: str) -> None:
    stable = kg("--list", "--type", protocol, "--state", "Stable")
    assert set(_known(stable, world)) == set(world.living)
    empty = kg("--list", "--state", "Empty", "--type", protocol)
    expected = {world.left} | ({world.simple} if protocol == "classic" else set())
    assert set(_known(empty, world)) == expected


@behaviour(10, protocols=ANY)
def test_no_filter_means_both_types(worlds: dict[str, World], kg: Kg, protocol: str) -> None:
    for argv in (["--list"], ["--list", "--type"], ["--list", "--state"], ["--list", "--state="]):
        found = {row[0] for row in lines(kg(*argv).out)}
        assert found >= {name for world in worlds.values() for name in world.groups}


@behaviour(11)
@pytest.mark.parametrize(
    "text",
    ["Stable, PreparingRebalance", "Stable,Dead,", "sTaBlE,completingrebalance", " stable , Dead"],
)
def test_lists_of_states(world: World, kg: Kg, text: str, protocol: str) -> None:
    assert set(_known(kg("--list", "--state", text), world)) == set(world.living)


@behaviour(11, protocols=ANY)
def test_a_trailing_comma(kg: Kg, protocol: str) -> None:
    assert kg("--list", "--state", "Dead,CompletingRebalance,").status == 0


@behaviour(12, protocols=ANY)
@pytest.mark.parametrize("text", ["bad, wrong", "  bad, Stable", "   ,   ,"])
def test_bad_states(kg: Kg, text: str, protocol: str) -> None:
    result = kg("--list", "--state", text)
    assert (result.status, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    head, _, names = result.err.removeprefix("Error: ").partition(". Valid states are: ")
    assert head == f"Invalid state list '{text}'"
    assert set(re.findall(r"\w+", names)) == {
        "Assigning",
        "CompletingRebalance",
        "Dead",
        "Empty",
        "PreparingRebalance",
        "Reconciling",
        "Stable",
    }


@behaviour(13)
@pytest.mark.parametrize("text", ["consumer, classic", "Consumer, Classic", "classic,consumer,"])
def test_lists_of_types(world: World, kg: Kg, text: str, protocol: str) -> None:
    assert set(_known(kg("--list", "--type", text), world)) == set(world.groups)


@behaviour(13, protocols=ANY)
@pytest.mark.parametrize("text", ["bad, wrong", "  bad, generic", "   ,   ,", "share"])
def test_bad_types(kg: Kg, text: str, protocol: str) -> None:
    result = kg("--list", "--type", text)
    assert (result.status, result.out) == (2, "")
    assert result.err.removeprefix("Error: ") == (
        f"Invalid types list '{text}'. Valid types are: Consumer, Classic\n"
    )
