"""What the 83 behaviours that Kafka's own tests assert have in common here.

A test says which of them it holds kgtool to; the numbers are in its id, so that a run's list of
tests is the table: ``test_describe.py::test_a_missing_group[14-classic]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.cli.run import Result

Test = TypeVar("Test", bound=Callable[..., Any])
Kg = Callable[..., Result]
Offsets = dict[tuple[str, int], int]

BOTH = ("classic", "consumer")
LAST = 83


def behaviour(*numbers: int, protocols: tuple[str, ...] = BOTH) -> Callable[[Test], Test]:
    """Run the test for groups of both protocols; ``protocols=("any",)`` where no group is asked."""
    label = "+".join(map(str, numbers)) or "more"
    params = [pytest.param(protocol, id=f"{label}-{protocol}") for protocol in protocols]

    def apply(test: Test) -> Test:
        test.behaviours = numbers  # type: ignore[attr-defined]
        return pytest.mark.parametrize("protocol", params)(test)

    return apply


VIEWS = [
    pytest.param([], id="default"),
    pytest.param(["--offsets"], id="offsets"),
    pytest.param(["--members"], id="members"),
    pytest.param(["--members", "--verbose"], id="members-verbose"),
    pytest.param(["--state"], id="state"),
]
every_view = pytest.mark.parametrize("view", VIEWS)

OFFSETS = [
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
]
MEMBERS = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
EPOCHS = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
STATE = ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]


def header(view: list[str]) -> list[str]:
    """The words of a view's header."""
    if "--members" in view:
        return MEMBERS + (EPOCHS if "--verbose" in view else [])
    return STATE if "--state" in view else OFFSETS


class World(NamedTuple):
    """Topics and groups of one protocol, which nobody changes."""

    protocol: str
    one: str
    """A topic of one partition with 3 records."""
    two: str
    """A topic of two partitions with 3 records each."""
    stable: str
    """One member on ``one``, client id cli-stable, 1 committed."""
    never: str
    """One member on ``one`` that has never committed."""
    pair: str
    """Two members on ``one``."""
    both: str
    """Two members on ``two``; the assignor is not the default."""
    left: str
    """Had a member on ``one``, which committed 2 and left."""
    simple: str
    """Only ever ``assign()``: committed 1 and 2 for ``two``."""

    @property
    def groups(self) -> list[str]:
        return [self.stable, self.never, self.pair, self.both, self.left, self.simple]

    @property
    def living(self) -> list[str]:
        return [self.stable, self.never, self.pair, self.both]


def chosen(*groups: str) -> list[str]:
    """``--group`` for each of them."""
    return [word for group in groups for word in ("--group", group)]


def lines(text: str) -> list[list[str]]:
    """The words of every line that has some."""
    return [line.split() for line in text.splitlines() if line.strip()]
