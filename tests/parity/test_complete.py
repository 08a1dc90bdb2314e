"""Each of the 83 behaviours has a test, for both protocols where a group has one."""

from __future__ import annotations

from tests.parity import (
    test_all_groups,
    test_delete,
    test_describe,
    test_list,
    test_reset,
    test_security,
)
from tests.parity.behaviours import BOTH, LAST

# What is refused before any group is asked, or is about groups that don't exist.
WITHOUT_PROTOCOL = {2, 12, 14, 15, 18, 33, 34, 35, 38, 39, 44, 53, 54, 79, 80, 82, 10}


def test_all_83() -> None:
    tried: dict[int, set[str]] = {number: set() for number in range(1, LAST + 1)}
    modules = (test_all_groups, test_delete, test_describe, test_list, test_reset, test_security)
    for module in modules:
        for name, test in vars(module).items():
            if not name.startswith("test_"):
                continue
            for mark in getattr(test, "pytestmark", []):
                if mark.name == "parametrize" and mark.args[0] == "protocol":
                    protocols = {param.values[0] for param in mark.args[1]}
                    for number in getattr(test, "behaviours", ()):
                        tried[number] |= protocols
    for number, protocols in tried.items():
        expected = {"any"} if number in WITHOUT_PROTOCOL else set(BOTH)
        assert expected <= protocols, number
