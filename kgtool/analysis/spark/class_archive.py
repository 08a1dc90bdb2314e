"""An archive of Spark's loaded classes (JVM class data sharing), for a faster start.

The first small analysis of a fresh cache records it: its JVM writes the file when it ends, which
takes a few seconds, once. The next one puts that in its place and uses it. Measured: 26
instead of 33 CPU seconds for a log of 10,000 records on a busy machine. Whatever goes wrong,
Spark runs as well without: a JVM leaves alone what is not its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from importlib import metadata
from pathlib import Path

RECORDING = "-XX:ArchiveClassesAtExit"
"""The option of a JVM that records one."""
# A JVM that finds an archive unfit says so on stdout, where the tables go.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_MAGIC = bytes.fromhex("a8ab0bf0")
"""Of a dynamic archive, on little-endian machines; the header is written last."""
_DRAFT_S = 600
"""So old a draft without a header is nobody's any more."""
_OLD_S = 30 * 86_400
_NEEDS_BYTES = 2 << 30
"""Free space below which nothing is recorded; an archive has about 180 MB."""


def options(java_options: str) -> str:
    """These options of the driver's JVM, and those that use an archive made with the same ones.

    Without an archive: those that record one. Neither where the JVM or the cache can't have one.
    """
    stem = _stem(java_options)
    if stem is None:
        return java_options
    try:
        using = _using(stem)
        if using:
            return java_options + using
        draft = _new_draft(stem)
    except OSError:  # no home, read-only, full
        return java_options
    return f'{java_options} "{RECORDING}={draft}" {_QUIET}' if draft else java_options


def recorded(java_options: str) -> str:
    """What a JVM's options lack to use the archive made with ``java_options``, if there is one.

    It serves a JVM with another garbage collector, and with both compilers, as well.
    """
    stem = _stem(java_options)
    try:
        return _using(stem) if stem else ""
    except OSError:
        return ""


def _using(stem: Path) -> str:
    _publish(stem)
    archive = _whole(stem)
    return f' "-XX:SharedArchiveFile={archive}" {_QUIET}' if archive else ""


def _stem(java_options: str) -> Path | None:
    """What the archive for this JVM, this Spark and these options is called, up to its size."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    base = java.resolve().parent.parent / "lib" / "server" / "classes.jsa"
    folder = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    try:
        stat = base.stat()
        spark = metadata.version("pyspark")
    except (OSError, metadata.PackageNotFoundError):
        return None
    import pyspark

    key = f"{base} {stat.st_size} {stat.st_mtime_ns} {spark} {pyspark.__file__} {java_options}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    stem = Path(folder).absolute() / "kgtool" / "spark" / f"classes-{digest}"
    # The path goes through an option that is split like a shell's command line.
    return None if set(str(stem)) & set("\"'\\\n") else stem


def _publish(stem: Path) -> None:
    """Put a finished draft in its place; drop what nobody finished."""
    draft = _draft(stem)
    with contextlib.suppress(FileNotFoundError):
        if _is_finished(draft):
            _forget_old(stem.parent)
            draft.replace(stem.with_name(f"{stem.name}-{draft.stat().st_size}.jsa"))
        elif time.time() - draft.stat().st_mtime > _DRAFT_S:
            draft.unlink()


def _forget_old(folder: Path) -> None:
    """Of other versions; one that is still in use is recorded again."""
    for path in folder.glob("classes-*.jsa"):
        if time.time() - path.stat().st_mtime > _OLD_S:
            path.unlink()


def _draft(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.draft")


def _whole(stem: Path) -> Path | None:
    """The archive, if there is one. Its name tells its size: a JVM dies of one that was cut."""
    for path in stem.parent.glob(f"{stem.name}-*.jsa"):
        with contextlib.suppress(FileNotFoundError):
            if path.name == f"{stem.name}-{path.stat().st_size}.jsa":
                return path
            path.unlink()
    return None


def _is_finished(draft: Path) -> bool:
    with draft.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _new_draft(stem: Path) -> Path | None:
    """A place to record to, claimed with an empty file; None while somebody else is at it."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(stem.parent).free < _NEEDS_BYTES:
        return None
    draft = _draft(stem)
    try:
        # The claim dates the attempt: who is killed in it blocks the next one for a while only.
        draft.open("x").close()
    except FileExistsError:
        return None
    return draft
