"""Which groups a command is about: names, patterns, and what narrows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.model import GroupDeletion, GroupListing, GroupOffsets, Listing
from tests.cli.run import Result
from tests.cli.test_commands import _emitting, _group, _row

Kgtool = Callable[..., Result]
Canned = Callable[..., None]

GROUPS = [
    GroupListing("billing", "classic", "Stable", "consumer", 1),
    GroupListing("billing-eu", "consumer", "Empty", "consumer", 1),
    GroupListing("billing-us", "classic", "Empty", "consumer", 1),
    GroupListing("connect-sink", "classic", "Empty", "connect", 1),
    GroupListing("shared", "share", "Empty", "share", 1),
    GroupListing("b[i]lling", "share", "Stable", "share", 1),
]


@pytest.fixture
def cluster(canned: Canned, canned_kind: Any) -> None:
    """Lists GROUPS as brokers do, and describes and deletes whatever it is asked for."""

    def list_groups(states: Any = (), types: Any = (), **_: Any) -> Listing:
        rows = [
            row
            for row in GROUPS
            if (not states or row.state in states) and (not types or row.type in types)
        ]
        return Listing(rows, [])

    def describe_offsets(groups: Any, _topics: Any = None, emit: Any = None, **_: Any) -> Any:
        found = [GroupOffsets(_group(name), [_row(name, 0)], []) for name in groups]
        return _emitting(found)(groups, emit=emit)

    canned_kind(DeleteGroups, lambda g: [GroupDeletion(n, "would-delete") for n in g], lambda r: r)
    canned(
        listing__list_groups=list_groups,
        offsets__describe_offsets=describe_offsets,
        groups__describe_groups=lambda groups, _kinds=None: [_group(name) for name in groups],
    )


CASES = [
    (["--match", "billing*"], ["billing", "billing-eu", "billing-us"]),
    (["--match", "billing-*", "--exclude", "*-us"], ["billing-eu"]),
    (["--all-groups", "--exclude", "billing", "--exclude", "*-eu"], ["billing-us"]),
    (["--regex", "billing-(eu|us)", "--exclude", "*-eu"], ["billing-us"]),
    (["--regex", "billing"], ["billing"]),  # the whole name, as brokers match
    (["--match", "[!b]*"], []),  # not what Kafka's tool for consumer groups lists
    (["--all-groups", "--type", "consumer"], ["billing-eu"]),
    (["--all-groups", "--type", "share"], ["b[i]lling", "shared"]),  # they are named by that
    (["--match", "sh*", "--match", "*-eu", "--type", "share,consumer"], ["billing-eu", "shared"]),
    (["--group", "connect-sink", "--match", "*-eu"], ["billing-eu", "connect-sink"]),
    (["--group", "billing", "--group", "billing-us", "--exclude", "*-us"], ["billing"]),
]
EMPTY_ONES = [
    (["--all-groups"], ["billing-eu", "billing-us"]),
    (["--match", "billing*", "--type", "CLASSIC"], ["billing-us"]),
    (["--group", "billing", "--group", "billing-us"], ["billing-us"]),
    (["--group", "nosuch", "--group", "billing-us"], ["billing-us", "nosuch"]),
]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("argv", "names"), CASES, ids=lambda value: " ".join(value))
class TestNames:
    def test_describe(self, kgtool: Kgtool, argv: list[str], names: list[str]) -> None:
        document = kgtool("describe", *argv, "-o", "json").json
        assert [row["group"] for row in document["results"]] == names

    def test_delete(self, kgtool: Kgtool, argv: list[str], names: list[str]) -> None:
        document = kgtool("delete", *argv, "--dry-run", "-o", "json").json
        assert [row["group"] for row in document["results"]] == names

    def test_kafkas_form(self, kgtool: Kgtool, argv: list[str], names: list[str]) -> None:
        if "--type" in argv:
            assert kgtool("--describe", *argv).status == 2  # as Kafka's tool refuses it
            return
        document = kgtool("--describe", *argv, "-o", "json").json
        assert [row["group"] for row in document["results"]] == names


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("argv", "names"), EMPTY_ONES, ids=lambda value: " ".join(value))
@pytest.mark.parametrize("state", ["Empty", "empty,dead"])
def test_states(kgtool: Kgtool, argv: list[str], names: list[str], state: str) -> None:
    for command in (["describe"], ["delete", "--dry-run"]):
        document = kgtool(*command, *argv, "--state", state, "-o", "json").json
        assert [row["group"] for row in document["results"]] == names
    view = kgtool("describe", *argv, "--state", "--state", state, "-o", "json").json
    assert [row["group"] for row in view["results"]] == names
    assert "assignment_strategy" in view["results"][0]


ARGUMENTS = [
    (["billing"], ["billing"]),
    (["billing*"], ["billing", "billing-eu", "billing-us"]),
    (["billing-*", "connect-sink"], ["billing-eu", "billing-us", "connect-sink"]),
    (["b[i]lling"], ["b[i]lling"]),  # there is a group of that very name
    (["billing-?s", "-g", "billing"], ["billing", "billing-us"]),
    (["*-sink"], None),  # a pattern selects what --match selects
    (["nosuch-*"], None),
]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("argv", "names"), ARGUMENTS, ids=lambda value: " ".join(value or ["-"]))
@pytest.mark.parametrize("command", [["describe"], ["delete", "--dry-run"]], ids=" ".join)
def test_groups_as_arguments(
    kgtool: Kgtool, command: list[str], argv: list[str], names: list[str] | None
) -> None:
    result = kgtool(*command, *argv, "-o", "json")
    if names is None:
        (error,) = result.json["errors"]
        assert (result.status, error["name"], error["code"]) == (1, "NO_MATCH", None)
        assert result.json["results"] == []
        both = kgtool(*command, *argv, "billing", "-o", "json")
        assert both.status == 3
        assert [row["group"] for row in both.json["results"]] == ["billing"]
    else:
        assert result.status == 0
        assert [row["group"] for row in result.json["results"]] == names


@pytest.mark.usefixtures("cluster")
def test_group_is_always_exact(kgtool: Kgtool) -> None:
    rows = kgtool("describe", "--group", "billing-*", "-o", "json").json["results"]
    assert [row["group"] for row in rows] == ["billing-*"]  # what the fake describes: no pattern


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("argv", "names", "status"),
    [
        (["billing-*"], ["billing-eu", "billing-us"], 0),
        (["shared", "billing"], ["billing", "shared"], 0),
        (["*"], ["b[i]lling", "billing", "billing-eu", "billing-us", "connect-sink", "shared"], 0),
        (["--group", "shared"], ["shared"], 0),
        (["--group", "billing*"], [], 1),
        (["b[i]lling"], ["b[i]lling"], 0),
        (["nosuch"], [], 1),
        (["nosuch", "billing"], ["billing"], 3),
        (["billing*", "--exclude", "*-eu"], ["billing", "billing-us"], 0),
    ],
)
def test_list_takes_arguments(
    kgtool: Kgtool, argv: list[str], names: list[str], status: int
) -> None:
    result = kgtool("list", *argv, "-o", "json")
    assert (result.status, [row["group"] for row in result.json["results"]]) == (status, names)
    assert {error["name"] for error in result.json["errors"]} == ({"NO_MATCH"} if status else set())


def test_kafkas_form_takes_no_arguments(kgtool: Kgtool) -> None:
    result = kgtool("--describe", "billing")
    assert (result.status, result.out) == (2, "")


@pytest.mark.usefixtures("cluster")
class TestEdges:
    def test_a_named_group_that_is_left_out_is_said(self, kgtool: Kgtool) -> None:
        result = kgtool("describe", "--group", "billing", "--state", "Empty", "-o", "csv")
        assert result.status == 0
        assert result.err.splitlines() == [
            "Group billing is left out: it is Stable, classic.",
            "No group matches.",
        ]

    @pytest.mark.parametrize("command", ["describe", "delete", "delete-offsets"])
    @pytest.mark.parametrize("narrow", [["--state=Empty"], ["--type=classic"], ["--exclude=a"]])
    def test_narrowing_alone_chooses_nothing(
        self, kgtool: Kgtool, command: str, narrow: list[str]
    ) -> None:
        extra = ["--topic", "t"] if command == "delete-offsets" else []
        result = kgtool(command, *narrow, *extra)
        assert (result.status, result.out) == (2, "")
        assert f"Error: {command} takes groups: names, --match GLOB" in result.err

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--state", "Emty"], "Invalid state list 'Emty'. Valid states are: "),
            (["--type", "shar"], "Invalid types list 'shar'. Valid types are: Consumer, Cl"),
            (["--regex", "("], "The regular expression `(` is invalid: missing closing )."),
            (["--regex", "a(?=b)"], "is invalid: invalid or unsupported Perl syntax."),
        ],
    )
    def test_mistakes(self, kgtool: Kgtool, argv: list[str], said: str) -> None:
        for command in ("describe", "delete"):
            result = kgtool(command, "--all-groups", "--yes", *argv)
            result = kgtool(command, "--all-groups", *argv) if command == "describe" else result
            assert (result.status, result.out) == (2, "")
            assert said in result.err

    def test_list(self, kgtool: Kgtool) -> None:
        def names(*argv: str) -> list[str]:
            rows = kgtool("list", *argv, "-o", "json").json["results"]
            return [row["group"] for row in rows]

        assert names("--exclude", "billing*") == ["b[i]lling", "connect-sink", "shared"]
        assert names("--type", "share") == ["b[i]lling", "shared"]
        assert names("--regex", "b.*", "--exclude", "*us", "--state", "Empty") == ["billing-eu"]
