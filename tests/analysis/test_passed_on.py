"""Printed logs as people pass them on: behind prefixes, wrapped, indented, coloured, in UTF-16.

Kind: text that is no longer what the tool printed. Whatever was done to it, it is read whole and
right, or refused with a reason and a way out; never a part of it, never with another name.
"""

from __future__ import annotations

import html
import json
import random
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.input.input_files import InputFile
from kgtool.analysis.input.readers.ranges import parts, ranges, split_of
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from kgtool.analysis.tables.quality import damaged_files
from kgtool.errors import ConfigError
from tests.analysis import writer
from tests.analysis.test_printed import DATA, PRINTED, reasons, rows_of

PASSED_ON = DATA / "printed-by-others"
WAY_OUT = "kgtool export"
MOST_LINES = 25
SOURCES = [
    *sorted(path for path in PRINTED.glob("*.txt") if path.name != "README.txt"),
    *sorted(PRINTED.glob("*.json")),
    DATA / "export-samples" / "4.3.1.groupmetadata-formatter.txt",
    PASSED_ON / "06-text-082.txt",
    PASSED_ON / "29-spark-json-b64.json",
]
Change = Callable[[str, random.Random], str]


def _lines(make: Callable[[int, random.Random], str]) -> Change:
    """A prefix for each line, by its number."""

    def change(text: str, chance: random.Random) -> str:
        lines = text.split("\n")
        return "\n".join(make(number, chance) + line for number, line in enumerate(lines, 1))

    return change


def _clock(number: int, chance: random.Random) -> str:
    return f"2024-01-25T07:{number // 60 % 60:02}:{number % 60:02}.{chance.randrange(10**9):09}Z"


PREFIXES: dict[str, Change] = {
    "nothing": lambda text, _: text,
    "compose": _lines(lambda *_: "broker-1  | "),
    "compose, several": _lines(lambda n, _: ("kafka-1  | ", "kafka-22 | ", "web      | ")[n % 3]),
    "compose with times": _lines(lambda n, c: f"kafka  | {_clock(n, c)} "),
    "kubectl --timestamps": _lines(lambda n, c: f"{_clock(n, c)} "),
    "kubectl --prefix": _lines(lambda *_: "[pod/kafka-0/kafka] "),
    "stern": _lines(lambda *_: "kafka-broker-7d9f8b5c6d-x2x4z kafka "),
    "cri": _lines(lambda n, c: f"{_clock(n, c)} stdout F "),
    "journalctl": _lines(lambda n, _: f"Jan {n % 28 + 1:2} 07:06:13 host-3 kafka[{n * 37}]: "),
    "grep -H": _lines(lambda *_: "logs/dump (1).txt:"),
    "grep -Hn": _lines(lambda n, _: f"offsets.txt:{n}:"),
    "cat -n": _lines(lambda n, _: f"{n:6}\t"),
    "four blanks": _lines(lambda *_: "    "),
    "tab": _lines(lambda *_: "\t"),
    "mail": _lines(lambda *_: "> "),
    "mail, twice": _lines(lambda *_: "> > "),
    "diff": _lines(lambda *_: "+"),
    "logger": _lines(lambda n, _: f"[2024-01-25 07:06:{n % 60:02},455] INFO out - "),
    "[time]": _lines(lambda n, _: f"[2024-01-25 07:06:{n % 60:02}] "),
    "ansible": _lines(lambda *_: "broker1 | CHANGED >> "),
}


def _fold(width: int) -> Change:
    def change(text: str, _: random.Random) -> str:
        return "\n".join(
            piece
            for line in text.split("\n")
            for piece in ([line[at : at + width] for at in range(0, len(line), width)] or [""])
        )

    return change


def _fill(width: int, **options: Any) -> Change:
    def change(text: str, _: random.Random) -> str:
        wrapped = (textwrap.wrap(line, width, **options) or [""] for line in text.split("\n"))
        return "\n".join(piece for some in wrapped for piece in some)

    return change


def _trimmed(text: str, _: random.Random) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


WRAPS: dict[str, Change] = {
    "nothing": lambda text, _: text,
    **{f"terminal {width}": _fold(width) for width in (72, 80, 100, 132, 203)},
    "terminal, trimmed": lambda text, c: _trimmed(_fold(80)(text, c), c),
    **{f"words {width}": _fill(width, break_on_hyphens=False) for width in (80, 120)},
    "words, broken": _fill(70),
    "at commas": lambda text, _: text.replace(", ", ",\n"),
    "one line": lambda text, _: text.replace("\n", " "),
    "nothing between": lambda text, _: text.replace("\n", ""),
}
MANGLED: dict[str, Callable[[str], str]] = {
    "csv": lambda line: '"' + line.replace('"', '""') + '"',
    "html": html.escape,
    "json": lambda line: json.dumps(line) + ",",
    "typeset": lambda line: line.replace('"', "\u201c"),
    "cut at 100": lambda line: line[:100],
    "less -S": lambda line: line[:79] + ">" if len(line) > 80 else line,
    "indented": textwrap.TextWrapper(90, subsequent_indent="    ", break_on_hyphens=False).fill,
    "continued": lambda line: "\\\n".join(textwrap.wrap(line, 90, drop_whitespace=False)),
}
"""What can't be read back, or is not; of each line."""


