"""What README.rst and docs/ show is what happens: every console block is run again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Cluster
from kgtool.sandbox.seeding.seed import seed
from kgtool.sandbox.watcher import Silent

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import readme  # noqa: E402

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster.start("readme", root=tmp_path_factory.mktemp("readme")) as cluster:
        seed(cluster, Silent())
        yield cluster.bootstrap


def test_every_block_shows_what_it_prints(seeded: str, tmp_path: Path) -> None:
    count = 0
    for page in readme.PAGES:
        work = tmp_path / page.stem
        work.mkdir()
        for block in readme.blocks(page.read_text(encoding="utf-8").splitlines()):
            now = readme.run(block.commands, seeded, work)
            assert readme.masked(now) == readme.masked(block.output), (
                f"{page.name} shows something else than what happens: look at it, then make readme"
            )
            count += 1
        if page == readme.PAGES[0]:
            drawn = readme.picture.draw(readme.environment(seeded, work))
            assert readme.same_picture(drawn), "docs/session.svg is old: make readme"
    assert count >= 15


def test_every_page_with_commands_is_run() -> None:
    for page in sorted((ROOT / "docs").glob("*.rst")):
        has_blocks = bool(readme.blocks(page.read_text(encoding="utf-8").splitlines()))
        assert has_blocks == (page in readme.PAGES), page


def test_the_comparison_sees_signs_and_statuses() -> None:
    assert readme.masked("LAG  -90") != readme.masked("LAG  90")
    assert readme.masked("exit status 3") != readme.masked("exit status 1")
    assert readme.masked("A   -----  B") == readme.masked("A - B")
