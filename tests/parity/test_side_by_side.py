"""kgtool answers what kafka-share-groups.sh and kafka-streams-groups.sh were recorded to answer.

Each recorded run of 4.3.1 and 4.4.0 is run again as kgtool's own form of it, on a real broker of
that release. Where the rows, what is left behind or failing itself differ, docs/migration.rst says
so: ``DEPARTS`` has the phrase, and what differs; nothing else may.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.cli.run import Result, call
from tests.parity import side_by_side
from tests.parity.side_by_side import Run, World
from tests.support import brokers

PAGE = Path(__file__).parents[2] / "docs" / "migration.rst"
ROWS, LEFT, FAILS = "rows", "what is left", "failing"
EVERY = ("share 4.3.1", "share 4.4.0", "streams 4.3.1", "streams 4.4.0")

ALL = {ROWS, LEFT, FAILS}
DEPARTS: dict[str, dict[str, set[str]]] = {
    "Every strategy works on every broker that has share groups": {
        "share 4.3.1 current": {ROWS, FAILS},
        "share 4.3.1 offset": ALL,
        "share 4.3.1 offset-beyond": ALL,
        "share 4.3.1 from-file": ALL,
        "share 4.3.1 export": {ROWS, FAILS},
    },
    "Without ``--execute`` a reset is a dry run": {"neither": {ROWS, FAILS}},
    "A topic or partition that does not exist fails alone (3), of streams groups too": {
        "unknown-topic": {ROWS, LEFT},
        "unknown-partition": {ROWS, LEFT},
    },
    "A reset of a group that does not exist is refused (1): the tool creates the group": {
        "share no-group": {ROWS, FAILS}
    },
    "takes single ones (``orders:0``)": {"share delete-offsets-partition": ALL},
    "A topic of which there is nothing to delete is no failure": {
        "share delete-offsets-never-read": {ROWS, FAILS}
    },
    "A topic that the group's topology does not read can be reset": {"streams never-read": ALL},
    "An Empty group's offsets are shown": {
        "streams describe": {ROWS},
        "streams describe-verbose": {ROWS},
    },
    "That a group has no active members is a note": {"streams describe-state-empty": {FAILS}},
    "kgtool's reset never deletes a topic": {"streams reset-internal": {LEFT}},
    "``--topology`` works on every Kafka with streams groups": {"streams topology": {ROWS, FAILS}},
}
"""What the page says → runs (with the tool, and a release where only that one differs), and what
differs there."""


def _recorded() -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (tool, version, row["name"]): row
        for tool in side_by_side.TOOLS
        for version in side_by_side.VERSIONS
        for row in map(
            json.loads, side_by_side.path_of(tool, version).read_text("utf-8").splitlines()
        )
    }


RECORDED = _recorded()
RUNS = {(tool, run.name): run for tool in side_by_side.TOOLS for run in side_by_side.runs(tool)}


# -- what Kafka's tools have said -----------------------------------------------------------------


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


def _tables(stdout: str) -> Iterator[dict[str, str]]:
    header: list[str] = []
    for line in stdout.splitlines():
        words = re.sub(r" +\((\w+)\)", r"(\1)", line).split()
        if words[:1] in (["GROUP"], ["TOPIC"]):
            header = words
        elif not words or line.startswith("Warn:"):
            continue
        elif header:
            yield dict(zip(header, [*words, *[""] * len(header)], strict=False))


def _theirs(recorded: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Return the rows of a recorded run, in a form that both have."""
    stdout, rows = recorded["stdout"], set[tuple[Any, ...]]()
    if "--delete " in recorded["command"]:
        done = re.findall(r"^(?:Deletion of requested|These) .*groups.*$", stdout, re.M)
        rows |= {("deleted", name) for line in done for name in re.findall(r"'(\{\w\})'", line)}
        failed = re.findall(r"^\* Group '(.*?)' could not be deleted", stdout, re.M)
        return rows | {("failed", name) for name in failed}
    if "--export" in recorded["command"]:
        return {tuple(line.split(",")) for line in stdout.splitlines() if line.count(",") == 2}
    if recorded["command"].endswith("--list"):
        return {("group", line) for line in stdout.splitlines() if line}
    return {_their_row(row) for row in _tables(stdout)}


