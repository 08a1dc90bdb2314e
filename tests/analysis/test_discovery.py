"""What lies below a folder: what can't be looked at, whose it is, and what is none of ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import discover
from kgtool.analysis.input.discover import find_inputs
from kgtool.errors import ConfigError
from tests.analysis import writer


def manifest(folder: Path, cluster: str, taken_ms: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"cluster_id": cluster, "taken_at_ms": taken_ms}
    (folder / "cluster.json").write_text(json.dumps(content))


def export(folder: Path, cluster: str, taken_ms: int = 1, partition: int = 0) -> Path:
    manifest(folder, cluster, taken_ms)
    place = folder / "segments" / f"__consumer_offsets-{partition}"
    place.mkdir(parents=True)
    (place / f"{0:020}.log").write_bytes(writer.commits(0, 3))
    return place


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_each_segment_belongs_to_the_nearest_cluster_json(levels: int, tmp_path: Path) -> None:
    """Kind: a description that is not exactly where the argument points: above it, or below."""
    place = export(tmp_path / "parent" / "export", "one")
    manifest(tmp_path / "parent" / "empty", "another")  # nothing lies below it
    for number, argument in enumerate((place, *place.parents)):
        if number == levels:
            told = find_inputs([str(argument)]).manifest
            assert told is not None and told["cluster_id"] == "one"
    only = find_inputs([str(next(place.iterdir()))])
    assert only.manifest is not None and only.manifest["cluster_id"] == "one"


def test_two_clusters_below_one_folder_are_refused(tmp_path: Path) -> None:
    export(tmp_path / "a", "one")
    export(tmp_path / "deep" / "b", "two", partition=1)
    with pytest.raises(ConfigError, match=r"different clusters \(one, two\)"):
        find_inputs([str(tmp_path)])


def test_the_newest_description_of_a_cluster_counts(tmp_path: Path) -> None:
    export(tmp_path / "a", "one", 5)
    export(tmp_path / "b", "one", 7, partition=1)
    told = find_inputs([str(tmp_path)]).manifest
    assert told is not None and told["taken_at_ms"] == 7


def test_a_cluster_json_of_somebody_else_above_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"nodes": 3}')
    writer.segment(tmp_path / "data", writer.commits(0, 1))
    assert find_inputs([str(tmp_path / "data")]).manifest is None


def test_what_cannot_be_listed_or_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind: a part of the input that vanishes: a locked folder, a link to nothing, a pipe."""
    writer.segment(tmp_path, writer.commits(0, 1))
    (tmp_path / "locked").mkdir()
    (tmp_path / "__consumer_offsets-7.0.log").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "__consumer_offsets-8.0.log")
    scandir = os.scandir

    def guarded(path: Any) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    problems = sorted(find_inputs([str(tmp_path)]).problems)
    assert problems == [
        f"{tmp_path}/__consumer_offsets-7.0.log can't be read: No such file or directory.",
        f"{tmp_path}/__consumer_offsets-8.0.log is not a regular file.",
        f"{tmp_path}/locked can't be read: Permission denied.",
    ]


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets"])
def test_logs_that_kafka_gave_up_do_not_matter(topic: str, tmp_path: Path) -> None:
    writer.segment(tmp_path, writer.commits(0, 1))
    for end in ("delete", "future", "stray"):
        folder = tmp_path / f"{topic}-0.0123456789abcdef0123456789abcdef-{end}"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(writer.commits(0, 3))
        (folder / "00000000000000000000.index").write_bytes(b"\0" * 8)
    inputs = find_inputs([str(tmp_path)])
    assert len(inputs.files) == 1 and inputs.problems == []
    assert [each for each in inputs.notes if "-delete, -future, -stray" in each] == (
        [] if topic == "orders" else inputs.notes
    )


def test_an_index_without_its_log(tmp_path: Path) -> None:
    for topic in ("__consumer_offsets", "orders"):
        place = tmp_path / f"{topic}-3"
        place.mkdir()
        for base in (0, 500):
            (place / f"{base:020}.index").write_bytes(b"\0" * 8)
            (place / f"{base:020}.timeindex").write_bytes(b"\0" * 8)
        (place / f"{0:020}.log").write_bytes(writer.commits(0, 1))
    missing = tmp_path / "__consumer_offsets-3" / f"{500:020}.log"
    assert find_inputs([str(tmp_path)]).problems == [
        f"{missing}: missing, its index is there: copy the .log files too."
    ]


def test_relative_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(tmp_path / "x-0.y-stray" / "export", "one")
    monkeypatch.chdir(tmp_path / "x-0.y-stray")
    found = find_inputs(["export"])
    assert len(found.files) == 1 and found.manifest is not None
    assert discover.find_inputs(["."]).manifest == found.manifest
