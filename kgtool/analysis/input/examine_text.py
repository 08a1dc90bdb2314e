"""Find out what a text holds, and how it departs from what Kafka's tool printed.

People pass on what they copied from a terminal, a chat, a log. Guesses are tried in turn, the
likeliest first: one holds if the reader then finds nothing but records. Otherwise the file is
refused as a whole: records that are put together wrongly would be worse than none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import islice
from os.path import commonprefix
from typing import NamedTuple

from kgtool.analysis.decode.offset_records import REASON_KEY, REASON_VALUE
from kgtool.analysis.input import formats, lookalikes
from kgtool.analysis.input.formats import DUMP, FAMILIES, GROUPS, JSON, OFFSETS, ROWS, Format
from kgtool.analysis.input.readers import json_rows
from kgtool.analysis.input.readers import text_layout as layouts
from kgtool.analysis.input.readers.dump_log import REASON_UNDECODED
from kgtool.analysis.input.readers.ranges import TEXT_READERS
from kgtool.analysis.input.readers.reencode import (
    REASON_MALFORMED,
    SHORTENED,
    PrintedRecords,
    is_noise,
)
from kgtool.analysis.input.readers.text_layout import HARD, SOFT
from kgtool.analysis.input.readers.text_layout import Layout as Layout
from kgtool.analysis.input.readers.text_ranges import TextRecord, units

QUICK_BYTES = 64 << 10
"""Of a text that is what the tool printed, this much shows it."""
MOST_LINES = 3000
"""Of these it is seen how lines begin, and where they are cut."""
LONGEST_PREFIX = 400
MOST_PREFIXES = 30
FEW = 20
"""One record of so many may be damaged in a text that is read all the same."""


class Text(NamedTuple):
    """A text that can be read."""

    format: Format
    layout: Layout | None
    """None: it is what the tool printed."""
    missing: int = 0
    """More than its format lacks."""


class _Trial(NamedTuple):
    records: int
    unread: list[str]
    unread_count: int


def examine(head: bytes, *, is_whole: bool) -> Text | str:
    """What a text is that begins with these bytes, or why it can't be read."""
    quick = head[:QUICK_BYTES]
    kind = formats.recognise(quick)
    if isinstance(kind, Format) and kind.family != OFFSETS:
        trial = _try(quick, kind, Layout(kind.family), is_whole=len(quick) == len(head))
        if trial.records and not trial.unread and not layouts.is_crowded(kind.family, quick):
            return _text(kind, None, quick)
    encoding = _encoding(head)
    if encoding is None and isinstance(kind, str) and not isinstance(kind, lookalikes.Foreign):
        return kind
    if encoding is None:
        return lookalikes.looks_like(head, head.decode(errors="replace"))
    return _Examination(head, encoding, is_whole).result()


def _text(kind: Format, layout: Layout | None, head: bytes) -> Text:
    lacks = formats.PARQUET.missing if formats.is_without_batches(head, kind) else 0
    return Text(kind, layout, kind.missing | lacks)


