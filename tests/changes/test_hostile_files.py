"""Files that a person or another tool wrote: numbers, names and keys that crash or deceive.

Kind: a value that JSON can hold and Kafka, or Python, can't. Siblings: plans, backups, journals,
commit times and CSV; each of their numbers and names; keys that stand twice (the last would win,
and the reader has seen the first).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.cleanup import commit_times_file, plan_reader
from kgtool.changes.restore.backup import open_backup
from kgtool.changes.restore.diff import GroupFile
from kgtool.cli.cleanup.plan import summary
from kgtool.cli.reset import csv_file
from kgtool.errors import ConfigError
from tests.changes.test_backup import backup

OFFSET: dict[str, Any] = {
    "topic": "t",
    "partition": 0,
    "offset": 1,
    "leader_epoch": 1,
    "metadata": "",
    "lag": 1,
    "committed_at_ms": 1,
    "expires_at_ms": 1,
}
ITEM: dict[str, Any] = {
    "action": "rebuild-group",
    "group": "g",
    "lag": 1,
    "last_commit_ms": 1,
    "committed_before_ms": 1,
    "expires_at_ms": 1,
    "last_change_ms": 1,
    "offsets": [OFFSET],
    "keep": [{**OFFSET, "partition": 1}],
}
PLAN: dict[str, Any] = {
    "kgtool_plan": 1,
    "id": "p",
    "cluster_id": "c",
    "made_at_ms": 1,
    "as_of_ms": 1,
    "items": [ITEM],
}
NUMBERS = [int("9" * 4300), -int("9" * 4300), 2**63, -(2**63) - 1]
LONG = "x" * 70_000


def places(value: Any) -> list[tuple[dict[str, Any], str]]:
    """Every member of every object in a value."""
    found: list[tuple[dict[str, Any], str]] = []
    for key, each in value.items():
        found.append((value, key))
        for inner in each if isinstance(each, list) else ():
            found += places(inner)
    return found


def with_each(good: dict[str, Any], kind: type, bad: Any) -> list[str]:
    """The document, each of its values of a kind replaced in turn."""
    texts = []
    for number, (_, key) in enumerate(places(good)):
        copy = json.loads(json.dumps(good))
        owner, _ = places(copy)[number]
        if type(owner[key]) is kind and key not in ("id", "action"):
            owner[key] = bad
            texts.append(json.dumps(copy))
    return texts


def refused(path: Path, text: str, read: Callable[[Path], Any]) -> str:
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert len(caught.value.message) < 600
    return caught.value.message


def test_a_good_plan(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(json.dumps(PLAN))
    assert "lag 1," in summary(plan_reader.read(tmp_path / "p").items)


@pytest.mark.parametrize("bad", NUMBERS, ids=["4300", "-4300", "64", "-64"])
def test_numbers_of_a_plan(tmp_path: Path, bad: int) -> None:
    texts = with_each(PLAN, int, bad)
    assert len(texts) == 20
    for text in texts:
        refused(tmp_path / "p", text, plan_reader.read)
    thousands = json.dumps(PLAN).replace('"lag": 1', f'"lag": {"9" * 5000}')
    refused(tmp_path / "p", thousands, plan_reader.read)


def test_long_names_of_a_plan(tmp_path: Path) -> None:
    for owner, key in ((OFFSET, "topic"), (OFFSET, "metadata"), (ITEM, "group")):
        text = json.dumps(PLAN).replace(f'"{key}": "{owner[key]}"', f'"{key}": "{LONG}"')
        assert "longer than 32,767 bytes" in refused(tmp_path / "p", text, plan_reader.read)


def test_a_key_that_stands_twice(tmp_path: Path) -> None:
    text = json.dumps(PLAN)
    for key in ("group", "action", "topic", "partition", "cluster_id", "items"):
        twice = text.replace(f'"{key}": ', f'"{key}": 1, "{key}": ', 1)
        assert "appears twice" in refused(tmp_path / "p", twice, plan_reader.read)
    good = backup(tmp_path / "b").read_text()
    for key in ("group", "topic", "partition", "offset", "cluster_id", "offsets"):
        twice = good.replace(f'"{key}": ', f'"{key}": 1, "{key}": ', 1)
        refused(tmp_path / "b", twice, lambda path: list(open_backup(path).groups()))
    twice = good.replace('"group": ', '"group": "other", "group": ')
    assert "a key appears twice" in refused(tmp_path / "b", twice, GroupFile)
    row = '{"group": "g", "group": "h"}'
    assert "appears twice" in refused(tmp_path / "t", row, commit_times_file.read_file)


def test_backups_and_csv(tmp_path: Path) -> None:
    good = backup(tmp_path / "b").read_text()

    def read(path: Path) -> Any:
        return list(open_backup(path).groups())

    for old, new in (
        ('"topic": "t"', f'"topic": "{LONG}"'),
        ('"group": "g"', f'"group": "{LONG}"'),
        ('"offset": 5', f'"offset": {"9" * 4300}'),
        ('"offset": 5', f'"offset": {"9" * 4301}'),
        ('"partition": 0', f'"partition": {"9" * 4300}'),
    ):
        assert old in good
        refused(tmp_path / "b", good.replace(old, new), read)
    for line in (f"{LONG},0,1", f"t,{'9' * 5000},1", f"t,0,{'9' * 5000}"):
        refused(tmp_path / "c", line, lambda path: csv_file.read(str(path), "g"))
