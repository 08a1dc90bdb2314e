"""The command line as plain data, read from the Click tree.

Completions, man pages and ``--help-json`` are made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from kgtool import __version__
from kgtool.cli.app.argv import NO
from kgtool.cli.app.help import example_lines, is_common, takes
from kgtool.cli.app.kafka_form import kafka_form
from kgtool.cli.app.kafka_refusals import ALL_TYPES, STATES, TYPES
from kgtool.cli.app.nearest import did_you_mean
from kgtool.cli.app.overview import OWN_OPTIONS
from kgtool.cli.app.root import root
from kgtool.cli.commands import ALIASES, COMMANDS
from kgtool.cli.commands.help import PAGES
from kgtool.cli.commands.list import ALL_STATES
from kgtool.columns import groups
from kgtool.errors import UsageError

GROUPS, TOPICS, CONTEXTS, JOURNALS, FILES, DIRS, WORDS, LIST, ANY = (
    "groups",
    "topics",
    "contexts",
    "journals",
    "files",
    "dirs",
    "words",
    "list",
    "any",
)
"""Kinds of values: names from the cluster, paths, one of some words, a list of them with commas, or
anything."""

MADE = "Made by `make docs` from the command line itself: do not edit."
NAMES = (GROUPS, TOPICS, CONTEXTS, JOURNALS)
"""Kinds of names completed by kgtool itself (``kgtool.cli.app.completion``)."""

_BY_NAME = {"--group": GROUPS, "--like": GROUPS, "--topic": TOPICS, "--context": CONTEXTS}
_DESCRIBED = (groups.OFFSETS_TEXT, groups.MEMBERS, groups.STATE, groups.TOTALS)


class Value(NamedTuple):
    """The kind of an option's or argument's value."""

    kind: str = ANY
    words: tuple[str, ...] = ()


class Option(NamedTuple):
    """One option."""

    names: tuple[str, ...]
    help: str
    metavar: str
    takes: str
    repeats: bool
    value: Value
    is_common: bool

    @property
    def long(self) -> str:
        """The name without dashes."""
        return self.names[-1].lstrip("-")


class Argument(NamedTuple):
    """One argument."""

    metavar: str
    value: Value


class Command(NamedTuple):
    """A command, or the whole program (whose path is empty)."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]
    examples: tuple[str, ...]

    @property
    def name(self) -> str:
        """The last word of the path."""
        return self.path[-1] if self.path else ""

    @property
    def short(self) -> str:
        """The first sentence of the help."""
        return " ".join(self.help.split("\n\n")[0].split())


def walk(command: Command) -> Iterator[Command]:
    """Yield a command and all below it."""
    yield command
    for inner in command.commands:
        yield from walk(inner)


def tree() -> Command:
    """Return the program: its options are those of Kafka's form."""
    ctx = click.Context(root, info_name="kgtool")
    commands = []
    for name in COMMANDS:
        found = root.get_command(ctx, name)
        assert found is not None, name
        commands.append(_command(found, (name,), ctx))
    options = _options(kafka_form, (), click.Context(kafka_form))
    version = Option(("--version",), OWN_OPTIONS["--version"], "", NO, False, Value(), False)
    return Command((), root.help or "", (*options, version), (), tuple(commands), ())


def as_json(words: Sequence[str]) -> str:
    """Return a command and all below it as JSON; no words: the whole program.

    :raises UsageError: there is no such command.
    """
    import json

    found = tree()
    for word in words:
        inner = {command.name: command for command in found.commands}
        name = word if word in inner else ALIASES.get(word, "")
        if name not in inner:
            near = did_you_mean(word, inner)
            raise UsageError(f"No such command '{word}'{near or '. kgtool --help lists them.'}")
        found = inner[name]
    return json.dumps({"version": __version__, **_plain_values(found)}, indent=1) + "\n"


def _plain_values(item: Any) -> Any:
    """Return named tuples as objects, all below them too."""
    if hasattr(item, "_asdict"):
        return {key: _plain_values(value) for key, value in item._asdict().items()}
    return [_plain_values(each) for each in item] if isinstance(item, tuple) else item


def _command(command: click.Command, path: tuple[str, ...], parent: click.Context) -> Command:
    ctx = click.Context(command, info_name=path[-1], parent=parent)
    inner = []
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None, name
            if not found.hidden:
                inner.append(_command(found, (*path, name), ctx))
    arguments = [
        Argument(_metavar(p, ctx), _value(p, path))
        for p in command.params
        if isinstance(p, click.Argument)
    ]
    return Command(
        path,
        _plain(command.help or ""),
        _options(command, path, ctx),
        tuple(arguments),
        tuple(inner),
        tuple(example_lines(command)),
    )


def _plain(text: str) -> str:
    return "\n\n".join(part.strip("\n") for part in re.split(r"\n\s*\n", text.replace("\b", "")))


def _options(
    command: click.Command, path: tuple[str, ...], ctx: click.Context
) -> tuple[Option, ...]:
    return tuple(
        Option(
            names=tuple(sorted([*parameter.opts, *parameter.secondary_opts], key=len)),
            help=parameter.help or "",
            metavar="" if takes(parameter) == NO else _metavar(parameter, ctx),
            takes=takes(parameter),
            repeats=parameter.multiple,
            value=_value(parameter, path),
            is_common=is_common(parameter),
        )
        for parameter in command.get_params(ctx)
        if isinstance(parameter, click.Option) and not parameter.hidden
    )


def _metavar(parameter: click.Parameter, ctx: click.Context) -> str:
    return parameter.make_metavar(ctx)


def _value(parameter: click.Parameter, path: tuple[str, ...]) -> Value:
    name = max(parameter.opts, key=len)
    if name in _BY_NAME:
        return Value(_BY_NAME[name])
    words = _words(name, path)
    if words is not None:
        return words
    if isinstance(parameter.type, click.Choice):
        return Value(WORDS, tuple(str(choice) for choice in parameter.type.choices))
    if isinstance(parameter.type, click.Path):
        return Value(FILES if parameter.type.file_okay else DIRS)
    shown = (parameter.metavar or "").upper()
    if "FILE" in shown or "PATH" in shown:
        return Value(FILES)
    if path in (("context", "use"), ("context", "remove")):
        return Value(CONTEXTS)
    if path == ("undo",) and isinstance(parameter, click.Argument):
        return Value(JOURNALS)
    if path in (("help",), ("man",)) and isinstance(parameter, click.Argument):
        return Value(WORDS, (*COMMANDS, *(filter(None, PAGES) if path == ("help",) else ())))
    if isinstance(parameter, click.Argument) and "GROUP" in shown:
        return Value(GROUPS)
    return Value(DIRS if shown == "DIR" else ANY)


def _words(name: str, path: tuple[str, ...]) -> Value | None:
    """Return the words of options that Click does not know."""
    is_list = path == ("list",)
    if name == "--state" and path != ("analyze",):
        return Value(LIST, ALL_STATES if is_list else STATES)
    if name == "--type":
        return Value(LIST, tuple(word.lower() for word in (ALL_TYPES if path else TYPES)))
    if name in ("--columns", "--sort"):
        tables = (groups.EXPIRING,) if is_list else _DESCRIBED
        keys = dict.fromkeys(column.key for table in tables for column in table)
        return Value(LIST if name == "--columns" else WORDS, tuple(keys))
    return None
