"""From which time kept offsets counted before kgtool committed them again: the journal's memory.

Keeping renews the time from which a broker counts, and once the log is compacted nothing on the
cluster tells of the one before. So a ``keep`` notes both with each result::

    {"kind": "result", …, "status": "kept", "kept": {"offset": 5, "clock_ms": …, "first_ms": …}}

``clock_ms`` is the time from which the broker counts since, ``first_ms`` the one before kgtool kept
the offset for the first time (``is_first``), or just before. It holds as long as nothing but kgtool
has committed: the offset and the time must still be those.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kgtool.changes.journal.history import entries
from kgtool.changes.journal.journal import KEEP
from kgtool.changes.journal.jsonl import records
from kgtool.model import TopicPartition

Place = tuple[str, TopicPartition]


class Clock(NamedTuple):
    """An offset, and the time from which its broker counts (ms since the epoch)."""

    offset: int | None
    clock_ms: int


class Memory(NamedTuple):
    """The first times of offsets that kgtool keeps, as far as they were asked for."""

    first_ms: Mapping[Place, int]
    has_journals: bool
    """Whether there is a journal of an earlier ``keep`` on the cluster."""


def first_times(folder: Path, cluster_id: str | None, now: Mapping[Place, Clock]) -> Memory:
    """Return from which time offsets counted before kgtool kept them, where it has.

    A keep of an offset that was kept before without a rule (``kgtool keep``) knows only the time
    before itself, so the search goes on from there, to older journals.

    :raises KgError: the folder can't be read.
    """
    left = dict(now)
    found: dict[Place, int] = {}
    has_journals = False
    for entry in entries(folder, lambda _problem: None):  # the newest first
        if entry.command != KEEP or entry.cluster_id != cluster_id:
            continue
        has_journals = True
        if not left:
            break
        for _, record in records(entry.file, lambda _damage: None):
            kept, number = record.get("kept"), record.get("partition")
            if not isinstance(kept, dict) or not isinstance(number, int):
                continue
            place = (str(record.get("group")), TopicPartition(str(record.get("topic")), number))
            if place not in left:
                continue
            first_ms, noted = kept.get("first_ms"), (kept.get("offset"), kept.get("clock_ms"))
            if isinstance(first_ms, int) and left[place] == noted:
                found[place] = first_ms
                left[place] = Clock(left[place].offset, first_ms)
                if kept.get("is_first"):
                    del left[place]
    return Memory(found, has_journals)
