"""Rows as JSON, fast: the keys are put into a form once, values are looked at column by column.

The output is that of ``json.dumps``: ASCII, valid for any name and in any locale, harmless for
any terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any


def encode(value: object) -> str:
    """Return any value as JSON."""
    import json

    return json.dumps(value)


class Form:
    """What rows with the same keys have in common."""

    def __init__(self, columns: Sequence[str]) -> None:
        keys = (encode(key).replace("%", "%%") for key in columns)
        self._form = "{" + ", ".join(f"{key}: %s" for key in keys) + "}"

    def line(self, values: Iterable[object]) -> str:
        """Return one row; ``values`` in the order of the keys."""
        scalars = _scalars()
        return self._form % tuple([scalars.get(type(value), encode)(value) for value in values])

    def lines(self, rows: Collection[Sequence[object]]) -> list[str]:
        """Return many rows that belong together: most of their columns say the same in all."""
        columns = [_column(values) for values in zip(*rows, strict=True)]
        return [self._form % row for row in zip(*columns, strict=True)]


def _column(values: tuple[object, ...]) -> Sequence[str]:
    first = values[0]
    kinds = set(map(type, values))
    encoder = _scalars().get(type(first), encode)
    if len(kinds) > 1:  # 1 and True are equal, and not the same
        scalars = _scalars()
        return [scalars.get(type(value), encode)(value) for value in values]
    if values.count(first) == len(values):
        return [encoder(first)] * len(values)
    return list(map(encoder, values))


@cache
def _scalars() -> dict[type, Callable[[Any], str]]:
    """Return how the values of most rows become JSON; ``encode`` does the others."""
    from json.encoder import encode_basestring_ascii

    return {
        int: int.__repr__,
        str: encode_basestring_ascii,
        bool: lambda value: "true" if value else "false",
        type(None): lambda _: "null",
    }
