"""Whether a record may come from more than one of the inputs."""

from __future__ import annotations

import os
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
    """Whether two inputs may hold the same record.

    Segments of one folder are told apart by their names; those of other folders may be replicas.
    """
    kinds = {file.format for file in files}
    if kinds & {formats.PARQUET.name, formats.FRAME.name} or len(kinds & set(_PLACED)) > 1:
        return True
    folders: dict[int, set[tuple[str, str]]] = {}
    for file in files:
        if file.format in _PLACED:
            folder = file.path.replace(os.sep, "/").rpartition("/")[0]
            folders.setdefault(file.partition, set()).add((file.root, folder))
    return any(len(some) > 1 for some in folders.values())
