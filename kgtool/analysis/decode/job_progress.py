"""Progress of a running job: what its workers have read, and the tasks of the running stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class ReadCounters(NamedTuple):
    """Accumulators of Spark; a task's counts are added when it ends."""

    records: Any
    bytes: Any

    @classmethod
    def of(cls, session: Any) -> ReadCounters:
        """Counters at zero."""
        context = session.sparkContext
        return cls(context.accumulator(0), context.accumulator(0))

    def add(self, records: int, size: int) -> None:
        """Count decoded records and their bytes."""
        self.records.add(records)
        self.bytes.add(size)


class State(NamedTuple):
    """Progress at one moment."""

    records: int
    bytes: int
    total_bytes: int
    """Of all files whose size is known; 0: of none."""
    tasks_done: int
    tasks: int

    @property
    def is_reading(self) -> bool:
        """Whether input is left; a file may be read twice, so this ends only once."""
        return self.bytes < self.total_bytes or (not self.total_bytes and not self.records)


class LocalCounters:
    """Counters of the local engine."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.total_bytes = 0

    def add(self, notes: Sequence[Any]) -> None:
        """Count what tables of notes say was read."""
        for table in notes:
            for row in table.select(["reason", "records", "bytes"]).to_pylist():
                if row["reason"] is None:
                    self.records += row["records"] or 0
                    self.bytes += row["bytes"] or 0

    def look(self) -> State:
        """The current state."""
        return State(self.records, self.bytes, self.total_bytes, 0, 0)
