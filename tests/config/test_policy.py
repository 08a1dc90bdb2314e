"""What a policy may name is what there is: a slip in it would forbid, or allow, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kgtool.cli.app.kafka_form import kafka_form
from kgtool.cli.app.root import root
from kgtool.cli.commands import SECTIONS
from kgtool.config import contexts
from kgtool.config.policy import (
    MCP_COMMANDS,
    OLD_OPTIONS,
    OPTIONS,
    option_names,
    read_policy,
    unused_guards,
)
from kgtool.errors import ConfigError
from kgtool.mcp.tools import CHANGES

CHANGING = (*SECTIONS["Change"], "restore", "undo", "request")


def options(command: click.Command) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, click.Option):
            names = (*param.opts, *param.secondary_opts)
            yield from (name for name in names if name.startswith("--"))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from options(each)


def test_the_options_are_those_of_the_commands() -> None:
    commands = [root.get_command(click.Context(root), name) for name in CHANGING]
    there = {name for one in (*commands, kafka_form) if one is not None for name in options(one)}
    assert there | OLD_OPTIONS == OPTIONS
    assert there.isdisjoint(OLD_OPTIONS - {"--all"})  # remove-members has its own


@pytest.mark.parametrize(
    ("forbidden", "typed"),
    (
        ("--all-groups", ["delete", "-A"]),
        ("--all-groups", ["delete", "--all"]),
        ("--all-groups", ["delete", "-all-groups"]),
        ("--allow-blind", ["cleanup", "apply", "--skip-activity-check"]),
        ("--skip-activity-check", ["cleanup", "apply", "--allow-blind"]),
        ("--to-latest", ["reset", "--to", "latest"]),
        ("--to-latest", ["reset", "--to=latest"]),
        ("--to-datetime", ["reset", "--to", "2h"]),
    ),
)
def test_another_name_of_an_option_is_forbidden_too(forbidden: str, typed: list[str]) -> None:
    """Kind: a spelling that slips past ``forbid``. Siblings: short, old and new names, ``--to``."""
    assert option_names(typed, [forbidden]) == {forbidden}
    assert option_names(["delete", "--to-earliest", "g"], [forbidden]) == frozenset()


def test_the_commands_are_those_of_the_server() -> None:
    assert {tool.name for tool in CHANGES} == set(MCP_COMMANDS)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('forbid = ["--yes", "--froce"]', "forbid names '--froce'", "Did you mean --force?"),
        ('forbid = ["--brokers"]', "which is no option of a command", "Did you mean --broker?"),
        ('forbid = ["--xyzzy"]', "forbid names '--xyzzy'", "Correct it, or remove it."),
        ('mcp = ["delete-ofsets"]', "mcp names 'delete-ofsets'", "Did you mean delete-offsets?"),
        ('mcp = ["list"]', "no change of the MCP server (cleanup, undo,", "Correct it,"),
    ],
)
def test_a_slip_is_refused(tmp_path: Path, text: str, said: str, hint: str) -> None:
    """Was: accepted, and nothing was forbidden."""
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_policy(str(path))
    assert refused.value.message.startswith(f"The policy {path}: ")
    assert said in refused.value.message
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize(
    ("own", "place", "pinned", "is_said"),
    [
        ("b1:9092,B2:9092", ("b2", 9092), None, True),
        ("[::1]:9092", ("::1", 9092), None, True),
        ("b1:9092", ("b1", 9093), None, False),
        ("b1:9092", ("b1", 9092), "another", False),
        ("nonsense", ("b1", 9092), None, False),
    ],
)
def test_a_context_that_was_never_used_is_known_by_its_addresses(
    own: str,
    place: tuple[str, int],
    pinned: str | None,
    is_said: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Was: no change of what a protected context will guard said that it does not yet.

    Siblings: its policy; a first use that could not be written down; Kafka's form.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts.put(contexts.Context("lab", own, is_protected=True, cluster_id=pinned))
    contexts.put(contexts.Context("ruled", own, policy="/p.toml", cluster_id=pinned))
    contexts.put(contexts.Context("free", own, cluster_id=pinned))
    assert unused_guards([place]) == (["lab", "ruled"] if is_said else [])
