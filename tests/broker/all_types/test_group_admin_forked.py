"""A ``GroupAdmin`` that was made before ``os.fork()``: each process has its own connections."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, threading, time
from kgtool import GroupAdmin

bootstrap, is_held = sys.argv[1:]
admin = GroupAdmin(bootstrap, timeout_ms=10_000)

def ask(name):  # once, and without a second look
    (found,) = admin.request("DescribeGroups", {"groups": [name]}, version=5)
    (group,) = found.response["groups"]
    assert group["groupId"] == name, (name, group)

ask("before")
taken, ended = threading.Event(), threading.Event()

def hold():
    with admin._lock:
        taken.set()
        ended.wait()

if is_held == "True":
    threading.Thread(target=hold).start()
    taken.wait()
for _ in range(20):  # a clash takes chance
    begin = time.monotonic() + 0.1
    child = os.fork()
    ended.set()
    failed = True
    try:
        time.sleep(max(0, begin - time.monotonic()))
        for _ in range(20):
            ask("parent" if child else "child")
        failed = False
    finally:
        if not child:
            os._exit(failed)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("is_held", [False, True])
def test_a_forked_process_gets_its_own_answers(bootstrap: str, is_held: bool) -> None:
    """Also where another thread of the parent was in the middle of a call."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, bootstrap, str(is_held)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
