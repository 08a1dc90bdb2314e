"""Shows long text page by page, as git does: ``KGTOOL_PAGER``, ``PAGER``, or ``less -FRX``.

Only for tables on a terminal. Where the text fits the screen, less shows it and ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen


def start() -> Popen[str] | None:
    """Start it; what is written to its ``stdin`` is what it shows.

    None where there is none, or none is wanted (``cat``).
    """
    wanted = os.environ.get("KGTOOL_PAGER", os.environ.get("PAGER"))
    if wanted is None:
        from shutil import which

        wanted = "less" if which("less") else ""
    if wanted.strip() in ("", "cat"):
        return None
    import subprocess

    sys.stdout.flush()
    environ = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        # The shell, as with git: PAGER may have arguments.
        return subprocess.Popen(
            ["/bin/sh", "-c", wanted], stdin=subprocess.PIPE, text=True, env=environ,
            encoding=sys.stdout.encoding, errors="backslashreplace",
        )  # fmt: skip
    except OSError:
        return None


def close(process: Popen[str]) -> None:
    """Let it show the rest, and wait until its reader has had enough."""
    assert process.stdin is not None
    # Ctrl-C belongs to the pager now: less only stops searching.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
