"""The options of ``describe`` in both forms that Kafka's tool does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kgtool.cli.app.overview import VIEW_OPTIONS, long_name
from kgtool.cli.options.named import Named
from kgtool.cli.options.times import Duration

F = TypeVar("F", bound=Callable[..., Any])

_TYPES: dict[str, Any] = {
    "--watch": Duration(bare_ms=1000),
    "--prometheus": click.Path(),
    "--by": Named(("group", "topic")),
}
_OLD_NAMES = {"--read-committed": ("--committed",)}


def view_options(function: F) -> F:
    """Add ``--lagging``, ``--columns``, ``--watch`` and so on."""
    for declared, text in reversed(VIEW_OPTIONS.items()):
        name = long_name(declared)
        names = (name, *_OLD_NAMES.get(name, ()), name[2:].replace("-", "_"))
        metavar = declared.rpartition(name)[2].strip()
        if metavar:
            option = click.option(*names, type=_TYPES.get(name), metavar=metavar, help=text)
        else:
            option = click.option(*names, is_flag=True, help=text)
        function = option(function)
    return function
