"""Text as other programs pass it on: in UTF-16, coloured, behind prefixes, wrapped.

Readers of records see what Kafka's tool printed: one record behind the other, in UTF-8. How a file
departs from that is its Layout, which ``kgtool.analysis.input.examine_text`` finds out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import RawIOBase, TextIOWrapper
from typing import IO, Any, NamedTuple, cast

from kgtool.analysis.input.formats import DUMP, FAMILIES, GROUPS, OFFSETS
from kgtool.analysis.input.readers.reencode import is_noise

HARD, SOFT = "hard", "soft"
MOST_LINES = 20_000
MOST_CHARS = 4 << 20
"""Of a record that is put together."""
LAST_CHARS = 4096
"""Of what is there of a record, this much is looked at to see where it was cut."""
RETURNS, BLANKS = "\r", " \t\r"
TRIMMED = 3
"""Blanks at the end of a line that a terminal or an editor may have dropped."""

COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_LAST_LINES = (OFFSETS, GROUPS)
"""Families whose records end in a way of their own."""
_END = re.compile(r"::NULL$|[)\]]$")


class Layout(NamedTuple):
    """How a text departs from what the tool printed."""

    family: str
    encoding: str = "utf-8"
    has_colours: bool = False
    prefixes: tuple[str, ...] = ()
    """Patterns of what stands before each line."""
    is_logged: bool = False
    """Whether each line is an object of Docker's json-file driver."""
    join: str = ""
    """HARD: lines are cut at ``width``; SOFT: at blanks."""
    width: int = 0
    of_whole_lines: bool = False
    """Whether ``width`` counts the prefix."""
    is_trimmed: bool = False
    """Whether lines just below the width have lost blanks at their end."""
    ends: str = ""
    """What every line has at its end and the tool had not: RETURNS or BLANKS."""

    def described(self) -> str:
        """What was done to the text, for a note."""
        parts = []
        if self.encoding not in ("utf-8", "utf-8-sig"):
            parts.append(self.encoding.upper())
        if self.is_logged:
            parts.append("Docker's log driver wrote it")
        if self.has_colours:
            parts.append("colours left out")
        if self.prefixes and any(re.sub(r"\\?\s\+?", "", each) for each in self.prefixes):
            parts.append("what stands before each line left out")
        if self.join:
            parts.append("wrapped lines joined")
        if self.ends == BLANKS:
            parts.append("blanks behind each line left out")
        elif self.ends:
            parts.append("carriage returns read as ends of lines")
        return ", ".join(parts)


def as_text(layout: Layout | None) -> str:
    """The layout as text, for a row of ``schema.SPLITS``."""
    return "" if layout is None else json.dumps(layout)


def from_text(text: str) -> Layout | None:
    """The reverse of ``as_text``."""
    if not text:
        return None
    fields = json.loads(text)
    return Layout(*fields)._replace(prefixes=tuple(fields[3]))


def is_start(family: str, line: str) -> bool:
    """Whether a record may begin with this line."""
    return FAMILIES[family].start.match(line) is not None


def start_at(family: str, line: str, at: int) -> bool:
    """Whether one may begin at this place of the line."""
    return FAMILIES[family].start.match(line, at) is not None


def is_crowded(family: str, data: bytes) -> bool:
    """Whether a line holds two records, of which one would be passed over."""
    once = FAMILIES[family].once
    return once is not None and any(len(once.findall(line)) > 1 for line in data.split(b"\n"))


def cleaned(file: IO[bytes], layout: Layout) -> IO[bytes]:
    """The text as the tool printed it."""
    return cast("IO[bytes]", _Pieces(_encoded(clean_lines(file, layout))))


def clean_lines(file: IO[bytes], layout: Layout) -> Iterator[str]:
    """Its lines, or pieces of them where nothing depends on lines."""
    text = TextIOWrapper(file, layout.encoding, errors="replace", newline=None)
    try:
        if layout[2:] == Layout("")[2:]:
            while piece := text.read(1 << 20):
                yield piece
            return
        for line in _joined(_stripped(text, layout), layout):
            yield line + "\n"
    finally:
        with suppress(ValueError):  # the caller has closed it
            text.detach()


def _stripped(text: Iterable[str], layout: Layout) -> Iterator[tuple[int, str]]:
    """Width of each line as it was, and the line without what others put there."""
    prefix = re.compile("|".join(layout.prefixes)) if layout.prefixes else None
    for raw in text:
        line = raw.removesuffix("\n")
        if layout.has_colours:
            line = COLOUR.sub("", line)
        if layout.is_logged:
            line = logged(line) or ""
        line = line.rstrip(layout.ends) if layout.ends else line
        width = len(line)
        found = prefix.match(line) if prefix else None
        if found is not None:
            line = line[found.end() :]
        elif prefix and layout.family == GROUPS and not layout.join and line.endswith("::NULL"):
            line += " (without the prefix of the other lines)"
        yield width if layout.of_whole_lines else len(line), line


