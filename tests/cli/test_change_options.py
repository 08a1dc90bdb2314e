"""The options of a change: one value, the same from each command that changes a cluster.

Kind: an option that a command declares and does not hand on, or that another part sets meanwhile.
"""

from __future__ import annotations

import ast
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from kgtool.changes.cleanup import plan_file
from kgtool.changes.cleanup.plan_file import CleanupPlan, PlanHeader
from kgtool.changes.restore.backup import BackupWriter, header_of
from kgtool.cli.app.main import main
from kgtool.cli.app.root import root
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import origin
from kgtool.cli.commands import COMMANDS
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.errors import UsageError

GIVEN = {
    "--yes": None,
    "--dry-run": None,
    "--canary": "2",
    "--max-groups": "7",
    "--confirm": "id",
    "--reason": "TICKET-17",
    "--journal-copy": "s3://bucket/journals",
}
WANTED = ChangeOptions(True, True, False, 2, 7, "id", "TICKET-17", "s3://bucket/journals")
NAMES = {name.lstrip("-").replace("-", "_") for name in GIVEN}


def changing() -> dict[str, click.Command]:
    """Commands that have all options of a change."""
    context = click.Context(root)
    found = {name: root.get_command(context, name) for name in COMMANDS}
    every = {name: command for name, command in found.items() if command is not None}
    for name, command in list(every.items()):
        if isinstance(command, click.Group):
            every |= {f"{name} {inner}": each for inner, each in command.commands.items()}
    return {n: c for n, c in every.items() if {p.name for p in c.params} >= NAMES}


CHANGING = changing()


def test_these_change_a_cluster() -> None:
    assert set(CHANGING) == {
        *("delete", "delete-offsets", "reset-offsets", "keep", "remove-members", "configs"),
        *("restore", "undo", "recover", "cleanup apply", "retention apply"),
    }


MORE = {
    "configs": ["--alter", "--add-config", "k=v", "--group", "g"],
    "reset-offsets": ["--group", "g", "--all-topics", "--to-latest", "--execute"],
    "delete-offsets": ["--group", "g", "--topic", "t"],
    "remove-members": ["--group", "g", "--all"],
    "restore": ["saved"],
    "undo": ["last"],
    "cleanup apply": ["plan.json"],
    "retention apply": ["rules.toml"],
}


@pytest.mark.parametrize("name", CHANGING)
def test_each_command_gets_all_of_them(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What each asks before anything is sent, once its files are read."""
    monkeypatch.chdir(tmp_path)
    with BackupWriter(Path("saved"), header_of(None, 0, {})) as writer:
        writer.finish()
    header = PlanHeader("id", None, 0, "", "me", "test", {})
    plan_file.write(CleanupPlan(header, ()), Path("plan.json"))
    Path("rules.toml").write_text('[[groups]]\nmatch = "a"\nretention = "90d"\n')
    found: list[ChangeOptions] = []

    def require(change: ChangeOptions) -> None:
        found.append(change)
        raise confirm.Declined("Nothing changed.")

    monkeypatch.setattr(confirm, "require", require)
    given, wanted = dict(GIVEN), WANTED
    if name == "reset-offsets":  # --execute instead
        del given["--dry-run"]
        wanted = wanted._replace(dry_run=False)
    words = [word for pair in given.items() for word in pair if word]
    main([*name.split(), *MORE.get(name, ["--group", "g"]), *words, "--bootstrap-server", "b:1"])
    assert found == [wanted]


def test_a_canary_and_all_or_nothing_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        ChangeOptions(canary=1, all_or_nothing=True).checked()


def test_the_journal_is_told_all_of_them() -> None:
    output = Output("text", "delete")
    output.arguments = ["delete", "g"]
    told = origin(output, WANTED, "J1")
    assert told == ("delete", ["delete", "g"], "TICKET-17", "J1", "id", 7, "s3://bucket/journals")


def test_output_has_no_settings_of_a_change() -> None:
    assert vars(Output()).keys().isdisjoint({*ChangeOptions._fields, "max_delete"})


def test_no_attribute_is_set_by_a_string() -> None:
    """But for the streams of ``sys`` that the caller has closed."""
    cli = Path(confirm.__file__).parents[1]
    found = [
        path.name
        for path in cli.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "setattr"
    ]
    assert found == ["main.py"]


class _Guard:
    """A protected cluster, as ``Guard`` says it."""

    key = "cluster-id"
    rules = SimpleNamespace(protected_by=["prod"])

    def __init__(self, _session: Any, origin: Any) -> None:
        self._origin = origin

    def is_confirmed(self) -> bool:
        return bool(self._origin.confirm == self.key)

    def admit(self, *_: Any) -> None:
        assert self.is_confirmed()


def test_what_was_confirmed_by_its_name_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary's second question does not ask for it again."""
    prompts: list[str] = []
    monkeypatch.setattr(confirm, "Guard", _Guard)
    monkeypatch.setattr(confirm.click, "confirm", lambda *_, **__: True)
    monkeypatch.setattr(confirm.click, "prompt", lambda text, **_: prompts.append(text) or "prod")
    session: Any = SimpleNamespace(
        settings=SimpleNamespace(context=None, bootstrap=[("b", 9092)]),
        loop=SimpleNamespace(extend=lambda _seconds: None),
    )
    output = Output("text", "delete", io.StringIO(), io.StringIO())
    agreed = confirm.ask(session, output, ChangeOptions(reason="why"), "Delete 2 groups?")
    assert agreed == ChangeOptions(reason="why", confirm="cluster-id")
    assert confirm.ask(session, output, agreed, "Go on with the other group?") == agreed
    assert len(prompts) == 1
