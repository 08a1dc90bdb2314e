"""Kafka's jars: an exact, committed list per version, downloaded once and checked by SHA-256.

``kafka-<version>.txt`` next to this file names every jar with its checksum, its size and its
Maven coordinates. Those files are fetched and no others: dependencies are not resolved again, so
what runs today runs next year. The download is done by the Ivy that PySpark ships, or by Maven;
both know where Maven Central is and how the user's mirrors and proxies are set.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kgtool.errors import SandboxError, UsageError
from kgtool.sandbox.install.pin import Pin
from kgtool.sandbox.paths import cache_root, locked, make_dir
from kgtool.sandbox.reporter import QUIET, Reporter

VERSIONS = ("4.4.0", "4.3.1", "3.9.1")
DEFAULT_VERSION = VERSIONS[0]
TEST_VERSIONS = ("2.1.1", "2.4.1", "2.8.2", "3.3.2", "4.1.1", "4.3.1-tests")
"""Only for tests: older versions, and Kafka's own tests."""


@functools.cache
def pins(version: str) -> tuple[Pin, ...]:
    """The jars of a Kafka version; UsageError for one that has no committed list."""
    if version not in VERSIONS + TEST_VERSIONS:
        raise UsageError(
            f"The sandbox can't run Kafka {version!r}: choose one of {', '.join(VERSIONS)}"
        )
    text = (Path(__file__).parent / f"kafka-{version}.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(Pin(sha, int(size), *gav.split(":")) for sha, size, gav in rows)


def jar_dir(version: str) -> Path:
    """Where the jars of a version are, once downloaded."""
    return cache_root() / version / "libs"


def kafka_jars(version: str, reporter: Reporter = QUIET) -> list[Path]:
    """The class path of a Kafka version, downloaded if need be and verified every time.

    SandboxError when the download fails or a file is not the one that was pinned.
    """
    pinned = pins(version)
    libs = jar_dir(version)
    if not _complete(libs, pinned):
        with locked(cache_root() / f".{version}.lock", timeout=900.0):
            if not _complete(libs, pinned):  # another process may have been faster
                _publish(version, pinned, libs, reporter)
    verify(version, libs)
    return [libs / pin.file_name for pin in pinned]


def verify(version: str, libs: Path) -> None:
    """Compare every jar with its pinned SHA-256; SandboxError names the first that differs."""
    for pin in pins(version):
        path = libs / pin.file_name
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise SandboxError(f"The jar {path} can't be read: {error.strerror}") from None
        if found != pin.sha256:
            raise SandboxError(
                f"The jar {path} is not the one that Kafka {version} was pinned with: its SHA-256 "
                f"is {found}, expected {pin.sha256}",
                hint=f"Remove {libs.parent} to download it again; if that doesn't help, don't "
                "trust the repository that it comes from.",
            )


def _complete(libs: Path, pinned: Sequence[Pin]) -> bool:
    return all((libs / pin.file_name).is_file() for pin in pinned)


def _publish(version: str, pinned: Sequence[Pin], libs: Path, reporter: Reporter) -> None:
    from kgtool.sandbox.install.download import download

    root = make_dir(cache_root())
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=root) as folder:
        work = Path(folder)
        size = sum(pin.size for pin in pinned) / 1e6
        reporter.say(f"Downloading Kafka {version}, once: {len(pinned)} jars, {size:.0f} MB")
        download(version, pinned, work, reporter)
        verify(version, work / "libs")
        if libs.parent.exists():
            # Incomplete: files were removed. It is deleted with the temporary folder.
            libs.parent.rename(work / "old")
        staged = make_dir(work / "new")
        (work / "libs").rename(staged / "libs")
        staged.rename(libs.parent)
    _sweep(root, version)


def _sweep(root: Path, version: str) -> None:
    """Remove the remains of killed downloads; the lock is held, so no other is under way."""
    for left in root.glob(f".{version}-*"):
        shutil.rmtree(left, ignore_errors=True)


def class_path(jars: Sequence[Path]) -> str:
    """The argument of java's ``-cp``."""
    return os.pathsep.join(map(str, jars))
