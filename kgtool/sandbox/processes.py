"""Processes that outlive the command that started them, and how to find them again.

Each has a folder of its own with a file ``pid``, written by the process itself just before its
``exec``, so that even a starter killed in the middle leaves a trace. The folder is also part of its
command line: a pid that now belongs to another process is never mistaken for it, and never killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_SPAWN = 'umask 077; echo $$ > "$1"; shift; exec "$@"'

# Python warns about a running child whose Popen is dropped, and a child without a wait stays a
# zombie. These outlive the command; those that end before it are reaped here.
_children: dict[Path, subprocess.Popen[bytes]] = {}


def spawn(
    command: Sequence[str], folder: Path, output: Path, environ: Mapping[str, str] | None = None
) -> int:
    """Start ``command`` in its own session, output to a file; the pid.

    The command must have ``folder`` in its arguments.
    """
    pid_file = folder / "pid"
    pid_file.unlink(missing_ok=True)
    with output.open("ab") as out:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _SPAWN, "sh", str(pid_file), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
            start_new_session=True,
        )
    _children[folder] = child
    while not _has_text(pid_file) and child.poll() is None:
        time.sleep(0.001)  # until it can be found again: the shell makes the file before it writes
    return child.pid


def _has_text(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


def pid_of(folder: Path) -> int | None:
    """The pid of the living process that belongs to ``folder``, None if there is none."""
    child = _children.get(folder)
    if child is not None and child.poll() is None:
        return child.pid
    try:
        pid = int((folder / "pid").read_text())
    except (OSError, ValueError):
        return None
    line = _command_line(pid)
    for _ in range(50):
        if line or _has_ended(pid):
            break
        time.sleep(0.01)  # it has none for a moment, in the middle of its exec
        line = _command_line(pid)
    return pid if str(folder) in line else None


def end(folders: Sequence[Path], *, grace: float = 0.0) -> None:
    """End the processes of ``folders`` and wait until they have ended.

    SIGTERM first if there are ``grace`` seconds for it, then SIGKILL.
    """
    pids = [pid for pid in map(pid_of, folders) if pid is not None]
    if grace > 0:
        _send(pids, signal.SIGTERM)
        _wait(pids, grace)
    # Looked up again: the pid of a process that has ended may belong to another one by now.
    _send([pid for pid in map(pid_of, folders) if pid in pids], signal.SIGKILL)
    _wait(pids, 30.0)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(pids: Sequence[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not all(map(_has_ended, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)


def _has_ended(pid: int) -> bool:
    for child in _children.values():
        if child.pid == pid:
            return child.poll() is not None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # not ours: the pid has a new owner
        return True
    try:
        # A zombie keeps its pid until init reaps it, in some containers forever.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return False


def _command_line(pid: int) -> str:
    """The arguments of a process; empty for one that is gone, and for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self").exists():
            return ""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout
