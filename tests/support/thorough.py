"""What only ``make test-all`` or ``make soak`` runs: tests/thorough.toml, and the marks from it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "thorough.toml"
COLLECTED = pytest.StashKey[dict[str, bool]]()
"""Every test that was collected, whether or not it was chosen then: is it thorough?"""


class Entry(NamedTuple):
    """Tests that are thorough, and what of them, or instead of them, stays in ``make test``."""

    tests: tuple[str, ...]
    """Folders, files or tests."""
    reason: str
    keep: tuple[str, ...] = ()
    """Patterns of the parameters that stay; what has no parameters stays too."""
    instead: str = ""
    """A test that holds the same promise, one of these or another."""
    ci: tuple[str, ...] | None = None
    """Patterns of the parameters that ``make test-all`` runs: the others are for ``make soak``."""

    def covers(self, test: str) -> bool:
        """Whether a test is one of them."""
        return any(
            test.startswith(name) and test[len(name) :][:1] in ("", "/", ":", "[")
            for name in self.tests
        )

    def touches(self, path: str) -> bool:
        """Whether a file has some of them: looked at first, for the sake of speed."""
        return self.covers(path) or any(name.startswith(f"{path}::") for name in self.tests)

    def is_thorough(self, test: str) -> bool:
        """Whether a test is one of them and does not stay."""
        name, _, parameters = test.removesuffix("]").partition("[")
        if not self.covers(test) or name == self.instead or (self.keep and not parameters):
            return False
        return not any(fnmatchcase(parameters, pattern) for pattern in self.keep)

    def is_soak(self, test: str) -> bool:
        """Whether it does not stay in ``make test-all`` either."""
        if self.ci is None or not self.is_thorough(test):
            return False
        parameters = test.removesuffix("]").partition("[")[2]
        return not any(fnmatchcase(parameters, pattern) for pattern in self.ci)


def entries(path: Path = LIST) -> list[Entry]:
    """Read the list."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))["thorough"]
    return [
        Entry(**{key: tuple(got) if isinstance(got, list) else got for key, got in entry.items()})
        for entry in found
    ]


def mark(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Mark the thorough ones, and remember all; xdist's workers tell how many there are."""
    known, soak = entries(), 0
    collected = config.stash.setdefault(COLLECTED, {})
    of_file: dict[Path, list[Entry]] = {}
    for item in items:
        if item.path not in of_file:
            path = item.nodeid.partition("::")[0]
            of_file[item.path] = [entry for entry in known if entry.touches(path)]
        near = of_file[item.path]
        collected[item.nodeid] = any(entry.is_thorough(item.nodeid) for entry in near)
        if collected[item.nodeid]:
            item.add_marker(pytest.mark.thorough)
        if any(entry.is_soak(item.nodeid) for entry in near):
            item.add_marker(pytest.mark.soak)
            soak += 1
    if hasattr(config, "workeroutput"):
        config.workeroutput["left"] = {"thorough": sum(collected.values()), "soak": soak}


def complaints(known: Iterable[Entry], collected: Mapping[str, bool]) -> Iterator[str]:
    """What is wrong with the list: unknown tests, and promises that nothing else holds."""
    listed = list(known)
    staying = {test.partition("[")[0] for test, is_thorough in collected.items() if not is_thorough}
    others = [entry for entry in listed if entry.instead]
    held = staying | {
        test.partition("[")[0]
        for test in collected
        if any(other.is_thorough(test) for other in others)
    }
    for entry in listed:
        for name in entry.tests:
            if not any(entry._replace(tests=(name,)).is_thorough(test) for test in collected):
                yield f"{name}: nothing of it is thorough"
        covered = [test for test in collected if entry.covers(test)]
        gone = {test.partition("[")[0] for test in covered if entry.is_thorough(test)}
        if bool(entry.keep) == bool(entry.instead):
            yield f"{entry.tests[0]}: it takes one of keep and instead"
        elif entry.instead and entry.instead not in staying:
            yield f"{entry.tests[0]}: {entry.instead} does not stay"
        elif entry.keep and gone - held:
            yield f"nothing stays of {', '.join(sorted(gone - held))}"
        for pattern in (*entry.keep, *(entry.ci or ())):
            if not any(fnmatchcase(test.partition("[")[2][:-1], pattern) for test in covered):
                yield f"{entry.tests[0]}: there is no {pattern}"
