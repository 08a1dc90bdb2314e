"""Standard streams that are closed, or lead to a full disk: a sentence and a status, no trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = "--list --bootstrap-server 127.0.0.1:1 --timeout 300"


def _run(line: str, redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"{sys.executable} -m kgtool.cli {line} {redirection}", shell=True, cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("line", ["--version", "--help", "list --help", "history --help"])
def test_a_full_disk_is_an_error_and_named(line: str) -> None:
    done = _run(line, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The output can't be written: No space left on device.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "2>/dev/full", ">&- 2>&-", "<&-"])
def test_a_closed_stream_changes_no_status(redirection: str) -> None:
    assert _run("--version", redirection).returncode == 0
    assert _run("list --help", redirection).returncode == 0
    refused = _run(NOBODY, redirection)
    assert refused.returncode == 4
    assert "Traceback" not in refused.stderr


@pytest.mark.broker
def test_results_on_a_full_disk(bootstrap: str) -> None:
    done = _run(f"list --bootstrap-server {bootstrap} -o json", ">/dev/full")
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
