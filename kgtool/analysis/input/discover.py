"""Find what there is to read: names, sizes and first bytes; workers read the rest.

What a file is, its content tells; which partition of ``__consumer_offsets`` a raw segment is, only
its path does. Files elsewhere than on this machine are looked at through Spark's file systems:
``kgtool.analysis.spark.remote`` gives the same kind of listing.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kgtool.analysis.input import formats, lookalikes
from kgtool.analysis.input.examine_text import Text, examine
from kgtool.analysis.input.formats import HEAD_BYTES, Format
from kgtool.analysis.input.input_files import (
    NO_PARTITION,
    PARTITION,
    SEGMENT,
    TOPIC,
    InputFile,
    Inputs,
    ListedFile,
    Listing,
    is_empty_log,
    unquoted,
)
from kgtool.analysis.input.lookalikes import Fixable
from kgtool.analysis.input.readers.text_layout import as_text, from_text
from kgtool.analysis.input.readers.text_ranges import SECTION
from kgtool.analysis.input.resolve_inputs import merge, one_cluster, resolve
from kgtool.analysis.words import count
from kgtool.errors import ConfigError
from kgtool.text import listed

MANIFEST = "cluster.json"
SHOWN = 5
"""Names that a note gives."""
MOST_BYTES = 256 << 20
"""Of a segment that a worker gets as a whole; offsets.topic.segment.bytes is 100 MiB."""

_PARTITION = re.compile(rf"{TOPIC}-({PARTITION})")
_LEAVING = re.compile(r"-\d+\.[\w-]+-(?:delete|future|stray)$")
_INDEX = re.compile(r"\.(?:index|timeindex)$")
_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_WEB = ("http://", "https://", "ftp://")
_BESIDES = re.compile(
    r"\.(?:index|timeindex|txnindex|snapshot|deleted|cleaned|swap|crc|tmp|checkpoint)$"
    r"|^(?:leader-epoch-checkpoint|partition\.metadata|meta\.properties|cluster\.json"
    r"|kraft-version|quorum-state|bootstrap\.checkpoint)$"
    r"|^[a-z-]+-offset-checkpoint$|^\.|^_(?:SUCCESS|started|committed|common_metadata|metadata)"
)
"""Files that Kafka, Spark and kgtool keep beside the records."""


def find_inputs(paths: Sequence[str]) -> Inputs:
    """Look at the files and folders of this machine.

    Raises ConfigError if there is nothing to read, and nothing elsewhere either.
    """
    remote = [text for text in paths if is_remote(text)]
    here = [_look_at(text) for text in dict.fromkeys(paths) if text not in remote]
    inputs = merge(Inputs([], None, [], [], remote), *here)
    return inputs if remote else resolve(inputs)


def _look_at(text: str) -> Inputs:
    if text.lower().startswith(_WEB):
        return Inputs(
            [], None, [f"{text} can't be listed: download it, and name the file."], [], []
        )
    path = local_path(text)
    if not path.exists():
        return Inputs([], None, [f"{text} does not exist."], [], [])
    if not path.is_dir() and not path.is_file():
        return Inputs([], None, [f"{text} is not a regular file: write it to one."], [], [])
    return classify(_local_listing(path))


def is_remote(text: str) -> bool:
    """Whether only Spark's file systems can look at it."""
    return bool(_REMOTE.match(text)) and not text.lower().startswith(("file://", *_WEB))


def local_path(text: str) -> Path:
    """The path of a plain argument or a ``file:`` URL; a name that exists as it is wins."""
    match = re.match(r"^file:(?://[^/]*)?(/.*)$", text, re.IGNORECASE | re.DOTALL)
    if match is None:
        return Path(text)
    plain = Path(match[1])
    return plain if plain.exists() else Path(unquoted(match[1]))


def _local_listing(path: Path) -> Listing:
    whole = path.absolute()
    if not whole.is_dir():
        only = [ListedFile(str(whole), whole.stat().st_size)]
        return Listing(str(path), only, _head, _content, True)
    problems: list[str] = []
    entries = list(_walk(whole, problems))
    return Listing(str(path), entries, _head, _content, False, problems=problems)


def _walk(folder: Path, problems: list[str]) -> Iterable[ListedFile]:
    """The files below a folder; what can't be listed or looked at is a problem."""
    seen: set[str] = set()

    def failed(error: OSError) -> None:
        problems.append(f"{error.filename} can't be read: {error.strerror or error}.")

    for base, folders, names in os.walk(folder, followlinks=True, onerror=failed):
        real = os.path.realpath(base)
        if real in seen:  # a link to a folder above
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in sorted(names):
            path = Path(base) / name
            try:
                status = path.stat()
            except OSError as error:
                failed(error)
                continue
            if stat.S_ISREG(status.st_mode):
                yield ListedFile(str(path), status.st_size)
            elif SEGMENT.search(str(path)):
                problems.append(f"{path} is not a regular file.")


