"""The command on a cluster made of dictionaries: texts, tables, statuses, and the recorded runs."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool.cli.reset.report import NO_EXECUTE
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import describe_groups
from tests.cli.recorded import Run
from tests.cli.reset_recorded import errors_and_output, runs
from tests.cli.run import Result
from tests.support.reset_world import Group, Log, World

Kgtool = Callable[..., Result]
P = TopicPartition

BASE_MS = 1_700_000_000_000
KEYS = [
    "group",
    "topic",
    "partition",
    "old_offset",
    "new_offset",
    "records_replayed",
    "records_skipped",
    "clamped",
    "status",
]


def recorded_world() -> World:
    """What the cluster of the recorded runs had: record k of r1 is of minute k."""
    r1 = [Log(10, 2), Log(20), Log(30)]
    for log in r1:
        log.first_ms, log.step_ms = BASE_MS, 60_000
    topics = {
        "r1": r1,
        "r2": [Log(5), Log(7)],
        "r12": [Log(number + 1) for number in range(12)],
        "empty-topic": [Log()],
        "lonely": [Log(leader=-1), Log()],
        "t1": [Log(10)],
    }
    r0 = {("r1", 0): 4, ("r1", 1): 5, ("r1", 2): 6, ("r2", 0): 1}
    r1_group = {("r1", 0): 2, ("r1", 1): 0, ("r1", 2): 0, ("r2", 0): 1}
    groups = {
        "r0": Group(r0),
        "r1": Group(r1_group),
        "r2": Group({**r0, ("r1", 0): 10}),
        "r3": Group(r0),
        "r4": Group(r0),
        "r5": Group({("r1", 0): 3, ("r2", 0): 2, ("r1", 2): 6, ("r1", 1): 4}),
        "rmany": Group({("r12", number): 0 for number in range(12)}),
        "n-empty": Group(type="consumer"),
        "gr-é日本": Group(protocol_type=""),
        "g-lonely": Group(protocol_type=""),
        "brandnew": Group(protocol_type=""),
        "g-classic": Group(state="Stable", members=["cli-a"]),
        "n-consumer": Group(state="Stable", type="consumer", members=["cli-n"]),
        "g-rebal": Group(state="PreparingRebalance", members=["cli-r"]),
        "g-txn": Group({("t1", 0): 3}),
        "s-share": Group(type="share", protocol_type="share"),
        "g-connect": Group(protocol_type="connect"),
    }
    return World(topics, groups)


class WorldSession:
    """A session whose brokers are a World."""

    world: World

    class Loop:
        extended = 0.0

        def extend(self, seconds: float) -> None:
            WorldSession.Loop.extended += seconds

    def __init__(self, settings: Any, **_options: Any) -> None:
        self.settings = settings
        self.cluster = self.world.cluster()
        self.cluster_id = "cluster-1"
        self.loop = WorldSession.Loop()

    def __enter__(self) -> WorldSession:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def connect(self) -> None:
        pass

    def run(self, operation: Any) -> Any:
        return self.world.run(operation)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    found = recorded_world()
    monkeypatch.setattr(WorldSession, "world", found, raising=False)
    monkeypatch.setattr(WorldSession.Loop, "extended", 0.0)
    monkeypatch.setattr("kgtool.net.session.Session", WorldSession)
    return found


# ---------------------------------------------------------------------------------------------
# The recorded runs

RUNS = [run for run in runs() if not run.name.startswith("acl-")]
FILES = {
    "single": "r1,0,3\nr1,1,4\nr2,0,2\n",
    "multi": "r0,r1,0,3\nr0,r1,1,4\nr2,r2,0,2\n",
    "othergroup": "x,r1,0,3\n",
    "rt": "r1,0,3\nr2,0,2\nr1,2,6\nr1,1,4\n\n",
    "blankend": "r1,0,3\n\n\n",
    "crlf": "r1,0,3\r\nr1,1,4\r\n",
    "dup": "r1,0,3\nr1,0,5\n",
    "quoted": '"r1","0","3"\n',
    "spaces": "r1, 0, 3\n",
}
"""The files of the recorded runs, made again from what came of them."""

# Runs that kgtool answers otherwise, on purpose; each has a test of its own.
REFUSED_HERE = {
    "ff-short",
    "reset-bothscope",
    "reset-dt-2023-11-14T22:18:20.000Zjunk",
    "reset-emptyarg",
    "reset-dt-2023-13-14T22:18:20.000",
    "reset-dt-garbage",
    "reset-dur-",
    "reset-dur-P1M",
    "reset-shift-bad",
    "ff-blankmid",
    "ff-comment",
    "ff-empty",
    "ff-header",
    "ff-missing",
    "ff-outofrange",
    "ff-single-twogroups",
}
ACCEPTED_HERE = {
    "reset-dt-1700000000000",
    "reset-dt-2023-11-14",
    "reset-dt-2023-11-14T22:18:20,000",
    "reset-dt-2023-11-14T22:18:20",
    "reset-dt-2023-11-14T22:18:20Z",
    "reset-dup-part",
    "reset-dup-topic",
    "reset-dur-1d",
    "reset-dur-P30000D",
    "reset-dt-2023-11-14T22:18:20.1",
    "reset-tocurrent",
}
ELSEWHERE = {
    "opt-unreachable-reset",
    "reset-allgroups-dry",
    "reset-allgroups-export",
    "zero-export",
    "zero-reset-all",
    "ff-unkpart",
    "ff-unktopic",
    "reset-badtopicname",
    "reset-shift-nocommitted",
}
"""Clusters of another kind; test_reset_parity.py and the tests below have such."""


def _same(names: set[str] | None = None) -> list[Any]:
    others = REFUSED_HERE | ACCEPTED_HERE | ELSEWHERE
    chosen = [run for run in RUNS if (run.name in names if names else run.name not in others)]
    assert chosen
    return [pytest.param(run, id=run.name) for run in chosen]


def _argv(run: Run, folder: Path) -> list[str]:
    for name, text in FILES.items():
        (folder / f"{name}.csv").write_bytes(text.encode())
    return [str(folder / word[4:]) if word.startswith("csv/") else word for word in run.argv]


def _spoken(line: str) -> str:
    line = line.replace("Executing consumer group command failed due to ", "")
    return line.split("java.lang.IllegalArgumentException: ")[-1].rstrip(".")


@pytest.mark.parametrize("run", _same())
def test_recorded_runs(run: Run, world: World, kgtool: Kgtool, tmp_path: Path) -> None:
    """Rows in whatever order, everything else byte for byte; the errors on stderr."""
    said, table = errors_and_output(run.stdout)
    result = kgtool(*_argv(run, tmp_path))
    if not _aborts(said):
        assert sorted(result.out.split("\n")) == sorted(table.split("\n"))
        assert result.out[:1] == table[:1]
    errors = [line for line in said if line.startswith("Error:")]
    has_rows = len(result.out.strip().split("\n")) > 1 or (
        "--export" in run.argv and "," in result.out
    )
    assert result.status == ((3 if has_rows else 1) if errors or run.exit else 0)
    assert result.err.startswith(NO_EXECUTE) == run.stderr.startswith("WARN")
    assert result.err.count("Falling back to latest known offset.") == len(said) - len(errors)
    for line in errors:
        for word in _words(line, run.argv):
            assert word in result.err


def _aborts(said: list[str]) -> bool:
    """Where one bad item ends Kafka's run, ours goes on with the rest."""
    return any("Executing consumer group command failed" in line for line in said)


