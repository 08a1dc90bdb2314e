"""What was found to be read, and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

TOPIC = "__consumer_offsets"
TOPIC_NAME = r"[A-Za-z0-9._\-]{1,249}"
"""A pattern."""
PARTITION = r"\d{1,9}(?!\d)"
"""A pattern; it is an int32."""
SEGMENT = re.compile(
    rf"(?:^|[/\\])(?P<topic>{TOPIC_NAME})-(?P<partition>{PARTITION})[./\\](?P<base>\d+)\.log$"
)
"""The path of a segment: ``TOPIC-N/BASE.log``, or ``TOPIC-N.BASE.log`` in one folder."""
NO_PARTITION = -1
"""Stands for the partitions of records whose partition is not told."""


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
    missing: int = 0
    """Bits of ``kgtool.analysis.missing_data``: what this input as a whole can't tell."""
    order: int = 0
    """Where places in the file stand for offsets: what is added to them."""
    root: str = ""
    """The argument under which it was found."""
    is_remote: bool = False
    separator: str = ""
    """What a record begins with, where Spark reads the text."""
    layout: str = ""
    """How a text departs from what the tool printed (``readers.text_layout``)."""


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


class ListedFile(NamedTuple):
    """A file of a listing."""

    path: str
    size: int


class Listing(NamedTuple):
    """What is under one argument."""

    root: str
    entries: Sequence[ListedFile]
    head: Callable[[ListedFile], bytes]
    """The first ``formats.HEAD_BYTES`` bytes; may raise OSError."""
    content: Callable[[str], bytes | None]
    """A whole file, if there is one of that path; may raise OSError."""
    is_file: bool
    """Whether the argument names the file itself."""
    is_remote: bool = False
    problems: Sequence[str] = ()
    """One sentence for each folder or file that can't be looked at."""


def is_empty_log(manifest: dict[str, Any] | None) -> bool:
    """Whether that is the description of a complete export of a log without records."""
    rows = (manifest or {}).get("partitions")
    return bool(manifest and manifest.get("complete") is True and isinstance(rows, list)) and all(
        isinstance(row, dict) and row.get("start_offset") == row.get("end_offset") is not None
        for row in rows or ()
    )


def unquoted(text: str) -> str:
    """A URL's path without percent signs."""
    raw = text.encode("utf-8", "surrogateescape")
    plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), raw)
    return plain.decode("utf-8", "surrogateescape")
