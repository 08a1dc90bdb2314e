"""The root of the subcommand form: a Click group that imports a command only to run it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from kgtool.cli.app.argv import MAYBE, TAKES_VALUE, CommandLine, scan
from kgtool.cli.app.nearest import COMMANDS_FOR, did_you_mean
from kgtool.cli.app.overview import overview
from kgtool.cli.commands import ALIASES, COMMANDS, NOUNS, SECTIONS
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


def without_noun(line: CommandLine) -> CommandLine:
    """Return ``group describe g`` as ``describe g``, and ``groups`` as ``list``.

    :raises UsageError: the next word is not a command, and looks like one.
    """
    if line.command not in NOUNS:
        return line
    at = next(i for i in range(len(line.words)) if scan(line.words[: i + 1]).command is not None)
    before, after = line.words[:at], line.words[at + 1 :]
    inner = scan(after)
    word = inner.command
    if word is None or (word not in COMMANDS and word not in ALIASES):
        if word is not None and (near := did_you_mean(word, COMMANDS, 0.75)):
            raise UsageError(f"No such command '{line.command} {word}'{near}")
        return line._replace(command="list", words=[*before, "list", *after])
    return line._replace(command=word, words=[*before, *inner.words])


def check_command(line: CommandLine) -> None:
    """Raise UsageError for a command that does not exist, with the nearest that does."""
    from difflib import get_close_matches

    name = line.command or ""
    if name in COMMANDS or name in ALIASES:
        return
    # In --bootstrapserver b:9092 list the value looks like the command.
    for option, _ in line.options:
        if option not in TAKES_VALUE:
            known = [other for other, takes in TAKES_VALUE.items() if takes != MAYBE]
            near = did_you_mean(option, known, 0.75, "--{}".format)
            raise UsageError(f"No such option '--{option}'{near or ' before a command.'}")
    # A mistyped read never leads to a change: list-offsets is list, not reset-offsets.
    verb = name.partition("-")[0]
    others = [known for known in COMMANDS if get_close_matches(known.partition("-")[0], [verb])]
    near = f" (did you mean {verb}?)" if verb != name and verb in COMMANDS else ""
    near = did_you_mean(name, others, 0.75) or near or did_you_mean(name, SECTIONS["Look"])
    near = did_you_mean(name, COMMANDS, 1.0) or near  # what other tools call it
    near = f" (did you mean {COMMANDS_FOR[name]}?)" if name in COMMANDS_FOR else near
    raise UsageError(f"No such command '{name}'{near or '. kgtool --help lists them.'}")
