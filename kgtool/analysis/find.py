"""Find what there is to read: names, sizes and first bytes; workers read the rest.

What a file is, its content tells; which partition of ``__consumer_offsets`` a raw segment is, only
its path does. Files elsewhere than on this machine are looked at through Spark's file systems:
``kgtool.analysis.remote`` gives the same kind of listing.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from kgtool.analysis import formats, lacks
from kgtool.analysis.formats import HEAD_BYTES, Format
from kgtool.analysis.textfile import SECTION
from kgtool.errors import ConfigError

MANIFEST = "cluster.json"
TOPIC = "__consumer_offsets"
NO_PARTITION = -1
"""Stands for the partitions of records whose partition is not told."""
SHOWN = 5
"""Names that a note gives."""

_SEGMENT = re.compile(
    r"(?:^|/)(?P<topic>[A-Za-z0-9._\-]{1,249})-(?P<partition>\d+)"
    r"(?:\.(?P<dotted>\d+)\.log|/(?P<plain>\d+)\.log)$"
)
_PARTITION = re.compile(rf"{TOPIC}-(\d+)(?!\d)")
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_BESIDES = re.compile(
    r"\.(?:index|timeindex|txnindex|snapshot|deleted|cleaned|swap|crc|tmp|checkpoint)$"
    r"|^(?:leader-epoch-checkpoint|partition\.metadata|meta\.properties|cluster\.json"
    r"|kraft-version|quorum-state|bootstrap\.checkpoint)$"
    r"|^[a-z-]+-offset-checkpoint$|^\.|^_(?:SUCCESS|started|committed|common_metadata|metadata)"
)
"""Files that Kafka, Spark and kgtool keep beside the records."""


class InputFile(NamedTuple):
    """One file, or one partition of a live cluster."""

    path: str
    format: str
    """A key of ``formats.FORMATS``."""
    partition: int
    """Of ``__consumer_offsets``; negative where it is not told."""
    base_offset: int
    size: int
    """Bytes; of a partition of a live cluster: the offset at which it ends."""
    lacks: int = 0
    """Bits of ``kgtool.analysis.lacks``: what this input as a whole can't tell."""
    order: int = 0
    """Where places in the file stand for offsets: what is added to them."""
    root: str = ""
    """The argument under which it was found."""
    is_remote: bool = False
    separator: str = ""
    """What a record begins with, where Spark reads the text."""


class Inputs(NamedTuple):
    """All that was found under the paths given."""

    files: list[InputFile]
    manifest: dict[str, Any] | None
    """cluster.json of an export directory, or what a live cluster said."""
    problems: list[str]
    """One sentence for each path or file that gives nothing."""
    notes: list[str]
    """What else the user should know."""
    remote: list[str]
    """URLs that only Spark can look at."""


class Entry(NamedTuple):
    """A file of a listing."""

    path: str
    size: int


class Listing(NamedTuple):
    """What is under one argument, wherever that is."""

    root: str
    entries: Iterable[Entry]
    head: Callable[[Entry], bytes]
    """The first ``formats.HEAD_BYTES`` bytes; may raise OSError."""
    is_file: bool
    """Whether the argument names the file itself."""
    is_remote: bool = False


class Found(NamedTuple):
    """What a listing turned out to be."""

    files: list[InputFile]
    problems: list[str]
    notes: list[str]


def find(paths: Sequence[str]) -> Inputs:
    """Look at the files and folders of this machine.

    Raises ConfigError if there is nothing to read, and nothing elsewhere either.
    """
    remote = [text for text in paths if _is_remote(text)]
    inputs = Inputs([], None, [], [], remote)
    manifests: list[dict[str, Any]] = []
    for text in dict.fromkeys(paths):
        if text in remote:
            continue
        path = local_path(text)
        if not path.exists():
            inputs.problems.append(f"{text} does not exist.")
            continue
        manifest = path / MANIFEST
        if path.is_dir() and manifest.is_file():
            manifests.append(read_manifest(str(manifest), manifest.read_bytes()))
        take(inputs, sort_out(_local_listing(path)))
    inputs = inputs._replace(manifest=one_cluster(manifests))
    if remote:
        return inputs
    return settled(inputs)


def settled(inputs: Inputs) -> Inputs:
    """The inputs once everything is found: nothing twice, and what they tell together.

    Raises ConfigError if there is nothing to read.
    """
    unique, doubled = _without_doubles(inputs.files)
    if not unique:
        raise ConfigError(" ".join(inputs.problems) or "There is nothing to read.")
    files = _as_one_partition(_with_own_partitions(unique))
    return inputs._replace(files=files, notes=[*inputs.notes, *doubled])


