"""Slips of the finger: what was meant, where a word is none of those that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def did_you_mean(
    word: str, known: Iterable[str], cutoff: float = 0.6, shown: Callable[[str], str] = str
) -> str:
    """Return the end of a sentence that names the nearest word; nothing where none is near.

    :param shown: how a word is written there, an option with its hyphens for one.

    >>> did_you_mean("jsn", ["text", "json", "ndjson"]), did_you_mean("zebra", ["text"])
    (' (did you mean json?)', '')
    """
    from difflib import get_close_matches

    if word == "h":
        word = "help"
    near = get_close_matches(word, sorted(known), n=1, cutoff=cutoff)
    return f" (did you mean {shown(near[0])}?)" if near else ""


def text(error: click.UsageError) -> str:
    """Return what Click has to say, with the nearest option or value where it is a slip."""
    import click

    if isinstance(error, click.NoSuchOption):
        options = {} if error.ctx is None else _options(error.ctx)
        near = did_you_mean(error.option_name.lstrip("-"), options, shown=options.__getitem__)
        return f"No such option '{error.option_name}'{near}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        kind = error.param.type
        said = error.format_message()
        word = said.rpartition(": '")[2].partition("'")[0]
        if isinstance(kind, click.Choice):
            return said.rstrip(".") + did_you_mean(word, map(str, kind.choices), 0.5)
        return said
    return error.format_message() + _where_groups_go(error)


def _options(context: click.Context) -> dict[str, str]:
    """Return a command's options by their names without hyphens."""
    params = context.command.get_params(context)
    return {name.lstrip("-"): name for param in params for name in param.opts if name[0] == "-"}


def _where_groups_go(error: click.UsageError) -> str:
    is_extra = error.message.startswith("Got unexpected extra argument")
    if not is_extra or error.ctx is None or "group" not in _options(error.ctx):
        return ""
    return ". Names of groups go with --group"
