"""Shows long text page by page, as git does: ``KGTOOL_PAGER``, ``PAGER``, or ``less -FRX``.

Only for tables on a terminal. Where the text fits the screen, less shows it and ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

_PLAIN = ("", "cat")


def command(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the pager to start; None where there is none, or none is wanted (``cat``)."""
    environ = os.environ if environ is None else environ
    named = environ.get("KGTOOL_PAGER", environ.get("PAGER"))
    if named is not None:
        return None if named.strip() in _PLAIN else named
    from shutil import which

    return "less" if which("less", path=environ.get("PATH")) else None


def start() -> Popen[str] | None:
    """Start it; what is written to its ``stdin`` is what it shows. None where there is none."""
    wanted = command()
    if wanted is None:
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
