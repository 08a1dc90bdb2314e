"""Completions in real shells, and the names that kgtool gives them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import run
from tests.cli.pseudo import Terminal
from tests.support import clients

COMPLETIONS = run.ROOT / "completions"
PATIENT = {"KGTOOL_COMPLETE_MS": "30000"}
"""For a busy machine; that it is 300 ms otherwise has a test of its own."""


def _shell(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is missing; on Debian, as root: apt-get install -y {name}"
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH whose first kgtool is this one."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "kgtool"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={run.ROOT} exec {sys.executable} -m kgtool.cli "$@"\n'
    )
    script.chmod(0o755)
    return f"{folder}:/usr/local/bin:/usr/bin:/bin"


class Shell:
    """An interactive shell in which kgtool is a function that shows its arguments."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def words(self, line: str) -> list[str]:
        """Type a line, Tab included, and Return; give back the words that kgtool got."""
        self._terminal.read_until(r"READY> ?(?:\x1b\[[^a-zA-Z]*[a-zA-Z])*$")
        for part in re.split(r"(\t)", line):
            self._terminal.type(part)
            time.sleep(0.05)
        # Tab works while the rest is typed ahead: Return comes when its answer is there.
        self._terminal.type("\n")
        came = self._terminal.read_until(r"ARGS((?:<[^\n]*>)*)END")
        found = re.search(r"ARGS((?:<[^\n]*>)*)END", came)
        assert found
        return re.findall(r"<([^>]*)>", found[1])

    def offered(self, line: str, until: str) -> str:
        """Type a line and Tab twice; give back what the shell shows until a pattern."""
        self._terminal.read_until(r"READY> ?(?:\x1b\[[^a-zA-Z]*[a-zA-Z])*$")
        self._terminal.type(line + "\t")
        time.sleep(0.3)
        self._terminal.type("\t")
        came = self._terminal.read_until(until)
        self._terminal.type("\x03")
        return came


FUNCTION = r"""kgtool() { printf ARGS; [ $# = 0 ] || printf '<%s>' "$@"; printf 'END\n'; }"""

BASH = f"""
PS1='READY> '
bind 'set bell-style none'; bind 'set completion-query-items 0'
bind 'set page-completions off'; bind 'set enable-bracketed-paste off'
{FUNCTION}
source {COMPLETIONS / "kgtool.bash"}
"""
ZSH = f"""
PS1='READY> '
unsetopt beep zle_bracketed_paste prompt_sp 2>/dev/null; LISTMAX=9999
fpath=({COMPLETIONS} $fpath)
autoload -U compinit; compinit -u -D
{FUNCTION}
"""


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, path: str, tmp_path: Path) -> Iterator[Shell]:
    name: str = request.param
    _shell(name)
    (tmp_path / "a-file.properties").write_text("")
    environ = {
        "PATH": path,
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "INPUTRC": "/dev/null",
        "ZDOTDIR": str(tmp_path),
        **journals(tmp_path),
        **PATIENT,
    }
    if name == "bash":
        (tmp_path / "rc").write_text(BASH)
        argv = ["bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"]
    else:
        (tmp_path / ".zshrc").write_text(ZSH)
        argv = ["zsh", "-i"]
    command = ["/bin/sh", "-c", f"cd {tmp_path} && exec {' '.join(argv)}"]
    with Terminal(command, columns=200, lines=50, env=environ) as terminal:
        yield Shell(terminal)


