"""``python -O`` leaves asserts out: nothing may happen in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from tests.analysis.writer import commits, segment

ROOT = Path(__file__).parents[2] / "kgtool"
WORKS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
QUIET = ("isinstance", "len", "all", "any", "set", "callable", "hasattr")
"""Functions that do nothing but look."""


class Watched(LocalEngine):
    folds = 0

    def fold(self, plan: FoldPlan) -> None:
        self.folds += 1
        super().fold(plan)


def test_fold_folds_now(tmp_path: Path) -> None:
    """Was: the work of ``Analysis.fold`` stood in an assert."""
    segment(tmp_path, commits(0, 3))
    engine, basis = Watched(1), broker_settings.settings_from(None, "4.1", None, None)
    analysis = Analysis(engine, find_inputs([str(tmp_path)]).files, basis)
    analysis.fold()
    analysis.fold()
    assert engine.folds == 1


def works_in_asserts(tree: ast.Module) -> Iterator[str]:
    """Asserts that call something, bind a name or ask an object for a property of its own class."""
    for scope in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))):
        own = set(_properties(scope)) if isinstance(scope, ast.ClassDef) else set()
        for node in ast.walk(scope):
            if isinstance(node, ast.Assert) and any(_works(x, own) for x in ast.walk(node)):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def _properties(scope: ast.ClassDef) -> Iterator[str]:
    for node in scope.body:
        words = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.FunctionDef) and any("property" in word for word in words):
            yield node.name


def _works(node: ast.AST, own: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in own and isinstance(node.value, ast.Name) and node.value.id == "self"
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Name) and node.func.id in QUIET)
    return isinstance(node, WORKS)


def test_nothing_happens_in_an_assert() -> None:
    """All of kgtool, where unit tests under ``python -O`` saw what they ran (and took 15 s)."""
    texts = {path: path.read_text() for path in ROOT.rglob("*.py")}
    asserting = {path: text for path, text in texts.items() if "assert " in text}
    assert len(asserting) > 10
    found = {str(path): list(works_in_asserts(ast.parse(each))) for path, each in asserting.items()}
    assert not any(found.values()), found


IN_A_CLASS = """
class A:
    @cached_property
    def notes(self): return read()
    def fold(self): {line}
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("assert self.notes is not None", 1),
        ("assert self.fold() is None", 1),
        ("assert (found := other) is not None", 1),
        ("assert other.notes", 0),
        ("assert isinstance(self.other, A)", 0),
    ],
)
def test_the_walk_sees_it(line: str, count: int) -> None:
    assert len(set(works_in_asserts(ast.parse(IN_A_CLASS.format(line=line))))) == count
