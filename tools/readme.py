"""Runs the commands of README.rst and docs/ on a fresh sandbox and puts in what they print.

``make readme`` rewrites the outputs; ``tests/test_readme.py`` runs the same and fails where a page
shows something else. Each page has a journal of its own. Every block
``.. code-block:: console`` is run, in order, in a shell that has ``kgtool`` and
``KGTOOL_BOOTSTRAP_SERVER``; ``b:9092`` in it stands for the sandbox. A comment line ``.. norun``
above a block leaves it alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
import picture  # noqa: E402

PAGES = tuple(
    ROOT / f"{name}.rst"
    for name in (
        "README",
        "docs/secured-clusters",
        "docs/tasks",
        "docs/dead-groups",
        "docs/offsets-gone",
        "docs/exit-status",
        "docs/one-topic",
        "docs/analysis",
        "docs/screens",
    )
)
"""The pages with console blocks, in the order in which they are run."""
PICTURE = ROOT / "docs/session.svg"
TOP = ROOT / "docs/top.svg"
"""A picture of ``kgtool top``, of the same cluster."""
REPORT = ROOT / "docs/report.png"
"""A picture of the report that docs/analysis.rst writes."""
SCREENS, SCREEN_WIDTH = ROOT / "docs/screens.rst", 80
"""The page of what a terminal shows, and its width."""
BIN = Path(sys.executable).parent
INDENT = "   "

# What differs from run to run, and what stands for it when two outputs are compared.
VOLATILE = (
    (re.compile(r"127\.0\.0\.1:\d+"), "b:9092"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"(?<![\w+/-])(?=[\w+/-]*[A-Z])(?=[\w+/-]*[a-z])[\w+/-]{22}(?![\w+/-])"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}"), "JOURNAL"),
    (re.compile(r"\S+@\S+|by \S+ on \S+, done"), "WHO"),
    (re.compile(r"\b\d{13}\b"), "MS"),
    (re.compile(r"\b(\d+[dhm] )*\d+(\.\d+)? ?(ms|s|m|h)\b"), "SECONDS"),
    (re.compile(r"[\d,]+ records"), "RECORDS"),  # a client more or less that had to join twice
    (re.compile(r"[▁-█]+ in SECONDS"), "CURVE"),
    (re.compile(r"[\d,.]+ (bytes|[kMG]?B)\b"), "BYTES"),
    (re.compile(r"(?<!\S)[─-]+(?!\S)"), "-"),  # a rule; never the sign of a number
    (re.compile(r"[ \t]+"), " "),
)


class Block(NamedTuple):
    """One console block: its first and last line in the file, and its commands."""

    first: int
    last: int
    commands: list[str]
    output: str


def blocks(lines: list[str]) -> list[Block]:
    """Find the console blocks of a reStructuredText file."""
    found = []
    at = 0
    while at < len(lines):
        above = (lines[at - 1].strip(), lines[at - 2].strip())
        if lines[at].strip() != ".. code-block:: console" or ".. norun" in above:
            at += 1
            continue
        first = at + 2
        last = first
        while last < len(lines) and (not lines[last].strip() or lines[last].startswith(INDENT)):
            last += 1
        while not lines[last - 1].strip():
            last -= 1
        body = [line[len(INDENT) :] for line in lines[first:last]]
        commands = [line[2:] for line in body if line.startswith("$ ")]
        found.append(Block(first, last, commands, "\n".join(body)))
        at = last
    return found


def environment(bootstrap: str, folder: Path) -> dict[str, str]:
    """Return what a reader's shell has."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "KGTOOL_BOOTSTRAP_SERVER": bootstrap,
        "KGTOOL_JOURNAL_DIR": str(folder / "journal"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "COLUMNS": "100",
    }


def run(commands: list[str], bootstrap: str, folder: Path) -> str:
    """Run commands as a reader would type them, and return what the terminal shows."""
    shown = []
    for command in commands:
        typed = command.replace("b:9092", bootstrap)
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=folder,
            env=environment(bootstrap, folder),
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        shown.append(f"$ {command}\n{done.stdout.replace(bootstrap, 'b:9092')}".rstrip("\n"))
    return "\n".join(shown)


