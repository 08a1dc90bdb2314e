"""An option's value that is one of a few names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.app.suggest import did_you_mean
from kgtool.errors import UsageError

if TYPE_CHECKING:  # generic since Click 8.2
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice


class Named(_Choice):
    """As Click's choice, but a slip of the finger gets the name that was meant.

    :param shown_by: what the names are, where they are too many to be listed in a sentence.
    """

    def __init__(self, choices: Sequence[str], shown_by: str | None = None) -> None:
        super().__init__(choices)
        self._listed = shown_by or ", ".join(choices)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises UsageError where it is none of them."""
        if value in self.choices:
            return str(value)
        near = did_you_mean(str(value), map(str, self.choices), 0.4)
        option = param.opts[-1] if param is not None else "this"
        raise UsageError(f"{option} takes {self._listed}, not '{value}'{near}")
