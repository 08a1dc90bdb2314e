"""Runs kgtool and sends it a signal between the changing request and its answer.

::

    python -m tests.changes.stop SIGNAL ARGUMENT…
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any


def run() -> int:
    from kgtool.changes.journal.journal import Journal
    from kgtool.cli.app.main import main

    is_ready: list[bool] = []
    before, send = Journal.before, socket.socket.send

    def ready(journal: Journal, *changes: Any) -> None:
        before(journal, *changes)
        is_ready.append(True)

    def sent(self: socket.socket, data: Any, *flags: int) -> int:
        count = send(self, data, *flags)
        if is_ready:
            os.kill(os.getpid(), int(sys.argv[1]))
        return count

    Journal.before = ready  # type: ignore[method-assign]
    socket.socket.send = sent  # type: ignore[method-assign, assignment]
    return main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(run())
