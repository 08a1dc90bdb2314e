"""Reads a command line just far enough to know which form it has; needs no Click.

A word after an option that takes a value is that value: ``--group list`` is not the command
``list``. All spellings become the long one: ``-g X`` and ``-g=X``, ``-ojson``, and the long options
with a single dash that jopt-simple accepts (``-list``, ``-group=g``). Any other ``-word`` is
refused, so that ``delete -gbilling`` never means a group that was not typed.

>>> scan(["-list", "-g", "-describe"]).words
['--list', '--group', '-describe']
>>> scan(["-b=b:9092", "list"]).command
'list'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kgtool import renamed
from kgtool.cli.app.overview import KAFKA_OPTIONS, OWN_OPTIONS, VIEW_OPTIONS, parts

NO, YES, MAYBE = "no", "yes", "maybe"
"""Whether an option takes a value."""


_DECLARED = (*OWN_OPTIONS, *KAFKA_OPTIONS, *VIEW_OPTIONS)
TAKES_VALUE = {
    name: NO if not value else MAYBE if value.startswith("[") else YES
    for name, value in map(parts, _DECLARED)
}
"""Options of Kafka's form, which include those before a command: whether they take a value."""
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
"""Kafka's actions, in the order in which Kafka's tool names them."""

SHORT = {declared[1]: parts(declared)[0] for declared in _DECLARED if declared[1] != "-"}
"""The short options of all commands that have the long one."""
SHORT["q"] = "quiet"

WITHOUT_VALUE = {"watch": "5s"}
"""Options of commands whose value may be left out, and what it is then."""
_SPAN = re.compile(r"[\dPp][\w.]*", re.ASCII)
"""What may be the value of such an option: anything else is the next word."""

FORMATS = ("text", "json", "ndjson", "csv", "yaml", "name", "wide")
"""The values of ``--output``, the only ones that may follow the letter directly: ``-ojson``."""

REPEATABLE = {"group", "topic", "match", "exclude"}


class CommandLine(NamedTuple):
    """Kafka's form, or a subcommand form up to the command."""

    words: list[str]
    """All words; the options that were read are spelled out."""
    options: list[tuple[str, str | None]]
    """The options before the first bare word, with their values."""
    command: str | None
    """The first bare word."""
    strays: list[str]
    """Bare words after an action of Kafka's form, which takes none."""

    @property
    def names(self) -> set[str]:
        """The names of the options."""
        return {name for name, _ in self.options}

    def values(self, *names: str) -> list[tuple[str, str]]:
        """Return the options of these names that have a value."""
        return [
            (name, value) for name, value in self.options if name in names and value is not None
        ]

    @property
    def action(self) -> str:
        """Kafka's action before the first bare word; "" if there is none."""
        return next((action for action in ACTIONS if action in self.names), "")

    @property
    def repeated(self) -> str | None:
        """The first option given twice although it takes one value."""
        given = set()
        for name, _ in self.options:
            if name in given and TAKES_VALUE[name] != NO and name not in REPEATABLE:
                return name
            given.add(name)
        return None


def scan(arguments: Sequence[str]) -> CommandLine:
    """Read Kafka's form, or a subcommand form up to the command, which reads the rest itself."""
    words: list[str] = []
    options: list[tuple[str, str | None]] = []
    strays: list[str] = []
    read = 0
    for name, value, spelled in _walk(arguments, TAKES_VALUE):
        read += len(spelled)
        if spelled == [""]:  # "$EXTRA" that is not set: Kafka's tool passes over it
            continue
        words += spelled
        if name is not None:
            options.append((name, value))
        elif any(name in ACTIONS for name, _ in options):
            strays += spelled
        else:
            return CommandLine([*words, *arguments[read:]], options, spelled[0], [])
    return CommandLine(words, options, None, strays)


