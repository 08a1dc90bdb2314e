"""Find what there is to read. Only names and sizes are looked at here; workers read the bytes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.errors import AnalysisError, ConfigError
from kgtool.retention import rules as retention
from kgtool.retention.rules import RuleSet

MANIFEST = "cluster.json"
TOPIC = "__consumer_offsets"
DEFAULT_RULES = retention.RULES_4_1
DEFAULT_RETENTION_MS = 7 * 86_400_000
"""offsets.retention.minutes is 10080 since 2.0."""
DEFAULT_INTERVAL_MS = 600_000
"""offsets.retention.check.interval.ms."""

_PARTITION = re.compile(rf"(?:^|/){TOPIC}-(\d+)(?:\.(\d+)\.log|/(\d+)\.log)$")
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


class SegmentFile(NamedTuple):
    """One raw segment."""

    path: str
    partition: int
    base_offset: int
    size: int
    """Bytes."""


class Inputs(NamedTuple):
    """All that was found under the paths given."""

    files: list[SegmentFile]
    manifest: dict[str, Any] | None
    """cluster.json of an export directory."""
    problems: list[str]
    """One sentence for each path that gave nothing."""
    notes: list[str]
    """What else the user should know."""


class Basis(NamedTuple):
    """By what removals are judged, and where that was learnt."""

    rules: RuleSet
    retention_ms: int
    check_interval_ms: int
    as_of_ms: int | None
    """Moment at which an export was taken, if the input tells."""
    assumed: list[str]
    """What nobody told, in words: ``rules 4.1``."""
    topics: list[Any] | None = None
    """cluster.json's ``topics``: log start and end offsets when the export was taken."""


def find(paths: Sequence[str]) -> Inputs:
    """The segments under these files and folders. Raises AnalysisError if there is none."""
    files: list[SegmentFile] = []
    manifests: list[dict[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []
    for text in paths:
        try:
            path = _local(text)
            found = _segments(path)
            manifests += _manifest(path)
        except AnalysisError as error:
            problems.append(error.message)
            continue
        files += found
    unique, doubled = _without_doubles(files)
    notes += doubled
    if not unique:
        raise AnalysisError(" ".join(problems) or "There is nothing to read.")
    clusters = {manifest.get("cluster_id") for manifest in manifests}
    if len(clusters) > 1:
        raise ConfigError(
            "The exports are of different clusters "
            f"({', '.join(sorted(map(str, clusters)))}): analyze them one by one."
        )
    return Inputs(unique, manifests[0] if manifests else None, problems, notes)


def _local(text: str) -> Path:
    if text.startswith("file://"):
        text = text[len("file://") :]
    if _REMOTE.match(text):
        raise AnalysisError(f"{text} is not on this machine: raw segments are read from files.")
    path = Path(text)
    if not path.exists():
        raise AnalysisError(f"{text} does not exist.")
    return path


def _segments(path: Path) -> list[SegmentFile]:
    if path.is_file():
        found = _segment(path)
        if found is None:
            raise AnalysisError(
                f"{path} is not named as a segment of {TOPIC}: the partition is read from the "
                f"name, {TOPIC}-N/<base offset>.log or {TOPIC}-N.<base offset>.log."
            )
        return [found]
    files = [_segment(file) for file in sorted(_walk(path))]
    segments = [file for file in files if file is not None]
    if not segments:
        raise AnalysisError(
            f"{path} has no segment of {TOPIC} ({TOPIC}-N/<base offset>.log or "
            f"{TOPIC}-N.<base offset>.log)."
        )
    return segments


def _walk(folder: Path) -> Iterable[Path]:
    for base, _, names in os.walk(folder, followlinks=True):
        for name in names:
            if name.endswith(".log"):
                yield Path(base) / name


def _segment(path: Path) -> SegmentFile | None:
    whole = path.absolute()
    match = _PARTITION.search(whole.as_posix())
    if match is None:
        return None
    partition, dotted, plain = match.groups()
    return SegmentFile(str(whole), int(partition), int(dotted or plain), whole.stat().st_size)


def _without_doubles(files: Iterable[SegmentFile]) -> tuple[list[SegmentFile], list[str]]:
    """One file for each segment: replicas and repeated arguments must not count twice."""
    best: dict[tuple[int, int], SegmentFile] = {}
    notes = []
    for file in files:
        key = (file.partition, file.base_offset)
        other = best.get(key)
        if other is not None and os.path.realpath(other.path) != os.path.realpath(file.path):
            kept = max(other, file, key=lambda each: each.size)
            notes.append(
                f"{other.path} and {file.path} are the same segment: only {kept.path} is read."
            )
            best[key] = kept
        elif other is None:
            best[key] = file
    return list(best.values()), notes


def _manifest(path: Path) -> list[dict[str, Any]]:
    file = path / MANIFEST
    if not path.is_dir() or not file.is_file():
        return []
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{file} can't be read as JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{file} is no export's description: it holds no JSON object.")
    return [content]


def basis(
    manifest: dict[str, Any] | None,
    rules: str,
    retention_ms: int | None,
    check_interval_ms: int | None,
) -> Basis:
    """What the options say, or else cluster.json, or else the defaults; those are ``assumed``."""
    content = manifest or {}
    configs = content.get("configs")
    configs = configs if isinstance(configs, dict) else {}
    assumed: list[str] = []
    chosen = retention.RULE_SETS.get(rules) or _rules_of(content)
    if chosen is None:
        chosen = DEFAULT_RULES
        assumed.append(f"rules {chosen.name}")
    minutes = _whole(configs.get("offsets.retention.minutes"))
    if retention_ms is None and minutes is not None:
        retention_ms = minutes * 60_000
    if retention_ms is None:
        retention_ms = DEFAULT_RETENTION_MS
        assumed.append("retention 7d")
    if check_interval_ms is None:
        check_interval_ms = _whole(configs.get("offsets.retention.check.interval.ms"))
    if check_interval_ms is None:
        check_interval_ms = DEFAULT_INTERVAL_MS
        assumed.append("check interval 10m")
    taken_at = _whole(content.get("taken_at_ms"))
    topics = content.get("topics")
    return Basis(
        chosen, retention_ms, check_interval_ms, taken_at, assumed,
        topics if isinstance(topics, list) else None,
    )  # fmt: skip


def _rules_of(manifest: dict[str, Any]) -> RuleSet | None:
    """The rule set of the oldest broker that the export names; None where it can't be told."""
    brokers = manifest.get("brokers")
    versions = [
        tuple(int(part) for part in re.findall(r"\d+", str(broker.get("version")))[:3])
        for broker in (brokers if isinstance(brokers, list) else [])
        if isinstance(broker, dict) and re.match(r"\d+\.\d+", str(broker.get("version")))
    ]
    if not versions:
        return None
    coordinator = manifest.get("coordinator")
    version = min(versions)
    if coordinator not in ("new", "classic") and (3, 7) <= version[:2] < (4, 0):
        return None
    return retention.rules_for_broker(version, new_coordinator=coordinator == "new")


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