def take(inputs: Inputs, found: Found) -> None:
    """Add what was found."""
    inputs.files.extend(found.files)
    inputs.problems.extend(found.problems)
    inputs.notes.extend(found.notes)


def _is_remote(text: str) -> bool:
    return bool(_REMOTE.match(text)) and not text.lower().startswith("file://")


def local_path(text: str) -> Path:
    """The path of a plain argument or a ``file:`` URL; a name that exists as it is wins."""
    match = re.match(r"^file:(?://[^/]*)?(/.*)$", text, re.IGNORECASE | re.DOTALL)
    if match is None:
        return Path(text)
    plain = Path(match[1])
    return plain if plain.exists() else Path(unquote(match[1]))


def _local_listing(path: Path) -> Listing:
    whole = path.absolute()
    if not whole.is_dir():
        return Listing(str(path), [Entry(str(whole), whole.stat().st_size)], _head, True)
    return Listing(str(path), _walk(whole), _head, False)


def _walk(folder: Path) -> Iterable[Entry]:
    seen: set[str] = set()
    for base, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(base)
        if real in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in sorted(names):
            path = Path(base) / name
            if path.is_file():
                yield Entry(str(path), path.stat().st_size)


def _head(entry: Entry) -> bytes:
    with Path(entry.path).open("rb") as file:
        return file.read(HEAD_BYTES)


def read_manifest(name: str, raw: bytes) -> dict[str, Any]:
    """The content of a cluster.json. Raises ConfigError if it is none."""
    try:
        content = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{name} can't be read as JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name} is no export's description: it holds no JSON object.")
    return content


