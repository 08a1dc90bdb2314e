"""How runs end: one sentence, the status of the contract, never a traceback."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from kgtool import __version__
from kgtool.cli.app.overview import (
    KAFKA_OPTIONS,
    OWN_OPTIONS,
    full_overview,
    kafka_help,
    overview,
    safety_help,
)
from kgtool.cli.app.root import root
from kgtool.cli.commands import COMMANDS, SECTIONS
from tests.cli import run
from tests.cli.run import Result

Kgtool = Callable[..., Result]


@pytest.mark.parametrize("module", ["kgtool", "kgtool.cli"])
def test_as_a_module(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        cwd=run.ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"kgtool {__version__}\n")


@pytest.fixture
def silent_port() -> Iterator[str]:
    """An address that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def http_port() -> Iterator[str]:
    """An address that speaks HTTP, whatever it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)


@pytest.mark.parametrize("argv", [["--version"], ["--version", "--list"], ["--list", "--version"]])
def test_version(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run.call(capsys, *argv) == (0, f"kgtool {__version__}\n", "")


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"], ["--no-color", "--help"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run.call(capsys, *argv) == (0, overview(), "")


@pytest.mark.parametrize("argv", [["help", "kafka"], ["--list", "--help"], ["--help", "--list"]])
def test_help_of_kafkas_form(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run.call(capsys, *argv) == (0, kafka_help(), "")


def test_help_names_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    from kgtool.cli.app.kafka_form import kafka_form

    text = full_overview() + kafka_help()
    assert max(map(len, text.splitlines())) <= 80
    options = [option for parameter in kafka_form.params for option in parameter.opts]
    for option in options:
        is_old = option == "--committed"  # --read-committed now; works, and is not shown
        assert f"  {option}" in text or f", {option}" in text or is_old, option
    assert set(COMMANDS) == set(root.list_commands(click.Context(root)))
    assert len(KAFKA_OPTIONS) + len(OWN_OPTIONS) > 30


def test_the_overview_is_one_screen_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """hands.md: groups of what people want, 40 to 48 lines, each command on one line."""
    lines = overview().splitlines()
    assert 38 <= len(lines) <= 48 and max(map(len, lines)) < 80
    heads = [line[:-1] for line in lines if line and line[0] != " " and line.endswith(":")]
    assert heads[:5] == ["Look", "Change", "Go back", "Understand the past", "Set up"]
    shown = [line.split()[0] for line in lines if line[:2] == "  " and line[2:3].islower()]
    assert shown == [name for part in list(SECTIONS)[:5] for name in SECTIONS[part]]
    everything = run.call(capsys, "help", "all").out
    assert everything == full_overview()
    assert all(f"\n  {name} " in everything for name in COMMANDS)


def test_safety_is_in_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.call(capsys, "help", "safety") == (0, safety_help(), "")
    for name in ("delete", "reset-offsets", "undo", "delete-offsets", "restore"):
        text = run.call(capsys, name, "--help").out
        assert "Safety (kgtool help safety): " in text
        for option in ("--canary", "--max-groups", "--reason", "--confirm", "--journal-copy"):
            assert option in safety_help()
            assert not any(re.match(rf"  {option} +[A-Z]", line) for line in text.splitlines())
            assert option in " ".join(text.split())


def test_help_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(run.call(capsys, "--help-json").out)
    assert {each["path"][0] for each in whole["commands"]} == set(COMMANDS)
    one = json.loads(run.call(capsys, "describe", "--help-json").out)
    options = {name for option in one["options"] for name in option["names"]}
    assert {"--group", "-g", "--expiry", "--watch"} <= options
    assert one["commands"] == [] and one["examples"]
    deep = json.loads(run.call(capsys, "cleanup", "plan", "--help-json").out)
    assert deep["path"] == ["cleanup", "plan"]
    assert run.call(capsys, "descrbe", "--help-json").status == 2


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run.call(capsys, name, "--help")
    assert (result.status, result.err) == (0, "")
    assert "Usage: kgtool " in result.out
    assert " ".join(COMMANDS[name].split()).rstrip(".") in " ".join(result.out.split())


def test_no_arguments_show_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.call(capsys) == (2, "", overview())


@pytest.mark.usefixtures("unreachable")
class TestUnreachable:
    @pytest.mark.parametrize(
        "argv",
        [
            ["--list"],
            ["--describe", "--all-groups"],
            ["--describe", "--group", "g", "--state"],
            ["--delete", "--group", "g"],
            ["--delete-offsets", "--group", "g", "--topic", "t"],
            ["list"],
            ["describe", "--group", "g"],
            ["delete", "--group", "g", "--yes"],
            ["delete-offsets", "--group", "g", "--topic", "t", "--yes"],
        ],
    )
    def test_is_4_and_one_line(self, kgtool: Kgtool, argv: list[str]) -> None:
        result = kgtool(*argv)
        assert result == (4, "", "Error: Nothing listens on 127.0.0.1:1. Check the port.\n")
        document = kgtool(*argv, "-o", "json").json
        assert document["command"] == argv[0].removeprefix("--")
        assert document["results"] == []
        assert [error["name"] for error in document["errors"]] == ["UNREACHABLE"]

    def test_options_before_the_command(self, kgtool: Kgtool) -> None:
        result = kgtool("-o", "json", "list")
        assert result.status == 4
        assert result.json["command"] == "list"

    def test_environment(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", "127.0.0.1:1")
        assert run.call(capsys, "list").status == 4
        assert run.call(capsys, "--list").status == 4
        monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", "nonsense")
        assert run.call(capsys, "list").status == 2


def test_a_usage_error_is_a_document_too(kgtool: Kgtool) -> None:
    result = kgtool("-o", "json", "--describe")
    assert result.status == 2
    assert result.json["command"] == "describe"
    assert [error["name"] for error in result.json["errors"]] == ["USAGE"]


def test_no_broker_at_all() -> None:
    result = run.kgtool("list", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1000")
    assert result.status == 4
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert len(result.err.splitlines()) == 1


def test_unresolvable_name() -> None:
    result = run.kgtool("list", "--bootstrap-server", "no.such.host.invalid:9092")
    assert result.status == 4
    assert "no.such.host.invalid" in result.err
    assert len(result.err.splitlines()) == 1


def test_an_http_server_is_no_kafka(http_port: str) -> None:
    result = run.kgtool("--bootstrap-server", http_port, "--list", "--timeout", "3000")
    assert result.status == 4
    assert "is a web server, not a Kafka broker" in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.timed
def test_a_silent_server_costs_no_more_than_the_timeout(silent_port: str) -> None:
    began = time.monotonic()
    result = run.kgtool("--bootstrap-server", silent_port, "--list", "--timeout", "700")
    assert time.monotonic() - began < 5
    assert result.status == 4
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_signals_end_a_run_quietly(number: int, status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        port = silent.getsockname()[1]
        process = run.start("--bootstrap-server", f"127.0.0.1:{port}", "--list", "-o", "json")
        with process, silent.accept()[0] as peer:
            assert peer.recv(1)  # it has asked something, and waits for the answer
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
    assert process.returncode == status
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
    assert json.loads(out)["errors"][0]["name"] == "INTERRUPTED"


@pytest.mark.parametrize("argv", [["--help"], ["--validate-regex", "a" * 100_000]])
def test_a_reader_that_went_away_is_no_error(argv: list[str]) -> None:
    process = run.start(*argv)
    with process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=20) == 0


def test_a_folder_that_cannot_be_made_is_no_bug(
    kgtool: Kgtool, canned: Callable[..., None]
) -> None:
    """``export --out /proc/x``: the system's own words, and which file."""
    error = FileNotFoundError(2, "No such file or directory", "/proc/x")
    canned(listing__list_groups=error)
    result = kgtool("list")
    assert (result.status, result.out) == (1, "")
    assert result.err == "Error: Can't use /proc/x: No such file or directory.\n"