def _logged(text: str, _: random.Random) -> bytes:
    return "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2024-01-25T07:06:13.4Z"})
        + "\n"
        for line in text.split("\n")
    ).encode()


def _coloured(text: str, chance: random.Random) -> bytes:
    lines = text.split("\n")
    at = [chance.randrange(len(line) + 1) for line in lines]
    pairs = zip(lines, at, strict=True)
    return "\n".join(f"\x1b[01;31m{x[:n]}\x1b[m\x1b[K{x[n:]}" for x, n in pairs).encode()


ENCODINGS: dict[str, Callable[[str, random.Random], bytes]] = {
    "utf-8": lambda text, _: text.encode(),
    "utf-8 with a mark": lambda text, _: text.encode("utf-8-sig"),
    "utf-16": lambda text, _: text.encode("utf-16"),
    "utf-16-le": lambda text, _: text.encode("utf-16-le"),
    "utf-16-be": lambda text, _: text.encode("utf-16-be"),
    "windows": lambda text, _: text.replace("\n", "\r\n").encode(),
    "coloured": _coloured,
    "docker's json-file": _logged,
    "carriage returns": lambda text, _: text.replace("\n", "\r").encode(),
    "two carriage returns": lambda text, _: text.replace("\n", "\r\r\n").encode(),
    "blanks behind": lambda text, _: text.replace("\n", "   \n").encode() + b"  ",
    "two lines each": lambda text, _: text.replace("\n", "\n\n").encode(),
}


def content(path: Path) -> tuple[list[Any], dict[str, int]]:
    """Each record's key, value and, where they are told, place and time; and what was not read."""
    return content_of(find_inputs([str(path)]).files)


def content_of(files: list[InputFile]) -> tuple[list[Any], dict[str, int]]:
    (file,) = files
    pieces = [piece for row in ranges(split_of(file)) for piece in parts(row)]
    has_place = file.format.startswith(("dump", "rows"))
    rows = rows_of(pieces)  # type: ignore[arg-type]
    found = [
        (row["key"], row["value"], row["timestamp"], row["offset"] if has_place else 0)
        for row in rows
    ]
    return found, reasons(pieces)  # type: ignore[arg-type]


def text_of(path: Path) -> str:
    """The beginning of a sample, without what its tool said of an error."""
    text = path.read_text(encoding="utf-8").partition('Exception in thread "')[0]
    if path.suffix == ".json" or "groupmetadata" in path.name:
        text = text.replace('}{"key"', '}\n{"key"')
    return "\n".join(text.strip("\n").split("\n")[:MOST_LINES])


def variants(seed: int, count: int) -> Iterator[tuple[Path, str, bytes]]:
    chance = random.Random(seed)
    for number in range(count):
        path = SOURCES[number % len(SOURCES)]
        prefix, wrap, encoding = (chance.choice(list(one)) for one in (PREFIXES, WRAPS, ENCODINGS))
        if chance.random() < 0.5:
            wrap = "nothing"
        if chance.random() < 0.5:
            encoding = "utf-8"
        text = text_of(path)
        first, second = PREFIXES[prefix], WRAPS[wrap]
        if chance.random() < 0.5:
            first, second = second, first
        data = ENCODINGS[encoding](second(first(text, chance), chance), chance)
        yield path, f"{path.name}, {prefix}, {wrap}, {encoding}", data


@pytest.mark.parametrize("seed", range(8))
def test_whole_and_right_or_refused(seed: int, tmp_path: Path) -> None:
    read = 0
    known: dict[Path, Any] = {}
    for path, name, data in variants(seed, 3 * len(SOURCES)):
        if path not in known:
            (tmp_path / "plain").write_text(text_of(path), encoding="utf-8")
            known[path] = content(tmp_path / "plain")
        changed = tmp_path / "changed"
        changed.write_bytes(data)
        try:
            files = find_inputs([str(changed)]).files
        except ConfigError as error:
            assert WAY_OUT in error.message, name
            continue
        assert content_of(files) == known[path], name
        read += 1
    assert read > 2 * len(SOURCES)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_and_colours_cost_no_record(encoding: str, tmp_path: Path) -> None:
    """Kind: what a program does to all of a text hides records, or becomes part of names."""
    for path in SOURCES:
        plain = content(path_of(path, tmp_path))
        changed = tmp_path / "changed"
        changed.write_bytes(ENCODINGS[encoding](text_of(path), random.Random(1)))
        assert content(changed) == plain, path.name


@pytest.mark.parametrize("name", MANGLED)
@pytest.mark.parametrize(
    "path", [path for path in SOURCES if ".dump-" in path.name], ids=lambda path: path.name
)
def test_a_dump_that_was_decoded_is_not_called_undecoded(
    path: Path, name: str, tmp_path: Path
) -> None:
    """Kind: a reason that is a guess. Whoever reads it makes the dump again, for nothing."""
    changed = tmp_path / "changed.txt"
    changed.write_text("\n".join(map(MANGLED[name], text_of(path).split("\n"))), "utf-8")
    try:
        found = find_inputs([str(changed)]).files
    except ConfigError as error:
        assert WAY_OUT in error.message
        assert "without --offsets-decoder" not in error.message
    else:
        assert content_of(found) == content(path_of(path, tmp_path))


