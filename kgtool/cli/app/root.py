"""The root of the subcommand form: a Click group that imports a command only to run it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from kgtool.cli.app.argv import FLAGS, OPTIONAL_VALUE, VALUE, Scan
from kgtool.cli.app.overview import overview
from kgtool.cli.app.suggest import did_you_mean
from kgtool.cli.commands import ALIASES, COMMANDS, SECTIONS
from kgtool.cli.options.shared import connection_params, output_params
from kgtool.errors import UsageError


class LazyGroup(click.Group):
    """A group whose commands are files in ``kgtool.cli.commands``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's file."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"kgtool.cli.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def get_help(self, ctx: click.Context) -> str:
        """Return the help text that is also shown without Click."""
        return overview().rstrip("\n")


@click.group("kgtool", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@connection_params
@output_params
def root(**_given: Any) -> None:
    """Administer Kafka consumer groups and their committed offsets."""


def _alike(word: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, word, other).ratio() >= 0.6


def check_command(seen: Scan) -> None:
    """Raise UsageError for a command that does not exist, with the nearest that does."""
    name = seen.command or ""
    if name in COMMANDS or name in ALIASES:
        return
    # Of --bootstrapserver b:9092 list the value was taken for the command.
    for option, _ in seen.options:
        if option not in VALUE | OPTIONAL_VALUE | FLAGS:
            near = did_you_mean(option, VALUE | FLAGS, 0.75, "--{}".format)
            raise UsageError(f"No such option '--{option}'{near or ' before a command.'}")
    # Who mistypes a read is not led to a change: list-offsets is list, never reset-offsets.
    verb = name.partition("-")[0]
    others = [known for known in COMMANDS if _alike(verb, known.partition("-")[0])]
    near = f" (did you mean {verb}?)" if verb != name and verb in COMMANDS else ""
    near = did_you_mean(name, others, 0.75) or near or did_you_mean(name, SECTIONS["Read"])
    near = did_you_mean(name, COMMANDS, 1.0) or near  # what other tools call it
    raise UsageError(f"No such command '{name}'{near or '. kgtool --help lists them.'}")
