"""The page of ``doctor``: it fits, it folds, and what it says to type is what it means."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.model import ItemError, Listing, Target
from kgtool.queries.doctor.examine import Diagnosis
from kgtool.queries.doctor.finding import KINDS, Finding
from tests.cli.run import Result

Kgtool = Callable[..., Result]
Canned = Callable[..., None]


def ghost(number: int, group: str = "team-{:03}", topic: str = "old") -> Finding:
    name = group.format(number)
    fix = ("kgtool", "delete-offsets", "--group", name, "--topic", topic)
    evidence = {"offsets": 3, "lag": number}
    return Finding("ghost-topic", "warning", f"lag {number}", evidence, fix, name, topic)


def beyond(number: int) -> Finding:
    fix = ("kgtool", "reset-offsets", "--group", "g", "--topic", "t:0,1,2", "--to-earliest")
    return Finding("beyond-end", "problem", f"committed {number}", {}, fix, "g", "t", number)


@pytest.fixture
def diagnosed(canned: Canned) -> Callable[..., None]:
    def use(*findings: Finding, errors: list[ItemError] | None = None) -> None:
        found = Diagnosis(list(findings), 7, 3, True, errors or [])
        canned(listing__list_groups=Listing([], []), doctor__diagnose=found)

    return use


def test_nothing_wrong(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    diagnosed()
    assert kgtool("doctor") == (0, "Checked 7 groups on 3 brokers: nothing found.\n", "")


def test_many_of_a_kind_are_folded(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    diagnosed(*(ghost(number) for number in range(200)))
    lines = kgtool("doctor").out.splitlines()
    assert lines[0] == "WARNING ghost-topic (200): offsets of topics that no member subscribes to"
    assert "  and 180 more: -o json" in lines
    assert sum(line.startswith("  team-") for line in lines) == 20
    assert lines[-1] == "Checked 7 groups on 3 brokers: 200 warnings."
    assert len(kgtool("doctor", "-o", "json").json["results"]) == 200


def test_partitions_of_a_topic_are_one_line(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    diagnosed(*(beyond(number) for number in range(3)))
    lines = kgtool("doctor").out.splitlines()
    assert "  g  t:0,1,2  committed 0 (and 2 more)" in lines
    assert sum("reset-offsets" in line for line in lines) == 1
    rows = kgtool("doctor", "-o", "ndjson").out.splitlines()
    assert [json.loads(row)["partition"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("name", ["a'b c", "$(reboot)", "-x", "tab\there", "red\x1b[31m", "日本 x"])
def test_names_are_quoted_for_a_shell(
    kgtool: Kgtool, diagnosed: Callable[..., None], name: str
) -> None:
    diagnosed(ghost(0, name))
    fix = kgtool("doctor", "-o", "json").json["results"][0]["fix"]
    words = shlex.split(fix)
    assert words[:4] == ["kgtool", "delete-offsets", "--group", name]
    page = kgtool("doctor").out
    assert "\x1b" not in page and "\t" not in page


def test_it_fits_whatever_is_in_it(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    """Only a name that is longer than the line itself sticks out."""
    long = "n" * 200
    diagnosed(
        ghost(1),
        ghost(2, "a-name-of-thirty-characters-01", "another-name-of-thirty-chars-02"),
        ghost(3, long),
        ghost(4, topic="word " * 30),
        *(Finding(kind, "note", "detail " * 40, {}) for kind in KINDS),
    )
    for line in kgtool("doctor").out.splitlines():
        assert len(line) <= 80 or long in line or "word word" in line, line


def test_the_page_can_be_typed(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    """A shell that reads a folded command reads the words of the fix."""
    diagnosed(ghost(1, "a group with a name of some length, and blanks", "t" * 60))
    result = kgtool("doctor")
    block = result.out[result.out.index("    kgtool") : result.out.index("Checked")]
    (row,) = kgtool("doctor", "-o", "json").json["results"]
    assert "\\\n" in block
    assert shlex.split(block.replace("\\\n", " ")) == shlex.split(row["fix"])


def test_the_connection_is_part_of_the_command(
    kgtool: Kgtool, diagnosed: Callable[..., None], tmp_path: Path
) -> None:
    config = tmp_path / "my client.properties"
    config.write_text("")
    acl = ("kafka-acls.sh", "--add", "--allow-principal", "User:YOU", "--topic", "t")
    abort = ("kafka-transactions.sh", "abort", "--topic", "t")
    diagnosed(
        ghost(1),
        Finding("denied", "note", "no", {}, acl),
        Finding("pending-transaction", "problem", "no", {}, abort),
    )
    result = kgtool("doctor", "--command-config", str(config), "-o", "json")
    ours, acls, kafkas = (shlex.split(row["fix"]) for row in result.json["results"])
    reach = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(config)]
    assert ours[-4:] == reach
    assert kafkas == ["kafka-transactions.sh", *reach, "abort", "--topic", "t"]
    # Who lacks an ACL can't give it to himself.
    assert acls[:5] == ["kafka-acls.sh", *reach[:3], "ADMIN.properties"]
    assert "User:ANONYMOUS" in acls


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        ([], 5),
        (["--fail-on", "problem"], 0),
        (["--fail-on", "note"], 5),
        (["--fail-on", "none"], 0),
        (["--ignore", "ghost-topic"], 0),
        (["--ignore", "beyond-end"], 5),
        (["--fail-on", "warnings"], 2),
        (["--ignore", "ghosts"], 2),
        (["--within", "2"], 2),
        (["--group", "g", "--all-groups"], 2),
        (["--regex", "("], 2),
    ],
)
def test_status(
    kgtool: Kgtool, diagnosed: Callable[..., None], argv: list[str], status: int
) -> None:
    diagnosed(ghost(1))
    result = kgtool("doctor", *argv)
    assert result.status == status
    if status == 2:
        assert result.out == ""
        assert len(result.err.splitlines()) == 1


def test_what_could_not_be_looked_at(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    error = ItemError(Target(broker=2), None, "UNREACHABLE", "b2:9092 refuses.", None, True)
    diagnosed(errors=[error])
    result = kgtool("doctor", "-o", "json")
    assert result.status == 3
    assert result.json["errors"][0]["target"]["broker"] == 2
    diagnosed(ghost(1), errors=[error])
    assert kgtool("doctor").status == 5


def test_one_reason_is_said_once(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    """A broker that is down is the reason of hundreds of groups."""
    refused = ItemError(Target("g-0"), None, "UNREACHABLE", "b2:9092 refuses.", None, True)
    other = ItemError(Target("x"), 30, "GROUP_AUTHORIZATION_FAILED", "Not allowed.", "Ask.")
    many = [refused._replace(target=Target(f"g-{n}")) for n in range(200)]
    diagnosed(errors=[*many, other])
    result = kgtool("doctor", "-o", "json")
    assert result.status == 3
    assert len(result.json["errors"]) == 201
    assert result.err.splitlines() == [
        "Error: group g-0: b2:9092 refuses. (And 199 more: -o json.)",
        "Error: group x: Not allowed. Ask.",
    ]


def test_a_spreadsheet(kgtool: Kgtool, diagnosed: Callable[..., None]) -> None:
    diagnosed(ghost(1), Finding("piling-up", "note", "many", {"groups": 20}))
    rows = list(csv.DictReader(io.StringIO(kgtool("doctor", "-o", "csv").out)))
    assert [row["finding"] for row in rows] == ["ghost-topic", "piling-up"]
    assert json.loads(rows[1]["evidence"]) == {"groups": 20}
    assert rows[1]["group"] == rows[1]["fix"] == ""


def test_what_can_be_found_is_explained_without_a_cluster(
    unreachable: None, kgtool: Kgtool
) -> None:
    result = kgtool("doctor", "--findings")
    assert (result.status, result.err) == (0, "")
    for kind in KINDS:
        assert f"\n{kind}: " in f"\n{result.out}"
    document = kgtool("doctor", "--findings", "-o", "json").json
    assert document["command"] == "doctor"
    assert [row["finding"] for row in document["results"]] == list(KINDS)
    assert max(map(len, result.out.splitlines())) <= 80