def again(page: Path, block: Block, bootstrap: str, folder: Path) -> str:
    """Run a block's commands again, on a terminal those of ``SCREENS``; return what they print."""
    if page != SCREENS:
        return run(block.commands, bootstrap, folder)
    environ = {**environment(bootstrap, folder), "TERM": "dumb", "COLUMNS": str(SCREEN_WIDTH)}
    environ["HOME"] = str(folder)
    shown = []
    for command, was in zip(block.commands, block.output.split("\n$ "), strict=True):
        answers = re.findall(r"\[y/N\]: (\w+)", was)
        typed = f"cd {folder} && {command.replace('b:9092', bootstrap)}"
        printed = picture.terminal(typed, environ, answers).replace(bootstrap, "b:9092")
        shown.append(f"$ {command}\n{printed}".rstrip("\n"))
    return "\n".join(shown)


def same(page: Path, old: str, new: str) -> bool:
    """Whether two outputs differ only in what differs from run to run; on a screen also in where
    its lines break.
    """
    if page == SCREENS:
        old, new = (" ".join(text.split()) for text in (old, new))
    return masked(old) == masked(new)


def masked(text: str) -> list[str]:
    """Return the lines of an output without what differs from run to run."""
    for pattern, stand_in in VOLATILE:
        text = pattern.sub(stand_in, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def same_picture(drawn: str) -> bool:
    """Whether README.rst's picture shows what a new one does."""
    shown = PICTURE.read_text(encoding="utf-8")
    return masked(picture.text_of(shown)) == masked(picture.text_of(drawn))


def same_top(drawn: str) -> bool:
    """Whether the picture of ``kgtool top`` shows what a new one does: columns, groups and lags."""
    shown = TOP.read_text(encoding="utf-8") if TOP.exists() else ""
    return _rows(shown) == _rows(drawn)


def _rows(svg: str) -> list[list[str]]:
    """Return what does not change with time: the headers, and of each group all up to its lag."""
    lines = [line.split() for line in picture.text_of(svg).splitlines()]
    table = [words for words in lines if len(words) > 5 and words[3:4] != ["by"]]
    rows = (words for words in table if words[0] != "enter")
    # Behind the lag stand its trend and rates, of the last hour, and ages.
    return [
        words
        if words[0] == "GROUP"
        else re.split("[\u2581-\u2588]", " ".join(words))[0].split()[:5]
        for words in rows
    ]


def refresh(page: Path, bootstrap: str, folder: Path) -> list[str]:
    """Run every block of a page; return its lines with today's outputs."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fresh = list(lines)
    for block in reversed([(b, again(page, b, bootstrap, folder)) for b in blocks(lines)]):
        found, output = block
        if same(page, found.output, output):
            continue
        body = [f"{INDENT}{line}".rstrip() for line in output.splitlines()]
        fresh[found.first : found.last] = body
    return fresh


def main() -> int:
    """Rewrite the pages."""
    from kgtool.sandbox.cluster import Sandbox
    from kgtool.sandbox.seeding.seed import seed

    with tempfile.TemporaryDirectory(prefix="kgtool-readme-") as name:
        folder = Path(name)
        with Sandbox.start("readme", root=folder / "state") as cluster:
            seed(cluster)
            for page in PAGES:
                work = folder / page.stem
                work.mkdir()
                lines = refresh(page, cluster.bootstrap, work)
                page.write_text("\n".join(lines) + "\n", encoding="utf-8")
                if page == PAGES[0]:
                    drawn = picture.draw(environment(cluster.bootstrap, work))
                    if not same_picture(drawn):
                        PICTURE.write_text(drawn, encoding="utf-8")
                    screen = picture.top(cluster.bootstrap)
                    if not same_top(screen):
                        TOP.write_text(screen, encoding="utf-8")
                if page.stem == "analysis":
                    picture.report(work / "offsets.html", REPORT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
