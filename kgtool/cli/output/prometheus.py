"""``--prometheus FILE``: what a look found, in Prometheus' text format, for a file collector.

The file is replaced in one step, so that a collector never reads half of it. It is left alone
when the cluster can't be reached: its age, which collectors publish, then tells.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.cli.describe.query import Found
from kgtool.errors import KgError, UsageError
from kgtool.model import GroupDescription


class Metric(NamedTuple):
    """A gauge and its samples: labels and value."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, Any], float]]


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
        text = render(self._metrics(errors, now_ms), {"cluster_id": cluster_id or ""})
        try:
            _replace(self._path, text)
        except OSError as error:
            raise KgError(
                f"Can't write the metrics to {self._path}: {error.strerror or error}."
            ) from error

    def _metrics(self, errors: int, now_ms: int) -> Iterable[Metric]:
        yield self._rows("kgtool_group_lag", "Records between the committed offset and the end of "
                         "the log.", "lag")  # fmt: skip
        yield self._rows("kgtool_group_lag_seconds", "Age of the first unread record (with "
                         "--time-lag).", "lag_ms", 1000)  # fmt: skip
        yield self._rows("kgtool_group_committed_offset", "The committed offset.",
                         "current_offset")  # fmt: skip
        yield self._rows("kgtool_group_offset_expires_timestamp_seconds", "When the broker may "
                         "remove the committed offset (with --expiry).", "expires_at_ms",
                         1000)  # fmt: skip
        yield self._log_ends()
        yield Metric(
            "kgtool_group_members", "Members of the group.",
            [({"group": g.group}, len(g.members)) for g, _ in self._groups],
        )  # fmt: skip
        yield Metric(
            "kgtool_group_state", "1 for the state that the group is in.",
            [({"group": g.group, "state": g.state, "type": g.type or ""}, 1)
             for g, _ in self._groups],
        )  # fmt: skip
        yield Metric("kgtool_errors", "Groups and partitions that could not be looked at.",
                     [({}, errors)])  # fmt: skip
        yield Metric("kgtool_last_look_timestamp_seconds", "When this was found out.",
                     [({}, now_ms / 1000)])  # fmt: skip

    def _rows(self, name: str, help_: str, key: str, divisor: int = 1) -> Metric:
        samples = [
            ({k: row[k] for k in ("group", "topic", "partition")}, row[key] / divisor)
            for _, found in self._groups
            for row in found
            if row.get(key) is not None
        ]
        return Metric(name, help_, samples)

    def _log_ends(self) -> Metric:
        ends = {
            (row["topic"], row["partition"]): row["log_end_offset"]
            for _, found in self._groups
            for row in found
            if row["log_end_offset"] is not None
        }
        return Metric(
            "kgtool_log_end_offset", "Where the log of a partition ends.",
            [({"topic": t, "partition": p}, end) for (t, p), end in sorted(ends.items())],
        )  # fmt: skip


def render(metrics: Iterable[Metric], common: Mapping[str, Any]) -> str:
    r"""Return the text format; metrics without samples are left out.

    >>> print(render([Metric("m", "Help.", [({"group": 'a"b\\'}, 5.0)])], {}), end="")
    # HELP m Help.
    # TYPE m gauge
    m{group="a\"b\\"} 5
    """
    lines = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
        for labels, value in metric.samples:
            named = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**common, **labels}.items())
            lines.append(f"{metric.name}{{{named}}} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(value: object) -> str:
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


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
