"""Values of options that are one of a few names, or a number in a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.app.suggest import did_you_mean
from kgtool.errors import UsageError

if TYPE_CHECKING:  # generic since Click 8.2
    _Choice = click.Choice[str]
    _Number = click.ParamType[int]
else:
    _Choice = click.Choice
    _Number = click.ParamType


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
        raise UsageError(f"{option} takes {self._listed}, not '{value}'{near or '.'}")


class Number(_Number):
    """A whole number, as Click's range, refused in one sentence."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Raises UsageError where it is none, or out of the range."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            span = f"from {self._least}" + (f" to {self._most:,}" if self._most else " on")
            option = param.opts[-1] if param is not None else "this"
            raise UsageError(f"{option} takes a whole number {span}, not '{value}'.")
        return number
