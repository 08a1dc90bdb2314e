"""``--prometheus FILE``: offsets, lag and states in Prometheus' text format, for a file collector.

The file is replaced atomically. It stays as it is when the cluster can't be reached: collectors
publish its age.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kgtool import metrics
from kgtool.cli.describe.query import DescribedGroup
from kgtool.clock import now_ms
from kgtool.durable import replace
from kgtool.errors import KgError, UsageError


def write(path: str, groups: Sequence[DescribedGroup], cluster_id: str | None, errors: int) -> None:
    """Replace the file by one with the metrics of these groups; ``errors``: how many.

    :raises KgError: it can't be written.
    """
    of_groups = metrics.of_groups([(one.description, one.rows(hidden_too=True)) for one in groups])
    text = metrics.render(
        [*of_groups, *metrics.of_poll(errors, now_ms())], {"cluster_id": cluster_id or ""}
    )
    try:
        replace(Path(path), [text.encode()])
    except OSError as error:
        raise KgError(f"Can't write the metrics to {path}: {error.strerror or error}.") from error


def check(path: str) -> None:
    """Raise UsageError, before anything is sent, if the file can't be written."""
    folder = Path(path).parent
    if Path(path).is_dir() or not folder.is_dir():
        raise UsageError(f"--prometheus: {path} is not a file in a folder that exists.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--prometheus: the folder {folder} can't be written to.")
