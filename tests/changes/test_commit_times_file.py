"""Times of commits out of an analysis: its formats, and what is no table of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.cleanup.commit_times_file import KnownTime, read_file
from kgtool.errors import ConfigError


def row(**more: Any) -> dict[str, Any]:
    found = {"group": "g", "topic": "t", "partition": 0, "offset": 5, "commit_timestamp_ms": 9}
    return {**found, "rule": "commit", **more}


def text(form: str, *rows: Any) -> str:
    if form == "ndjson":
        return "".join(json.dumps(each) + "\n" for each in rows)
    return json.dumps({"command": "analyze", "version": 1, "results": rows, "errors": []})


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_both_formats(tmp_path: Path, form: str) -> None:
    path = tmp_path / "live"
    path.write_text(text(form, row(), row(partition=1, commit_timestamp_ms=None), row(group="h")))
    assert read_file(path) == {"g": {("t", 0): KnownTime(5, 9)}, "h": {("t", 0): KnownTime(5, 9)}}


def test_since_when_a_group_has_no_members(tmp_path: Path) -> None:
    path = tmp_path / "live"
    path.write_text(text("ndjson", row(state_since_ms=11), row(group="h", state_since_ms=None)))
    found = read_file(path)
    assert found["g"]["t", 0].state_since_ms == 11  # type: ignore[index]
    assert found["h"]["t", 0].state_since_ms is None  # type: ignore[index]


@pytest.mark.parametrize(
    "content",
    [
        text("ndjson", row(group=None)),
        text("json", row(offset="5")),
        text("json", [1]),
        text("ndjson", {"live": 1}),
        "no JSON\n",
        '{"results": 5}',
    ],
)
def test_what_is_no_such_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "live"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_file(tmp_path / "no")
    (tmp_path / "live").write_bytes(b"\xff\x00")
    with pytest.raises(ConfigError, match="is not the table live"):
        read_file(tmp_path / "live")
