"""How much memory the processes of an analysis have: Spark's JVM and the Python of its workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Peak(NamedTuple):
    """The most resident memory that processes of one kind had, in MiB.

    Pages that processes share count in each.
    """

    jvm: int = 0
    one_worker: int = 0
    all_workers: int = 0
    in_all: int = 0
    """With the driver's Python."""


class Watch:
    """Looks at the memory of a process's children once a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = Peak()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> Peak:
        """End the looking; the most there was."""
        self._ended.set()
        self._thread.join(60)
        return self._peak

    def _run(self) -> None:
        while not self._ended.wait(1):
            seen: dict[str, list[int]] = {"java": [0], "python": [0]}
            for pid in _below(self._pid):
                name, size = _process(pid)
                seen["java" if name == "java" else "python"].append(size)
            jvm, workers = max(seen["java"]), seen["python"]
            driver = _process(self._pid)[1]
            now = Peak(jvm, max(workers), sum(workers), driver + jvm + sum(workers))
            self._peak = Peak(*map(max, self._peak, now))


def _below(pid: int) -> Iterator[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [word for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from _below(int(child))


def _process(pid: int) -> tuple[str, int]:
    try:
        status: dict[str, Any] = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        return status["Name"].strip(), int(status.get("VmRSS", "0 kB").split()[0]) // 1024
    except (OSError, ValueError, KeyError):
        return "", 0
