"""The options of ``describe`` in both forms that Kafka's tool does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kgtool.cli.overview import VIEW_OPTIONS

F = TypeVar("F", bound=Callable[..., Any])

_TYPES: dict[str, Any] = {"--watch": float, "--prometheus": click.Path()}


def view_options(function: F) -> F:
    """Add ``--lagging``, ``--columns``, ``--watch`` and so on."""
    for declared, text in reversed(VIEW_OPTIONS.items()):
        name, _, metavar = declared.partition(" ")
        if metavar:
            option = click.option(name, type=_TYPES.get(name), metavar=metavar, help=text)
        else:
            option = click.option(name, is_flag=True, help=text)
        function = option(function)
    return function
