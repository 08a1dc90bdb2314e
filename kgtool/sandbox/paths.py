"""Where the sandbox keeps things (XDG base directories), and locks between processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from kgtool.errors import SandboxError, UsageError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def cache_root() -> Path:
    """The folder of the downloaded Kafka versions: ``~/.cache/kgtool/kafka``."""
    return _base("XDG_CACHE_HOME", ".cache") / "kgtool" / "kafka"


def state_root() -> Path:
    """The folder with one folder per sandbox: ``~/.local/state/kgtool/sandbox``."""
    return _base("XDG_STATE_HOME", ".local/state") / "kgtool" / "sandbox"


def sandbox_dir(name: str, root: Path | None = None) -> Path:
    """The state folder of one sandbox; UsageError for a name that is no plain word."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"A sandbox can't be called {name!r}: letters, digits, '.', '_' and '-' only, "
            "64 at most."
        )
    return (root or state_root()) / name


@contextlib.contextmanager
def locked(path: Path, *, timeout: float = 300.0) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; SandboxError after ``timeout`` seconds of waiting.

    The kernel drops the lock with the process, so a killed one never blocks the next.
    """
    make_dir(path.parent)
    with path.open("a") as handle:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise SandboxError(
                        f"Another kgtool has been working on {path.parent} for {timeout:.0f} s",
                        hint="Wait for it or end it, then try again.",
                    ) from None
                time.sleep(0.05)
        yield


def make_dir(path: Path) -> Path:
    """Create a folder only its owner can enter; SandboxError where that is impossible."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(f"The folder {path} can't be created: {error.strerror}") from None
    return path


def _base(variable: str, default: str) -> Path:
    # The XDG specification says that relative values are to be ignored.
    value = Path(os.environ.get(variable, ""))
    return value if value.is_absolute() else Path.home() / default
