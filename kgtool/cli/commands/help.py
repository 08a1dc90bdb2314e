"""``kgtool help [COMMAND|all|safety|kafka]``: the same as ``kgtool COMMAND --help``."""

from __future__ import annotations

import click

from kgtool.cli.app.nearest import COMMANDS_FOR, did_you_mean
from kgtool.cli.app.overview import full_overview, kafka_help, overview, safety_help
from kgtool.cli.options.declare import declare
from kgtool.errors import UsageError

PAGES = {"": overview, "all": full_overview, "safety": safety_help, "kafka": kafka_help}
_OTHER_NAMES = {"policy": "safety"}
"""Texts by what follows ``kgtool help``."""


@declare(
    "help",
    "kgtool help delete-offsets",
    "kgtool help cleanup plan",
    "kgtool help all",
    "kgtool help safety",
    "kgtool help kafka",
)
@click.argument("words", nargs=-1, metavar="[COMMAND|all|safety|kafka]")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Show the help of a command, or of Kafka's form (kgtool help kafka)."""
    text = PAGES.get(_OTHER_NAMES.get(" ".join(words), " ".join(words)))
    if text is not None:
        click.echo(text(), nl=False)
    else:
        click.echo(_context(ctx.find_root(), words).get_help())
    return 0


def _context(root: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of the command that the words name."""
    ctx, known = root, list(filter(None, PAGES))
    for word in words:
        group = ctx.command
        names = group.list_commands(ctx) if isinstance(group, click.Group) else []
        found = group.get_command(ctx, word) if isinstance(group, click.Group) else None
        if found is None:
            near = did_you_mean(word, [*names, *known])
            if ctx is root and word in COMMANDS_FOR:
                near = f" (did you mean {COMMANDS_FOR[word]}?)"
            raise UsageError(f"No such command '{word}'{near or '. kgtool --help lists them.'}")
        ctx, known = click.Context(found, info_name=word, parent=ctx), []
    return ctx
