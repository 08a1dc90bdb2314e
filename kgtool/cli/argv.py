"""Reads a command line just far enough to know which form it has; needs no Click.

A word is an option's value where an option before it takes one, so ``--group list`` never looks
like the command ``list``. Long options with a single dash, which jopt-simple lets Kafka's users
write (``-list``), are rewritten where ``--list`` is an option and the word is no value.

>>> scan(["-list", "--group", "describe"]).words
['--list', '--group', 'describe']
>>> scan(["--bootstrap-server", "b:9092", "list"]).command
'list'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

VALUE = {
    "bootstrap-server", "command-config", "context", "timeout", "group", "topic", "validate-regex",
    "to-offset", "shift-by", "to-datetime", "by-duration", "from-file",
    "output", "match", "regex", "exclude", "sort", "columns", "watch",
    "prometheus", "like", "wait-empty", "reason", "expiring-within",
}  # fmt: skip
OPTIONAL_VALUE = {"state", "type"}
FLAGS = {
    "list", "describe", "delete", "reset-offsets", "delete-offsets", "all-groups", "all-topics",
    "dry-run", "execute", "export", "to-earliest", "to-latest", "to-current", "members", "offsets",
    "verbose", "help", "version", "expiry",
    "no-color", "debug", "yes", "force", "lagging", "time-lag", "committed",
    "totals", "create", "all-or-nothing",
}  # fmt: skip
ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
"""Kafka's actions, in the order in which Kafka's tool names them."""

_KNOWN = VALUE | OPTIONAL_VALUE | FLAGS
_REPEATABLE = {"group", "topic", "match", "exclude"}


class Scan(NamedTuple):
    """What a command line looks like from afar."""

    words: list[str]
    """The command line with ``-list`` written as ``--list``."""
    options: list[tuple[str, str | None]]
    """The options before the first bare word, with their values."""
    command: str | None
    """The first bare word."""
    strays: list[str]
    """Bare words behind an action of Kafka's form: they belong to nothing."""

    @property
    def names(self) -> set[str]:
        """The options that were given."""
        return {name for name, _ in self.options}

    @property
    def action(self) -> str:
        """Kafka's action that stands before the first bare word; "" if there is none."""
        return next((action for action in ACTIONS if action in self.names), "")

    @property
    def repeated(self) -> str | None:
        """The first option given twice though it takes one value."""
        seen = set()
        for name, _ in self.options:
            if name in seen and name not in FLAGS and name not in _REPEATABLE:
                return name
            seen.add(name)
        return None


def scan(arguments: Sequence[str]) -> Scan:
    """Read Kafka's form, or the part of a subcommand form before the command.

    Behind the first bare word nothing is rewritten: the command knows its own options.
    """
    words: list[str] = []
    options: list[tuple[str, str | None]] = []
    strays: list[str] = []
    index = 0
    while index < len(arguments):
        word = _long(arguments[index])
        index += 1
        words.append(word)
        if not word.startswith("-") or word in ("-", "--"):
            if any(name in ACTIONS for name, _ in options):
                strays.append(word)
                continue
            return Scan([*words, *arguments[index:]], options, word, [])
        name, value = _split(word)
        if value is None and _takes_next(name, arguments, index):
            value = arguments[index]
            words.append(value)
            index += 1
        options.append((name, value))
    return Scan(words, options, None, strays)


def _long(word: str) -> str:
    name = word[1:].split("=", 1)[0]
    is_long = word.startswith("-") and not word.startswith("--") and name in _KNOWN
    return f"-{word}" if is_long else word


def _split(word: str) -> tuple[str, str | None]:
    if not word.startswith("--"):
        return ("output", word[2:].removeprefix("=") or None) if word[:2] == "-o" else (word, None)
    name, equals, value = word[2:].partition("=")
    return name, value if equals else None


def _takes_next(name: str, arguments: Sequence[str], index: int) -> bool:
    if index >= len(arguments):
        return False
    if name in OPTIONAL_VALUE:
        return not arguments[index].startswith("-")
    return name in VALUE


def last_value(arguments: Sequence[str], name: str, short: str) -> str | None:
    """Return the last value given to an option anywhere, to report errors in the right format."""
    found = None
    for index, word in enumerate(arguments):
        if word in (f"--{name}", short) and index + 1 < len(arguments):
            found = arguments[index + 1]
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
        elif word.startswith(short) and len(word) > len(short) and word[:2] != "--":
            found = word[len(short) :].removeprefix("=")
    return found
