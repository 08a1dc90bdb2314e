"""Finding and ending our own processes, and never anybody else's."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from kgtool.sandbox import processes

SLEEP = [sys.executable, "-c", "import sys, time; time.sleep(600)"]


def spawn(folder):
    folder.mkdir(exist_ok=True)
    return processes.spawn([*SLEEP, str(folder)], folder, folder / "log")


def test_a_process_is_found_by_its_folder_and_ended(tmp_path):
    pid = spawn(tmp_path / "a")
    assert processes.pid_of(tmp_path / "a") == pid
    processes.end([tmp_path / "a"])
    assert processes.pid_of(tmp_path / "a") is None


def test_a_recycled_pid_is_left_alone(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    with subprocess.Popen(SLEEP) as bystander:
        (folder / "pid").write_text(str(bystander.pid))
        assert processes.pid_of(folder) is None
        processes.end([folder])
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("content", ["", "garbage", "99999999"])
def test_a_useless_pid_file_means_not_running(tmp_path, content):
    (tmp_path / "pid").write_text(content)
    assert processes.pid_of(tmp_path) is None
    processes.end([tmp_path])


def test_a_starter_waits_until_the_file_has_the_pid(tmp_path, monkeypatch):
    """A shell makes the file before it writes: a busy machine may stop it in between."""
    slow = 'umask 077; : > "$1"; sleep 0.3; echo $$ > "$1"; shift; exec "$@"'
    monkeypatch.setattr(processes, "_SPAWN", slow)
    pid = spawn(tmp_path / "a")
    monkeypatch.delitem(processes._children, tmp_path / "a")
    assert processes.pid_of(tmp_path / "a") == pid
    processes.end([tmp_path / "a"])


def test_the_process_outlives_its_starter(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    code = (
        "import sys; from pathlib import Path; from kgtool.sandbox import processes;"
        "folder = Path(sys.argv.pop()); processes.spawn(sys.argv[1:], folder, folder / 'log')"
    )
    subprocess.run([sys.executable, "-c", code, *SLEEP, str(folder), str(folder)], check=True)
    assert processes.pid_of(folder) is not None
    started = time.monotonic()
    processes.end([folder], grace=10.0)
    assert processes.pid_of(folder) is None
    assert time.monotonic() - started < 5
