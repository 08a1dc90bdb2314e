"""What a stranger installs: wheel and sdist of these sources, pipx, a machine without Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.sandbox.paths import locked
from tests.support import brokers, clients
from tests.support.dockerfile import Stage, build
from tools import dist

ROOT = Path(__file__).parents[1]
SHARED = {
    "share/man/man1/kgtool.1",
    "share/man/man1/kgtool-describe.1",
    "share/bash-completion/completions/kgtool.bash",
    "share/zsh/site-functions/_kgtool",
    "share/fish/vendor_completions.d/kgtool.fish",
}

pytestmark = [pytest.mark.starts_first, pytest.mark.timeout(1800)]


class Built(NamedTuple):
    wheel: Path
    sdist: Path
    folder: Path


def run(*argv: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(arg) for arg in argv],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ok(*argv: str | Path, **env: str) -> str:
    done = run(*argv, **env)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout


@pytest.fixture(scope="module")
def built() -> Built:
    """What `make dist` makes of these sources, once for a whole run."""
    root = Path(os.environ[brokers.VARIABLE]) / "shelf"
    with locked(root.with_suffix(".lock"), timeout=600.0):
        if not root.exists():
            unfinished = root.with_suffix(".new")
            dist.make(unfinished / "dist", _sources(root.with_suffix(".source")))
            unfinished.rename(root)
    out = root / "dist"
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")), out)


def _sources(source: Path) -> Path:
    """Copy what a package is made of: a build leaves files beside it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("kgtool", "man", "completions"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.py", "pyproject.toml", "README.rst", "LICENSE", "CHANGES.rst"):
        shutil.copy(ROOT / name, source / name)
    return source


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the programs that ``pipx install`` made, and nothing of this environment."""
    home = tmp_path_factory.mktemp("pipx")
    places = {
        "PIPX_HOME": str(home / "home"),
        "PIPX_BIN_DIR": str(home / "bin"),
        "PIPX_MAN_DIR": str(home / "man"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    ok(sys.executable, "-m", "pipx", "install", built.wheel, **places)
    yield home / "bin"


def bare(programs: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the installed kgtool on a machine with nothing else: no Java, no cluster named."""
    plain = {"PATH": str(programs), "HOME": str(programs.parent), "LANG": "C.UTF-8"}
    return subprocess.run(
        [programs / "kgtool", *argv],
        env=plain,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_has_everything_and_nothing_else(tmp_path: Path) -> None:
    dist.build(tmp_path / "dist", _sources(tmp_path / "source"))
    with zipfile.ZipFile(next(tmp_path.glob("dist/*.whl"))) as wheel:
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


def test_each_file_has_its_checksum(built: Built) -> None:
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=built.folder, check=True
    )
    summed = (built.folder / "SHA256SUMS").read_text().split()[1::2]
    assert sorted([*summed, "SHA256SUMS"]) == sorted(path.name for path in built.folder.iterdir())


def test_the_bill_names_what_the_pex_holds(built: Built) -> None:
    bill = json.loads((built.folder / "sbom.cdx.json").read_text())
    with zipfile.ZipFile(built.folder / "kgtool.pex") as pex:
        held = json.loads(pex.read("PEX-INFO"))["distributions"]
    listed = {bill["metadata"]["component"]["purl"], *(c["purl"] for c in bill["components"])}
    names = (wheel.split("-")[:2] for wheel in held)
    assert listed == {f"pkg:pypi/{name.lower().replace('_', '-')}@{of}" for name, of in names}
    assert {"click", "confluent-kafka", "cryptography"} <= {c["name"] for c in bill["components"]}


def test_the_requirements_have_hashes_and_no_address(built: Built) -> None:
    text = (built.folder / "requirements.txt").read_text()
    assert "://" not in text
    pinned = [block for block in text.replace("\\\n", "").splitlines() if block.strip()]
    assert len(pinned) > 8 and all("==" in one and "--hash=sha256:" in one for one in pinned)


@pytest.fixture
def group(bootstrap: str, new_topic: Any) -> str:
    """A group that a list has, whether or not other tests have made some."""
    name = clients.unique("listed")
    clients.commit(bootstrap, name, {(new_topic(), 0): 1})
    return name


INSTALLS = {
    "sdist": [["{sdist}"]],
    "hashed": [["--require-hashes", "-r", "{folder}/requirements.txt"], ["--no-deps", "{wheel}"]],
    "lowest": [["--resolution", "lowest-direct", "{wheel}"]],
}


@pytest.mark.parametrize("how", INSTALLS)
def test_an_empty_environment_lists(
    built: Built, tmp_path: Path, bootstrap: str, group: str, how: str
) -> None:
    """From the sdist, with the hashed requirements, and with the oldest dependencies that fit."""
    uv = Path(sys.executable).parent / "uv"
    ok(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "env")
    for argv in INSTALLS[how]:
        words = [word.format(**built._asdict()) for word in argv]
        ok(uv, "pip", "install", "--quiet", "--python", tmp_path / "env/bin/python", *words)
    done = bare(tmp_path / "env/bin", "list", "--bootstrap-server", bootstrap)
    assert (done.returncode, done.stderr) == (0, "") and group in done.stdout, done
    assert bare(tmp_path / "env/bin", "completion", "bash").stdout.startswith("#")


def test_pipx_lists(installed: Path, bootstrap: str) -> None:
    assert bare(installed, "list", "--bootstrap-server", bootstrap).returncode == 0


def test_one_file_lists_and_starts_as_fast(
    built: Built, installed: Path, tmp_path: Path, bootstrap: str
) -> None:
    system = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"PATH": system, "HOME": str(tmp_path), "LANG": "C.UTF-8"}

    def timed(program: Path, *argv: str) -> float:
        """Run it; return the processor's seconds, which what runs beside does not change."""
        with subprocess.Popen(
            [program, *argv], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    pex = built.folder / "kgtool.pex"
    timed(pex, "list", "--bootstrap-server", bootstrap)  # unpacks itself
    for program in (pex, installed / "kgtool"):
        timed(program, "--version")
    # In turns, and the best of each: the machine does other things as well.
    argv = ("list", "--bootstrap-server", bootstrap)
    both = [(timed(pex, *argv), timed(installed / "kgtool", *argv)) for _ in range(8)]
    assert min(one for one, _ in both) <= 1.5 * min(other for _, other in both)


@pytest.fixture(scope="module")
def jre(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image of the JVM is for: /opt/java/openjdk."""
    home = Path(shutil.which("java") or "").resolve().parents[1]
    root = tmp_path_factory.mktemp("jre")
    shutil.copytree(home, root / "opt/java/openjdk", symlinks=False, ignore_dangling_symlinks=True)
    return root


SITE = next(path for path in sys.path if path.endswith("site-packages"))


@pytest.fixture(scope="module")
def image(built: Built, tmp_path_factory: pytest.TempPathFactory, jre: Path) -> Any:
    """Builds a target. The dependencies are lent by this environment: other tests fetch them."""

    def make(target: str) -> Stage:
        work = tmp_path_factory.mktemp(target)
        return build(ROOT / "Dockerfile", built.folder.parent, work, target, jre, PIP_NO_DEPS="1")

    return make


def test_the_slim_image_lists(image: Any, bootstrap: str, group: str) -> None:
    slim = image("slim")
    done = slim.start("list", "--bootstrap-server", bootstrap, lent=SITE, PYTHONPATH="/opt/lent")
    assert (done.returncode, done.stderr) == (0, "") and group in done.stdout, done
    assert slim.run("id", "-u").stdout.strip() == "65532"
    # The journal's volume is there, and its user may write to it.
    assert slim.run("/bin/sh", "-c", "touch $KGTOOL_JOURNAL_DIR/x && echo ok").stdout == "ok\n"


@pytest.mark.spark
def test_the_analyze_image_analyzes(image: Any) -> None:
    """With Spark, as its user would: the JVM of the image, and the name that Spark asks for."""
    made = image("analyze")
    segments = made.root / "tmp/segments"
    shutil.copytree(ROOT / "tests/data/retention-truth/4.3.1/segments", segments)
    for path in (segments, *segments.iterdir()):
        path.chmod(0o755)
    done = made.start(
        "analyze", "/tmp/segments", "--out", "/tmp/out", lent=SITE, PYTHONPATH="/opt/lent"
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-1500:]
    assert "Live" in done.stdout, done
    assert list(made.root.glob("tmp/out/live/*.parquet")), done
    assert not (made.root / "tmp/.cache").exists()  # an archive that no other container gets
    assert "version" in made.run("/opt/java/openjdk/bin/java", "-version").stderr
    assert made.run("sh", "-c", "echo $JAVA_HOME").stdout == "/opt/java/openjdk\n"


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
    assert "kafka-kgtool[analyze]" in done.stderr and "Traceback" not in done.stderr


def test_a_machine_without_java(installed: Path) -> None:
    done = bare(installed, "sandbox", "up")
    assert done.returncode != 0
    assert "Java" in done.stderr and "Traceback" not in done.stderr
