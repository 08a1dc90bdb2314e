"""What README.rst shows is what happens: every console block is run again on a fresh sandbox."""

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
    blocks = readme.blocks(readme.README.read_text(encoding="utf-8").splitlines())
    assert len(blocks) >= 8
    for block in blocks:
        now = readme.run(block.commands, seeded, tmp_path)
        assert readme.masked(now) == readme.masked(block.output), (
            "README.rst shows something else than what happens: look at it, then make readme"
        )
