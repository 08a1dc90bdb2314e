"""The journal of what ``GroupAdmin`` changes: the same that the commands keep.

``kgtool history`` shows it and ``kgtool undo`` takes it back. Nothing is sent before what is there
is on the disk.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.changes.journal.change import Change, Timer
from kgtool.changes.journal.journal import default_folder
from kgtool.changes.policy import Origin

if TYPE_CHECKING:
    from kgtool.net.session import Session


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def journal_folder(chosen: Path | None) -> Path:
    """Return where journals are kept: as chosen, or where the commands keep theirs."""
    return chosen or default_folder(os.environ, Path.home())


def warn(said: str) -> None:
    """Tell the program's author, or whoever reads its stderr, what undo does not cover."""
    warnings.warn(said, stacklevel=2)


class Recorder(Change):
    """A change of ``GroupAdmin``; it says nothing but its journal's id.

    :param folder: where journals are kept (None: where the commands keep theirs).
    """

    def __init__(
        self, session: Session, origin: Origin, folder: Path | None,
        recorded: Callable[[str], None],
    ) -> None:  # fmt: skip
        timer = Timer(now_ms, time.monotonic, time.sleep, lambda: secrets.token_hex(4))
        super().__init__(session, origin, journal_folder(folder), timer, recorded=recorded)
