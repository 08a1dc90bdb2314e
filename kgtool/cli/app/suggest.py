"""Suggestions for typos: the nearest command, option, word, group or topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kgtool.cli.app.argv import ACTIONS, FORMATS
from kgtool.text import shell_word

if TYPE_CHECKING:
    import click

_OTHER_WORDS = {
    "jsonl": "ndjson",
    "format": "output",
    "start": "up",
    "stop": "down",
    "get": "list",
    "seek": "reset-offsets",
    "rm": "delete",
}
"""Words of other tools: kubectl, rpk, kcl, docker."""
COMMANDS_FOR = {
    "members": "describe --members",
    "member": "describe --members",
    "state": "describe --state",
    "offsets": "describe",
    "offset": "describe",
    "show": "describe",
    "topics": "lag --by topic",
    "topic": "lag --by topic",
    "consumers": "describe --members",
    "partitions": "lag --by partition",
    "shift": "reset-offsets --shift-by",
    "commits": "describe --expiry",
    "status": "lag",
    "health": "doctor",
    "check": "doctor",
    "expiry": "describe --expiry",
    "log": "undo --list",
    "journal": "undo --list",
}
"""Words that are typed as a command, and what shows or does it."""
_FEW = 5
"""Commands that are named as those that have an option."""
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)")
_NO_COMMAND = re.compile(r"No such command '([^']*)'")


def did_you_mean(
    word: str, known: Iterable[str], cutoff: float = 0.6, shown: Callable[[str], str] = str
) -> str:
    """Return the end of a sentence that names the nearest word; empty if none is near.

    :param shown: writes the word, an option with its hyphens for example.

    >>> did_you_mean("JSN", ["text", "json", "ndjson"]), did_you_mean("zebra", ["text"])
    (' (did you mean json?)', '')
    """
    near = nearest(word, known, cutoff)
    return "" if near is None else f" (did you mean {shown(near)}?)"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the word that was probably meant; None if none is near.

    >>> nearest("biling", ["billing", "payments"])
    'billing'
    """
    from difflib import get_close_matches

    names = {name.lower(): name for name in sorted(known)}
    word = word.lower()
    if (other := _OTHER_WORDS.get(word, "")) in names:
        return names[other]
    # A prefix comes first: reset is reset-offsets, although restore is nearer.
    longer = [name for name in names if len(word) > 1 and name.startswith(f"{word}-")]
    near = longer[:1] or get_close_matches(word, names, n=1, cutoff=cutoff)
    return names[near[0]] if near else None


def text(error: click.UsageError) -> str:
    """Return Click's message, with the nearest option or command."""
    import click

    if isinstance(error, click.NoSuchOption):
        options = {} if error.ctx is None else _options(error.ctx)
        name = error.option_name.lstrip("-")
        return f"No such option '{error.option_name}'{_advice(name, options) or '.'}"
    missing = _NO_COMMAND.match(error.message)
    if missing and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        near = did_you_mean(missing[1], error.ctx.command.commands)
        return f"No such command '{missing[1]}'{near or '.'}"
    extra = _EXTRA.match(error.message)
    if extra and error.ctx is not None and "group" in _options(error.ctx):
        return (
            f"{error.ctx.command_path} takes no names: --group {shell_word(extra[1])}, or --match."
        )
    return error.format_message()


def _advice(name: str, options: dict[str, str]) -> str:
    """Return the end of the refusal of an unknown option."""
    if name in FORMATS and "output" in options:
        return f" (did you mean -o {name}?)"
    if name in ACTIONS:
        return f": type kgtool {name} … or, in Kafka's form, kgtool --{name} …"
    long = {word: spelled for word, spelled in options.items() if len(word) > 1}
    near = did_you_mean(name, long, 0.8, long.__getitem__)
    if near:
        return near
    having = _commands_with(name)
    if 0 < len(having) <= _FEW:
        return f": {', '.join(having)} {'has' if len(having) == 1 else 'have'} it."
    return did_you_mean(name, long, shown=long.__getitem__)


def _commands_with(option: str) -> list[str]:
    """Return the commands that have an option."""
    from kgtool.cli.app.tree import tree, walk

    return [
        " ".join(each.path)
        for each in walk(tree())
        if each.path and any(f"--{option}" in one.names for one in each.options)
    ]


def _options(context: click.Context) -> dict[str, str]:
    """Return a command's options by their names without hyphens."""
    params = context.command.get_params(context)
    return {name.lstrip("-"): name for param in params for name in param.opts if name[0] == "-"}
