"""Runs kgtool in forked children of a process that has everything imported: real processes, soon.

::

    python -m tests.support.warm_kgtool

takes a job a line on stdin, ``{"argv": […], "environ": {…}, "out": FILE, "err": FILE, "limit": N}``
(``environ``: all of it; ``limit``, if any: the largest file that the run may write, as on a full
disk), and answers with two lines: the process id, then ``[status, seconds]``; a negative status is
the signal that ended the run.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Run(NamedTuple):
    """What one run of kgtool did."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float
    """Without the time in which there was no processor for it (Linux): other tests run beside."""

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return (
            f"$ kgtool {' '.join(self.argv)}\nstatus {self.status} after {self.seconds:.1f} s\n"
            f"{self.out[-3000:]}{self.err[-2000:]}"
        )


class Warm:
    """One such process; runs one kgtool at a time."""

    def __init__(self, folder: Path) -> None:
        self._out, self._err = folder / "out", folder / "err"
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_kgtool"],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lock = threading.Lock()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def run(
        self,
        *argv: str,
        journal: Path | None = None,
        environ: Mapping[str, str] | None = None,
        limit: int | None = None,
        started: Callable[[int], None] = lambda pid: None,
    ) -> Run:
        """:param environ: the whole environment; else this process's, with the journal's folder."""
        job = {
            "argv": argv,
            "environ": environ or {**os.environ, "KGTOOL_JOURNAL_DIR": str(journal)},
            "limit": limit,
            "out": str(self._out),
            "err": str(self._err),
        }
        with self._lock:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            started(int(self._process.stdout.readline()))
            status, seconds = json.loads(self._process.stdout.readline())
            return Run(argv, status, self._out.read_text(), self._err.read_text(), seconds)


_idle: SimpleQueue[Warm] = SimpleQueue()


def may_be_warm(environ: Mapping[str, str]) -> bool:
    """Whether all that Python itself reads as it starts is as in this process."""
    now = os.environ
    read = ("PYTHON", "LC_", "LANG", "TZ")
    return all(
        now.get(name) == environ.get(name) for name in {*now, *environ} if name.startswith(read)
    )


def run_warm(argv: tuple[str, ...], environ: Mapping[str, str], timeout: float) -> Run:
    """Run kgtool in a process of its own, which ends after ``timeout`` seconds at the latest."""
    try:
        warm = _idle.get_nowait()
    except Empty:
        folder = tempfile.TemporaryDirectory(prefix="kgtool-warm-")
        warm = Warm(Path(folder.name))
        atexit.register(folder.cleanup)
        atexit.register(warm.close)
    watchdogs = []

    def started(pid: int) -> None:
        watchdogs.append(threading.Timer(timeout, os.kill, (pid, signal.SIGKILL)))
        watchdogs[0].start()

    try:
        done = warm.run(*argv, environ=environ, started=started)
    finally:
        for watchdog in watchdogs:
            watchdog.cancel()
    _idle.put(warm)
    assert done.status != -signal.SIGKILL, f"it did not end within {timeout:.0f} s: {done}"
    return done


_COLD = ("kgtool.analysis", "kgtool.cli.analyze", "kgtool.exporter", "kgtool.mcp", "kgtool.top")
"""What few runs need, and what imports pyarrow: its threads would not be there in a child."""


def _import_all() -> None:
    """What each run would import for itself: 0.1 s of the 0.13 that a change takes."""
    import kgtool

    for module in pkgutil.walk_packages(kgtool.__path__, "kgtool."):
        if not module.name.startswith(_COLD) and not module.name.endswith("__main__"):
            import_module(module.name)
    assert "pyarrow" not in sys.modules
    gc.collect()
    gc.freeze()  # no child looks through what is here, and has to copy it for that


def _serve() -> None:
    from kgtool.cli.app.main import main

    with contextlib.redirect_stdout(io.StringIO()):
        main(["describe", "--help"])
    _import_all()
    for line in sys.stdin:
        job = json.loads(line)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _work(job, main)
        _say(child)
        ended, status, _used = os.wait4(child, 0)
        assert ended == child
        _say([os.waitstatus_to_exitcode(status), time.monotonic() - began - _waited(job)])


def _say(answer: Any) -> None:
    os.write(_ANSWERS, json.dumps(answer).encode() + b"\n")


def _waited(job: Any) -> float:
    try:
        return int(Path(job["err"] + ".waited").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0  # it was killed, or ended itself


def _work(job: Any, main: Callable[[], int]) -> None:
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    waited = Path(job["err"] + ".waited")
    waited.unlink(missing_ok=True)
    os.environ.clear()
    os.environ.update(job["environ"])
    sys.argv = ["kgtool", *job["argv"]]
    os.setpgid(0, 0)
    limit = job.get("limit")
    if limit is not None:
        # The answers of the run itself go into files too: they keep their room.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for number in (1, 2):
            _through_a_pipe(number)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, "wb", closefd=False), encoding="utf-8")
        for number in (1, 2)
    )
    status = 70
    try:
        status = main()
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 70
    except Exception:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if limit is not None:
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            for number in (1, 2):
                os.close(number)
            for child in _copiers:
                os.waitpid(child, 0)
        else:
            # Whole or not at all: the timer of completions ends the process at any moment.
            written = waited.with_suffix(".new")
            written.write_text(Path("/proc/self/schedstat").read_text())
            written.rename(waited)
        os._exit(status)


_copiers: list[int] = []


def _through_a_pipe(number: int) -> None:
    """Let another process write what goes there: the limit is not for it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        while data := os.read(reading, 65536):
            os.write(number, data)
        os._exit(0)
    os.close(reading)
    os.dup2(writing, number)
    os.close(writing)
    _copiers.append(child)


_ANSWERS = 1

if __name__ == "__main__":
    _ANSWERS = os.dup(1)
    os.dup2(2, 1)
    _serve()
