"""How commands and their options are declared; Click does the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from kgtool.cli.app.argv import REPEATABLE, WITHOUT_VALUE
from kgtool.cli.app.help import Command, Group, examples
from kgtool.cli.app.overview import parts

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def declare(name: str, *lines: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, whose help ends with these examples."""
    return click.command(name, cls=Command, epilog=examples(*lines))


def group(name: str, *lines: str) -> Callable[[Callable[..., Any]], click.Group]:
    """Make a function a command that has commands of its own."""
    return click.group(name, cls=Group, epilog=examples(*lines))


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


def added(function: F, *options: Callable[[F], F]) -> F:
    """Add options to a command, the last one first in its help."""
    for each in options:
        function = each(function)
    return function


def overviewed(
    function: F, texts: dict[str, str], types: Mapping[str, Any], *, metavars: bool
) -> F:
    """Add options described by the overview (``app.overview``), in its order.

    :param types: the types of some values, by the options' names without dashes.
    """
    for declared, text in reversed(texts.items()):
        name, value = parts(declared)
        names = [f"--{name}"]
        more: dict[str, Any] = {"type": types.get(name), "multiple": name in REPEATABLE}
        if not value:
            more = {"is_flag": True}
        elif value.startswith("["):
            more |= {"is_flag": False, "flag_value": ""}
        metavar = value if value and metavars else None
        if metavar and name in WITHOUT_VALUE:
            metavar = f"[{metavar}]"
        function = click.option(*names, help=text, metavar=metavar, **more)(function)
    return function
