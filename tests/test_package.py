"""What a stranger installs: wheel and sdist of these sources, pipx, a machine without Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SHARED = {
    "share/man/man1/kgtool.1",
    "share/man/man1/kgtool-describe.1",
    "share/bash-completion/completions/kgtool.bash",
    "share/zsh/site-functions/_kgtool",
    "share/fish/vendor_completions.d/kgtool.fish",
}

pytestmark = pytest.mark.starts_first


class Built(NamedTuple):
    wheel: Path
    sdist: Path


def run(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in argv], env={**os.environ, **env}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def ok(*argv: str | Path, **env: str) -> str:
    done = run(*argv, **env)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The sdist, and the wheel that is built of it, as a package index would have them."""
    source = tmp_path_factory.mktemp("source") / "kgtool"
    kept = ["kgtool", "man", "completions"]
    for name in kept:
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.rst", "LICENSE", "CHANGES.rst"):
        shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("dist")
    ok(sys.executable, "-m", "build", "--outdir", out, source)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs that ``pipx install`` made, and nothing of this environment."""
    home = tmp_path_factory.mktemp("pipx")
    places = {"PIPX_HOME": str(home / "home"), "PIPX_BIN_DIR": str(home / "bin"),
              "PIPX_MAN_DIR": str(home / "man"), "PIPX_DEFAULT_PYTHON": sys.executable}  # fmt: skip
    ok(sys.executable, "-m", "pipx", "install", built.wheel, **places)
    yield home / "bin"


def bare(programs: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the installed kgtool on a machine with nothing else: no Java, no cluster named."""
    plain = {"PATH": str(programs), "HOME": str(programs.parent), "LANG": "C.UTF-8"}
    return subprocess.run(
        [programs / "kgtool", *argv], env=plain, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip


def test_the_wheel_has_everything_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
    data = {name.split(".data/data/")[1] for name in names if ".data/data/" in name}
    assert data >= SHARED
    packages = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert {name for name in packages if not name.endswith(".data")} == {"kgtool"}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kgtool").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources - set(names) == set()


def test_the_sdist_has_what_the_wheel_is_made_of(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert names >= {"setup.py", "README.rst", "LICENSE", "man/kgtool.1", "completions/_kgtool"}


def test_the_sdist_installs(built: Built, tmp_path: Path) -> None:
    ok(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "lib",
       built.sdist)  # fmt: skip
    said = ok(sys.executable, "-I", "-c",
              f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r}); import kgtool; "
              "print(kgtool.__file__)")  # fmt: skip
    assert said.startswith(str(tmp_path / "lib"))


def test_a_stranger_sees_what_to_do_next(installed: Path) -> None:
    assert bare(installed, "--version").stdout.startswith("kgtool ")
    first = bare(installed)
    assert "kgtool" in first.stdout + first.stderr
    assert "--bootstrap-server" in first.stdout + first.stderr
    assert "Traceback" not in first.stderr


def test_pages_of_the_manual_are_where_pipx_shows_them(installed: Path) -> None:
    assert (installed.parent / "man" / "man1" / "kgtool.1").exists()


def test_no_cluster_named(installed: Path) -> None:
    done = bare(installed, "list")
    assert done.returncode == 2
    assert "--bootstrap-server" in done.stderr and len(done.stderr.splitlines()) <= 3


def test_an_extra_that_is_missing_is_named(installed: Path, tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"\0" * 100)
    done = bare(installed, "analyze", str(log))
    assert done.returncode != 0
    assert "kgtool[analyze]" in done.stderr and "Traceback" not in done.stderr


def test_a_machine_without_java(installed: Path) -> None:
    done = bare(installed, "sandbox", "up")
    assert done.returncode != 0
    assert "Java" in done.stderr and "Traceback" not in done.stderr
