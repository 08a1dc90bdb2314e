"""What Kafka's tool refuses, kgtool refuses: its sentence, one line, status 2, nothing sent."""

from __future__ import annotations

import re

import pytest

from kgtool.cli.app.argv import scan
from tests.cli import recorded
from tests.cli.recorded import Run
from tests.cli.run import call

NOBODY = "127.0.0.1:1"
REFUSED = [run for run in recorded.runs() if run.exit == 1 and run.name not in ("noargs", "help")]
JOPT = re.compile(r'^Exception in thread "main" joptsimple\.\w+: ')


def _sets(text: str) -> tuple[str, list[str]]:
    """Kafka prints sets of names in another order at each run."""
    head, _, names = text.partition(": ")
    return head, sorted(re.findall(r"[\w-]+", names))


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in REFUSED])
def test_recorded(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [NOBODY if word.startswith("127.0.0.1:") else word for word in run.argv]
    if "--help" in argv:
        assert call(capsys, *argv).status == 0  # README: help is on stdout, with status 0
        return
    result = call(capsys, *argv)
    assert result.status == 2
    assert result.out == ""
    said = result.err.splitlines()
    assert len(said) == 1
    expected = run.stderr
    if JOPT.match(expected):
        expected = JOPT.sub("Error: ", expected)
        said[0] = said[0].split(" (did you mean")[0]
    assert _sets(said[0]) == _sets(expected)


BOOTSTRAP = ["--bootstrap-server", NOBODY]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([*BOOTSTRAP, "--list", "foo"], "Error: Unexpected argument 'foo'"),
        ([*BOOTSTRAP, "--list", "describe"], "Error: Unexpected argument 'describe'"),
        ([*BOOTSTRAP, "--list", "--", "x"], "Error: Unexpected argument '--'"),
        (
            [*BOOTSTRAP, "--list", "--timeout", "abc"],
            "Error: Cannot parse argument 'abc' of option timeout",
        ),
        (
            [*BOOTSTRAP, "--list", "--timeout", "9223372036854775808"],
            "Error: Cannot parse argument '9223372036854775808' of option timeout",
        ),
        (
            [*BOOTSTRAP, "--list", "--timeout", "+-5"],
            "Error: Cannot parse argument '+-5' of option timeout",
        ),
        (
            [*BOOTSTRAP, "--describe", "--group", "g", "--to-offset", "abc"],
            "Error: Cannot parse argument 'abc' of option to-offset",
        ),
        (
            [*BOOTSTRAP, "--list", "--shift-by", "1.5"],
            "Error: Cannot parse argument '1.5' of option shift-by",
        ),
        ([*BOOTSTRAP, "--list", "--timeout", "0"], "Error: --timeout takes at least 1 ms"),
        (
            [*BOOTSTRAP, "--list", "--timeout", "1000", "--timeout", "2000"],
            "Error: Found multiple arguments for option timeout, but you asked for only one",
        ),
        (
            [*BOOTSTRAP, *BOOTSTRAP, "--list"],
            "Error: Found multiple arguments for option bootstrap-server, "
            "but you asked for only one",
        ),
        (
            ["--bootstrap-server", "localhost", "--list"],
            "Error: Invalid url in bootstrap.servers: localhost",
        ),
        (
            ["--bootstrap-server", "localhost:99999", "--list"],
            "Error: Invalid port in bootstrap.servers: localhost:99999",
        ),
        (["--bootstrap-server", "", "--list"], "Error: No bootstrap server is given"),
        (
            [*BOOTSTRAP, "--list", "--command-config", "/nonexistent"],
            "Error: Can't read /nonexistent: No such file or directory.",
        ),
        ([*BOOTSTRAP, "--list", "--lagging=yes"], "Error: Option lagging does not take a value"),
        (
            [
                *BOOTSTRAP,
                "--reset-offsets",
                "--group",
                "g",
                "--all-topics",
                "--topic",
                "t",
                "--to-earliest",
            ],
            'Option "[topic]" can\'t be used with option "[all-topics]"',
        ),
        ([*BOOTSTRAP, "--describe", "--match", "["], None),
        (
            [*BOOTSTRAP, "--describe", "--regex", "(a"],
            "Error: The regular expression `(a` is invalid: missing closing ).",
        ),
        (
            [*BOOTSTRAP, "--delete-offsets", "--group", "g", "--topic", ":0"],
            "Invalid topic arg ':0', expected topic name and partitions",
        ),
        (
            [*BOOTSTRAP, "--delete-offsets", "--group", "g", "--topic", "t:-1"],
            "Invalid partition '-1' specified in topic arg 't:-1''",
        ),
        (
            [*BOOTSTRAP, "--list", "-o", "xml"],
            "Error: --output takes text, json, ndjson, csv, yaml, name, wide, not 'xml'",
        ),
        ([*BOOTSTRAP, "--list", "--state", ",,"], "Invalid state list ',,'. Valid states are: "),
        (["list", *BOOTSTRAP, "--type", "bad"], "Invalid types list 'bad'. Valid types are: "),
        (["list", *BOOTSTRAP, "foo"], None),
        ([*BOOTSTRAP, "-describe", "-unknown"], "Error: No such option '-unknown': long options"),
        (["list"], 'Error: Missing required argument "[bootstrap-server]"'),
        (["lsit", *BOOTSTRAP], "Error: No such command 'lsit' (did you mean list?)"),
        ([*BOOTSTRAP, "nosuchcommand"], "Error: No such command 'nosuchcommand'."),
        (["describe", *BOOTSTRAP], "Error: describe takes groups: names, --match GLOB"),
        (["describe", *BOOTSTRAP, "--grup", "g"], "Error: No such option"),
        (
            ["describe", *BOOTSTRAP, "--group", "g", "--members", "--lagging"],
            "Error: --lagging is about offsets: ",
        ),
        (["delete", *BOOTSTRAP, "--group", "g"], "Error: This changes the cluster"),
        (
            ["delete-offsets", *BOOTSTRAP, "--group", "g", "--topic", "t"],
            "Error: This changes the cluster",
        ),
        (
            ["delete-offsets", *BOOTSTRAP, "--group", "g", "--topic", "t:x"],
            "Error: Invalid partition 'x' specified in topic arg 't:x''",
        ),
    ],
)
@pytest.mark.usefixtures("unreachable")
def test_ours(argv: list[str], said: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, *argv)
    if said is None:  # nothing wrong with the line: it goes as far as the network
        assert result.status == 4
        return
    assert result.err.removeprefix("Error: ").startswith(said.removeprefix("Error: "))
    assert len(result.err.splitlines()) == 1
    assert result.status == 2
    assert result.out == ""


