"""Suggestions for typos: the nearest command, option, word, group or topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kgtool.cli.app.argv import FORMATS

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
        near = did_you_mean(name, options, shown=options.__getitem__)
        if name in FORMATS and "output" in options:
            near = f" (did you mean -o {name}?)"
        return f"No such option '{error.option_name}'{near or '.'}"
    missing = _NO_COMMAND.match(error.message)
    if missing and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        near = did_you_mean(missing[1], error.ctx.command.commands)
        return f"No such command '{missing[1]}'{near or '.'}"
    return error.format_message()


def _options(context: click.Context) -> dict[str, str]:
    """Return a command's options by their names without hyphens."""
    params = context.command.get_params(context)
    return {name.lstrip("-"): name for param in params for name in param.opts if name[0] == "-"}
