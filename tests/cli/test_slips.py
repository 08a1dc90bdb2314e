"""Slips of the finger: one line, status 2, and the word that was meant. No broker, no Java."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from kgtool.cli.app.argv import TAKES_VALUE
from kgtool.cli.app.nearest import COMMANDS_FOR, OPTIONS_FOR
from kgtool.cli.app.root import root
from kgtool.cli.commands import COMMANDS
from tests.cli.run import Result, call

Capture = pytest.CaptureFixture[str]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its path: ``cleanup plan``."""
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for inner in command.commands.values():
                yield f"{name} {inner.name}", inner
        else:
            yield name, command


def slip(word: str) -> str:
    """Leave out a letter in the middle."""
    return word[: len(word) // 2] + word[len(word) // 2 + 1 :]


def refused(result: Result, *said: str) -> None:
    assert (result.status, result.out) == (2, ""), result
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert all(part in result.err for part in said), result.err


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_every_option_of_every_command(name: str, command: click.Command, capsys: Capture) -> None:
    params = [param for param in command.params if isinstance(param, click.Option)]
    options = {word.lstrip("-") for param in params for word in param.opts}
    long = sorted(word for word in options if len(word) > 3)
    assert long or name in ("completion", "man", "help")  # they have only --help
    for word in long:
        wrong = slip(word)
        if wrong not in options:
            refused(call(capsys, *name.split(), f"--{wrong}"), f"(did you mean --{word}?)")


@pytest.mark.parametrize("word", sorted(TAKES_VALUE))
def test_every_option_of_kafkas_form(word: str, capsys: Capture) -> None:
    wrong = slip(word)
    refused(
        call(capsys, "--bootstrap-server", "127.0.0.1:1", "--list", f"--{wrong}"),
        f"{wrong} is not a recognized option (did you mean --{word}?)",
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command(name: str, capsys: Capture) -> None:
    refused(call(capsys, slip(name)), f"(did you mean {name}?)")


@pytest.mark.parametrize("argv", [["cleanup", "plam"], ["context", "ad"], ["sandbox", "sed"]])
def test_commands_of_groups(argv: list[str], capsys: Capture) -> None:
    refused(call(capsys, *argv), "(did you mean ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["list", "-o", "jsn"], "(did you mean json?)"),
        (["list", "-o", "JSON"], "(did you mean json?)"),
        (["list", "-ojsonl"], "(did you mean -o ndjson?)"),
        (["list", "--format", "json"], "(did you mean --output?)"),
        (["get"], "(did you mean list?)"),
        (
            ["--bootstrapserver", "x", "list"],
            "'--bootstrapserver' (did you mean --bootstrap-server",
        ),
        (
            ["--bootstrap-sever", "x", "--list"],
            "'--bootstrap-sever' (did you mean --bootstrap-server",
        ),
        (["--idle", "3d", "cleanup", "plan"], "No such option '--idle' before a command."),
        (["rm", "g"], "(did you mean delete?)"),
        (["seek", "g"], "(did you mean reset-offsets?)"),
        (["describe", ""], "Error: GROUP is empty: is a variable unset?"),
        (["explain", "g", ""], "Error: GROUP is empty: is a variable unset?"),
        (["describe", "g", "--state", "--members"], "--members and --state exclude each other."),
        (["restore", "", "--yes"], "Error: FILE is empty: is a variable unset?"),
        (["analyze", "export", ""], "Error: PATH is empty: is a variable unset?"),
        (["analyze", "export", "--out", ""], "Error: --out is empty: is a variable unset?"),
        (["delete", "--all-groups", "--exclude", "", "--yes"], "Error: --exclude is empty: is a"),
        (["delete", "--all-groups", "--state=", "--yes"], "Error: --state is empty: is a variable"),
        (["keep", "--all-groups", "--type", "", "--yes"], "Error: --type is empty: is a variable"),
        (["--delete", "--all-groups", "--exclude", ""], "Error: --exclude is empty: is a variable"),
        (["backup", "--match", "", "--out", "-"], "Error: --match is empty: is a variable unset?"),
        (["restore", "f", "--regex="], "Error: --regex is empty: is a variable unset?"),
        (["sandbox", "start"], "No such command 'start' (did you mean up?)"),
        (["--list", "--output", "yml"], "(did you mean yaml?)"),
        (["doctor", "--ignore", "ghost"], "(did you mean ghost-topic?)"),
        (["doctor", "--fail-on", "problems"], "(did you mean problem?)"),
        (["request", "OffsetFtch"], "(did you mean OffsetFetch?)"),
        (["peek", "g", "--format", "jason"], "(did you mean json?)"),
        (["sandbox", "up", "--kafka-version", "4.3"], "(did you mean 4.3.1?)"),
        (["configs", "--group", "g", "--alter"], "--add-config"),
        # An option of another command, Kafka's actions behind a command, views as commands.
        (["list", "--by", "topic"], "No such option '--by': lag, describe have it."),
        (["delete", "g", "--to-latest"], "No such option '--to-latest': reset-offsets has it."),
        (
            ["lag", "--describe", "-g", "g"],
            "type kgtool describe … or, in Kafka's form, kgtool --d",
        ),
        (["list", "--list"], "type kgtool list … or, in Kafka's form, kgtool --list …"),
        (["delete", "--delete", "-g", "g"], "type kgtool delete … or, in Kafka's form, kgtool --d"),
        (["members", "g"], "No such command 'members' (did you mean describe --members?)"),
        (["offsets", "g"], "No such command 'offsets' (did you mean describe?)"),
        (["topics"], "No such command 'topics' (did you mean lag --by topic?)"),
        (["cleanup", "plan", "my g"], "kgtool cleanup plan takes no names: --group 'my g', or --m"),
        (["--describe", "a b"], "Kafka's form takes --group 'a b'; or type kgtool describe 'a b'."),
        (["--delete", "g", "-n"], "Kafka's form takes --group g; or type kgtool delete g."),
        (["lags"], "(did you mean lag?)"),
        (["describe", "--groups", "g"], "(did you mean --group?)"),
        (["reset", "g", "--topics", "t", "--to-earliest"], "(did you mean --topic?)"),
        (["reset", "g", "-t", "t"], "Where to? One of --to-offset, "),
        (["reset", "g", "--to-earliest"], "Which offsets? --topic TOPIC[:0,1] or --all-topics."),
        (["delete-offsets", "g"], "Which offsets? --topic TOPIC or --topic TOPIC:0,1."),
        (["delete", "--group"], "Option '--group' requires an argument."),
        (["delete", "-n"], "delete takes groups: names, --match GLOB or --all-groups."),
        (["describe"], "describe takes groups: names, --match GLOB or --all-groups."),
    ],
)
def test_values_and_habits(
    argv: list[str], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", "127.0.0.1:1")
    refused(call(capsys, *argv), said)


def test_what_other_tools_call_it() -> None:
    """Kind: another tool's name of an option. Siblings: one letter, long names, words, no match."""
    known = {name for _, command in commands() for param in command.params for name in param.opts}
    known |= {"--version", "--bootstrap-server"}
    others = [other for value in OPTIONS_FOR.values() for other in value.split(", ")]
    assert {other.split(" ")[0] for other in others} <= known
    assert {other.partition(",")[0].split(" ")[0] for other in COMMANDS_FOR.values()} <= {*COMMANDS}
    assert not COMMANDS_FOR.keys() & {*COMMANDS}


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("list -s h:1", "--bootstrap-server"),
        ("list -n 3", "--limit"),
        ("lag --reverse", "--sort -COLUMN"),
        ("reset g -t t --from-beginning", "--to-earliest"),
        ("reset g -t t -p 0", "--topic TOPIC:0,1"),
        ("describe g --filter x", "--match GLOB"),
        ("watch g", "lag --watch"),
        ("sandbox ls", "status"),
        ("context current", "show"),
        ("backup g", "--out FILE"),
        ("backup g -o x.json", "a file is --out FILE"),
        ("reset g --all-topics --last 2h", "(did you mean --by-duration DURATION?)"),
        ("reset g --all-topics --since 2h", "(did you mean --to-datetime TIME?)"),
        ("recover g --since 2h", "(did you mean --at TIME?)"),
        ("delete g --older-than 30d", "'--older-than': cleanup plan, analyze have --idle DUR"),
        ("cleanup plan --older-than 30d", "(did you mean --idle DURATION?)"),
        ("cleanup --match x", "No such option '--match': cleanup plan has it."),
        ("cleanup plan.json", "No such command 'plan.json': kgtool cleanup takes plan or apply."),
        ("retention billing 30d", "'billing': kgtool retention takes show, plan or apply."),
        ("top --once", "No such option '--once': kgtool lag prints one look."),
        ("list --show-labels", "groups have no labels; --match GLOB chooses by name."),
        ("list -L team", "groups have no labels; --match GLOB chooses by name."),
        ("config get-contexts", "(did you mean context, or configs of a group?)"),
        (
            "configs set g a.b=1",
            "'set' is not a group (or is it --group set?): kgtool configs g --al",
        ),
        ("configs g a.b=1", "kgtool configs g --alter --add-config a.b=1"),
        ("configs describe g", "(or is it --group describe?): kgtool configs g"),
        ("find-coordinator g", "(did you mean coordinator?)"),
        ("rates", "(did you mean lag --rates?)"),
        ("report", "(did you mean analyze --report FILE.html?)"),
        ("policy", "(did you mean help safety?)"),
    ],
)
def test_habits_have_an_answer(capsys: Capture, line: str, meant: str) -> None:
    refused(call(capsys, *line.split(), "-b", "h:1"), meant)
