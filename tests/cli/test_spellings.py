"""How options may be written: short, long with one dash as Kafka's tool takes it, never glued."""

from __future__ import annotations

import json
import re

import click
import pytest

from kgtool.api.connection import make_settings
from kgtool.cli.app.argv import SHORT, scan, spell_out
from kgtool.cli.app.root import root
from kgtool.cli.commands import COMMANDS
from kgtool.cli.options.group_selection import Selection
from kgtool.errors import UsageError
from tests.cli.fake import FakeSession
from tests.cli.run import Result, call

Capture = pytest.CaptureFixture[str]
ADDRESS = "127.0.0.1:1"
TAKES = {
    "group": "yes",
    "topic": "yes",
    "output": "yes",
    "state": "maybe",
    "dry-run": "no",
    "yes": "no",
    "shift-by": "yes",
    "list": "no",
}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("-g billing", "--group billing"),
        ("-g=billing", "--group=billing"),
        ("-group billing", "--group billing"),
        ("-group=billing", "--group=billing"),
        ("-g -x", "--group -x"),  # a value is a value, whatever it looks like
        ("--group -list", "--group -list"),
        ("-shift-by -5", "--shift-by -5"),
        ("-state -n", "--state --dry-run"),
        ("-state Empty", "--state Empty"),
        ("-ojson", "--output=json"),
        ("-o json", "--output json"),
        ("-n -y a b", "--dry-run --yes a b"),
        ("-n -- -y", "--dry-run -- -y"),
        ("-h", "--help"),
        ("- x", "- x"),
    ],
)
def test_every_spelling_becomes_the_long_one(typed: str, meant: str) -> None:
    assert spell_out(typed.split(), TAKES) == meant.split()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("-gbilling", "No such option '-gbilling': write -g billing or --group billing."),
        ("-yn", "No such option '-yn': write -y or --yes, apart."),
        ("-ojsn", "No such option '-ojsn' (did you mean -o json?)"),
        ("-gruop x", "No such option '-gruop' (did you mean --group?)"),
        ("-zebra", "No such option '-zebra': long options have two dashes."),
    ],
)
def test_any_other_word_with_a_dash_is_refused(typed: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        spell_out(typed.split(), TAKES)
    assert refused.value.message == said


def test_kafkas_form_and_what_stands_before_a_command() -> None:
    assert scan(["-b", "list", "-describe", "-g", "-list"]).words == [
        "--bootstrap-server",
        "list",
        "--describe",
        "--group",
        "-list",
    ]
    seen = scan(["-b=x", "-o", "json", "describe", "-g", "y"])
    assert (seen.command, seen.words[-2:]) == ("describe", ["-g", "y"])  # the command's own matter


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(root)
    found = []
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        found += [(f"{name} {below}".strip(), each) for below, each in inner.items()]
    return found


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_a_short_option_is_there_wherever_the_long_one_is(
    name: str, command: click.Command, capsys: Capture
) -> None:
    names = {word for param in command.params for word in param.opts}
    for letter, long in SHORT.items():
        assert (f"-{letter}" in names) == (f"--{long}" in names), (name, letter)
    shown = call(capsys, *name.split(), "-h")
    assert (shown.status, shown) == (0, call(capsys, *name.split(), "--help"))


@pytest.mark.parametrize("form", [["delete"], ["--delete"]])
def test_one_dash_never_makes_another_group(
    form: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``-group a`` was the group "roup" to Click."""
    asked: list[str] = []

    def choose(_session: object, _output: object, selection: Selection, _columns: object) -> None:
        asked.extend(selection.groups)
        raise UsageError("far enough")

    monkeypatch.setattr("kgtool.net.session.Session", FakeSession)
    monkeypatch.setattr("kgtool.cli.commands.delete.choose", choose)
    for word in ("-group", "-g", "--group"):
        call(capsys, "-b", ADDRESS, *form, word, "a", "-n")
    assert asked == ["a", "a", "a"]
    refused = call(capsys, "-b", ADDRESS, *form, "-ga", "-n")
    assert (refused.status, refused.out) == (2, "")
    assert "write -g a or --group a" in refused.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["reset-offset", "-g", "x"], "(did you mean reset-offsets?)"),
        (["remove", "x"], "(did you mean remove-members?)"),
        (["lst"], "(did you mean list?)"),
        (["describ"], "(did you mean describe?)"),
        (["list-offsets"], "(did you mean list?)"),  # not reset-offsets, which is nearer
        (["describe-offsets"], "(did you mean describe?)"),
        (["delete-groups"], "(did you mean delete?)"),
        (["get-offsets"], "kgtool --help lists them"),
        (["list", "--json"], "(did you mean -o json?)"),
        (["lag", "-y"], "No such option '-y': this command has no --yes."),
        (
            ["peek", "g", "--before", "x"],
            "--before takes a whole number from 0 to 10,000, not 'x'.",
        ),
        (["delete", "g", "--canary", "0"], "--canary takes a whole number from 1 on, not '0'."),
        (
            ["cleanup", "apply", "/dev/null", "--rate", "nan"],
            "--rate takes a number from 0.0001 on, not 'nan'.",
        ),
        (
            ["cleanup", "apply", "/dev/null", "--rate", "inf"],
            "--rate takes a number from 0.0001 on, not 'inf'.",
        ),
        (
            ["cleanup", "apply", "/dev/null", "--rate", "1e-300"],
            "--rate takes a number from 0.0001 on, not '1e-300'.",
        ),
        (["lag", "--timeout", "30x"], "--timeout takes a duration such as 30s"),
        (["keep"], "keep takes groups: names, --match GLOB or --all-groups."),
        (["delete", "a", "--all-groups"], "--all-groups can't be combined with group names"),
        (["delete-offsets", "g"], "Which offsets? --topic TOPIC or --topic TOPIC:0,1."),
        (["show"], "(did you mean describe?)"),  # never a command that changes something
        (["list", "-o", "jsonl"], "(did you mean ndjson?)"),
        (["help", "delet-offsets"], "(did you mean delete-offsets?)"),
        (["completion", "bsh"], "(did you mean bash?)"),
        (["man", "undoo"], "(did you mean undo?)"),
    ],
)
def test_slips_name_what_was_meant(
    argv: list[str], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", ADDRESS)
    result: Result = call(capsys, *argv)
    assert (result.status, result.out) == (2, "")
    assert said in result.err


def test_help_in_all_its_forms(capsys: Capture) -> None:
    overview = call(capsys, "--help")
    for argv in (["-h"], ["help"]):
        assert call(capsys, *argv) == overview
    for section in ("Look:", "Change:", "Go back:", "Understand the past:", "Set up:"):
        assert f"\n{section}\n" in overview.out
    kafkas = call(capsys, "help", "kafka")
    assert "--reset-offsets" in kafkas.out
    assert "--reset-offsets" not in overview.out
    assert call(capsys, "--describe", "--help") == kafkas
    assert call(capsys, "help", "cleanup", "plan").out == call(capsys, "cleanup", "plan", "-h").out
    long = call(capsys, "reset-offsets", "-h").out
    titles = [line for line in long.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Which groups:",
        "Which offsets:",
        "Where to (one of these):",
        "How to do it:",
    ]
    assert call(capsys, "version") == call(capsys, "--version")
    _, document, _ = call(capsys, "version", "-o", "json")
    assert f"kgtool {json.loads(document)['results'][0]['version']}\n" == call(capsys, "version")[1]


CHANGES = [
    argv
    for argv in (*((name,) for name in COMMANDS), *(("cleanup", n) for n in ("plan", "apply")))
    if argv != ("cleanup",)
]


@pytest.mark.parametrize("argv", CHANGES, ids=" ".join)
def test_the_help_of_a_change_sends_nobody_to_another_tool(
    capsys: Capture, argv: tuple[str, ...]
) -> None:
    shown = call(capsys, *argv, "--help").out
    if "--dry-run" not in shown and "--yes" not in shown:
        pytest.skip("it changes nothing")
    assert not re.search(r"\bkafka-\w+-\w+|\.sh\b|Kafka's (own )?tool", shown), shown


@pytest.mark.parametrize(
    ("text", "timeout_ms"),
    [
        ("30s", 30_000),
        ("1m30s", 90_000),
        ("500", 500),
        ("PT2S", 2_000),
        ("99999999999", 2_000_000_000),
        ("9223372036854775807", 2_000_000_000),
        ("9999999d", 2_000_000_000),
    ],
)
def test_a_timeout_takes_units_and_a_bare_number_is_milliseconds(
    text: str, timeout_ms: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def session(settings: object, **_options: object) -> None:
        seen.append(settings.timeout_ms)  # type: ignore[attr-defined]
        raise UsageError("far enough")

    monkeypatch.setattr("kgtool.net.session.Session", session)
    for form in (["--list"], ["list"]):
        call(capsys, "-b", ADDRESS, "--timeout", text, *form)
    assert seen == [timeout_ms, timeout_ms]
    if text.isdecimal():
        assert make_settings(ADDRESS, None, None, None, int(text)).timeout_ms == timeout_ms


def test_connection_options_between_a_command_and_the_one_below_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def session(settings: object, **_options: object) -> None:
        seen.append(settings.bootstrap)  # type: ignore[attr-defined]
        raise UsageError("far enough")

    monkeypatch.setattr("kgtool.net.session.Session", session)
    call(capsys, "cleanup", "-b", "between:9092", "plan", "--idle", "30d")
    call(capsys, "-b", "before:9092", "cleanup", "-b", "between:9092", "plan", "--idle", "30d")
    assert seen == [(("between", 9092),)] * 2


def test_completion_and_man_show_the_committed_files(capsys: Capture) -> None:
    from tests.cli.run import ROOT

    for shell, file in (("bash", "kgtool.bash"), ("zsh", "_kgtool"), ("fish", "kgtool.fish")):
        text = (ROOT / "completions" / file).read_text(encoding="utf-8")
        assert call(capsys, "completion", shell) == (0, text, "")