class TestBashAndZsh:
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("kgtool desc\t", ["describe"]),
            ("kgtool delete-\t", ["delete-offsets"]),
            ("kgtool describe --laggi\t", ["describe", "--lagging"]),
            ("kgtool describe --lagging --read-c\t", ["describe", "--lagging", "--read-committed"]),
            (
                "kgtool --bootstrap-server b:9092 desc\t",
                ["--bootstrap-server", "b:9092", "describe"],
            ),
            ("kgtool describe --group list --memb\t", ["describe", "--group", "list", "--members"]),
            ("kgtool list -o nd\t", ["list", "-o", "ndjson"]),
            ("kgtool list --output nd\t", ["list", "--output", "ndjson"]),
            ("kgtool list --output=nd\t", ["list", "--output=ndjson"]),
            ("kgtool list --state Em\t", ["list", "--state", "Empty"]),
            ("kgtool list --type shar\t", ["list", "--type", "share"]),
            ("kgtool list --type classic,shar\t", ["list", "--type", "classic,share"]),
            ("kgtool describe --sort client\t", ["describe", "--sort", "client_id"]),
            (
                "kgtool describe --columns group,client\t",
                ["describe", "--columns", "group,client_id"],
            ),
            ("kgtool sandbox stat\t", ["sandbox", "status"]),
            ("kgtool help desc\t", ["help", "describe"]),
            ("kgtool man coor\t", ["man", "coordinator"]),
            ("kgtool sandbox status --na\t", ["sandbox", "status", "--name"]),
            ("kgtool --delete-o\t", ["--delete-offsets"]),
            ("kgtool --describe --all-g\t", ["--describe", "--all-groups"]),
            ("kgtool --list --state Em\t", ["--list", "--state", "Empty"]),
            (
                "kgtool list --command-config a-f\t",
                ["list", "--command-config", "a-file.properties"],
            ),
        ],
    )
    def test_one_candidate(self, shell: Shell, line: str, words: list[str]) -> None:
        assert shell.words(line) == words

    def test_commands_are_offered(self, shell: Shell) -> None:
        came = shell.offered("kgtool d", r"(?s)(?=.*delete-offsets)(?=.*describe)(?=.*diff).*")
        for name in ("delete", "delete-offsets", "describe"):
            assert name in came
        assert "sandbox" not in came.split("kgtool d", 1)[1]

    @pytest.mark.broker
    def test_names_from_the_cluster(self, shell: Shell, bootstrap: str) -> None:
        topic = clients.create_topic(bootstrap, clients.unique("compl-topic"), 1)
        prefix = clients.unique("compl")
        odd = f"{prefix} a,b:c;$d=e'f"
        for name in (odd, f"{prefix}-plain"):
            clients.commit(bootstrap, name, {(topic, 0): 0})
        server = ["--bootstrap-server", bootstrap]
        typed = f"kgtool describe --bootstrap-server {bootstrap} --group "
        assert shell.words(f"{typed}{prefix}\\ a\t") == ["describe", *server, "--group", odd]
        typed = f"kgtool --bootstrap-server={bootstrap} --delete-offsets --topic "
        assert shell.words(f"{typed}{topic[:-3]}\t") == [
            f"--bootstrap-server={bootstrap}",
            "--delete-offsets",
            "--topic",
            topic,
        ]

    @pytest.mark.broker
    def test_recover_is_completed_by_groups_that_are_gone(
        self, shell: Shell, bootstrap: str
    ) -> None:
        """Not by one that is there, nor by one that is back."""
        topic = clients.create_topic(bootstrap, clients.unique("compl-gone"), 1)
        prefix = clients.unique("gone")
        gone, there, back = (f"{prefix}-{word}" for word in ("lost", "there", "undone"))
        for name in (gone, there, back):
            clients.commit(bootstrap, name, {(topic, 0): 0})
        clients.delete_groups(bootstrap, gone, back)
        clients.commit(bootstrap, back, {(topic, 0): 0})
        server = ["--bootstrap-server", bootstrap]
        for option in ("", "--group "):
            words = shell.words(f"kgtool recover --bootstrap-server {bootstrap} {option}{prefix}\t")
            assert words == ["recover", *server, *option.split(), gone]

    @pytest.mark.broker
    def test_undo_knows_the_journals(
        self, shell: Shell, path: str, tmp_path: Path, bootstrap: str
    ) -> None:
        made, is_what = change(tmp_path, bootstrap)
        assert shell.words("kgtool undo 2\t") == ["undo", made]
        line = "kgtool undo 2"
        offered = TestFish()._offered(path, tmp_path, line)
        assert offered == {made: f"delete-offsets of {is_what}, 1 group, 1 change: one of two"}
        undone = run.kgtool("undo", "last", "-b", bootstrap, "--yes", env=journals(tmp_path))
        assert undone.status == 0, undone
        (last,) = TestFish()._offered(path, tmp_path, line)
        assert last != made  # what is undone can't be undone; the undo can


def journals(home: Path) -> dict[str, str]:
    return {"KGTOOL_JOURNAL_DIR": str(home / "journal")}


def change(home: Path, bootstrap: str) -> tuple[str, str]:
    """Delete an offset; give back the journal's ID and the time of it."""
    topic = clients.create_topic(bootstrap, clients.unique("compl-topic"), 1)
    name = clients.unique("compl")
    clients.commit(bootstrap, name, {(topic, 0): 0})
    argv = ["delete-offsets", name, "-t", topic, "-b", bootstrap, "--yes", "--reason", "one of two"]
    done = run.kgtool(*argv, env=journals(home))
    found = re.search(r"Undo: kgtool undo (\S+)", done.err)
    assert found, done
    at = re.search(r"\d{4}-\S+Z", run.kgtool("history", env=journals(home)).out)
    assert at
    return found[1], at[0]


