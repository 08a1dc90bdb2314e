"""Rows of an analysis's tables, whichever engine made them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any

from kgtool.analysis.pipeline import Analysis
from kgtool.retention.audit import Removal

Make = Callable[[], Any]
"""Makes an engine."""


def rows_of(analysis: Analysis, name: str) -> list[Any]:
    """The rows of a table as named tuples."""
    return [_named(row) for row in analysis.rows(name)]


def dicts(analysis: Analysis, name: str) -> list[dict[str, Any]]:
    """The same as dictionaries."""
    return list(analysis.rows(name))


def shown(row: Removal) -> tuple[Any, ...]:
    """The columns of ``removals`` of a row of the audit."""
    return (*row[:7], row.offset, row.commit_timestamp_ms, row.rule)


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return _kind(tuple(value))(*map(_named, value.values()))
    return [_named(each) for each in value] if isinstance(value, list) else value


@cache
def _kind(names: tuple[str, ...]) -> Any:
    return namedtuple("_kind", names)  # noqa: PYI024 - the columns are the table's
