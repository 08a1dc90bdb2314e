"""What a new user typed in the first hour, and got no answer to. No broker, no Java."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kgtool.cli.app.overview import overview
from kgtool.cli.commands.delete_offsets import _headline
from kgtool.cli.output.errors import together
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import TableStream
from kgtool.columns import shown
from kgtool.columns.changes import RESTORE
from kgtool.model import GroupOffsetDeletions, ItemError, OffsetDeletion, Target
from kgtool.protocol import codes
from tests.cli.run import call
from tests.cli.test_slips import refused

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("retention show", "Missing argument 'FILE', as in: kgtool retention show retention.toml"),
        ("retention apply", "'FILE|PLAN.json', as in: kgtool retention apply retention.toml"),
        (
            "retention apply payments-* 90d",
            "unexpected extra argument (90d), as in: kgtool retention",
        ),
        ("recover", "Missing argument 'GROUP...', as in: kgtool recover billing --dry-run"),
        ("cleanup apply", "Missing argument 'PLAN.json', as in: kgtool cleanup apply plan.json"),
        ("cleanup plan console-*", "takes no names: --match 'console-*', or --group."),
        ("cleanup plan billing", "takes no names: --group billing, or --match."),
        ("configs show", "'show' is not a group (or is it --group show?): kgtool configs GROUP"),
        ("help rates", "No such command 'rates' (did you mean lag --rates?)"),
        ("help report", "(did you mean analyze --report FILE.html?)"),
        ("context add", "Missing argument 'NAME', as in: kgtool context add"),
    ],
)
def test_a_stop_has_an_answer(capsys: Capture, line: str, said: str) -> None:
    refused(
        call(capsys, *line.split(), *(() if line[:4] in ("cont", "help") else ("-b", "h:1"))), said
    )


def test_a_folder_is_not_stdout(capsys: Capture) -> None:
    refused(call(capsys, "export", "-b", "h:1"), "Missing option '--out DIR'.")
    refused(call(capsys, "backup", "g", "-b", "h:1"), "Missing option '--out FILE'; - is stdout.")


@pytest.mark.parametrize("word", ["policy", "rates", "report", "backup", "expires", "members"])
def test_the_overview_has_the_words_that_are_looked_for(word: str) -> None:
    text = overview()
    assert word in text
    assert 40 <= text.count("\n") <= 48


def _listings() -> Iterator[str]:
    from kgtool.cli.app.root import root
    from kgtool.cli.commands import COMMANDS

    context = click.Context(root, info_name="kgtool")
    for name in COMMANDS:
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield command.get_help(click.Context(command, info_name=name, parent=context))


def test_the_commands_of_a_command_are_listed_with_a_whole_sentence() -> None:
    lists = [text.partition("\nCommands:\n")[2].partition("\n\n")[0] for text in _listings()]
    assert len(lists) >= 4
    assert all(lists)
    assert [line for text in lists for line in text.split("\n") if line.endswith("...")] == []


def _refusals(topic: str, count: int, code: int, hint: str | None = None) -> list[ItemError]:
    known = codes.code(code)
    return [
        ItemError(Target("g", topic, n, None), code, known.name, known.message, hint)
        for n in range(count)
    ]


def test_what_fails_alike_is_said_once_a_topic() -> None:
    subscribed = codes.GROUP_SUBSCRIBED_TO_TOPIC
    errors = _refusals("orders", 6, subscribed, "Stop them.") + _refusals(
        "clicks", 1, subscribed, "Stop u."
    )
    output = Output("text", "delete-offsets", io.StringIO(), io.StringIO())
    rows = [OffsetDeletion("g", e.target.topic or "", e.target.partition, "f", e) for e in errors]
    _headline(output, GroupOffsetDeletions("g", rows), is_dry=False, is_off=False)
    assert isinstance(output.stderr, io.StringIO)
    said = output.stderr.getvalue().splitlines()
    assert [line.partition(": Del")[0] for line in said] == [
        "Error: group g, 6 partitions of orders",
        "Error: group g, clicks:0",
    ]
    assert all(line.endswith(("Stop them.", "Stop u.")) for line in said)


def test_partitions_that_do_not_exist_are_named_once() -> None:
    errors = _refusals("t", 3, codes.UNKNOWN_TOPIC_OR_PARTITION)
    assert len(together(errors)) == 1
    output = Output("text", "restore", io.StringIO(), io.StringIO())
    output.hold_unknown(lambda _: "Did you mean tt?")
    for error in errors:
        output.failed(error)
    output.release_unknown(may_ask=True)
    assert isinstance(output.stderr, io.StringIO)
    said = "Error: 3 partitions of t do not exist. Did you mean tt?\n"
    assert output.stderr.getvalue() == said
    assert [error.target.partition for error in output.errors] == [0, 1, 2]


def test_many_results_have_a_total_in_a_pipe_too() -> None:
    row = {"group": "g", "topic": "t", "partition": 0, "status": "restored", "error": None}
    for count, said in ((TableStream.FOLDED, ""), (TableStream.FOLDED + 1, "21 restored.\n")):
        output = Output("text", "undo", io.StringIO(), io.StringIO())
        with TableStream(output, shown(RESTORE), folds=True) as table:
            table.add([row] * count)
        assert isinstance(output.stderr, io.StringIO)
        assert output.stderr.getvalue() == said


@pytest.mark.parametrize("words", ["lag --expiry", "lag g --expiry", "describe g --by partition"])
def test_expiry_goes_with_single_partitions(capsys: Capture, words: str) -> None:
    """It gets as far as the cluster, which does not answer."""
    result = call(capsys, *words.split(), "--expiry", "-b", "127.0.0.1:1", "--timeout", "1s")
    assert "leave out" not in result.err
    assert "127.0.0.1:1" in result.err


@pytest.mark.parametrize(
    ("words", "is_said"),
    [
        (["--protected"], True),
        (["--policy", "p.toml"], True),
        (["--protected", "--cluster-id", "A" * 22], False),
        (["--not-protected"], False),
    ],
)
def test_a_guard_that_does_not_hold_everywhere_yet_says_so(
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    is_said: bool,
) -> None:
    """The cluster was changed at once by its address, though the context had just been added."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    tmp_path.joinpath("p.toml").write_text("max_groups = 1\n")
    done = call(capsys, "context", "add", "lab", "--bootstrap-server", "h:1", *words)
    assert done.status == 0, done
    said = "It guards the cluster only as --context lab until its id is known: kgtool --context lab"
    assert (said in " ".join(done.err.split())) == is_said
