"""Runs kgtool and kills it, with SIGKILL, at one exact step.

::

    python -m tests.changes.crash STEP REPORT ARGUMENT…

A step is everything that can be half done: each write and flush of a journal, fsync, rename, lock,
each send and receive of a socket. A write that is killed leaves half of its bytes behind. STEP 0
kills nothing and writes which steps there were into the file REPORT.

STEP is the number of a step, from 1 on; as answers come in more or fewer pieces, that is not the
same step every time. ``after send/2/1`` is: the first such step after two fsyncs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

STEP = sys.argv[1] if __name__ == "__main__" else "0"
seen: list[str] = []
places: Counter[str] = Counter()


def step(name: str, torn: Any = None) -> None:
    """Count; at the chosen step do half of the work and die."""
    seen.append(name)
    place = f"{name}/{seen.count('after fsync')}"
    places[place] += 1
    if STEP in (str(len(seen)), f"{place}/{places[place]}"):
        if torn is not None:
            torn()
        os.kill(os.getpid(), signal.SIGKILL)


class File:
    """A journal's file, unbuffered: every write is a step."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.closed = False

    def write(self, data: bytes) -> int:
        return os.write(self._number, data)

    def flush(self) -> None:
        step("flush")

    def fileno(self) -> int:
        return self._number

    def close(self) -> None:
        step("close")
        self.closed = True
        os.close(self._number)


def _wrapped(name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        step(f"before {name}")
        result = function(*args, **kwargs)
        step(f"after {name}")
        return result

    return call


_write = os.write


def _torn_write(number: int, data: bytes) -> int:
    step("write", lambda: _write(number, data[: len(data) // 2]))
    return _write(number, data)


def install() -> None:
    from kgtool.changes.journal import journal

    os.write = _torn_write
    journal.open = lambda number, _mode: File(number)  # type: ignore[attr-defined]
    os.fsync = _wrapped("fsync", os.fsync)
    Path.rename = _wrapped("rename", Path.rename)  # type: ignore[method-assign]
    journal.fcntl.flock = _wrapped("flock", journal.fcntl.flock)
    socket.socket.send = _wrapped("send", socket.socket.send)  # type: ignore[method-assign]
    socket.socket.recv = _wrapped("recv", socket.socket.recv)  # type: ignore[method-assign]


def run() -> int:
    from kgtool.cli.app.main import main

    install()
    status = main(sys.argv[3:])
    if STEP == "0":
        Path(sys.argv[2]).write_text(json.dumps(seen), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(run())
