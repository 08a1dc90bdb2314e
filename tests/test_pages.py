"""What docs/ says is there: places, words, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.rst"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_places_exist(path: Path) -> None:
    """``kgtool/…`` and ``tests/…`` are files; in the architecture, ``cli/app/main`` is one too."""
    text = path.read_text(encoding="utf-8")
    for place in re.findall(r"``((?:kgtool|tests|tools)/[\w/.-]+)``", text):
        assert (ROOT / place).exists(), place
    if path.name == "architecture.rst":
        for place in re.findall(r"``((?!tests/|tools/)[a-z]+(?:/[a-z_]+)+)``", text):
            module = ROOT / "kgtool" / place.removeprefix("kgtool/")
            assert module.is_dir() or module.with_suffix(".py").exists(), place


def test_every_room_has_its_paragraph() -> None:
    text = (ROOT / "docs" / "architecture.rst").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in (ROOT / "kgtool").glob("*/__init__.py")}
    assert rooms - {room for room in rooms if f"\n``{room}``\n" in text} == set()


def test_every_package_says_what_lives_there() -> None:
    for path in (ROOT / "kgtool").rglob("__init__.py"):
        text = path.read_text(encoding="utf-8")
        assert re.match(r'r?"""[A-Za-z`].{10,}', text), path
        assert not re.search("TODO|FIXME", text), path


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.rst").read_text(encoding="utf-8").split()
    assert {path.stem for path in PAGES} - {"index"} <= set(index)


@pytest.mark.parametrize("name", ["README.rst", "docs/install.rst"])
def test_no_line_to_type_has_a_blank_to_fill(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"(?m)::\n\n((?:    .*\n)+)", text)
    typed = re.sub(r"#.*", "", "".join(blocks))
    assert "pip install ." in typed and "sandbox up" in typed
    assert re.findall(r"\b[A-Z]{4,}\b", typed) == []


def test_readme_is_one_screen_of_reading() -> None:
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 160
    targets = re.findall(r"<(docs/[^>]+)>`_|\.\. image:: (\S+)", text)
    assert ("", "docs/report.png") in targets
    for target in map("".join, targets):
        assert (ROOT / target).exists(), target
