"""Segments of ``__consumer_offsets`` as files: an export, or a copy of a broker's log folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgtool.errors import ConfigError, readable
from kgtool.queries.cluster.broker_rules import INTERVAL, MINUTE_MS, RETENTION, BrokerRules
from kgtool.queries.cluster.offsets_partition import TOPIC, offsets_partition
from kgtool.queries.log.expiry import USUAL_RETENTION_MS
from kgtool.queries.log.fetch import whole_batches
from kgtool.queries.log.gone import GoneGroup, Readers
from kgtool.retention.rules import RULES_4_1, RuleSet, rules_for_broker
from kgtool.retention.written_by import likely_rules

_PIECE = 16 << 20
_FOLDER = re.compile(rf"{TOPIC}-(\d+)")
_SEGMENT = re.compile(r"(?:__consumer_offsets-(\d+)\.)?(\d{20})\.log")


class LogFiles:
    """Segments of ``__consumer_offsets`` in a folder or a file, and the nearest ``cluster.json``.

    :raises ConfigError: there are none, they can't be read, or they are of several clusters or
        copies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with readable(path):
            path.stat()
            files = sorted(path.rglob("*.log")) if path.is_dir() else [path]
        self._segments: dict[int, list[tuple[int, Path]]] = {}
        self.holes: dict[int, tuple[int, int]] = {}
        """The first offsets, from and to, of which a segment is missing, by log partition read."""
        folders: dict[Path, list[int]] = {}
        for file in files:
            name = _SEGMENT.fullmatch(file.name)
            home = _FOLDER.fullmatch(file.parent.name)
            if name is not None and (name[1] or home):
                number = int(name[1] or (home[1] if home else 0))
                self._segments.setdefault(number, []).append((int(name[2]), file))
                folders.setdefault(file.parent, []).append(number)
        if not self._segments:
            raise ConfigError(
                f"{path} has no segments of {TOPIC} ({TOPIC}-N/….log).",
                hint="recover reads a folder of kgtool export, or a copy of a broker's log folder.",
            )
        self._check_copies(folders)
        self._manifest = self._read_manifest(path, folders)
        self.cluster_id: str | None = self._manifest.get("cluster_id")

    def read(self, groups: Sequence[str], at_ms: int | None = None) -> dict[str, GoneGroup]:
        """Read what is gone of groups, or what stood at ``at_ms``.

        Without ``cluster.json`` it is not known how many log partitions there are: all are read.

        :raises KgError: a segment can't be read.
        """
        rules, retention_ms, interval_ms = self._rules()
        count = self._count()
        found: dict[str, GoneGroup] = {}
        readers, begins = Readers(at_ms), dict[int, int]()
        for number in sorted(self._segments):
            own = [g for g in groups if count is None or offsets_partition(g, count) == number]
            if not own:
                continue
            feed = readers.add(number, own)
            begins[number] = min(self._segments[number])[0]
            for base, file in sorted(self._segments[number]):
                end = readers.dense_end(number)
                if end is not None and base > end:
                    self.holes.setdefault(number, (end, base - 1))
                read_to = readers.end(number)
                for data in _pieces(file):
                    feed(data)
                if (back := readers.went_back(number)) is not None and base >= read_to:
                    raise ConfigError(
                        f"{file}: after offset {readers.end(number) - 1:,} comes {back:,} again: "
                        "a part of the log is repeated, or parts are out of order.",
                        hint="Name the segments as the broker or kgtool export wrote them.",
                    )
        kinds = [kind for number in begins for kind in readers.kinds(number)]
        rules = rules or likely_rules(kinds) or RULES_4_1
        broker = BrokerRules(rules, (0, 0), retention_ms, interval_ms)
        for number, begin in begins.items():
            for name, gone in readers.result(number, broker, begin).items():
                if gone.seen or name not in found:
                    found[name] = gone
        return {name: found.get(name, GoneGroup(-1, False, {}, None)) for name in groups}

    @staticmethod
    def _check_copies(folders: Mapping[Path, Sequence[int]]) -> None:
        """Refuse two copies of a log partition: which is right is not for the order of names."""
        homes: dict[int, Path] = {}
        for folder, numbers in folders.items():
            for number in set(numbers):
                if (other := homes.setdefault(number, folder)) != folder:
                    raise ConfigError(
                        f"{TOPIC}-{number} is in {other} and in {folder}: two copies may differ.",
                        hint="Name one of the two; kgtool analyze says where copies disagree.",
                    )

    def _read_manifest(self, path: Path, folders: Iterable[Path]) -> dict[str, Any]:
        """Return the newest of the ``cluster.json`` nearest above the segments; empty: none."""
        top = path.absolute() if path.is_dir() else path.absolute().parent
        highest = [top, *top.parents][:4][-1]
        found: dict[Path, dict[str, Any]] = {}
        for folder in folders:
            here = folder.absolute()
            above = (each / "cluster.json" for each in (here, *here.parents))
            inside = (file for file in above if file.is_relative_to(highest))
            nearest = next((file for file in inside if file.is_file()), None)
            if nearest is not None and nearest not in found:
                found[nearest] = _manifest(nearest)
        clusters = sorted({str(each.get("cluster_id")) for each in found.values()})
        if len(clusters) > 1:
            said = ", ".join(clusters)
            raise ConfigError(f"{path} has logs of different clusters ({said}): name one of them.")
        return max(found.values(), key=lambda each: str(each.get("taken_at_ms")), default={})

    def _count(self) -> int | None:
        topics = [t for t in self._manifest.get("topics", []) if t.get("name") == TOPIC]
        return len(topics[0]["partitions"]) if topics else None

    def _rules(self) -> tuple[RuleSet | None, int, int | None]:
        """Rules, retention and interval by cluster.json; None: it does not tell."""
        brokers = self._manifest.get("brokers", [])
        versions = [b["version"] for b in brokers if isinstance(b.get("version"), str)]
        configs = self._manifest.get("configs", {})
        minutes, interval = (str(configs.get(name) or "") for name in (RETENTION, INTERVAL))
        retention_ms = int(minutes) * MINUTE_MS if minutes.isdecimal() else USUAL_RETENTION_MS
        times = retention_ms, int(interval) if interval.isdecimal() else None
        split = [tuple(int(each) for each in v.split(".") if each.isdecimal()) for v in versions]
        coordinator = self._manifest.get("coordinator")
        if not split:
            return None, *times
        if coordinator not in ("new", "classic") and (3, 7) <= min(split)[:2] < (4, 0):
            return None, *times
        return rules_for_broker(min(split), new_coordinator=coordinator == "new"), *times


def _manifest(file: Path) -> dict[str, Any]:
    try:
        with readable(file):
            found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file} is not the cluster.json of an export.")
    return found


def _pieces(file: Path) -> Iterator[bytes]:
    """Yield whole batches of a segment; one cut off at the end is left out."""
    left = b""
    with readable(file), file.open("rb") as stream:
        while data := stream.read(_PIECE):
            left += data
            size, _ = whole_batches(left, 1 << 63)
            if size:
                yield left[:size]
                left = left[size:]
