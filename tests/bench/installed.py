"""kgtool as a user has it: installed, not linked to the working tree.

The link costs every start of Python 11 ms here, which no user pays.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("KGTOOL_BENCH_ENV", ROOT / "build" / "bench-env"))
PYTHON = str(FOLDER / "bin" / "python")
"""Has the packages of this environment, and kgtool as it was when the benchmark began."""
KGTOOL = str(FOLDER / "bin" / "kgtool")


def prepare() -> None:
    """Install the working tree's kgtool into an environment of its own."""
    from tests.support.standalone import python_without_kgtool

    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    python_without_kgtool(FOLDER)
    pip = [sys.executable, "-m", "pip", "--python", PYTHON, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", str(ROOT)], check=True)
    # Byte code is written by the first start; that must not be the one that counts.
    subprocess.run([KGTOOL, "--version"], check=True, stdout=subprocess.DEVNULL)
