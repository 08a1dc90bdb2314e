"""Who imports whom, in kgtool and in its tests: a walk over every import, inside functions too."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAST = "not broker and not spark and not foreign and not starts_first and not timed"
"""Marks of the tests that need a few seconds and nothing but this process."""
SCREENS = "test_golden.py"
"""Tests of whole screens: what is far below shows there, and they are quick."""
BY_NAME = {
    "kgtool/cli/commands": "kgtool/cli/app/root.py",
    "kgtool/protocol/api": "kgtool/protocol/api/__init__.py",
}
"""Folders whose modules are imported by their names, and the file that does it."""


def module_of(path: Path, root: Path = ROOT) -> str:
    """The name of a file's module: ``kgtool.cli`` of ``kgtool/cli/__init__.py``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str, root: Path = ROOT) -> Path | None:
    """The file of a module, None if it is none of ours."""
    place = root / module.replace(".", "/")
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def imports_of(path: Path, root: Path = ROOT) -> Iterator[str]:
    """Every module that a file imports; ``from kgtool import config`` imports one of kgtool's."""
    package = path.relative_to(root).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            for alias in node.names:
                if file_of(f"{module}.{alias.name}", root):
                    yield f"{module}.{alias.name}"


class Graph:
    """The imports among our own files; a package's ``__init__`` comes with each of its modules."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._importers: dict[Path, set[Path]] = {}
        for folder in ("kgtool", "tests"):
            for path in sorted((root / folder).rglob("*.py")):
                for module in imports_of(path, root):
                    found = file_of(module, root)
                    if found is not None and found != path:
                        self._importers.setdefault(found, set()).add(path)
        for folder, importer in BY_NAME.items():
            for path in (root / folder).glob("[!_]*.py"):
                self._importers.setdefault(path, set()).add(root / importer)
        for conftest in sorted((root / "tests").rglob("conftest.py")):
            tests = set(conftest.parent.rglob("test_*.py"))
            self._importers.setdefault(conftest, set()).update(tests)

    def reach(self, changed: Iterable[Path]) -> dict[Path, int]:
        """Every file that imports these, and over how many others (0: it is one of them)."""
        found = dict.fromkeys(changed, 0)
        queue = list(found)
        for path in queue:
            for importer in sorted(self._importers.get(path, ())):
                if importer not in found:
                    found[importer] = found[path] + 1
                    queue.append(importer)
        return found

    def tests(self, changed: Iterable[Path]) -> list[Path]:
        """The tests that reach these files: of the same name or of whole screens, then the nearest.

        Of those as near as others, the room's own come first.
        """
        paths = list(changed)
        rooms = {path.relative_to(self.root).parts[1] for path in paths}
        names = {f"test_{path.name}" for path in paths} | {SCREENS}

        def order(path: Path, distance: int) -> tuple[bool, int, bool, Path]:
            is_elsewhere = path.relative_to(self.root).parts[1] not in rooms
            return path.name not in names, distance, is_elsewhere, path

        found = self.reach(paths).items()
        return [
            path
            for path, _ in sorted(found, key=lambda item: order(*item))
            if path.name.startswith("test_")
        ]