def logged(line: str) -> str | None:
    """What a line of Docker's json-file driver holds; None if it is none."""
    try:
        found = json.loads(line)
        return str(found["log"]).removesuffix("\n") if found.keys() >= {"log", "stream"} else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _joined(lines: Iterable[tuple[int, str]], layout: Layout) -> Iterator[str]:
    """The lines with those put together that are parts of one."""
    if not layout.join:
        yield from (line for _, line in lines)
        return
    glue: Callable[[_Record, int, str, Layout], str | None] = (
        _hard if layout.join == HARD else _soft
    )
    record = _Record(layout.family)
    before = 0
    for width, line in lines:
        between = None
        if record.parts and record.may_grow() and not is_start(layout.family, line):
            between = None if is_noise(line) else glue(record, before, line, layout)
        if between is None:
            if record.parts:
                yield "".join(record.parts)
            record = _Record(layout.family)
            record.add(line)
        else:
            record.add(between + (line.lstrip() if layout.join == SOFT else line))
        before = width
    if record.parts:
        yield "".join(record.parts)


class _Record:
    """The lines of one record, and what tells where it was cut."""

    def __init__(self, family: str) -> None:
        self.parts: list[str] = []
        self._family = family
        self._chars = self._quotes = 0
        self._head = self._tail = ""

    def add(self, piece: str) -> None:
        self.parts.append(piece)
        self._chars += len(piece)
        self._head = f"{self._head}{piece}" if len(self._head) < LAST_CHARS else self._head
        self._tail = f"{self._tail}{piece}"[-20:]
        self._quotes += re.sub(r"\\.", "", piece).count('"')

    def may_grow(self) -> bool:
        """Whether it is not longer than any record."""
        return len(self.parts) < MOST_LINES and self._chars < MOST_CHARS

    def is_over(self) -> bool:
        """Whether it may end here."""
        return self._family in _LAST_LINES and _END.search(self._tail) is not None

    def ends_in_blank(self) -> bool:
        """Whether the blank at which it was cut is still there."""
        return self._tail.endswith(" ")

    def is_safe(self) -> bool:
        """Whether it is cut where a blank matters little: not within a name."""
        head = self._head
        if not is_start(self._family, head):
            return False
        if self._family in _LAST_LINES:
            return not self.is_over()
        is_told = self._family != DUMP or "key: " not in head or " payload: " in head
        return is_told and not head.startswith("Dumping ") and self._quotes % 2 == 0


def _hard(record: _Record, before: int, line: str, layout: Layout) -> str | None:
    """What was lost between two lines: nothing at the width, blanks just before it."""
    missing = layout.width - before
    if record.is_over() and (missing or line.startswith("[")):
        return None
    if missing and not (layout.is_trimmed and record.is_safe()):
        return None
    return " " * missing if 0 <= missing <= TRIMMED else None


def _soft(record: _Record, before: int, line: str, layout: Layout) -> str | None:
    """A blank, where nothing else can have been lost."""
    if not record.is_safe():
        return None
    return "" if record.ends_in_blank() else " "


def _encoded(pieces: Iterable[str]) -> Iterator[bytes]:
    return (piece.encode("utf-8", "replace") for piece in pieces)


class _Pieces(RawIOBase):
    """Pieces of bytes as a file that is read once, from its start."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces, self._left, self._at = pieces, b"", 0

    def read(self, size: int = -1) -> bytes:
        parts, found = [self._left], len(self._left)
        while size < 0 or found < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            found += len(piece)
        data = b"".join(parts)
        cut = len(data) if size < 0 else size
        self._left = data[cut:]
        self._at += len(data[:cut])
        return data[:cut]

    def seek(self, offset: int, whence: int = 0) -> int:
        while self._at < offset and self.read(min(offset - self._at, 1 << 20)):
            pass
        return self._at


def shape(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Patterns for prefixes: numbers are any, words that differ are any words."""
    alike: dict[str, list[list[str]]] = {}
    for prefix in prefixes:
        tokens = re.findall(r"\d+|[^\W\d_]+|\s+|.", prefix)
        rough = re.sub(r"\s+", " ", re.sub(r"[^\W_]+", "w", prefix))
        alike.setdefault(rough, []).append(tokens)
    found: list[str] = []
    for some in alike.values():
        if len({len(tokens) for tokens in some}) > 1:
            found += {"".join(map(_loose, re.findall(_WORD, "".join(each)))) for each in some}
            continue
        columns: Iterable[Any] = zip(*some, strict=True)
        found.append("".join(_pattern(set(column)) for column in columns))
    return tuple(sorted(set(found), key=len, reverse=True))


_WORD = r"[^\W_]+|\s+|."


def _loose(token: str) -> str:
    return r"\s+" if token.isspace() else r"[^\W_]+" if token.isalnum() else re.escape(token)


def _pattern(values: set[str]) -> str:
    """A pattern for all of these tokens."""
    one = next(iter(values))
    if one.isdigit() and all(value.isdigit() for value in values):
        return r"\d+"
    if len(values) == 1 or not one:
        return re.escape(one)
    return r"\s+" if one.isspace() else r"[^\W_]+"
