"""The root of the subcommand form: a Click group that imports a command only to run it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from kgtool.cli.argv import Scan
from kgtool.cli.commands import COMMANDS
from kgtool.cli.options import connection_params, output_params
from kgtool.cli.overview import overview
from kgtool.cli.slips import did_you_mean
from kgtool.errors import UsageError


class LazyGroup(click.Group):
    """A group whose commands are files in ``kgtool.cli.commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's file."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"kgtool.cli.commands.{cmd_name.replace('-', '_')}")
        from kgtool.cli.help import shorten

        return shorten(module.command)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help text that is also shown without Click."""
        return overview().rstrip("\n")


@click.group("kgtool", cls=LazyGroup)
@connection_params
@output_params
def root(**_given: Any) -> None:
    """Look after Kafka consumer groups and their committed offsets."""


def check_command(seen: Scan) -> None:
    """Raise UsageError for a command that does not exist, with the nearest that does."""
    name = seen.command or ""
    if name in COMMANDS:
        return
    if name in ("help", "version"):
        raise UsageError(f"No such command '{name}' (did you mean --{name}?)")
    near = did_you_mean(name, COMMANDS)
    raise UsageError(f"No such command '{name}'{near or '. kgtool --help lists them.'}")
