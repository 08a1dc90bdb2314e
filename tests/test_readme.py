"""What README.rst and docs/ show is what happens: every console block is run again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding.seed import seed

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import readme  # noqa: E402

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder of states."""
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def seeded(home: Path) -> Iterator[str]:
    with Sandbox.start("default", root=home / "kgtool" / "sandbox") as cluster:
        seed(cluster)
        yield cluster.bootstrap


def test_every_block_shows_what_it_prints(seeded: str, tmp_path: Path) -> None:
    count = 0
    for page in readme.PAGES:
        work = tmp_path / page.stem
        work.mkdir()
        for block in readme.blocks(page.read_text(encoding="utf-8").splitlines()):
            now = readme.again(page, block, seeded, work)
            assert readme.same(page, block.output, now), (
                f"{page.name} shows something else than what happens: look at it, then make "
                f"readme\n{now}"
            )
            if page == readme.SCREENS:
                wide = [line for line in now.splitlines() if len(line) > readme.SCREEN_WIDTH]
                assert [line for line in wide if not line.startswith("$ ")] == []
            count += 1
        if page == readme.PAGES[0]:
            drawn = readme.picture.draw(readme.environment(seeded, work))
            assert readme.same_picture(drawn), "docs/session.svg is old: make readme"
            screen = readme.picture.top(seeded)
            assert readme.same_top(screen), "docs/top.svg is old: make readme"
    assert count >= 15


def test_the_first_sixty_seconds(seeded: str, home: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?s)\nSixty seconds\n.*?::\n\n(.*?)\n\S", text)
    *lines, last = [line.strip() for line in block.split("\n") if line]
    assert last == "kgtool sandbox down"
    environ = {**readme.environment("", tmp_path), "XDG_STATE_HOME": str(home)}
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=environ,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert "Error" not in done.stderr
    doctor, lag = re.split(r"(?m)^GROUP +.*LAG$", done.stdout)
    assert "PROBLEM beyond-end" in doctor and "WARNING before-start" in doctor
    lags = {row[0]: int(row[-2]) for row in map(str.split, lag.strip().splitlines())}
    assert lags["auditor"] == 55
    assert [*lags.values()] == sorted(lags.values(), reverse=True)  # the worst first


def test_every_page_with_commands_is_run() -> None:
    for page in sorted((ROOT / "docs").glob("*.rst")):
        has_blocks = bool(readme.blocks(page.read_text(encoding="utf-8").splitlines()))
        assert has_blocks == (page in readme.PAGES), page


def test_the_comparison_sees_signs_and_statuses() -> None:
    assert readme.masked("LAG  -90") != readme.masked("LAG  90")
    assert readme.masked("exit status 3") != readme.masked("exit status 1")
    assert readme.masked("A   -----  B") == readme.masked("A - B")
