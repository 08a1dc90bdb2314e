"""Images as lines: nothing is lost, and what is broken is named by its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.changes.journal.jsonl import group_lines, groups, record_of, records
from kgtool.changes.snapshot import GroupChange
from kgtool.errors import ConfigError
from tests.changes import snapshots
from tests.changes.snapshots import T0, image


def written(path: Path, recorded: list[GroupChange]) -> Path:
    path.write_text("".join(line for one in recorded for line in group_lines(one)), "ascii")
    return path


def read(path: Path) -> list[GroupChange]:
    return [
        one._replace(
            image=one.image._replace(offsets=dict(one.image.offsets)), after=dict(one.after)
        )
        for one in groups(path, records(path))
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(snapshots.group_images, max_size=3), st.data())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, found: list[Any], data: Any
) -> None:
    recorded = []
    for one in found:
        after = {p: data.draw(st.none() | snapshots.committed) for p in one.offsets}
        recorded.append(
            GroupChange(one, data.draw(st.sampled_from([{}, after])), data.draw(st.booleans()))
        )
    path = written(tmp_path_factory.mktemp("lines") / "f", recorded)
    assert read(path) == recorded
    assert path.read_bytes().isascii()
    assert b"\x1b" not in path.read_bytes()


def test_a_torn_last_line_ends_the_file(tmp_path: Path) -> None:
    recorded = [GroupChange(snapshots.group({T0: image(1)}, name), {}) for name in "ab"]
    path = written(tmp_path / "f", recorded)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        complete = sum(len(b"".join(lines[: n + 1])) <= cut for n in range(len(lines)))
        # The last line is also whole when only its line feed is missing.
        assert len(list(records(path))) in (complete, complete + 1)


def test_garbage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "f", [GroupChange(snapshots.group({T0: image(1)}), {})])
    path.write_bytes(b"{}\nnonsense\n" + path.read_bytes())
    with pytest.raises(ConfigError, match=r"f, line 2: not a JSON object\."):
        read(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("partition", -1, "partition is not a whole number"),
        ("partition", 2**31, "partition is not a whole number"),
        ("partition", True, "partition is not a whole number"),
        ("offset", -5, "offset is not a whole number"),
        ("offset", 2**63, "offset is not a whole number"),
        ("offset", "7", "offset is not a whole number"),
        ("offset", 1.5, "offset is not a whole number"),
        ("leader_epoch", -1, "leader_epoch is not a whole number"),
        ("metadata", 5, "metadata is not of the right type"),
        ("topic", None, "topic is not of the right type"),
        ("topic", "\ud800", "surrogates not allowed"),
        ("group", "other", "it stands before its group's line"),
        ("topic_id", 7, "topic_id is not of the right type"),
        ("after", 7, "after is neither an offset nor absent"),
        ("topic", ..., "topic is missing"),
        ("offset", ..., "offset is missing"),
        ("log_end_offset", ..., "log_end_offset is missing"),
    ],
)
def test_a_damaged_offset_is_named(tmp_path: Path, key: str, value: object, message: str) -> None:
    path = written(tmp_path / "f", [GroupChange(snapshots.group({T0: image(1)}), {T0: None})])
    head, line = path.read_text().splitlines()
    record = json.loads(line)
    if value is ...:
        del record[key]
    else:
        record[key] = value
    path.write_text(f"{head}\n{json.dumps(record)}\n")
    with pytest.raises(ConfigError, match="line 2: ") as caught:
        read(path)
    assert message in caught.value.message


def test_bytes_that_are_no_text_are_read_again(tmp_path: Path) -> None:
    """Some brokers keep metadata as it came. Was: no journal and no backup with it was readable."""
    found = image(1)
    assert found.committed is not None
    kept = found._replace(committed=found.committed._replace(metadata="\udcff\x00é"))
    path = written(tmp_path / "f", [GroupChange(snapshots.group({T0: kept}), {T0: None})])
    (recorded,) = read(path)
    assert recorded.image.offsets[T0] == kept


def test_a_partition_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "f", [GroupChange(snapshots.group({T0: image(1)}), {})])
    head, line = path.read_text().splitlines()
    path.write_text(f"{head}\n{line}\n{line}\n")
    with pytest.raises(ConfigError, match="line 3: t-0 appears twice"):
        read(path)


def test_deep_nesting_is_no_record() -> None:
    assert record_of(b"[" * 100_000) is None


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Can't read .*: No such file"):
        read(tmp_path / "none")
    with pytest.raises(ConfigError, match="Can't read .*: Is a directory"):
        read(tmp_path)


@pytest.mark.parametrize("key", ["offset", "log_start_offset", "log_end_offset", "time_ms"])
def test_offsets_end_where_the_protocol_s_do(tmp_path: Path, key: str) -> None:
    one = image(1)._replace(time_ms=2)
    head, line = group_lines(GroupChange(snapshots.group({T0: one}), {})).splitlines()
    path = tmp_path / "f"
    for value in (2**63 - 1, 2**63):
        path.write_text(f"{head}\n{json.dumps(json.loads(line) | {key: value})}\n")
        if value < 2**63:
            assert len(list(groups(path, records(path)))) == 1
            continue
        with pytest.raises(ConfigError, match=f"{key} is not a whole number"):
            list(groups(path, records(path)))