def spell_out(
    arguments: Sequence[str], takes: Mapping[str, str], *, stops_at_word: bool = False
) -> list[str]:
    """Return a command's arguments with every option in its long form.

    :param takes: the command's options without dashes, and whether they take a value.
    :param stops_at_word: the first bare word is the name of another command.
    :raises UsageError: a word with one dash is none of these options.

    >>> spell_out(["-g", "-x", "-n", "-shift-by", "-5"], {"group": YES, "dry-run": NO,
    ...     "shift-by": YES})
    ['--group', '-x', '--dry-run', '--shift-by', '-5']
    """
    words: list[str] = []
    for name, _, spelled in _walk(arguments, takes):
        words += spelled
        if name is None and (spelled[0] == "--" or stops_at_word):
            return [*words, *arguments[len(words) :]]
    return words


def _walk(
    arguments: Sequence[str], takes: Mapping[str, str]
) -> Iterator[tuple[str | None, str | None, list[str]]]:
    """Yield each option with its value, and the bare words (without a name), spelled out."""
    index = 0
    while index < len(arguments):
        word = _long(arguments[index], takes)
        index += 1
        if not word.startswith("-") or word in ("-", "--"):
            yield None, None, [word]
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in takes and renamed.OPTIONS.get(name, "") in takes:
            name = renamed.OPTIONS[name]
            word = f"--{name}{equals}{value}"
        following = arguments[index] if index < len(arguments) else None
        if equals:
            yield name, value, [word]
        elif takes.get(name) == MAYBE and name in WITHOUT_VALUE:
            if following is not None and _SPAN.fullmatch(following):
                yield name, following, [word, following]
                index += 1
            else:
                yield name, WITHOUT_VALUE[name], [f"{word}={WITHOUT_VALUE[name]}"]
        elif following is not None and (
            takes.get(name) == YES or (takes.get(name) == MAYBE and not following.startswith("-"))
        ):
            yield name, following, [word, following]
            index += 1
        else:
            yield name, None, [word]


def _long(word: str, known: Mapping[str, str]) -> str:
    """Return an option in its long form; a bare word as it is."""
    if not word.startswith("-") or word.startswith("--") or word == "-":
        return word
    name, equals, value = word[1:].partition("=")
    if name in known:
        return f"-{word}"
    long = SHORT.get(name, "")
    if long == "help" or long in known:
        return f"--{long}{equals}{value}"
    if word[1] == "o" and word[2:] in FORMATS and "output" in known:
        return f"--output={word[2:]}"
    from kgtool.errors import UsageError

    raise UsageError(f"No such option '{word}'{_advice(name, known)}")


def _advice(name: str, known: Mapping[str, str]) -> str:
    """Return the end of the refusal of an unknown option with one dash."""
    from kgtool.cli.app.nearest import did_you_mean, other_option

    long = SHORT.get(name[:1], "")
    if name.isdigit() and "shift-by" in known:
        return ": a negative number is the value of --shift-by."
    if len(name) == 1:
        none = (
            f": this command has no --{long}." if long else ": --help shows the options there are."
        )
        return other_option(name, known) or none
    if long == "output" and (near := did_you_mean(name[1:], FORMATS, shown="-o {}".format)):
        return near
    near = did_you_mean(name, known, shown="--{}".format)
    if near or long not in known:
        return near or ": long options have two dashes."
    if known[long] == NO:
        return f": write -{name[0]} or --{long}, apart."
    return f": write -{name[0]} {name[1:]} or --{long} {name[1:]}."


def last_value(arguments: Iterable[str], name: str) -> str | None:
    """Return the last value of an option anywhere on the line, which need not be valid."""
    found, is_next = None, False
    short = next((letter for letter, long in SHORT.items() if long == name), None)
    for word in arguments:
        spelled, equals, value = word.partition("=")
        if is_next:
            found, is_next = word, False
        elif spelled in (f"--{name}", f"-{name}", f"-{short}"):
            found, is_next = (value, False) if equals else (found, True)
        elif name == "output" and word.startswith("-o") and word[2:] in FORMATS:
            found = word[2:]
    return found