class TestUnexpected:
    @pytest.fixture(autouse=True)
    def _broken(self, canned: Callable[..., None]) -> None:
        canned(listing__list_groups=ZeroDivisionError("division by zero"))

    def test_is_one_line(self, kgtool: Kgtool) -> None:
        result = kgtool("--list")
        assert result.status == 1
        assert result.err.startswith("Error: Unexpected ZeroDivisionError: division by zero.")
        assert len(result.err.splitlines()) == 1

    @pytest.mark.parametrize("argv", [["--debug", "list"], ["list", "--debug"]])
    def test_debug_shows_the_traceback(self, kgtool: Kgtool, argv: list[str]) -> None:
        result = kgtool(*argv)
        assert result.status == 1
        assert "Traceback (most recent call last)" in result.err
        assert "division by zero" in result.err.splitlines()[-1]


def test_validate_regex(kgtool: Kgtool, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's sentences; unlike Kafka's tool, an invalid one is status 1."""
    cases = {
        "foo.*": (0, "The regular expression `foo.*` is valid.\n"),
        "": (0, "The regular expression `` is valid.\n"),
        "(foo": (1, "The regular expression `(foo` is invalid: missing closing ).\n"),
        "a(?=b)": (
            1,
            "The regular expression `a(?=b)` is invalid: invalid or unsupported Perl syntax.\n",
        ),
        r"(a)\1": (1, "The regular expression `(a)\\1` is invalid: invalid escape sequence.\n"),
        "(?P<n>a)|(?<n>b)": (
            1,
            "The regular expression `(?P<n>a)|(?<n>b)` is invalid: duplicate capture group name.\n",
        ),
        "(?P<é>a)": (1, "The regular expression `(?P<é>a)` is invalid: invalid named capture.\n"),
        r"a\C": (1, "The regular expression `a\\C` is invalid: invalid escape sequence.\n"),
        r"(?P<n>a)[](?P<n>]\Q(?P<n>\C\E\(?P<n>\pC": (
            0,
            "The regular expression `(?P<n>a)[](?P<n>]\\Q(?P<n>\\C\\E\\(?P<n>\\pC` is valid.\n",
        ),
    }
    for pattern, (status, text) in cases.items():
        assert run.call(capsys, "--validate-regex", pattern) == (status, text, "")
        assert kgtool("--validate-regex", pattern) == (status, text, "")
        assert run.call(capsys, "validate-regex", "--", pattern) == (status, text, "")
    document = run.call(capsys, "--validate-regex", "(", "-o", "json").json
    assert document["results"] == [{"regex": "(", "valid": False, "message": "missing closing )"}]


def test_names_survive_a_terminal_that_knows_ascii_only() -> None:
    result = run.kgtool(
        "--validate-regex", "日本", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    )
    assert result == (0, "The regular expression `\\u65e5\\u672c` is valid.\n", "")


def test_bytes_that_are_no_utf_8_are_refused(tmp_path: Path) -> None:
    argv = [*run.command_line(), "--bootstrap-server", "127.0.0.1:1", "--describe", "--group"]
    done = subprocess.run(
        [*(word.encode() for word in argv), b"g\xff"], cwd=run.ROOT, capture_output=True, timeout=30
    )
    assert done.returncode == 2
    assert b"not valid UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_stdin_is_no_terminal() -> None:
    master, slave = pty.openpty()
    try:
        result = run.kgtool(
            "delete", "--bootstrap-server", "127.0.0.1:1", "--group", "g", stderr=slave
        )
    finally:
        os.close(slave)
        os.close(master)
    assert result.status == 2


@pytest.mark.parametrize(
    "argv", ["delete --group g --yes", "--delete --group g", "undo last --yes", "history"]
)
def test_a_system_without_fcntl_is_named(argv: str) -> None:
    """Windows: it was "Unexpected ModuleNotFoundError … This is a bug in kgtool"."""
    code = (
        "import sys; sys.modules['fcntl'] = None; from kgtool.cli.app.main import main; "
        "sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv.split(), "--bootstrap-server", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    assert len(done.stderr.splitlines()) == 1 and "Linux, macOS or WSL" in done.stderr, done