def path_of(path: Path, folder: Path) -> Path:
    """The beginning of a sample as a file of its own."""
    plain = folder / "plain.txt"
    plain.write_text(text_of(path), encoding="utf-8")
    return plain


LIVE = {("billing", "orders", 0): 3, ("billing", "orders", 1): 7, ("audit", "clicks", 0): 12}
REFUSED = {
    "17-dump3-blog.txt": "shortened by hand ('...')",
    "24b.txt.bz2": "compressed with bzip2",
    "24d-folder.tar": "a tar archive",
    "27-kcat-J.json": "the JSON of kcat -J",
    "28-rpk.json": "the JSON of rpk topic consume",
    "30-kafka-ui.json": "the JSON of kafka-ui",
    "32-server.log": "a log file of a broker",
    "35-dump-0.10.txt": "kafka-dump-log before 0.11",
    "39-json-ellipsis.json": "shortened by hand",
}


@pytest.mark.parametrize("path", sorted(PASSED_ON.iterdir()), ids=lambda path: path.name)
def test_forms_that_others_make(path: Path) -> None:
    if path.name in REFUSED:
        with pytest.raises(ConfigError, match=WAY_OUT) as caught:
            find_inputs([str(path)])
        assert REFUSED[path.name] in caught.value.message
        return
    analysis = analyzed(path)
    live = {(r["group"], r["topic"], r["partition"]): r["offset"] for r in analysis.rows("live")}
    assert live == LIVE
    (removed,) = analysis.rows("removals")
    assert (removed["group"], removed["topic"]) == ("console-consumer-40652", "test")
    assert damaged_files(analysis.quality, 1) == []


def analyzed(path: Path) -> Analysis:
    inputs = find_inputs([str(path)])
    basis = broker_settings.settings_from(inputs.manifest, "auto", None, None)
    return Analysis(LocalEngine(1), inputs.files, basis)


@pytest.mark.parametrize("name", ["carriage returns", "two carriage returns", "blanks behind"])
@pytest.mark.parametrize("prefix", ["nothing", "compose"])
def test_ends_of_lines_are_not_part_of_records(name: str, prefix: str, tmp_path: Path) -> None:
    path = PASSED_ON / "01b-text-plain.txt"
    chance = random.Random(1)
    changed = tmp_path / "changed.txt"
    changed.write_bytes(ENCODINGS[name](PREFIXES[prefix](text_of(path), chance), chance))
    assert content(changed) == content(path)


def test_notes_beside_a_log_cost_it_nothing(tmp_path: Path) -> None:
    """Kind: a line that ends in ::NULL is no group's record, nor a logger's line beside one."""
    writer.segment(tmp_path, writer.commits(0, 3))
    (tmp_path / "notes.txt").write_text("Tuesday\nremoved what::NULL\n[x] y::NULL\n")
    inputs = find_inputs([str(tmp_path)])
    assert [file.format for file in inputs.files] == ["segment"]
    assert ["can't be told" in problem for problem in inputs.problems] == [True]


def test_what_was_taken_off_is_said(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        text = (PASSED_ON / "01b-text-plain.txt").read_text()
        (tmp_path / name).write_text(textwrap.indent(text, "web | "))
    assert find_inputs([str(tmp_path)]).notes == [
        "Passed on as text, what stands before each line left out: a.txt, b.txt."
    ]


def test_a_group_is_not_named_like_the_pod_that_printed_it(tmp_path: Path) -> None:
    """Kind: a prefix in brackets reads as a part of the group's name."""
    path = tmp_path / "one.txt"
    path.write_text("[pod/kafka-0/kafka] [g,t,0]::NULL\n")
    assert content(path)[0][0][0] == b"\0\1\0\1g\0\1t\0\0\0\0"
    path.write_text("[my [g,t,0]::NULL\n")
    assert content(path)[0][0][0] == b"\0\1\0\5my [g\0\1t\0\0\0\0"


@pytest.mark.parametrize(
    "text",
    [
        "[g,t,0]::OffsetAndMetadata(offset=2, metadata=" + "word)\n" * 1_000_000,
        "g::GroupMetadata(groupId=g, generation=1, " + "a -> b)\n" * 750_000,
        "[g,t,0]::OffsetAndMetadata(" * 200_000,
        "[" * 6_000_000,
    ],
    ids=["offset", "group", "one line", "brackets"],
)
def test_one_record_without_an_end_takes_no_time(text: str, tmp_path: Path) -> None:
    """Kind: text that is searched again from each of its lines (or brackets)."""
    path = tmp_path / "endless.txt"
    path.write_text("[g,t,0]::NULL\n" + text)
    start = time.process_time()
    with suppress(ConfigError):
        content(path)
    assert time.process_time() - start < 15