@pytest.mark.parametrize(
    "argv",
    [
        ["--list", "--all-groups"],
        ["--describe", "--group", "g", "--execute"],
        ["--list", "--state", "Dead", "--export", "--to-earliest"],
        ["--list", "--state", "Stable , empty,"],
        ["--list", "--state="],
        ["--list", "--state", "--type"],
        ["--list", "--type=Consumer"],
        ["-list"],
        ["--list", "--timeout", "99999999999"],
        ["--describe", "--group", "--list"],
        ["--describe", "--group", "-offsets", "-offsets"],
        ["--describe", "--group", "a,b", "--group", "a,b"],
        ["--delete", "--group", ""],
        ["list", "--state", "NotReady", "--type", "share,streams"],
    ],
)
@pytest.mark.usefixtures("unreachable")
def test_accepted_as_far_as_the_network(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, "--bootstrap-server", NOBODY, *argv)
    assert (result.status, result.out) == (4, "")
    assert result.err.startswith("Error: Nothing listens on 127.0.0.1:1.")


class TestScan:
    def test_single_dash_only_where_it_is_an_option(self) -> None:
        seen = scan(["-describe", "--group", "-list", "-topic", "-unknown", "-o", "json"])
        assert seen.words == [
            "--describe",
            "--group",
            "-list",
            "--topic",
            "-unknown",
            "--output",
            "json",
        ]

    def test_values_are_no_commands(self) -> None:
        assert scan(["--group", "list", "describe"]).command == "describe"

    def test_optional_values(self) -> None:
        assert scan(["--list", "--state", "Empty", "--type", "--verbose"]).options == [
            ("list", None),
            ("state", "Empty"),
            ("type", None),
            ("verbose", None),
        ]

    def test_behind_a_command_nothing_is_rewritten(self) -> None:
        assert scan(["list", "-list", "--", "-state"]).words == ["list", "-list", "--", "-state"]


@pytest.mark.parametrize(
    ("protocol", "named"),
    [("TLS", "security.protocol"), ("sasl", "security.protocol"), ("SASL_SSL", "sasl.mechanism")],
)
def test_security_is_refused_in_one_sentence(
    protocol: str, named: str, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one is known, but says nothing about the login."""
    path = f"{tmp_path}/client.properties"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# comment\nbootstrap.servers = {NOBODY}\nsecurity.protocol={protocol}\n")
    result = call(capsys, "list", "--command-config", path)
    assert result.status == 2
    assert path in result.err
    assert named in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("place", range(4))
def test_an_empty_argument_is_passed_over(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    """``"$EXTRA"`` in a script, where it is not set: Kafka's tool does not see it either."""
    options = (BOOTSTRAP, ["--describe"], ["--group=g"], ["--timeout", "50"])
    words = [word for option in (*options[:place], [""], *options[place:]) for word in option]
    assert call(capsys, *words).status == 4  # nobody listens there


def test_a_raw_request_has_no_journal_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    """Was: taken, and nothing was stored there."""
    result = call(capsys, "request", "ListGroups", "--dry-run", "--journal-copy", "s3://b/j")
    assert (result.status, result.err) == (2, "Error: No such option '--journal-copy'.\n")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--describe --group g --all-or-nothing", "--all-or-nothing does not go with --describe."),
        ("--delete --all-groups --lagging", "--lagging does not go with --delete."),
        ("--delete --group g -w 5", "--watch does not go with --delete."),
        (
            "--delete-offsets --group g --topic t --create",
            "--create does not go with --delete-offsets.",
        ),
        ("--list --watch 5", "--watch does not go with --list."),
        ("--describe --group g --committed --canary 2", "--canary does not go with --describe."),
        (
            "--reset-offsets --group g --all-topics --to-latest --lag >9",
            "--lag does not go with --reset-offsets.",
        ),
    ],
)
def test_own_options_are_not_passed_over(
    line: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Was: the groups were deleted, as though the option were not there."""
    result = call(capsys, *BOOTSTRAP, *line.split())
    assert (result.status, result.err) == (2, f"Error: {named}\n")


@pytest.mark.parametrize(
    "line", ["--list --all-groups --execute", "--describe --group g --export --to-earliest"]
)
def test_options_of_kafkas_tool_that_say_nothing_are_passed_over(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(capsys, *BOOTSTRAP, *line.split(), "--timeout", "50").status == 4


@pytest.mark.parametrize("option", ["--members", "--state"])
def test_lag_names_what_was_typed(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Was: "--lagging is about offsets", which nobody had typed."""
    result = call(capsys, "lag", *BOOTSTRAP, option)
    said = f"Error: lag shows offsets: {option} goes with kgtool describe.\n"
    assert (result.status, result.err) == (2, said)
