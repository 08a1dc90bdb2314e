"""What happens at the counted request: a kill, somebody else's commit, a second kgtool."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicPartition

from tests.soak.cases import FOREIGN, KILLS, OTHER_TARGET, TOPIC, Case
from tests.soak.judge import Key, State
from tests.support import clients

if TYPE_CHECKING:
    from tests.soak.soak import Soak

FIRST = (TOPIC, "0")
"""The partition that everything is about."""


class Happening:
    """What happens to a case, and what is known of it afterwards."""

    def __init__(self, soak: Soak, case: Case, journal: Path) -> None:
        self._soak, self._case, self._journal = soak, case, journal
        self._pid: SimpleQueue[int] = SimpleQueue()
        self._lock = threading.Lock()
        self.started = self._pid.put
        self.foreign: State = {}
        self.at: float | None = None
        self.journals: set[Path] = set()
        self.problems: list[str] = []
        self.hook: Callable[[], object] | None = None
        if case.what in KILLS:
            self.hook = self._kill
        elif case.what == "two":
            self.hook = self._second
        elif case.is_raced:
            self.hook = self._commit

    def settle(self, struck: int) -> None:
        """Wait for what happens: a run that has no answer may be over before it."""
        if struck and self.hook is not None:
            clients.wait_for(lambda: self.at is not None, "what happens to be over", 60.0)

    def _kill(self) -> None:
        """Kill it, and wait until it is no more: nothing that it does comes after this."""
        with self._lock:
            if self.at is not None:
                return
            pid = self._pid.get(timeout=10)
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while _is_alive(pid) and time.monotonic() < deadline:
                time.sleep(0.005)
            self.at = time.monotonic()

    def _commit(self) -> None:
        with self._lock:
            if self.foreign:
                return
            group = self._case.groups[0]
            key: Key = (group, *FIRST)
            reader = clients.consumer(self._soak.direct, group)
            try:
                offsets = [TopicPartition(TOPIC, 0, FOREIGN, metadata="f")]
                clients.wait_for(lambda: _accepted(reader, offsets), "somebody else's commit", 10)
            finally:
                reader.close()
            done_at = time.monotonic()
            now = self._soak.state(self._case)
            self.foreign = {key: now[key]}
            self.at = done_at

    def _second(self) -> None:
        """Another kgtool, of another machine: its journals are elsewhere, and so are its locks."""
        with self._lock:
            if self.foreign or self.at is not None:
                return
            case, soak = self._case, self._soak
            argv, _ = soak.change(case, "reset-offsets", OTHER_TARGET)
            folder = self._journal.parent / "second"
            done = soak.kgtool(folder, *argv)
            done_at = time.monotonic()
            now = soak.state(case)
            # No other has that target.
            self.foreign = {k: v for k, v in now.items() if v and v[0] == OTHER_TARGET}
            self.at = done_at
            if (done.status == 0) != bool(self.foreign) or "Traceback" in done.err:
                self.problems.append(f"the second kgtool: {now}\n{done}")


def _accepted(reader: Any, offsets: list[TopicPartition]) -> bool:
    try:
        return all(p.error is None for p in reader.commit(offsets=offsets, asynchronous=False))
    except KafkaException:
        return False


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
