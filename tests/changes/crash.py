"""Runs kgtool and kills it, with SIGKILL, at one exact step.

::

    python -m tests.changes.crash STEP REPORT ARGUMENT…

A step is everything that can be half done: each write and flush of a journal, fsync, rename, lock,
each send and receive of a socket. A write that is killed leaves half of its bytes behind. STEP 0
kills nothing and writes which steps there were into the file REPORT.

STEP is the number of a step, from 1 on; as answers come in more or fewer pieces, that is not the
same step every time. These are: ``after send/2/1``, the first such step after two fsyncs; and by
what it is about, ``after request 42/1``, when the first DeleteGroups has left, ``answer 42/1``,
when the first bytes after it have come, ``write ready/1``, in the middle of the first lines that
have a ``ready`` among them, and ``before fsync journal/1`` (or ``folder``, ``sequence``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEP = sys.argv[1] if __name__ == "__main__" else "0"
seen: list[str] = []
places: Counter[str] = Counter()
owed: dict[int, list[int]] = {}
"""The APIs of the requests that have left on a socket, and that nothing came after."""


def step(name: str, torn: Any = None, about: Iterator[str] | tuple[str, ...] = ()) -> None:
    """Count; at the chosen step do half of the work and die.

    :param about: the step's other names.
    """
    seen.append(name)
    is_chosen = str(len(seen)) == STEP
    for place in (f"{name}/{seen.count('after fsync')}", *about):
        places[place] += 1
        is_chosen |= f"{place}/{places[place]}" == STEP
    if is_chosen:
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


def _wrapped(name: str, function: Any, about: Any = lambda *_args: ()) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        names = tuple(about(*args))
        step(f"before {name}", about=tuple(f"before {each}" for each in names))
        result = function(*args, **kwargs)
        step(f"after {name}", about=tuple(f"after {each}" for each in names))
        return result

    return call


def _file(number: int) -> Iterator[str]:
    path = Path(f"/proc/self/fd/{number}").readlink()
    kind = "folder" if path.is_dir() else "journal" if path.suffix == ".jsonl" else path.name
    yield f"fsync {kind}"


def _requests(connection: socket.socket, data: Any, *_flags: int) -> Iterator[str]:
    """Name the requests that begin in what is sent: each is its length, and then its API."""
    at, view = 0, bytes(data)
    while at + 6 <= len(view):
        length, api = struct.unpack_from(">ih", view, at)
        owed.setdefault(connection.fileno(), []).append(api)
        yield f"request {api}"
        at += 4 + length


_recv = socket.socket.recv


def _received(connection: socket.socket, *args: Any) -> bytes:
    step("before recv")
    data = _recv(connection, *args)
    apis = owed.pop(connection.fileno(), []) if data else []
    step("after recv", about=tuple(f"answer {api}" for api in apis))
    return data


_write = os.write


def _torn_write(number: int, data: bytes) -> int:
    kinds = re.findall(rb'^{"kind": ?"(\w+)"', data, re.MULTILINE)
    about = tuple(f"write {kind.decode()}" for kind in dict.fromkeys(kinds))
    step("write", lambda: _write(number, data[: len(data) // 2]), about)
    return _write(number, data)


def install() -> None:
    from kgtool.changes.journal import journal

    os.write = _torn_write
    journal.open = lambda number, _mode: File(number)  # type: ignore[attr-defined]
    os.fsync = _wrapped("fsync", os.fsync, _file)
    Path.rename = _wrapped("rename", Path.rename)  # type: ignore[method-assign]
    journal.fcntl.flock = _wrapped("flock", journal.fcntl.flock)
    send = _wrapped("send", socket.socket.send, _requests)
    socket.socket.send = send  # type: ignore[method-assign]
    socket.socket.recv = _received  # type: ignore[method-assign, assignment]


def run() -> int:
    from kgtool.cli.app.main import main

    install()
    status = main(sys.argv[3:])
    if STEP == "0":
        Path(sys.argv[2]).write_text(json.dumps(seen), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(run())
