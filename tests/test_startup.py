"""What is imported when: a process of its own, its modules held to an allow-list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

NEVER = {
    "asyncio",
    "confluent_kafka",
    "csv",
    "cryptography",
    "dataclasses",
    "http",
    "importlib.metadata",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "re2",
    "rich",
    "ssl",
    "subprocess",
    "tabulate",
    "tempfile",
    "unittest",
    "urllib.request",
    "yaml",
}
"""Nothing that only looks at groups needs any of these."""

PROBE = """
import json, sys
before = set(sys.modules)
from kgtool.cli.app.main import main
out, sys.stdout = sys.stdout, sys.stderr
status = main(sys.argv[1:])
print(json.dumps([status, sorted(set(sys.modules) - before)]), file=out)
"""


def _modules(*argv: str) -> tuple[int, set[str]]:
    env = {key: value for key, value in os.environ.items() if key != "KGTOOL_BOOTSTRAP_SERVER"}
    # -S: what .pth files of other packages import at start-up is none of kgtool's doing.
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROBE, *argv],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    status, modules = json.loads(done.stdout)
    return status, set(modules)


@pytest.fixture(scope="module")
def click_modules() -> set[str]:
    """What importing click brings along."""
    done = subprocess.run(
        [sys.executable, "-c", "import click, sys, json; print(json.dumps(list(sys.modules)))"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_version_imports_nothing() -> None:
    status, modules = _modules("--version")
    assert status == 0
    ours = {"kgtool", "kgtool.cli", "kgtool.cli.app", "kgtool.cli.app.main"}
    assert modules - ours <= {"__future__", "errno"}


def test_help_imports_no_click() -> None:
    status, modules = _modules("--help")
    assert status == 0
    assert "click" not in modules
    assert {name for name in modules if name.startswith("kgtool.")} == {
        "kgtool.cli",
        "kgtool.cli.app",
        "kgtool.cli.app.main",
        "kgtool.cli.app.overview",
        "kgtool.cli.commands",
    }


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("list --help", 0),
        ("--validate-regex=a --list", 2),
        ("list --bootstrap-server 127.0.0.1:1 --timeout 50", 4),
        ("--list --bootstrap-server 127.0.0.1:1 --timeout 50", 4),
        ("--describe --all-groups --bootstrap-server 127.0.0.1:1 --timeout 50", 4),
    ],
)
def test_looking_at_groups_stays_light(line: str, expected: int, click_modules: set[str]) -> None:
    status, modules = _modules(*line.split())
    assert status == expected
    top = modules | {name.split(".")[0] for name in modules}
    assert not (top & NEVER) - click_modules


@pytest.mark.parametrize("argv", [["list", "--help"], ["--list"], ["describe", "--help"]])
def test_a_command_brings_only_its_own_file(argv: list[str]) -> None:
    _, modules = _modules(*argv)
    name = argv[0].lstrip("-")
    commands = {m.rpartition(".")[2] for m in modules if m.startswith("kgtool.cli.commands.")}
    assert commands <= {name}
    assert not any(
        m.startswith(("kgtool.net", "kgtool.queries", "kgtool.changes", "kgtool.analysis"))
        for m in modules
    )


def test_group_admin_brings_only_what_all_its_methods_need() -> None:
    code = "import sys, json; from kgtool import GroupAdmin; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    rooms = ("queries.doctor", "changes.cleanup", "changes.restore.backup", "queries.explain")
    modules = json.loads(done.stdout)
    assert "kgtool.api.group_admin" in modules
    assert not [m for m in modules if m.startswith(tuple(f"kgtool.{room}" for room in rooms))]


@pytest.mark.timed
def test_help_is_not_slow() -> None:
    """A wide bound, so that it never fails for a busy machine: click alone takes 40 ms."""
    import time

    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "kgtool.cli", "--help"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    assert time.monotonic() - began < 5