def _their_row(row: dict[str, str]) -> tuple[Any, ...]:
    if "NEW-OFFSET" in row:
        return ("reset", row["TOPIC"], int(row["PARTITION"]), int(row["NEW-OFFSET"]))
    if "START-OFFSET" in row or "OFFSET-LAG" in row:
        at = row.get("START-OFFSET") or row["CURRENT-OFFSET"]
        left = row.get("LAG") or row["OFFSET-LAG"]
        return ("offset", row["TOPIC"], int(row["PARTITION"]), _number(at), _number(left))
    if "CLIENT-ID" in row:
        return ("member", row["GROUP"], row["CLIENT-ID"])
    if "#MEMBERS" in row:
        return ("state", row["GROUP"], row["STATE"], int(row["#MEMBERS"]))
    if "STATUS" in row:
        status = "deleted" if row["STATUS"] == "Successful" else "failed"
        return (status, row["TOPIC"])
    return ("group", row["GROUP"], row["STATE"])


# -- what kgtool says -----------------------------------------------------------------------------


def _ours(run: Run, out: str) -> set[tuple[Any, ...]]:
    if "--export" in run.ours:
        return {tuple(row) for row in csv.reader(out.splitlines()) if row}  # a long name is quoted
    rows = json.loads(out)["results"]
    command, *_ = run.ours.split()
    if command == "list":
        keys = ("group", "state") if "--state" in run.theirs else ("group",)
        mine = [row for row in rows if row["group"] in ("{G}", "{L}")]
        return {("group", *(row[key] for key in keys)) for row in mine}
    found = {_our_row(command, run.ours, row) for row in rows}
    return found - {None}


def _our_row(command: str, argv: str, row: dict[str, Any]) -> Any:
    at = (row.get("topic"), row.get("partition"))
    if command == "reset-offsets":
        return None if row["status"] == "failed" else ("reset", *at, row["new_offset"])
    if command == "delete-offsets":
        status = {"no-offset": "deleted"}.get(row["status"], row["status"])
        return (status, row["topic"])
    if command == "delete":
        return (row["status"], row["group"])
    if "--topology" in argv:
        return ("topology", row["role"], row["topic"])
    if "--members" in argv:
        return ("member", row["group"], row["client_id"])
    if "--state" in argv:
        return ("state", row["group"], row["state"], row["members"])
    return ("offset", *at, row["current_offset"], row["lag"])


# -- side by side ---------------------------------------------------------------------------------

Side = tuple[str, str, World]


@pytest.fixture(scope="module", params=EVERY)
def side(
    request: pytest.FixtureRequest,
    warm: Callable[[Sandbox], Sandbox],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Side]:
    tool, version = request.param.split()
    name = "all-types" if version == "4.3.1" else f"all-types-{version}"
    kafka = brokers.shared_broker(version, name=name)
    world = World(kafka, tool, tmp_path_factory.mktemp("side"))
    with ExitStack() as stack:
        stack.enter_context(world.member())
        yield tool, version, world


def _differing(tool: str, version: str, name: str) -> set[str]:
    return {
        what
        for runs in DEPARTS.values()
        for place in (f"{tool} {name}", f"{tool} {version} {name}", name)
        for what in runs.get(place, ())
    }


NAMES = list(dict.fromkeys(name for _, name in RUNS))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_rows_and_the_same_left_behind(
    side: Side,
    name: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool, version, world = side
    if (tool, name) not in RUNS:
        pytest.skip(f"no run of kafka-{tool}-groups.sh")
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    run, recorded = RUNS[tool, name], RECORDED[tool, version, name]
    assert recorded["command"] == f"kafka-{tool}-groups {run.theirs}", "record it again"
    world.fresh()
    result = _again(world, run, capsys)
    found = {
        ROWS: _theirs(recorded) != _ours(run, world.plain(result.out)),
        LEFT: recorded["after"] != world.after(),
        FAILS: _has_failed(recorded) != (result.status != 0),
    }
    differing = {what for what, differs in found.items() if differs}
    assert differing == _differing(tool, version, name), (recorded, result, world.after())
    assert (result.status == 0) == ("Error: " not in result.err), result.err


def _again(world: World, run: Run, capsys: pytest.CaptureFixture[str]) -> Result:
    words = ["--bootstrap-server", world.bootstrap, *world.argv(run.ours)]
    if run.ours.startswith("delete") or "--execute" in run.ours:
        words.append("--yes")
    return call(capsys, *words, *(() if "--export" in run.ours else ("-o", "json")))


def _has_failed(recorded: dict[str, Any]) -> bool:
    return recorded["exit"] != 0 or "Error: " in recorded["stdout"]


def test_every_difference_is_on_the_page() -> None:
    text = " ".join(PAGE.read_text("utf-8").split("From ``kafka-streams-groups.sh``\n")[1].split())
    for phrase, runs in DEPARTS.items():
        assert phrase in text, phrase
        for place in runs:
            assert place.split()[-1] in NAMES, place
