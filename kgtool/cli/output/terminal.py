"""A terminal's size, colours and pager, and text cut and folded to its width."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from subprocess import Popen

GREEN, ORANGE, RED, DIM, BOLD = "38;5;64", "38;5;166", "31", "2", "1"
"""SGR parameters, two of the 256 colours: ANSI's green and yellow can't be read on white."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is an open terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def has_color() -> bool:
    """Whether the environment allows colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def size() -> tuple[int, int]:
    """Return the terminal's columns and lines; 80 × 24 if unknown."""
    from shutil import get_terminal_size

    columns, lines = get_terminal_size()
    return max(columns, 20), max(lines, 5)


def paint(text: str, color: str | None) -> str:
    """Wrap text in a colour (SGR parameters)."""
    return f"\x1b[{color}m{text}\x1b[0m" if color and text else text


def columns_of(text: str) -> int:
    """Return how many columns text takes on a terminal.

    >>> columns_of("orders"), columns_of("日本"), columns_of("e\u0301")
    (6, 4, 1)
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def shorten(text: str, size: int, mark: str = "…") -> str:
    """Cut a sentence to a number of columns, ``mark`` included.

    >>> shorten("Group billing is not known.", 10)
    'Group bil…'
    """
    if columns_of(text) <= size:
        return text
    kept, used = [], columns_of(mark)
    for char in text:
        used += columns_of(char)
        if used > size:
            break
        kept.append(char)
    return "".join(kept) + mark


def shorten_name(name: str, size: int, mark: str = "…") -> str:
    """Cut a name to a number of columns in its middle: many differ in their last characters.

    >>> shorten_name("console-consumer-12345", 12)
    'console…2345'
    """
    if columns_of(name) <= size:
        return name
    head = shorten(name, size - size // 3, mark)
    tail = shorten(name[::-1], size - columns_of(head), "")[::-1]
    return head + tail[next((i for i, char in enumerate(tail) if columns_of(char)), 0) :]


def fold(text: str, width: int | None) -> str:
    """Break lines between words; None: as they are.

    Commands, and lines with a long path, stay whole, so that they can be copied.

    >>> fold("- one two or three", 12).split("\\n")
    ['- one two or', '  three']
    """
    if width is None or len(text) <= width:
        return text
    return "\n".join(part for line in text.split("\n") for part in _folded(line, width))


def _folded(line: str, width: int) -> list[str]:
    import re
    from textwrap import wrap

    has_path = max(map(len, line.split(" "))) > width // 2
    if len(line) <= width or has_path:
        return [line]
    whole = re.sub(r"kgtool [a-z-]+ [^).;,]*--[^).;,]*", lambda m: m[0].replace(" ", "\0"), line)
    margin = " " * (len(line) - len(line.lstrip(" -")))
    parts = wrap(
        whole, width, subsequent_indent=margin, break_on_hyphens=False, break_long_words=False
    )
    return [part.replace("\0", " ") for part in parts]


def mark_for(stream: TextIO | None = None) -> str:
    """Return ``…``, or ``~`` if the encoding has no such character."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "ascii"
    try:
        "…".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return "~"
    return "…"


def start_pager() -> Popen[str] | None:
    """Start ``KGTOOL_PAGER``, ``PAGER`` or less, which shows what is written to its ``stdin``.

    None: no pager; ``cat`` or an empty value asks for that. With ``-FRX``, less ends by itself if
    the text fits the screen; on a terminal that can do nothing (``TERM`` is dumb or unset) it would
    wait for a key, whatever fits.
    """
    command = os.environ.get("KGTOOL_PAGER", os.environ.get("PAGER"))
    if os.environ.get("TERM", "dumb") in ("", "dumb") and "KGTOOL_PAGER" not in os.environ:
        return None
    if command is None:
        from shutil import which

        command = "less" if which("less") else ""
    if command.strip() in ("", "cat"):
        return None
    import subprocess

    sys.stdout.flush()
    environ = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        # The shell, as with git: PAGER may have arguments.
        return subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            text=True,
            env=environ,
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
        )
    except OSError:
        return None


def close_pager(process: Popen[str]) -> None:
    """Let the pager show the rest, and wait until it ends."""
    assert process.stdin is not None
    # Ctrl-C is the pager's: less only stops searching.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with suppress(BrokenPipeError):
            process.stdin.close()
    finally:
        process.wait()
        signal.signal(signal.SIGINT, before)