def _content(path: str) -> bytes | None:
    return Path(path).read_bytes() if Path(path).is_file() else None


def _head(entry: ListedFile) -> bytes:
    with Path(entry.path).open("rb") as file:
        return file.read(HEAD_BYTES)


def read_manifest(name: str, raw: bytes) -> dict[str, Any]:
    """The content of a cluster.json. Raises ConfigError if it is none."""
    try:
        content = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{name} can't be read as JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{name} is not an export's description: it holds no JSON object.")
    return content


# --- one listing ---------------------------------------------------------------------------------


def classify(listing: Listing) -> Inputs:
    """Tell what each file of a listing is."""
    found = Inputs([], None, [*listing.problems], [], [])
    others: Counter[str] = Counter()
    unknown: list[str] = []
    own: set[str] = set()
    entries = listing.entries
    kept = [entry for entry in entries if not _is_leaving(entry.path, _base(listing))]
    for entry in kept:
        segment, name = SEGMENT.search(entry.path), entry.path.rpartition("/")[2]
        if segment is not None and segment["topic"] != TOPIC:
            others[segment["topic"]] += 1
        elif segment is not None and listing.is_remote and entry.size > MOST_BYTES:
            found.problems.append(f"{entry.path} is larger than 256 MiB: copy it to this machine.")
        elif segment is not None:
            found.files.append(_segment(entry, segment, listing))
        elif listing.is_file or (entry.size and not _BESIDES.search(name)):
            file = _by_content(entry, listing)
            if isinstance(file, InputFile):
                found.files.append(file)
            elif file == formats.OWN and not listing.is_file:
                own.add(str(Path(entry.path).parents[1]))
            elif listing.is_file or not isinstance(file, lookalikes.Foreign):
                way_out = "" if isinstance(file, Fixable) else f" {lookalikes.WAY_OUT}."
                found.problems.append(f"{entry.path} {file}.{way_out}")
            else:
                unknown.append(name)
    found.problems.extend(_without_log(kept))
    found = found._replace(manifest=_manifest(found.files, listing))
    _tell_of_others(found, listing, others, unknown, sorted(own))
    gone = [each.path for each in entries if each not in kept and f"{TOPIC}-" in each.path]
    if gone:
        found.notes.append(
            f"{listing.root}: {count(len(gone), 'file')} of {TOPIC} left out, in folders that "
            "Kafka deletes, moves or has given up (-delete, -future, -stray)."
        )
    return found


def _is_leaving(path: str, base: str) -> bool:
    """Whether a file is in a log that Kafka deletes, moves to another disk, or does not know."""
    return any(map(_LEAVING.search, path.removeprefix(base).split("/")[:-1]))


def _without_log(entries: Sequence[ListedFile]) -> list[str]:
    """What to say of indexes whose segments are missing."""
    paths = {entry.path for entry in entries}
    indexes = [path for path in sorted(paths) if _INDEX.search(path)]
    missing = sorted({_INDEX.sub(".log", path) for path in indexes} - paths)
    missing = [path for path in missing if _is_of_topic(path)]
    some = listed(missing, SHOWN, " and {} more")
    return [f"{some}: missing, its index is there: copy the .log files too."] if missing else []


def _is_of_topic(path: str) -> bool:
    segment = SEGMENT.search(path)
    return segment is not None and segment["topic"] == TOPIC


def _manifest(files: Sequence[InputFile], listing: Listing) -> dict[str, Any] | None:
    """The newest of the cluster.json nearest above each file; of the root if there is no file.

    Raises ConfigError if they are of several clusters.
    """
    listed = {each.path for each in listing.entries if each.path.endswith(f"/{MANIFEST}")}
    folders = {file.path.rpartition("/")[0] for file in files} or {_base(listing)}
    return one_cluster(*(_nearest(folder, listing, listed) for folder in sorted(folders)))


def _base(listing: Listing) -> str:
    root = listing.root if listing.is_remote else str(local_path(listing.root).absolute())
    return root.rstrip("/")


def _nearest(folder: str, listing: Listing, listed: set[str]) -> dict[str, Any] | None:
    """The cluster.json of a folder, or of the next one above it that has one."""
    base = _base(listing)
    while folder.strip("/") and not folder.endswith((":", ":/")):
        path = f"{folder}/{MANIFEST}"
        is_below = folder.startswith(base) and not listing.is_file
        if path in listed:
            return read_manifest(path, listing.content(path) or b"")
        told = None if is_below else _above(path, listing)
        if told is not None:
            return told
        folder = folder.rpartition("/")[0]
    return None


def _above(path: str, listing: Listing) -> dict[str, Any] | None:
    """A cluster.json outside of what was named, if it is one of ours."""
    with suppress(OSError, ConfigError):
        raw = listing.content(path)
        told = {} if raw is None else read_manifest(path, raw)
        return told if "cluster_id" in told else None
    return None


