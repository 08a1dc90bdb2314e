"""Completions and man pages: up to date, readable, shipped; help texts that fit a screen."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kgtool.cli.app.argv import scan
from kgtool.cli.app.help import example_lines, fold
from kgtool.cli.app.kafka_form import kafka_form
from kgtool.cli.app.kafka_refusals import check
from kgtool.cli.app.overview import EXAMPLES, full_overview
from kgtool.cli.app.root import root
from kgtool.cli.commands import COMMANDS
from tests.cli import run

ROOT = Path(__file__).parents[1]
PAGES = ["kgtool", *(f"kgtool-{name}" for name in COMMANDS)]


def _command(name: str) -> click.Command:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    return command


def _all_commands() -> dict[str, click.Command]:
    found = {}
    for name in COMMANDS:
        found[name] = _command(name)
        for inner, command in getattr(found[name], "commands", {}).items():
            found[f"{name} {inner}"] = command
    return found


def _example(line: str) -> list[list[str]]:
    """The command lines of an example: what stands between ``&&`` and ``|``."""
    lines: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word in ("&&", "|"):
            lines.append([])
        elif word == ">":
            break
        else:
            lines[-1].append(word)
    return lines


class TestGenerated:
    def test_nothing_is_stale(self) -> None:
        done = subprocess.run(
            [sys.executable, "tools/docs.py", "--check"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_all_of_it_is_shipped(self) -> None:
        code = (
            "import json; from distutils.core import run_setup; "
            "print(json.dumps(run_setup('setup.py', stop_after='init').data_files))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"import setuptools; {code}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        shipped = {path: folder for folder, paths in json.loads(done.stdout) for path in paths}
        made = {
            str(path.relative_to(ROOT))
            for folder in ("man", "completions")
            for path in (ROOT / folder).glob("*")
        }
        assert set(shipped) == made
        assert shipped["man/kgtool.1"] == "share/man/man1"
        assert shipped["completions/_kgtool"] == "share/zsh/site-functions"


class TestManPages:
    @pytest.mark.parametrize("name", PAGES)
    def test_it_renders_without_a_warning(self, name: str) -> None:
        assert shutil.which("man"), "man is missing; on Debian: apt-get install man-db groff-base"
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", f"man/{name}.1"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "HOME": "/"},
        )
        assert (done.returncode, done.stderr) == (0, "")
        text = re.sub(r".\x08", "", done.stdout)
        headings = re.findall(r"^[A-Z][A-Z' ]+$", text, re.MULTILINE)
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
            assert headings.count(heading) == 1, heading
        assert re.search(r"EXAMPLES\n +(kgtool|export) ", text)

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_option_is_there(self, name: str) -> None:
        page = (ROOT / f"man/kgtool-{name}.1").read_text().replace("\\-", "-")
        for path, command in _all_commands().items():
            if path.split()[0] == name and not isinstance(command, click.Group):
                for parameter in command.params:
                    if isinstance(parameter, click.Option) and not parameter.hidden:
                        assert max(parameter.opts, key=len) in page


class TestHelp:
    @pytest.mark.parametrize("path", _all_commands())
    def test_it_fits_a_screen(
        self, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What is printed counts: Click leaves two of the shell's columns free."""
        monkeypatch.setenv("COLUMNS", "80")
        command = _all_commands()[path]
        status, text, _ = run.call(capsys, *path.split(), "--help")
        lines = text.splitlines()
        assert status == 0
        assert len(lines) <= 60
        assert max(len(line) for line in lines) <= 80
        if path in COMMANDS:
            assert "Examples:" in text
            assert lines[-1].strip() == fold(example_lines(command)[-1])[-1].strip()

    @pytest.mark.parametrize("name", COMMANDS)
    def test_examples_are_command_lines(self, name: str) -> None:
        lines = example_lines(_command(name))
        assert lines
        for line in lines:
            _check_example(line)
        assert any(line.startswith(f"kgtool {name}") for line in lines)

    def test_examples_of_the_program(self) -> None:
        assert all(f"\n  {line}\n" in full_overview() for line in EXAMPLES)
        for line in EXAMPLES:
            _check_example(line)


def _check_example(line: str) -> None:
    """Let Click and Kafka's rules read each command of a line; nothing is run."""
    for words in _example(line):
        if not words or words[0] != "kgtool":
            assert words[0] in ("export", "gzip", "jq", "head", "less", "sort"), line
            continue
        seen = scan(words[1:])
        if seen.command is None:
            check(seen, True)
            kafka_form.make_context("kgtool", words[1:])
            continue
        command, rest = _command(seen.command), words[words.index(seen.command) + 1 :]
        while isinstance(command, click.Group):
            inner = command.get_command(click.Context(command), rest[0])
            assert inner is not None, line
            command, rest = inner, rest[1:]
        command.make_context("kgtool", rest)


def test_the_pages_build_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", "docs", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "index.html").exists()
