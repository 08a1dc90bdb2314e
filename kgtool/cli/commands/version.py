"""``kgtool version``: the same as ``kgtool --version``."""

from __future__ import annotations

import click

from kgtool import __version__
from kgtool.cli.app.help import examples


@click.command("version", epilog=examples("kgtool version"))
def command() -> None:
    """Show the version."""
    click.echo(f"kgtool {__version__}")
