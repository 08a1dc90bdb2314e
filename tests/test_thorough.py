"""tests/thorough.toml: of everything that it leaves to longer runs, a real test stays."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from tests.support import thorough
from tests.support.thorough import Entry
from tools import run_tests

TESTS = (
    "tests/a.py::test_b[2.1.1]",
    "tests/a.py::test_b[4.3.1]",
    "tests/a.py::test_c",
    "tests/ab.py::test_d",
    "tests/a.py::test_e[2.1.1]",
)


def test_the_list(request: pytest.FixtureRequest) -> None:
    """As far as this run has collected the files; ``make test`` collects all."""
    collected = request.config.stash[thorough.COLLECTED]
    files = {test.partition("::")[0] for test in collected}
    folders = {str(folder) for file in files for folder in PurePath(file).parents}
    known = [
        entry
        for entry in thorough.entries()
        if {test.partition("::")[0] for test in (*entry.tests, entry.instead) if test}
        <= files | folders
    ]
    assert list(thorough.complaints(known, collected)) == []


@pytest.mark.parametrize(
    ("tests", "stays", "wrong"),
    [
        ("tests/a.py::test_b", {"keep": ("4.*",)}, []),
        ("tests/a.py::test_b", {"keep": ("4.*", "5.*")}, ["tests/a.py::test_b: there is no 5.*"]),
        ("tests/a.py", {"keep": ("4.*",)}, ["nothing stays of tests/a.py::test_e"]),
        ("tests/a.py::test_c", {"instead": "tests/ab.py::test_d"}, []),
        ("tests/a.py", {"instead": "tests/a.py::test_c"}, []),
        ("tests/a", {"instead": "tests/a.py::test_c"}, ["tests/a: nothing of it is thorough"]),
        (
            "tests/a.py",
            {"instead": "tests/b.py::test_f"},
            ["tests/a.py: tests/b.py::test_f does not stay"],
        ),
        ("tests/a.py::test_b", {"keep": ("4.*",), "ci": ("2.*",)}, []),
        (
            "tests/a.py::test_b",
            {"keep": ("4.*",), "ci": ("3.*",)},
            ["tests/a.py::test_b: there is no 3.*"],
        ),
        ("tests/a.py::test_c", {}, ["tests/a.py::test_c: it takes one of keep and instead"]),
    ],
)
def test_what_is_refused(tests: str, stays: Any, wrong: list[str]) -> None:
    entry = Entry((tests,), "", **stays)
    collected = {test: entry.is_thorough(test) for test in TESTS}
    assert list(thorough.complaints([entry], collected)) == wrong


@pytest.mark.parametrize(
    ("ci", "soak"), [(None, []), (("2.*",), []), (("3.*",), [TESTS[0]]), ((), [TESTS[0]])]
)
def test_what_is_left_for_the_soak(ci: tuple[str, ...] | None, soak: list[str]) -> None:
    entry = Entry(("tests/a.py::test_b",), "", keep=("4.*",), ci=ci)
    assert [test for test in TESTS if entry.is_soak(test)] == soak


def test_what_is_left_out_has_a_run() -> None:
    """Each lane leaves it out, and ``make soak`` runs all of it."""
    lanes = run_tests.lanes(True, [])
    assert all("not soak" in lanes[name][1] for name in ("tests", "timed tests"))
    assert "pytest -q -m soak\n" in (thorough.ROOT / "Makefile").read_text(encoding="utf-8")
