"""The distribution's name: kafka-kgtool. The index's kgtool is somebody else's program.

Kind: a hint, a page or a script that would install another package than ours, or an extra that
there is not. Siblings: pip, pipx and uv; an import's metadata; the images' wheels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import dist

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = "kafka-kgtool"
INSTALLS = re.compile(
    r"(?:\b(?:pip3?|pipx|uv|brew|conda)\b[\"']?,? [^\n;()]{0,20}?\b(?:install|run|add) |\buvx )"
    r"(?:(?:--from )|(?:-\S+ (?:/\S+ )?))*['\"]?([\w.-]+)"
)
"""A command that installs; its first package."""
EXTRAS = re.compile(r"(?<![\w-])((?:[a-z][\w-]*-)?kgtool)\[([\w,-]+)\]")
SUFFIXES = (".py", ".rst", ".1", ".bash", ".fish", ".sh", ".yaml", ".js", ".html", "")


def files() -> Iterator[Path]:
    """Yield every file that a user or a colleague may follow."""
    for folder in ("kgtool", "docs", "man", "completions", "tools", "tests", ".ci"):
        yield from (
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in SUFFIXES and path.is_file() and "data" not in path.parts
        )
    yield from sorted(path for path in ROOT.glob("*") if path.is_file())


def problems(text: str) -> list[str]:
    """Return what of a text would install another package than ours."""
    text = text.replace(r"\(aq", "'")  # the man pages' quotes
    found = [name for name in INSTALLS.findall(text) if name.strip("._-").lower() == "kgtool"]
    for name, extras in EXTRAS.findall(text):
        known = set(PROJECT["optional-dependencies"])
        if name != NAME or not known.issuperset(extras.split(",")):
            found.append(f"{name}[{extras}]")
    found += re.findall(
        r"(?:version|metadata|distribution|requires|files)\(['\"]kgtool['\"]\)", text
    )
    return found


def test_the_name_is_ours() -> None:
    assert PROJECT["name"] == NAME
    assert PROJECT["scripts"] == {"kgtool": "kgtool.cli.app.main:program"}


def test_no_hint_installs_another_package() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): bad
        for path in files()
        if path != Path(__file__)
        and (bad := problems(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    (
        "pip install kgtool",
        "python3 -m pip install --user kgtool",
        "pip install 'kgtool[analyze]'",
        'pip3 install "kgtool>=1"',
        "Install kgtool[msk] first",
        "pipx install kgtool.",
        "pipx run kgtool",
        "uvx --from kgtool kgtool",
        "uv tool install kgtool",
        "%pip install kgtool[remote]",
        "pip install 'kafka-kgtool[spark]'",
        "importlib.metadata.version('kgtool')",
    ),
)
def test_the_walk_sees_each_kind(text: str) -> None:
    assert problems(text), text


@pytest.mark.parametrize(
    "text",
    (
        "pip install 'kafka-kgtool[analyze]'",
        "uvx --from kafka-kgtool kgtool list",
        "pipx install . and kgtool sandbox up",
        "pip install '.[msk]'",
    ),
)
def test_ours_pass(text: str) -> None:
    assert problems(text) == []


def test_nothing_that_no_code_imports_is_demanded() -> None:
    extras = PROJECT["optional-dependencies"]
    assert not [one for part in extras.values() for one in part if one.startswith("pandas")]


def test_the_images_take_the_wheel_that_is_built() -> None:
    wheel = f"{NAME.replace('-', '_')}-*.whl"
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"[\w-]*kgtool-\*\.whl", text)) == {wheel}
    assert dist.NAME == NAME
