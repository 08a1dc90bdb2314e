"""How commands and their options are declared; Click does the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kgtool.cli.app.help import examples

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def declare(name: str, *lines: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, whose help ends with these examples."""
    return click.command(name, epilog=examples(*lines))


def flag(names: str, text: str, **more: Any) -> Callable[[F], F]:
    """Declare an option without a value.

    :param names: as Click takes them, with blanks between: ``--hex hex_``.
    """
    return click.option(*names.split(), is_flag=True, help=text, **more)


def option(names: str, metavar: str | None, text: str, **more: Any) -> Callable[[F], F]:
    """Declare an option with a value."""
    return click.option(*names.split(), metavar=metavar, help=text, **more)


def repeatable(names: str, metavar: str | None, text: str, **more: Any) -> Callable[[F], F]:
    """Declare an option that may be given several times."""
    return option(names, metavar, text, multiple=True, **more)