def _words(line: str, argv: list[str]) -> list[str]:
    """What has to be said of a failure; Java's own words are not ours."""
    if "is not a consumer group (connect)" in line:
        return ["g-connect", "Connect", "not a consumer group"]
    if "does not host" in line and "nosuch:0" in argv:
        return ["nosuch-0", "do not exist"]
    if line.startswith("Error: Executing") and "Failed altering" in line:
        return ["s-share", "group id does not exist"]
    if "The partitions" in line:
        partitions = line.split('"')[1].split(",")
        return [*partitions, "do not exist" if "not exist" in line else "have no leader"]
    return [_spoken(line).removeprefix("Error: ").split("Exception: ")[-1]]


@pytest.mark.parametrize("run", _same(REFUSED_HERE))
def test_recorded_runs_that_are_refused_here(
    run: Run, world: World, kgtool: Kgtool, tmp_path: Path
) -> None:
    argv = _argv(run, tmp_path)
    for name, text in (
        ("short", "r1,0\n"),
        ("blankmid", "r1,0,3\n\nr1,1,4\n"),
        ("comment", "# comment\nr1,0,3\n"),
        ("empty", ""),
        ("header", "topic,partition,offset\nr1,0,3\n"),
        ("outofrange", "r1,0,-1\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(text)
    result = kgtool(*argv)
    assert (result.status, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert world.script.calls == []


@pytest.mark.parametrize("run", _same(ACCEPTED_HERE))
def test_recorded_runs_that_work_here(run: Run, world: World, kgtool: Kgtool) -> None:
    result = kgtool(*run.argv)
    assert (result.status, world.commits) == (0, [])
    offsets = [line.split()[3] for line in result.out.strip().split("\n")[1:]]
    expected = {
        "reset-dt-1700000000000": "2 0 0",
        "reset-dt-2023-11-14": "2 0 0",
        "reset-dt-2023-11-14T22:18:20.1": "6 6 6",
        "reset-dup-part": "2",
        "reset-dup-topic": "2 0 0",
        "reset-dur-1d": "10",
        "reset-dur-P30000D": "2",
        "reset-tocurrent": "4 5 6 1",
    }.get(run.name, "5 5 5")
    assert offsets == expected.split()


# ---------------------------------------------------------------------------------------------
# Kafka's form


def test_the_default_is_a_dry_run_and_says_so(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "r0", "--topic", "r1", "--to-earliest"]
    assert kgtool(*argv).err.startswith(NO_EXECUTE + "\n")
    assert NO_EXECUTE not in kgtool(*argv, "--dry-run").err
    assert world.commits == []
    assert NO_EXECUTE not in kgtool(*argv, "--execute").err
    assert world.groups["r0"].offsets[P("r1", 0)] == CommittedOffset(2, 0, "m")


def test_what_happens_is_said_before_it_does(world: World, kgtool: Kgtool) -> None:
    """F14: with Kafka's tool, clamping is a line in a log file, and counts are nowhere."""
    result = kgtool("--reset-offsets", "--group", "r0", "--topic", "r1", "--to-offset", "15")
    assert result.status == 0
    assert result.err.splitlines()[1:] == [
        "Warn: New offset (15) is higher than latest offset for topic partition r1-0. "
        "Value will be set to 10",
        "Note: group r0: 0 records to read again, 25 records to skip.",
    ]
    result = kgtool("--reset-offsets", "--group", "r0", "--topic", "r1,0", "--to-offset", "0")
    assert "lower than earliest" not in result.err
    result = kgtool(
        "--reset-offsets", "--group", "r0", "--topic", "r1:0", "--shift-by", "-9", "--dry-run"
    )
    assert result.err.splitlines() == [
        "Warn: New offset (-5) is lower than earliest offset for topic partition r1-0. "
        "Value will be set to 2",
        "Note: group r0: 2 records to read again, 0 records to skip.",
    ]


def test_a_time_after_the_last_record(world: World, kgtool: Kgtool) -> None:
    """Kafka's tool calls any such partition empty."""
    argv = ["--reset-offsets", "--group", "r0", "--dry-run", "--to-datetime", "2035-11-14T22:18"]
    result = kgtool(*argv, "--topic", "r1:0", "--topic", "empty-topic")
    assert result.err.splitlines()[:2] == [
        "Warn: Partition 0 from topic empty-topic is empty. Falling back to latest known offset.",
        "Warn: Partition 0 from topic r1 has no record at or after 2035-11-14T22:18:00.000Z. "
        "Falling back to latest known offset.",
    ]


def test_left_alone_is_said(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "r0", "--topic", "r2", "--to-current", "--execute"]
    result = kgtool(*argv)
    assert result.status == 0
    assert "Note: group r0 has no committed offset for r2-1: left alone.\n" in result.err
    assert P("r2", 1) not in world.groups["r0"].offsets
    # ... and what has a commit is committed again, which puts off its expiry.
    assert [write.at for write in world.writes] == [P("r2", 0)]
    own = kgtool("reset-offsets", "r0", "--topic", "r2", "--shift-by", "1", "--dry-run")
    assert "Error: group r0, r2:1: There is no committed offset to shift.\n" in own.err


def test_a_new_group_needs_create(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "typo", "--topic", "r1:0", "--to-latest", "--execute"]
    result = kgtool(*argv)
    assert result.status == 1
    assert result.out == ""  # no header without rows
    assert result.err.startswith("Error: Group typo not found. ")
    assert "typo" not in world.groups
    result = kgtool(*argv, "--create")
    assert result.status == 0
    assert world.groups["typo"].offsets == {P("r1", 0): CommittedOffset(10, 0, "")}


def test_active_groups_are_refused_by_name(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "g-classic", "--group", "r0", "--topic", "r1:0"]
    result = kgtool(*argv, "--to-earliest", "--execute")
    assert result.status == 3
    assert result.out.splitlines()[2:] == ["r0              r1              0          2"]
    assert (
        "Error: Assignments can only be reset if the group 'g-classic' is inactive, but the "
        "current state is Stable. It has 1 member: cli-a on /10.0.0.1."
    ) in result.err
    assert kgtool(*argv, "--to-earliest", "--execute", "--all-or-nothing").status == 1


def test_failures_of_the_same_kind_are_one_sentence(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "r0", "--topic", "r1:0,99,98", "--topic", "lonely"]
    result = kgtool(*argv, "--to-earliest", "--dry-run")
    assert result.status == 3
    errors = [line for line in result.err.splitlines() if line.startswith("Error")]
    assert errors == [
        'Error: The partitions "lonely-0" have no leader (group r0)',
        'Error: The partitions "r1-98,r1-99" do not exist (group r0)',
    ]
    document = kgtool(*argv, "--to-earliest", "--dry-run", "-o", "json").json
    found = [
        (e["target"]["topic"], e["target"]["partition"], e["code"]) for e in document["errors"]
    ]
    assert found == [("lonely", 0, 5), ("r1", 98, 3), ("r1", 99, 3)]


def test_what_the_coordinator_refuses_keeps_kafkas_words(world: World, kgtool: Kgtool) -> None:
    """Kafka's tool hides the reason in a stack trace."""
    world.commit_errors = {P("r1", n): codes.GROUP_AUTHORIZATION_FAILED for n in (0, 2)}
    result = kgtool("--reset-offsets", "--group", "r0", "--topic", "r1", "--to-latest", "--execute")
    assert result.status == 3
    assert (
        "Error: Failed altering group offsets for the following partitions: [r1-0, r1-2]: "
        "Group authorization failed. (group r0). It needs the ACL operation READ on group r0.\n"
    ) in result.err
    assert result.out.splitlines()[2:] == ["r0              r1              1          20"]


def test_every_group_at_once(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--all-groups", "--topic", "r2:0", "--to-latest", "--execute"]
    result = kgtool(*argv)
    assert result.status == 3
    rows = {line.split()[0] for line in result.out.strip().split("\n")[1:]}
    assert {"r0", "r5", "n-empty", "brandnew", "gr-é日本"} <= rows
    assert not rows & {"g-classic", "n-consumer", "g-rebal", "s-share", "g-connect"}
    assert result.err.count("Assignments can only be reset") == 3
    assert len({write.group for write in world.writes}) == len(rows)


def test_no_group_at_all(world: World, kgtool: Kgtool) -> None:
    world.groups.clear()
    argv = ["--reset-offsets", "--all-groups", "--all-topics", "--to-earliest", "--dry-run"]
    assert kgtool(*argv) == (0, "\n", "")
    assert kgtool(*argv, "--export") == (0, "\n", "")


def test_columns_are_as_wide_as_the_longest_group_also_without_rows(
    world: World, kgtool: Kgtool
) -> None:
    long = "g-a-quite-long-group-name"
    world.groups[long] = Group(state="Stable", members=["m"])
    argv = ["--reset-offsets", "--group", long, "--group", "r0", "--topic", "r2:0", "--to-latest"]
    lines = kgtool(*argv).out.split("\n")
    assert lines[1] == f"{'GROUP':25} {'TOPIC':15} PARTITION  NEW-OFFSET"
    assert lines[2] == f"{'r0':25} {'r2':15} 0          5"


@pytest.mark.parametrize(
    "argv",
    [
        ["--to-earliest", "--shift-by=1"],
        ["--like", "r1", "--to-latest"],
        ["--from-file=x", "--like=y"],
    ],
)
def test_one_strategy_only(argv: list[str], world: World, kgtool: Kgtool) -> None:
    for form in ("--reset-offsets", "reset-offsets"):
        result = kgtool(form, "--group", "r0", "--topic", "r1", *argv)
        assert (result.status, result.out) == (2, "")
        first, second = (word.lstrip("-").split("=")[0] for word in argv if word.startswith("--"))
        words = (
            'Option "[{}]" can\'t be used with option "[{}]"'
            if form[0] == "-"
            else "--{} and --{} exclude each other."
        )
        said = words.format(first, second), words.format(second, first)
        assert any(one in result.err for one in said), result


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--topic", "r1", "--shift-by", "abc"], "Cannot parse argument 'abc' of option shift-by"),
        (["--topic", "r1", "--to-offset", "1.5"], "Cannot parse argument '1.5' of option to-off"),
        (["--topic", "r1", "--to-datetime", "soon"], "Unparseable date: 'soon'"),
        (["--topic", "r1", "--by-duration", "1M"], "Text cannot be parsed to a Duration: '1M'"),
        (["--topic", "r1:x", "--to-latest"], "Invalid partition 'x' specified in topic arg"),
        (["--topic", "r1", "--to-latest", "--wait-empty", "soon"], "--wait-empty takes a duration"),
        (["--from-file", "/nonexistent.csv"], "Unable to read file /nonexistent.csv: No such file"),
    ],
)
def test_refused_in_both_forms(argv: list[str], said: str, world: World, kgtool: Kgtool) -> None:
    for form in (["--reset-offsets", "--dry-run"], ["reset-offsets"]):
        if "--dry-run" in argv:
            form = form[:1]
        result = kgtool(*form, "--group", "r0", *argv)
        assert (result.status, result.out) == (2, "")
        assert said in result.err
        assert len(result.err.splitlines()) == 1
        assert world.script.calls == []


@pytest.mark.parametrize(
    ("argv", "kafkas", "ours"),
    [
        (
            ["--to-earliest"],
            "One of the reset scopes should be defined: --all-topics, --topic.",
            "Error: Which offsets? --topic TOPIC[:0,1] or --all-topics.",
        ),
        (
            ["--topic", "r1"],
            "Option '[reset-offsets]' requires one of the following scenarios: [",
            "Error: Where to? One of --to-offset, --to-datetime, ",
        ),
        (
            ["--all-topics", "--topic", "r1", "--to-latest"],
            'Option "[topic]" can\'t be used with option "[all-topics]"',
            "Error: --topic and --all-topics exclude each other.",
        ),
        (
            ["--topic", "r1", "--to-latest", "--dry-run", "--execute"],
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
            "Error: --dry-run and --execute exclude each other.",
        ),
    ],
)
def test_each_form_has_its_words(
    argv: list[str], kafkas: str, ours: str, world: World, kgtool: Kgtool
) -> None:
    """Kafka's own, and kgtool's with the dashes that were typed."""
    for form, said in (("--reset-offsets", kafkas), ("reset-offsets", ours)):
        result = kgtool(form, "--group", "r0", *argv)
        assert (result.status, result.out) == (2, "")
        assert result.err.splitlines()[-1].startswith(said)
        assert world.script.calls == []


def test_no_group_is_refused(world: World, kgtool: Kgtool) -> None:
    kafkas = "Option [reset-offsets] takes one of these options: [group], [all-groups]"
    ours = "Error: reset-offsets takes groups: names, --match GLOB or --all-groups."
    for form, said in (("--reset-offsets", kafkas), ("reset-offsets", ours)):
        result = kgtool(form, "--topic", "r1", "--to-latest")
        assert result.status == 2
        assert said in result.err


def test_seconds_for_milliseconds_are_noticed(world: World, kgtool: Kgtool) -> None:
    argv = ["--reset-offsets", "--group", "r0", "--topic", "r1", "--dry-run", "--to-datetime"]
    assert "Warn: 1700000300 is taken as milliseconds since the epoch: 1970-01-20T" in (
        kgtool(*argv, "1700000300").err
    )
    assert "taken as" not in kgtool(*argv, "1700000300000").err


def test_nothing_to_shift_fails_alone(world: World, kgtool: Kgtool) -> None:
    """Kafka's tool ends with its usage text, and does nothing for the others."""
    argv = ["--reset-offsets", "--group", "r0", "--topic", "r2", "--shift-by", "1", "--execute"]
    result = kgtool(*argv)
    assert result.status == 3
    said = "Cannot shift offset for partition r2-1 since there is no current committed offset"
    assert f"Error: group r0, r2:1: {said}\n" in result.err
    assert [write.at for write in world.writes] == [P("r2", 0)]


# ---------------------------------------------------------------------------------------------
# CSV


def test_export_and_import(world: World, kgtool: Kgtool, tmp_path: Path) -> None:
    argv = ["--reset-offsets", "--all-topics", "--to-current", "--export", "--dry-run"]
    single = kgtool(*argv, "--group", "r5")
    assert single.out == "r1,0,3\nr1,1,4\nr1,2,6\nr2,0,2\n\n"
    several = kgtool(*argv, "--group", "r5", "--group", "r1")
    assert several.out.startswith("r1,r1,0,2\n")
    path = tmp_path / "plan.csv"
    for text, groups in ((single.out, ["r5"]), (several.out, ["r1", "r5"]), (several.out, ["r5"])):
        path.write_text(text)
        before = {name: dict(world.groups[name].offsets) for name in groups}
        chosen = [word for name in groups for word in ("--group", name)]
        moved = ["--reset-offsets", *chosen, "--all-topics", "--to-earliest", "--execute"]
        assert kgtool(*moved).status == 0
        assert {name: world.groups[name].offsets for name in groups} != before
        back = kgtool("--reset-offsets", *chosen, "--from-file", str(path), "--execute")
        assert back.status == 0
        assert {name: world.groups[name].offsets for name in groups} == before


def test_export_is_nothing_but_csv(world: World, kgtool: Kgtool) -> None:
    """F15: Kafka's tool mixes errors and warnings into it."""
    argv = ["--group", "r0", "--group", "g-classic", "--topic", "r1", "--topic", "nosuch"]
    for form, end in (("--reset-offsets", "\n"), ("reset-offsets", "")):
        result = kgtool(form, *argv, "--to-offset", "15", "--export")
        assert result.status == 3
        assert result.out == f"r0,r1,0,10\nr0,r1,1,15\nr0,r1,2,15\n{end}"
        assert "higher than latest offset" in result.err


def test_a_name_like_an_escape_sequence_survives_a_file_but_not_a_terminal(
    world: World, kgtool: Kgtool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    name = "red\x1b[31m"
    world.groups[name] = Group({("r1", 0): 4})
    argv = ["--reset-offsets", "--match", "red*", "--all-topics", "--to-current", "--dry-run"]
    assert next(csv.reader(io.StringIO(kgtool(*argv, "--export").out)))[0] == name
    assert "\x1b" not in kgtool(*argv).out + kgtool(*argv).err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b" not in kgtool(*argv, "--export").out


def test_a_bad_file_sends_nothing(world: World, kgtool: Kgtool, tmp_path: Path) -> None:
    """F7: Kafka's tool reads the missing offset as 0 and delivers everything again."""
    path = tmp_path / "plan.csv"
    path.write_text("r1,0,3\nr1,1\n")
    for form in (["--reset-offsets"], ["reset-offsets", "--yes"]):
        result = kgtool(*form, "--group", "r0", "--from-file", str(path), "--execute")
        assert (result.status, result.out) == (2, "")
        assert f"{path}, line 2: the offset is missing" in result.err
    assert world.script.calls == []


def test_what_a_file_says_is_never_narrowed_silently(
    world: World, kgtool: Kgtool, tmp_path: Path
) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("r1,0,3\n")
    argv = ["--reset-offsets", "--group", "r0", "--from-file", str(path), "--dry-run"]
    assert "--topic is ignored" in kgtool(*argv, "--topic", "r2").err
    assert "--all-topics is ignored" in kgtool(*argv, "--all-topics").err


# ---------------------------------------------------------------------------------------------
# The subcommand form

SUB = ("reset-offsets", "--group", "r0", "--topic", "r1")


def test_json_rows(world: World, kgtool: Kgtool) -> None:
    document = kgtool(*SUB, "--topic", "r2", "--to-offset", "3", "-o", "json").json
    assert [list(row) for row in document["results"]] == [KEYS] * 5
    assert document["results"][0] == {
        "group": "r0",
        "topic": "r1",
        "partition": 0,
        "old_offset": 4,
        "new_offset": 3,
        "records_replayed": 1,
        "records_skipped": 0,
        "clamped": False,
        "status": "would-reset",
    }
    assert document["results"][4] == {
        "group": "r0",
        "topic": "r2",
        "partition": 1,
        "old_offset": None,
        "new_offset": 3,
        "records_replayed": None,
        "records_skipped": None,
        "clamped": False,
        "status": "would-reset",
    }
    done = kgtool(*SUB, "--to-offset", "15", "--execute", "--yes", "-o", "json").json["results"]
    assert [(row["status"], row["clamped"]) for row in done] == [
        ("reset", True),
        ("reset", False),
        ("reset", False),
    ]


def test_json_is_a_document_whatever_fails(world: World, kgtool: Kgtool) -> None:
    argv = ["--group", "r0", "--group", "typo", "--topic", "r1:0,99", "--topic", "nosuch"]
    result = kgtool("reset-offsets", *argv, "--to-latest", "-o", "json")
    assert result.status == 3
    assert [(row["topic"], row["partition"], row["status"]) for row in result.json["results"]] == [
        ("r1", 0, "would-reset"),
        ("r1", 99, "failed"),
        ("nosuch", None, "failed"),
    ]
    assert [error["code"] for error in result.json["errors"]] == [3, 3, 69]
    lines = kgtool("reset-offsets", *argv, "--to-latest", "-o", "ndjson").out.splitlines()
    found = [json.loads(line) for line in lines]
    assert [row.get("error", {}).get("name") for row in found] == [
        None,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "GROUP_ID_NOT_FOUND",
    ]
    table = list(csv.reader(io.StringIO(kgtool(*SUB, "--to-latest", "-o", "csv").out)))
    assert table[0] == KEYS
    assert len(table) == 4


def test_a_dry_run_shows_the_surprises_as_columns(world: World, kgtool: Kgtool) -> None:
    result = kgtool(*SUB, "--to-offset", "15")
    assert result.status == 0
    header, first, second = (line.split("  ") for line in result.out.splitlines()[:3])
    assert [word.strip() for word in header if word] == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "NEW-OFFSET",
        "REPLAYED",
        "SKIPPED",
        "CLAMPED",
        "STATUS",
    ]
    assert [word.strip() for word in first if word] == [
        "r0",
        "r1",
        "0",
        "4",
        "10",
        "0",
        "6",
        "15 is outside: log end",
        "would-reset",
    ]
    assert [word.strip() for word in second if word][-2:] == ["-", "would-reset"]
    assert result.err == "Dry run: nothing was changed; --execute does it.\n"
    late = kgtool(*SUB, "--to-datetime", "2035-01-01")
    assert late.out.count("no record that late: log end") == 3
    assert "at or after 2035-01-01T00:00:00.000Z" in late.err
    assert world.commits == []


def test_without_a_terminal_it_needs_yes(world: World, kgtool: Kgtool) -> None:
    result = kgtool(*SUB, "--to-latest", "--execute")
    assert result.status == 2
    assert "--yes" in result.err
    assert world.script.calls == []


def test_the_plan_is_shown_and_asked_about(
    world: World, kgtool: Kgtool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgtool.cli.change.confirm.is_interactive", lambda: True)
    asked: list[str] = []

    def confirm(answer: bool) -> Callable[..., bool]:
        return lambda question, **_options: bool(asked.append(question)) or answer

    monkeypatch.setattr("click.confirm", confirm(False))
    argv = [*SUB, "--group", "g-classic", "--to-latest", "--execute"]
    result = kgtool(*argv)
    assert result.status == 1
    (question,) = asked
    assert question.startswith("127.0.0.1:")
    assert question.endswith(": Reset 3 committed offsets?")
    assert "Committed offsets to reset:\nGROUP" in result.err
    assert "  g-classic: will not be reset: Assignments can only be reset" in result.err
    assert world.commits == []
    monkeypatch.setattr("click.confirm", confirm(True))
    result = kgtool(*argv)
    assert result.status == 3
    assert result.out.count(" reset\n") == 3
    # Where nothing can be done, there is nothing to ask.
    asked.clear()
    assert kgtool("reset-offsets", "--group", "g-classic", *argv[3:5], *argv[7:]).status == 1
    assert asked == []


def test_like(world: World, kgtool: Kgtool) -> None:
    result = kgtool(
        "reset-offsets", "--group", "new", "--create", "--like", "r0", "--yes", "--execute"
    )
    assert result.status == 0
    assert world.groups["new"].offsets == world.groups["r0"].offsets
    assert kgtool("--reset-offsets", "--group", "r5", "--like", "r0", "--execute").status == 0
    assert world.groups["r5"].offsets == world.groups["r0"].offsets
    missing = kgtool("reset-offsets", "--group", "r5", "--like", "nobody")
    assert missing.status == 1
    assert missing.err.startswith("Error: Group 'nobody' has no committed offsets")


@pytest.mark.parametrize("more", [["--execute", "--yes"], [], ["-o", "json"]])
def test_like_a_group_that_has_none_of_these_offsets(
    world: World, kgtool: Kgtool, more: list[str]
) -> None:
    """Kind: a status 0 says that it was done. Only ``no-commit`` came out, and nothing was."""
    argv = ["reset-offsets", "--group", "r5", "--like", "r0"]
    missing = kgtool(*argv, "--topic", "r12", *more)
    said = "Group 'r0' has no committed offset there that could be taken over."
    assert (missing.status, world.commits) == (1, [])
    assert said in missing.err
    # What it has of some is done; of others there is nothing to do.
    some = kgtool(*argv, "--topic", "r12", "--topic", "r1:0", *more)
    assert some.status == 0


def test_waiting_does_not_count_against_the_timeout(
    world: World, kgtool: Kgtool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    ours = {"monotonic": lambda: now[0], "sleep": lambda _: None}
    # Of this module alone: threads that other tests have left look at the clock too.
    monkeypatch.setattr(
        "kgtool.cli.change.journaled.time", SimpleNamespace(**{**vars(time), **ours})
    )

    def before(request: object) -> None:
        if isinstance(request, describe_groups.Request):
            now[0] += 5
            if now[0] >= 1020:
                world.groups["g-classic"].state, world.groups["g-classic"].members = "Empty", []

    world.before = before
    argv = [
        "--reset-offsets",
        "--group",
        "g-classic",
        "--topic",
        "r1:0",
        "--to-latest",
        "--execute",
    ]
    result = kgtool(*argv, "--wait-empty", "60s")
    assert result.status == 0
    assert "Waiting up to 60 s until group g-classic has no members. It has 1 member: cli-a" in (
        result.err
    )
    assert WorldSession.Loop.extended == pytest.approx(20)
    world.groups["g-classic"].state, world.groups["g-classic"].members = "Stable", ["cli-a"]
    world.before = lambda request: now.__setitem__(0, now[0] + 5)
    result = kgtool(*argv, "--wait-empty", "60s")
    assert result.status == 1
    assert "Assignments can only be reset if the group 'g-classic' is inactive" in result.err


@pytest.mark.usefixtures("unreachable")
def test_nobody_answers(kgtool: Kgtool) -> None:
    argv = ["--group", "g", "--topic", "t", "--to-earliest"]
    assert kgtool("--reset-offsets", "--dry-run", *argv).status == 4
    document = kgtool("reset-offsets", *argv, "-o", "json")
    assert document.status == 4
    assert document.json["command"] == "reset-offsets"
    assert document.json["errors"][0]["name"] == "UNREACHABLE"


def test_no_commit_counts_as_done(world: World, kgtool: Kgtool) -> None:
    argv = ["reset-offsets", "--group", "r0", "--topic", "r2:1", "--to-current"]
    result = kgtool(*argv, "-o", "json")
    assert result.status == 0
    assert [row["status"] for row in result.json["results"]] == ["no-commit"]
    assert "no-commit" in kgtool(*argv).out
    assert kgtool(*argv, "--execute", "--yes").status == 0
    assert world.commits == []


def test_all_or_nothing(world: World, kgtool: Kgtool) -> None:
    argv = [*SUB, "--topic", "nosuch", "--to-latest", "--all-or-nothing"]
    for more in ([], ["--execute", "--yes"]):
        result = kgtool(*argv, *more, "-o", "json")
        assert result.status == 1
        assert [row["status"] for row in result.json["results"]] == ["skipped"] * 3 + ["failed"]
    assert world.commits == []
    kafka = kgtool("--reset-offsets", *argv[1:], "--execute")
    assert (kafka.status, kafka.out) == (1, "")
