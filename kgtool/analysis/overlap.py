"""Whether a record may come from more than one of the inputs."""

from __future__ import annotations

from collections.abc import Sequence

from kgtool.analysis import formats
from kgtool.analysis.inputs import InputFile

_PLACED = (
    formats.SEGMENT.name,
    formats.CLUSTER.name,
    formats.PARQUET.name,
    *(kind.name for kind in formats.DUMPS),
)
"""Formats that tell where in the log a record was."""


def may_overlap(files: Sequence[InputFile]) -> bool:
    """Whether two inputs may hold the same record; segments are told apart by their names."""
    kinds = {file.format for file in files}
    if formats.PARQUET.name in kinds or len(kinds & set(_PLACED)) > 1:
        return True
    roots: dict[int, set[str]] = {}
    for file in files:
        if file.format in _PLACED:
            roots.setdefault(file.partition, set()).add(file.root)
    return any(len(some) > 1 for some in roots.values())
