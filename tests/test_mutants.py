"""tests/mutants.toml fits the sources of today, and every source has tests that reach it."""

from __future__ import annotations

import argparse
import ast

from tests.support.imports import ROOT, Graph
from tools import mutants


def test_every_named_change_applies() -> None:
    """``named`` refuses what is not in its file exactly once."""
    changes = list(mutants.named(argparse.Namespace(means=None)))
    assert len(changes) == len({means for _, _, means in changes}) > 0
    for mutant, tests, means in changes:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        changed = mutant.apply(text)
        if mutant.path.suffix == ".py":
            changed, text = ast.dump(ast.parse(changed)), ast.dump(ast.parse(text))
        assert changed != text, means
        assert all((ROOT / path).is_file() for path in tests), means


def test_every_accepted_change_is_one_that_is_tried() -> None:
    for file, line, new in mutants.accepted():
        tried = {(mutant.context, mutant.new) for mutant in mutants.mutants(mutants.Path(file))}
        assert (line, new) in tried, file


def test_every_source_is_reached() -> None:
    """``make check`` and ``make mutants`` know no other way from a file to its tests."""
    graph = Graph()
    sources = [
        path
        for path in (ROOT / "kgtool").rglob("*.py")
        if len(ast.parse(path.read_text(encoding="utf-8")).body) > 1 and path.name != "__main__.py"
    ]
    assert [str(path) for path in sources if not graph.tests([path])] == []


def test_a_column_is_checked_by_whole_screens() -> None:
    """``make check`` runs the first of the tests that a change reaches."""
    first = Graph().tests([ROOT / "kgtool" / "columns" / "groups.py"])[:2]
    assert ROOT / "tests" / "cli" / "test_golden.py" in first
