"""``--prometheus FILE``: what a look found, in Prometheus' text format, for a file collector.

The file is replaced in one step, so that a collector never reads half of it. It is left alone
when the cluster can't be reached: its age, which collectors publish, then tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgtool import metrics
from kgtool.cli.describe.query import Found
from kgtool.errors import KgError, UsageError
from kgtool.model import GroupDescription


class Exporter:
    """Collects what one look finds; ``write`` makes the file of it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._groups: list[tuple[GroupDescription, Sequence[Mapping[str, Any]]]] = []

    def add(self, group: GroupDescription, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take one group with all its rows (those of ``describe --offsets``)."""
        self._groups.append((group, rows))

    def hear(self, found: Found) -> None:
        """Take what was found of one group, if it is about offsets."""
        if found.every is not None:
            self.add(found.description, found.every)

    def listen(self, show: Callable[[Found], None]) -> Callable[[Found], None]:
        """Return ``show``, but listening in."""

        def both(found: Found) -> None:
            self.hear(found)
            show(found)

        return both

    def write(self, cluster_id: str | None, errors: int, now_ms: int) -> None:
        """Replace the file; KgError if that does not work."""
        found = [*metrics.of_groups(self._groups), *metrics.of_looking(errors, now_ms)]
        text = metrics.render(found, {"cluster_id": cluster_id or ""})
        try:
            _replace(self._path, text)
        except OSError as error:
            raise KgError(
                f"Can't write the metrics to {self._path}: {error.strerror or error}."
            ) from error


def check(path: str) -> None:
    """Raise UsageError, before anything is sent, where no file can be put."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - pathlib costs start-up time
    if os.path.isdir(path) or not os.path.isdir(folder):  # noqa: PTH112
        raise UsageError(f"--prometheus: {path} is not a file in a folder that exists.")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--prometheus: the folder {folder} can't be written to.")


def _replace(path: str, text: str) -> None:
    """Write beside the file, then rename: a reader sees the old or the new, never a part."""
    # Collectors take *.prom: the half-written file must not end like that.
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(beside, "x", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        os.replace(beside, path)  # noqa: PTH105
    except BaseException:
        if os.path.exists(beside):  # noqa: PTH110
            os.unlink(beside)  # noqa: PTH108
        raise
