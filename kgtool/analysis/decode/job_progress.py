"""How far a running job is: what its workers have read, and the tasks of what runs now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Tally(NamedTuple):
    """Counts of Spark's (accumulators); workers add to them, a task's count when it ends."""

    records: Any
    bytes: Any

    @classmethod
    def of(cls, session: Any) -> Tally:
        """Start at nothing."""
        context = session.sparkContext
        return cls(context.accumulator(0), context.accumulator(0))

    def add(self, records: int, size: int) -> None:
        """Count a part of a file that was decoded; ``size`` is in bytes."""
        self.records.add(records)
        self.bytes.add(size)


class State(NamedTuple):
    """One look at it."""

    records: int
    bytes: int
    total_bytes: int
    """Of all files whose size was known; 0: of none."""
    tasks_done: int
    tasks: int

    @property
    def is_reading(self) -> bool:
        """Whether there is more to be read; a file may be read twice, so it can be told once."""
        return self.bytes < self.total_bytes or (not self.total_bytes and not self.records)


class Counted:
    """The same of an engine that has no Spark."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.total_bytes = 0

    def see(self, notes: Sequence[Any]) -> None:
        """Count what these tables of notes say was read."""
        for table in notes:
            for row in table.select(["reason", "records", "bytes"]).to_pylist():
                if row["reason"] is None:
                    self.records += row["records"] or 0
                    self.bytes += row["bytes"] or 0

    def look(self) -> State:
        """The state now."""
        return State(self.records, self.bytes, self.total_bytes, 0, 0)