def _segment(entry: ListedFile, match: re.Match[str], listing: Listing) -> InputFile:
    return InputFile(
        entry.path,
        formats.SEGMENT.name,
        int(match["partition"]),
        int(match["base"]),
        entry.size,
        root=listing.root,
        is_remote=listing.is_remote,
    )


def _by_content(entry: ListedFile, listing: Listing) -> InputFile | str:
    try:
        head = listing.head(entry)
    except OSError as error:
        return Fixable(f"can't be read: {error.strerror or error}")
    found = _recognised(entry, head)
    if isinstance(found, str):
        return found
    kind, layout, missing = found
    if kind == formats.PARQUET and listing.is_remote and Path(entry.path).name.startswith("_"):
        return Fixable("is ignored by Spark, for its name begins with _: rename it")
    if kind == formats.PARQUET and not listing.is_remote:
        from kgtool.analysis.input.readers.parquet_rows import refusal

        why = refusal(entry.path)
        if why is not None:
            return why
    dumped = _dumped(entry, head, kind)
    if isinstance(dumped, str):
        return dumped
    partition, base = dumped
    is_streamed = listing.is_remote and layout is None and kind != formats.ROWS_JSON
    separator = formats.separator(head, kind).decode() if is_streamed else ""
    if listing.is_remote and not separator and entry.size > MOST_BYTES:
        return Fixable("is larger than 256 MiB: copy it to this machine")
    return InputFile(
        entry.path,
        kind.name,
        partition,
        base,
        entry.size,
        missing,
        0,
        listing.root,
        listing.is_remote,
        separator,
        as_text(layout),
    )


def _recognised(entry: ListedFile, head: bytes) -> Text | str:
    kind = formats.by_magic(head)
    if isinstance(kind, Format):
        return Text(kind, None, kind.missing)
    if kind is not None:
        return kind
    found = examine(head, is_whole=entry.size <= len(head))
    if isinstance(found, str) and formats.looks_like_segment(head):
        return Fixable(
            f"holds record batches, but not of {TOPIC}, as far as its name tells: the "
            f"partition is read from {TOPIC}-N/<base offset>.log or "
            f"{TOPIC}-N.<base offset>.log"
        )
    return found


def _dumped(entry: ListedFile, head: bytes, kind: Format) -> tuple[int, int] | str:
    """Partition and base offset of what kafka-dump-log was given; or that it is another topic's."""
    if kind not in formats.DUMPS:
        return NO_PARTITION, 0
    names = [name.decode(errors="replace") for name in SECTION.findall(head)]
    segments = map(SEGMENT.search, names)
    topics = {match["topic"] for match in segments if match}
    if topics and TOPIC not in topics and entry.size <= HEAD_BYTES:
        return f"is a dump of {', '.join(sorted(topics))}, not of {TOPIC}"
    own = _PARTITION.findall("/".join(Path(entry.path).parts[-2:]))
    base = re.search(r"(\d+)\.log$", names[0]) if names else None
    return int(own[-1]) if own else NO_PARTITION, int(base[1]) if base else 0


def _tell_of_others(
    found: Inputs, listing: Listing, others: Counter[str], unknown: list[str], own: list[str]
) -> None:
    topics = [name for name, _ in others.most_common()]
    if is_empty_log(found.manifest) and not found.files:
        found.notes.append(f"{listing.root} is the export of a log without records.")
    elif not found.files and not found.problems:
        found.problems.append(_nothing(listing, ", ".join(topics[:SHOWN]), unknown, own))
        return
    if others:
        found.notes.append(
            f"{listing.root}: {others.total()} segments of other topics are left out "
            f"({_some(topics)})."
        )
    if unknown:
        found.notes.append(f"{listing.root}: left out, in no known format: {_some(unknown)}.")
    changed: dict[str, list[str]] = {}
    for file in found.files:
        layout = from_text(file.layout)
        if layout is not None and layout.described():
            changed.setdefault(layout.described(), []).append(file.path.rpartition("/")[2])
    for what, names in changed.items():
        found.notes.append(f"Passed on as text, {what}: {_some(names)}.")
    if own:
        found.notes.append(f"{listing.root}: left out, written by kgtool analyze: {_some(own)}.")


def _nothing(listing: Listing, topics: str, unknown: list[str], own: list[str]) -> str:
    if listing.is_file:
        return f"{listing.root} is a segment of topic {topics}, not of {TOPIC}."
    what = f"{listing.root} has nothing of {TOPIC}"
    if topics:
        return f"{what}, only segments of other topics ({topics})."
    if own:
        return f"{what}, only what kgtool analyze wrote."
    if unknown:
        return f"{what} in a known format ({_some(unknown)})."
    return (
        f"{what} (segments {TOPIC}-N/<base offset>.log, Parquet, or output of "
        "kafka-console-consumer or kafka-dump-log)."
    )


def _some(names: list[str]) -> str:
    return listed(names, SHOWN, " and {} more")
