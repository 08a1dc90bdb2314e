"""Find a Java that Kafka runs on: ``JAVA_HOME`` first, then the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from kgtool.errors import SandboxError

MINIMUM = 17
HOW = (
    "Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install "
    "java-17-openjdk-headless; macOS: brew install openjdk@17) or point JAVA_HOME to it."
)

# Kafka's brokers and tools live for seconds to minutes here: the quick compiler and the small
# collector start sooner and leave the memory to others.
FAST = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The first ``java`` of version 17 or newer; SandboxError says what was found instead."""
    seen = []
    for candidate in _candidates(os.environ if environ is None else environ):
        version = _major(candidate)
        if version is not None and version >= MINIMUM:
            return candidate
        what = "which does not run" if version is None else f"which is Java {version}"
        seen.append(f"{candidate}, {what}")
    found = f"found {'; '.join(seen)}" if seen else "none is in JAVA_HOME or on the PATH"
    raise SandboxError(f"Kafka needs Java {MINIMUM} or newer, but {found}", hint=HOW)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)


def _major(java: Path) -> int | None:
    """17 for ``openjdk version "17.0.15"``, 8 for ``"1.8.0_392"``, None if it doesn't run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match and done.returncode == 0 else None