class TestFish:
    def _offered(self, path: str, home: Path, line: str) -> dict[str, str]:
        done = subprocess.run(
            [
                _shell("fish"),
                "--no-config",
                "-c",
                f"source {COMPLETIONS / 'kgtool.fish'}; complete -C $argv[1]",
                line,
            ],
            env={"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", **journals(home), **PATIENT},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            cwd=home,
        )
        assert done.stderr == ""
        pairs = [entry.partition("\t") for entry in done.stdout.splitlines()]
        return {name: text for name, _, text in pairs}

    @pytest.mark.parametrize(
        ("line", "offered"),
        [
            ("kgtool desc", ["describe"]),
            ("kgtool describe --lagg", ["--lagging"]),
            ("kgtool --bootstrap-server b:9092 desc", ["describe"]),
            ("kgtool describe --group list --memb", ["--members"]),
            ("kgtool list -o nd", ["ndjson"]),
            ("kgtool list --output=nd", ["--output=ndjson"]),
            ("kgtool list --state=Em", ["--state=Empty"]),
            ("kgtool delete --state Em", ["Empty"]),
            ("kgtool delete --type classic,cons", ["classic,consumer"]),
            ("kgtool sandbox stat", ["status"]),
            ("kgtool help kaf", ["kafka"]),
            ("kgtool man desc", ["describe"]),
            ("kgtool sandbox status --na", ["--name"]),
            ("kgtool --delete-o", ["--delete-offsets"]),
            ("kgtool list --command-config a-f", ["a-file.properties"]),
        ],
    )
    def test_candidates(self, path: str, tmp_path: Path, line: str, offered: list[str]) -> None:
        (tmp_path / "a-file.properties").write_text("")
        assert list(self._offered(path, tmp_path, line)) == offered

    def test_commands_come_with_what_they_do(self, path: str, tmp_path: Path) -> None:
        found = self._offered(path, tmp_path, "kgtool de")
        assert found["delete"] == "Delete groups that have no members."

    @pytest.mark.broker
    def test_names_from_the_cluster(self, path: str, tmp_path: Path, bootstrap: str) -> None:
        topic = clients.create_topic(bootstrap, clients.unique("compl-topic"), 1)
        name = clients.unique("compl a,b:c;$d")
        clients.commit(bootstrap, name, {(topic, 0): 0})
        line = f"kgtool describe --bootstrap-server {bootstrap} --group compl"
        assert name in self._offered(path, tmp_path, line)
        line = f"kgtool delete-offsets --bootstrap-server {bootstrap} --topic {topic[:-2]}"
        assert list(self._offered(path, tmp_path, line)) == [topic]


def names(kind: str, *words: str, **env: str) -> run.Result:
    return run.kgtool(*words, env={"_KGTOOL_COMPLETE": kind, **env})


class TestNames:
    def test_contexts(self, tmp_path: Path) -> None:
        env = {
            "KGTOOL_CONFIG_DIR": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
            "HOME": str(tmp_path),
        }
        assert names("contexts", **env, **PATIENT) == (0, "", "")
        for name in ("dev", "prod-eu"):
            argv = ["context", "add", name, "--bootstrap-server", "127.0.0.1:1"]
            assert run.kgtool(*argv, env=env).status == 0
        assert names("contexts", **env, **PATIENT) == (0, "dev\nprod-eu\n", "")

    @pytest.mark.broker
    def test_wherever_the_connection_stands(self, bootstrap: str, tmp_path: Path) -> None:
        topic = clients.create_topic(bootstrap, clients.unique("names"), 1)
        file = tmp_path / "client.properties"
        file.write_text(f"bootstrap.servers={bootstrap}\n")
        for words in (
            ["--bootstrap-server", bootstrap, "describe", "--group", ""],
            ["describe", f"--bootstrap-server={bootstrap}", "--group"],
            ["describe", "--command-config", str(file), "--no-such-option", "--group", "x"],
        ):
            result = names("topics", *words, **PATIENT)
            assert (result.status, result.err) == (0, "")
            assert topic in result.out.splitlines()

    @pytest.mark.broker
    def test_no_control_character_reaches_the_shell(self, bootstrap: str) -> None:
        topic = clients.create_topic(bootstrap, clients.unique("names"), 1)
        name = clients.unique("names")
        for suffix in ("", "\x1b[31m", "\nrm", "\r"):
            clients.commit(bootstrap, f"{name}{suffix}", {(topic, 0): 0})
        result = names("groups", "--bootstrap-server", bootstrap, **PATIENT)
        assert [line for line in result.out.splitlines() if line.startswith(name)] == [name]
        assert "\x1b" not in result.out

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["--bootstrap-server", "127.0.0.1:1"],
            ["--bootstrap-server", "no colon"],
            ["--bootstrap-server", "no-such-host.invalid:9092"],
            ["--command-config", "/nonexistent"],
            ["--bootstrap-server"],
        ],
        ids=" ".join,
    )
    def test_nothing_is_said_of_what_goes_wrong(self, words: list[str]) -> None:
        for kind in ("groups", "topics", "nonsense", ""):
            assert names(kind, *words) == (0, "", "")

    @pytest.mark.timed
    def test_a_cluster_that_is_silent_is_not_waited_for(self) -> None:
        """300 ms from the start of the process; the bound leaves room for a busy machine."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            took = []
            for _ in range(3):
                began = time.monotonic()
                assert names("groups", "--bootstrap-server", address) == (0, "", "")
                took.append(time.monotonic() - began)
        assert min(took) < 1.5
