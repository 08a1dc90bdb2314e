"""Shows long tables on a terminal page by page, as git does: ``KGTOOL_PAGER``, ``PAGER`` or less.

With ``-FRX``, less ends by itself if the text fits the screen.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen


def start() -> Popen[str] | None:
    """Start the pager, which shows what is written to its ``stdin``; None: no pager.

    ``cat`` or an empty value asks for none.
    """
    command = os.environ.get("KGTOOL_PAGER", os.environ.get("PAGER"))
    if command is None:
        from shutil import which

        command = "less" if which("less") else ""
    if command.strip() in ("", "cat"):
        return None
    import subprocess

    sys.stdout.flush()
    environ = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        # The shell, as with git: PAGER may have arguments.
        return subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, text=True, env=environ,
            encoding=sys.stdout.encoding, errors="backslashreplace",
        )  # fmt: skip
    except OSError:
        return None


def close(process: Popen[str]) -> None:
    """Let the pager show the rest, and wait until it ends."""
    assert process.stdin is not None
    # Ctrl-C is the pager's: less only stops searching.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            process.stdin.close()
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
