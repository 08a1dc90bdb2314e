"""What Spark's event log says of the tasks of a run."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


def options(folder: Path) -> list[str]:
    """Arguments of ``kgtool analyze`` that make Spark write it."""
    settings = {
        "enabled": "true",
        "dir": folder.as_uri(),
        "compress": "false",
        "rolling.enabled": "false",
    }
    return [
        word
        for name, value in settings.items()
        for word in ("--conf", f"spark.eventLog.{name}={value}")
    ]


class Stage(NamedTuple):
    """One stage; lists have one entry a task."""

    name: str
    seconds: float
    records: list[int]
    """Read from other tasks (shuffled)."""
    times: list[float]
    spilled_mb: int

    def line(self) -> str:
        """In one line."""
        return (
            f"{self.seconds:7.0f} s  {len(self.times):4} tasks, longest {max(self.times):.0f} s; "
            f"{sum(self.records):,} records shuffled, at most {max(self.records):,} a task; "
            f"{self.spilled_mb:,} MB spilled  ({self.name})"
        )


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in folder.iterdir():
        if not path.name.startswith("."):
            yield from map(json.loads, path.read_text().splitlines())


def busy_seconds(folder: Path) -> float:
    """How long any task was running: without start-up, and without plans being made."""
    spans = sorted(
        (event["Task Info"]["Launch Time"], event["Task Info"]["Finish Time"])
        for event in _events(folder)
        if event["Event"] == "SparkListenerTaskEnd"
    )
    busy, until = 0, 0
    for start, end in spans:
        busy += max(end - max(start, until), 0)
        until = max(until, end)
    return busy / 1000


def stages(folder: Path) -> list[Stage]:
    """Every stage that ran."""
    names: dict[int, str] = {}
    tasks: dict[int, list[Any]] = defaultdict(list)
    for event in _events(folder):
        if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            tasks[event["Stage ID"]].append(event["Task Metrics"])
        elif event["Event"] == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            names[info["Stage ID"]] = info["Stage Name"].split(" at ")[0]
    return [_stage(names.get(number, "?"), some) for number, some in sorted(tasks.items())]


def _stage(name: str, tasks: list[Any]) -> Stage:
    times = [task["Executor Run Time"] / 1000 for task in tasks]
    records = [task["Shuffle Read Metrics"]["Total Records Read"] for task in tasks]
    spilled = sum(task["Disk Bytes Spilled"] for task in tasks) >> 20
    return Stage(name, sum(times), records, times, spilled)
