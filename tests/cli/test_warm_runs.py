"""The warm processes that tests run kgtool in (``tests.support.warm_kgtool``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.run import ROOT
from tests.support import warm_kgtool

ENDS_ITSELF = """
import json, os, sys
from pathlib import Path
from tests.support.warm_kgtool import _work

def main():
    def write_text(path, _text):
        path.touch()
        os._exit(3)
    Path.write_text = write_text

_work(json.loads(sys.argv[1]), main)
"""


def test_a_run_may_end_itself_while_it_notes_how_long_it_waited(tmp_path: Path) -> None:
    """The timer of completions does, and an empty note failed the test of another run."""
    files = {"out": str(tmp_path / "out"), "err": str(tmp_path / "err")}
    job = {**files, "argv": [], "environ": {}}
    done = subprocess.run(
        [sys.executable, "-c", ENDS_ITSELF, json.dumps(job)], cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == 3
    assert warm_kgtool._waited(job) == 0.0
