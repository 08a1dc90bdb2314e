"""``kgtool man``: for installations where ``man`` does not find the pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

import kgtool
from kgtool.cli.app.nearest import did_you_mean
from kgtool.cli.commands import COMMANDS
from kgtool.cli.options.declare import declare
from kgtool.errors import KgError, UsageError


@declare("man", "kgtool man", "kgtool man delete-offsets")
@click.argument("name", required=False, metavar="[COMMAND]")
def command(name: str | None) -> int:
    """Show the man page of a command."""
    if name is not None and name not in COMMANDS:
        near = did_you_mean(name, COMMANDS)
        raise UsageError(f"No such command '{name}'{near or '. kgtool --help lists them.'}")
    page = shipped_file("man", "kgtool.1" if name is None else f"kgtool-{name}.1")
    if shutil.which("man") is None:
        raise KgError(
            "The program man is not installed.",
            hint=f"kgtool help {name or ''}".rstrip() + " shows the options.",
        )
    return subprocess.run(["man", "-l", str(page)], check=False).returncode


def shipped_file(folder: str, name: str) -> Path:
    """Return the path of a completion script or man page, in the package or the checkout.

    :raises KgError: this installation lacks it.
    """
    package = Path(kgtool.__file__).parent
    for base in (package / "shipped", package.parent):
        found = base / folder / name
        if found.is_file():
            return found
    raise KgError(
        f"This installation of kgtool lacks the file {folder}/{name}.",
        hint="Install it again from a wheel or a checkout.",
    )
