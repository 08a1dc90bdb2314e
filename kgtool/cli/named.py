"""An option's value that is one of a few names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kgtool.errors import UsageError

if TYPE_CHECKING:  # generic since Click 8.2
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice


class Named(_Choice):
    """As Click's choice, but a slip of the finger gets the name that was meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises UsageError where it is none of them."""
        from difflib import get_close_matches

        if value in self.choices:
            return str(value)
        near = get_close_matches(str(value), list(map(str, self.choices)), n=1, cutoff=0.5)
        option = param.opts[-1] if param is not None else "this"
        said = f" (did you mean {near[0]}?)" if near else ""
        raise UsageError(f"{option} takes {', '.join(map(str, self.choices))}, not '{value}'{said}")