def one_cluster(manifests: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The description of the cluster. Raises ConfigError if there are several clusters."""
    clusters = {manifest.get("cluster_id") for manifest in manifests}
    if len(clusters) > 1:
        raise ConfigError(
            "The inputs are of different clusters "
            f"({', '.join(sorted(map(str, clusters)))}): analyze them one by one."
        )
    return manifests[0] if manifests else None


# --- one listing ---------------------------------------------------------------------------------


def sort_out(listing: Listing) -> Found:
    """Tell what each file of a listing is."""
    found = Found([], [], [])
    others: Counter[str] = Counter()
    unknown: list[str] = []
    for entry in listing.entries:
        posix = entry.path.replace(os.sep, "/")
        segment = _SEGMENT.search(posix)
        if segment is not None and segment["topic"] != TOPIC:
            others[segment["topic"]] += 1
        elif segment is not None:
            found.files.append(_segment(entry, segment, listing))
        elif listing.is_file or not _BESIDES.search(posix.rsplit("/", 1)[-1]):
            file = _by_content(entry, listing)
            if isinstance(file, InputFile):
                found.files.append(file)
            elif listing.is_file or not file.endswith(formats.UNKNOWN):
                found.problems.append(f"{entry.path} {file}.")
            else:
                unknown.append(posix.rsplit("/", 1)[-1])
    _tell_of_others(found, listing, others, unknown)
    return found


def _segment(entry: Entry, match: re.Match[str], listing: Listing) -> InputFile:
    base = int(match["dotted"] or match["plain"])
    return InputFile(
        entry.path, formats.SEGMENT.name, int(match["partition"]), base, entry.size,
        root=listing.root, is_remote=listing.is_remote,
    )  # fmt: skip


def _by_content(entry: Entry, listing: Listing) -> InputFile | str:
    try:
        head = listing.head(entry)
    except OSError as error:
        return f"can't be read: {error.strerror or error}"
    kind = formats.recognise(head)
    if isinstance(kind, str):
        if formats.looks_like_segment(head):
            return (
                f"holds record batches, but not of {TOPIC}, as far as its name tells: the "
                f"partition is read from {TOPIC}-N/<base offset>.log or "
                f"{TOPIC}-N.<base offset>.log"
            )
        return kind
    if kind == formats.PARQUET and not listing.is_remote:
        from kgtool.analysis.parquet_rows import refusal

        why = refusal(entry.path)
        if why is not None:
            return why
    dumped = _dumped(entry, head, kind)
    if isinstance(dumped, str):
        return dumped
    partition, base = dumped
    separator = formats.separator(head, kind).decode() if listing.is_remote else ""
    return InputFile(
        entry.path, kind.name, partition, base, entry.size, kind.lacks, 0, listing.root,
        listing.is_remote, separator,
    )  # fmt: skip


def _dumped(entry: Entry, head: bytes, kind: Format) -> tuple[int, int] | str:
    """Partition and base offset of what kafka-dump-log was given; or that it is another topic's."""
    if kind not in formats.DUMPS:
        return NO_PARTITION, 0
    names = [name.decode(errors="replace") for name in SECTION.findall(head)]
    segments = [_SEGMENT.search(name.replace("\\", "/")) for name in names]
    topics = {match["topic"] for match in segments if match}
    if topics and TOPIC not in topics and entry.size <= HEAD_BYTES:
        return f"is a dump of {', '.join(sorted(topics))}, not of {TOPIC}"
    own = _PARTITION.findall("/".join(Path(entry.path).parts[-2:]))
    base = re.search(r"(\d+)\.log$", names[0]) if names else None
    return int(own[-1]) if own else NO_PARTITION, int(base[1]) if base else 0


def _tell_of_others(
    found: Found, listing: Listing, others: Counter[str], unknown: list[str]
) -> None:
    topics = ", ".join(name for name, _ in others.most_common(SHOWN))
    if not found.files and not found.problems:
        found.problems.append(_nothing(listing, topics, unknown))
        return
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        found.notes.append(
            f"{listing.root}: {sum(others.values())} segments of other topics are left out "
            f"({topics}{more})."
        )
    if unknown:
        found.notes.append(f"{listing.root}: left out, in no known format: {_some(unknown)}.")


def _nothing(listing: Listing, topics: str, unknown: list[str]) -> str:
    if listing.is_file:
        return f"{listing.root} is a segment of topic {topics}, not of {TOPIC}."
    what = f"{listing.root} has nothing of {TOPIC}"
    if topics:
        return f"{what}, only segments of other topics ({topics})."
    if unknown:
        return f"{what} in a format that is known ({_some(unknown)})."
    return (
        f"{what} (segments {TOPIC}-N/<base offset>.log, Parquet, or output of "
        "kafka-console-consumer or kafka-dump-log)."
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


# --- all of them together ------------------------------------------------------------------------


def _without_doubles(files: Iterable[InputFile]) -> tuple[list[InputFile], list[str]]:
    """One file for each segment: replicas and repeated arguments must not count twice."""
    best: dict[Any, InputFile] = {}
    notes = []
    for file in files:
        real = file.path if file.is_remote else os.path.realpath(file.path)
        is_segment = file.format == formats.SEGMENT.name
        key = (file.partition, file.base_offset) if is_segment else real
        other = best.get(key)
        if other is None:
            best[key] = file
        elif is_segment and real != os.path.realpath(other.path):
            kept = max(other, file, key=lambda each: each.size)
            notes.append(
                f"{other.path} and {file.path} are the same segment: only {kept.path} is read."
            )
            best[key] = kept
    return list(best.values()), notes


def _with_own_partitions(files: list[InputFile]) -> list[InputFile]:
    """Give each dump without a partition a number of its own, below NO_PARTITION.

    Dumps in one folder of segments with different base offsets may be of one partition, whose
    groups are in all of them; two with the same base offset are of two.
    """
    dumps = {kind.name for kind in formats.DUMPS}
    nameless = [f for f in files if f.format in dumps and f.partition == NO_PARTITION]
    folders: dict[str, list[InputFile]] = {}
    for file in nameless:
        folders.setdefault(file.path.replace(os.sep, "/").rpartition("/")[0], []).append(file)
    numbers: dict[str, int] = {}
    for some in folders.values():
        is_one = len({file.base_offset for file in some}) == len(some)
        for file in some:
            known = numbers[some[0].path] if is_one and some[0].path in numbers else None
            numbers[file.path] = NO_PARTITION - 1 - len(numbers) if known is None else known
    return [
        file._replace(partition=numbers[file.path])
        if file.format in dumps and file.path in numbers
        else file
        for file in files
    ]


def _as_one_partition(files: list[InputFile]) -> list[InputFile]:
    """Let what formatters printed tell together what it can, the groups' records first."""
    names = [kind.name for kind in formats.FORMATTERS]
    printed = [file for file in files if file.format in names]
    together = 0
    for file in printed:
        together |= file.lacks
    have_offsets = any(not file.lacks & lacks.OFFSETS for file in printed)
    have_groups = any(not file.lacks & lacks.GROUPS for file in printed)
    together &= ~((lacks.OFFSETS if have_offsets else 0) | (lacks.GROUPS if have_groups else 0))
    printed.sort(key=lambda file: bool(file.lacks & lacks.GROUPS))
    behind = 0
    placed: dict[str, InputFile] = {}
    for file in printed:
        placed[file.path] = file._replace(lacks=together, order=behind)
        behind += file.size + 1
    return [placed.get(file.path, file) for file in files]
