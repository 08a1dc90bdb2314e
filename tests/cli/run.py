"""Runs kgtool: in this process for speed, as a process of its own where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.cli.app.main import main
from tests.support.warm_kgtool import may_be_warm, run_warm

ROOT = Path(__file__).parents[2]
HANGS_S = 150
"""A Spark that has a seventh of a core takes more than a minute to start."""


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> Result:
    """Run in this process."""
    capsys.readouterr()
    status = main(argv)
    out, err = capsys.readouterr()
    return Result(status, out, err)


def command_line(*argv: str) -> list[str]:
    return [sys.executable, "-m", "kgtool.cli", *argv]


def _environment(more: dict[str, str]) -> dict[str, str]:
    env = {**os.environ, **more}
    env.pop("KGTOOL_BOOTSTRAP_SERVER", None)
    return env


def start(*argv: str, **options: Any) -> subprocess.Popen[str]:
    env = _environment(options.pop("env", {}))
    return subprocess.Popen(
        command_line(*argv),
        stdin=options.pop("stdin", subprocess.DEVNULL),
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        text=True,
        env=env,
        cwd=ROOT,
        **options,
    )


def kgtool(*argv: str, **options: Any) -> Result:
    """Run as a process of its own, without a terminal."""
    env = _environment(options.get("env", {}))
    if not options.keys() - {"env"} and may_be_warm(env):
        done = run_warm(argv, env, HANGS_S)
        return Result(done.status, done.out, done.err)
    with start(*argv, **options) as process:
        out, err = process.communicate(timeout=HANGS_S)
    return Result(process.returncode, out, err)