def _encoding(head: bytes) -> str | None:
    """The encoding of a text; None if it is none."""
    for mark, name in (
        (b"\xff\xfe\0\0", "utf-32"),
        (b"\0\0\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
        (b"\xef\xbb\xbf", "utf-8-sig"),
    ):
        if head.startswith(mark):
            return name
    some = head[: 4096 & ~3]
    zeros = [sum(not byte for byte in some[at::2]) for at in (0, 1)]
    for at, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if zeros[at] > len(some) // 4 and zeros[1 - at] <= len(some) // 50:
            return name
    return None if some.count(0) > len(some) // 50 else "utf-8"


class _Examination:
    """The guesses about one text."""

    def __init__(self, head: bytes, encoding: str, is_whole: bool) -> None:
        self._head, self._is_whole = head, is_whole
        text = head.decode(encoding, "replace").replace("\r\n", "\n")
        ends = layouts.RETURNS if "\r" in text[:-1] else ""
        text = text.replace("\r", "\n")
        has_colours = layouts.COLOUR.search(text) is not None
        self._basis = Layout("", encoding, has_colours=has_colours, ends=ends)
        self._text = layouts.COLOUR.sub("", text)
        lines = self._text.split("\n", MOST_LINES)
        if not is_whole or len(lines) > MOST_LINES:
            lines.pop()
        logs = [layouts.logged(line) for line in lines if line.strip()]
        if logs and None not in logs:
            self._basis = self._basis._replace(is_logged=True)
            lines = [line for line in logs if line is not None]
        self._lines = [line.removesuffix("\n") for line in lines]
        full = [line for line in self._lines if line.strip()]
        # Lines of one width were cut or filled up there, by a terminal.
        if all(line.endswith((" ", "\t")) for line in full) and len({*map(len, full)}) > 1:
            self._basis = self._basis._replace(ends=layouts.BLANKS)
            self._lines = [line.rstrip(layouts.BLANKS) for line in self._lines]
        self._text = "\n".join(self._lines)

    def result(self) -> Text | str:
        """The first guess that holds, or why none does."""
        families = [name for name, family in FAMILIES.items() if family.sign.search(self._text)]
        if any(map(_OMISSION.fullmatch, self._lines)):
            return self._refusal(families, [])
        if OFFSETS in families and GROUPS in families:
            # A group's name may look like a record of the other kind: the first record tells.
            first = formats.recognise("\n".join(self._lines).encode())
            likely = first.family if isinstance(first, Format) else ""
            families.sort(key=lambda each: each != likely)
        why: list[str] = []
        for family in families:
            told = set()
            for layout in self._layouts(family):
                found = self._read(layout)
                if isinstance(found, Text):
                    return found
                told.add(found)
            # What only some layouts say, those that are wrong say.
            why += [each for each in told if each and len(told) == 1]
        return self._plain(why) or self._refusal(families, why)

    def _read(self, layout: Layout) -> Text | str | None:
        """The text, if this layout is right; or why it can't be read whatever its layout."""
        found = self._read_of(self._head[:QUICK_BYTES], layout)
        if not isinstance(found, Text) or len(self._head) <= QUICK_BYTES:
            return found
        return self._read_of(self._head, layout)

    def _read_of(self, head: bytes, layout: Layout) -> Text | str | None:
        is_whole = self._is_whole and len(head) == len(self._head)
        data = b"".join(
            piece.encode("utf-8", "replace") for piece in layouts.clean_lines(BytesIO(head), layout)
        )
        kind = formats.recognise(data)
        if kind == formats.UNKNOWN and layout.family == ROWS:
            kind = formats.ROWS_JSON
        if not isinstance(kind, Format) or kind.family != layout.family:
            return "" if isinstance(kind, (Format, lookalikes.Foreign)) else kind
        trial = _try(data, kind, layout, is_whole=is_whole)
        if (
            trial.unread
            or _has_broken_names(layout.family, data)
            or not (trial.records or kind in formats.DUMPS)
        ):
            return None
        plain = Layout(layout.family)
        is_plain = layout == plain or layout == plain._replace(encoding="utf-8-sig")
        return _text(kind, None if is_plain else layout, data)

    # --- guesses

    def _layouts(self, family: str) -> Iterator[Layout]:
        basis = self._basis._replace(family=family)
        for prefixes in self._prefixes(family):
            layout = basis._replace(prefixes=prefixes)
            yield layout
            yield from self._joins(layout)

    def _prefixes(self, family: str) -> Iterator[tuple[str, ...]]:
        found = [_prefix(family, line, self._has_batches) for line in self._lines]
        starts = [each for each in found if each is not None]
        before = {each for each in starts if each}
        is_everywhere = bool(starts) and all(starts[len(starts) > 1 :])
        if not is_everywhere:
            yield ()
        if before and len(before) <= 10_000:
            some = layouts.shape(sorted(before))
            if len(some) <= MOST_PREFIXES:
                yield some
        if family in (JSON, ROWS):
            common = _common([line for line in self._lines if line.strip()])
            if common:
                yield (common,)

    @property
    def _has_batches(self) -> bool:
        return "baseOffset: " in self._text

    def _joins(self, layout: Layout) -> Iterator[Layout]:
        guesses = [
            layout._replace(join=HARD, of_whole_lines=of_whole_lines)
            for of_whole_lines in ((False, True) if layout.prefixes else (False,))
        ]
        guesses = [guess._replace(width=self._width(guess)) for guess in guesses]
        yield from (guess for guess in guesses if guess.width)
        yield from (guess._replace(is_trimmed=True) for guess in guesses if guess.width)
        yield layout._replace(join=SOFT)

    def _width(self, layout: Layout) -> int:
        """The width at which lines were cut; 0: they were not."""
        pairs = [
            (width, line)
            for width, line in layouts._stripped(self._lines, layout._replace(is_logged=False))
            if line.strip() and not is_noise(line)
        ]
        cut = [
            width
            for (width, _), (_, line) in zip(pairs, pairs[1:], strict=False)
            if not layouts.is_start(layout.family, line)
        ]
        width = max(cut, default=0)
        if not width or any(each > width for each, _ in pairs):
            return 0
        # One line alone may have been cut at a blank.
        is_sure = Counter(cut)[width] > 1 or layout.family == DUMP
        return width if is_sure else 0

    # --- if none holds

    def _plain(self, why: list[str]) -> Text | None:
        """The text with some damage in it, which its reader names."""
        kind = formats.recognise(self._head)
        if why or not isinstance(kind, Format) or self._basis._replace(ends="") != Layout(""):
            return None
        trial = _try(self._head, kind, Layout(kind.family), is_whole=self._is_whole)
        is_little = trial.unread_count * FEW <= trial.records
        is_all = not any(map(SHORTENED.search, trial.unread))
        is_all = is_all and not layouts.is_crowded(kind.family, self._head)
        return _text(kind, None, self._head) if trial.records and is_little and is_all else None

    def _refusal(self, families: Sequence[str], why: list[str]) -> str:
        if why:
            return why[0]
        looks = lookalikes.looks_like(self._head, self._text)
        if not any(self._has_start(family) for family in families):
            return looks
        family = families[0]
        if family == ROWS and not self._has_base64():
            return looks
        shortened = next(
            (line for line in self._lines if SHORTENED.search(line) or _OMISSION.fullmatch(line)),
            None,
        )
        if shortened is not None:
            return (
                f"looks like the output of {FAMILIES[family].label}, shortened by hand "
                f"({_quoted(shortened)})"
            )
        return (
            f"looks like the output of {FAMILIES[family].label}, but its lines can't be put "
            f"together into whole records ({_quoted(self._odd_line(family))})"
        )

    def _has_start(self, family: str) -> bool:
        return any(_prefix(family, line, self._has_batches) is not None for line in self._lines)

    def _has_base64(self) -> bool:
        rows = json_rows.rows([TextRecord(0, self._text.encode())])
        return any(row is not None for _, row, _ in islice(rows, 20))

    def _odd_line(self, family: str) -> str:
        odd = (
            line
            for line in self._lines
            if line.strip() and not layouts.is_start(family, line) and not is_noise(line)
        )
        return next(odd, self._lines[0])


def _quoted(line: str) -> str:
    place = SHORTENED.search(line)
    start = max(place.start() - 30, 0) if place else 0
    return f"'{line.strip()[start : start + 60]}'"


_OMISSION = re.compile(r"\W*(?:\.\.\.|\u2026|<?snip>?|\[truncated\]|omitted)\W*", re.IGNORECASE)
"""A line for what somebody left out."""


def _has_broken_names(family: str, data: bytes) -> bool:
    """Whether a line's break may lie in what a record is about, where any text is a name."""
    if family not in (OFFSETS, GROUPS):
        return False
    lines = data.decode(errors="replace").splitlines()
    return layouts.is_crowded(family, data) or any(
        (family == GROUPS or line.startswith("["))
        and not layouts.is_start(family, line)
        and not is_noise(line)
        for line in lines
    )


def _prefix(family: str, line: str, has_batches: bool) -> str | None:
    """What stands before the record that begins in this line; None if none does."""
    if family == OFFSETS:
        found = [
            line[:at]
            for at in _brackets(line)
            if layouts.start_at(OFFSETS, line, at) and _is_balanced(line[:at])
        ]
        # What stands there may be another record: then neither begins a line.
        return found[-1] if found and not layouts.is_crowded(OFFSETS, line.encode()) else None
    if family == DUMP and not has_batches:
        at = re.compile(r"(?<!\w)offset: \d+ (?:CreateTime|LogAppendTime|position|isValid): ")
        match = at.search(line, 0, LONGEST_PREFIX + 100)
        if match is not None:
            return line[: match.start()]
    if family == GROUPS and "::GroupMetadata(" not in line:
        return None
    end = len(line) if family == GROUPS else LONGEST_PREFIX + 100
    match = re.compile(_anywhere(family)).search(line, 0, end)
    return None if match is None or match.start() > LONGEST_PREFIX else line[: match.start()]


def _anywhere(family: str) -> str:
    if family == GROUPS:
        return r"(?P<group>[^\n]{1,300}?)::GroupMetadata\(groupId=(?P=group),"
    return FAMILIES[family].start.pattern


def _brackets(line: str) -> Iterator[int]:
    at = line.find("[", 0, LONGEST_PREFIX)
    while at >= 0:
        yield at
        at = line.find("[", at + 1, LONGEST_PREFIX)


def _is_balanced(text: str) -> bool:
    """Whether each bracket is closed, so that what follows is not within one."""
    return text.count("[") == text.count("]")


def _common(lines: Sequence[str]) -> str:
    """A pattern for what all lines of JSON begin with; nothing if that is only blanks."""
    alike = [re.sub(r"\d+", "0", line[:LONGEST_PREFIX]) for line in lines]
    common = commonprefix(alike) if len(alike) > 1 else ""
    common = re.split(r'[{}"]', common)[0]
    while common and not _is_balanced(common):
        common = common.rpartition("[")[0]
    return (
        "".join(
            r"\d+" if each.isdigit() else re.escape(each) for each in re.findall(r"\d+|\D", common)
        )
        if common.strip()
        else ""
    )


def _try(data: bytes, kind: Format, layout: Layout, *, is_whole: bool) -> _Trial:
    """Read the beginning of a text as its reader would."""
    if not is_whole:
        data = data[: data.rfind(b"\n") + 1] or data
    if kind == formats.ROWS_JSON:
        found = list(json_rows.rows([TextRecord(0, data)]))
        unread = [text for _, row, text in found if row is None]
        placed = [row for _, row, _ in found if row is not None]
        if any(row.offset is None or row.partition is None for row in placed):
            unread.append("a record without a partition or an offset")
        return _Trial(len(placed), unread if is_whole else unread[:-1], len(unread))
    between, read = TEXT_READERS[kind.name]
    end = len(data) if is_whole else len(data) + 1
    into = PrintedRecords(0, end)
    blocks = [unit for block in units(BytesIO(data), 0, len(data), between) for unit in block]
    # What the end of the beginning cuts off is not judged.
    read(blocks if is_whole or len(blocks) < 2 else blocks[:-1], into)
    # A record without its key may only have its key on the next line.
    lost = [REASON_MALFORMED]
    if layout != Layout(layout.family):
        lost += [REASON_UNDECODED, REASON_KEY, REASON_VALUE]
    count = sum(n for (why, _), (n, _) in into._counts.items() if why in lost)
    return _Trial(len(into), into.unread or ["…"][:count], max(count, len(into.unread)))
