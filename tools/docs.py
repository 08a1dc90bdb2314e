"""``make docs``: completions, man pages and JSON Schemas, from the command line itself.

With ``--check`` nothing is written: outdated files are named, with status 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import docs_bash  # noqa: E402
import docs_fish  # noqa: E402
import docs_man  # noqa: E402
import docs_pages  # noqa: E402
import docs_zsh  # noqa: E402

from kgtool.cli.app.tree import tree  # noqa: E402
from kgtool.columns import schemas  # noqa: E402

FOLDERS = ("completions", "man", "docs/schema")


def pages() -> dict[str, str]:
    """Return every generated file: its path in the repository, and its text."""
    program = tree()
    return {
        "completions/kgtool.bash": docs_bash.script(program),
        "completions/_kgtool": docs_zsh.script(program),
        "completions/kgtool.fish": docs_fish.script(program),
        "docs/commands.rst": docs_pages.commands(program),
        "docs/findings.rst": docs_pages.findings(),
        "man/kgtool.1": docs_man.program_page(program),
        **{
            f"man/kgtool-{command.name}.1": docs_man.command_page(command)
            for command in program.commands
        },
        **{
            f"docs/schema/{command}.json": _readable(schemas.schema(command)) + "\n"
            for command in schemas.RESULTS
        },
    }


def _readable(value: object, indent: int = 0) -> str:
    """Return JSON with line breaks, except in short values."""
    line = json.dumps(value)
    if len(line) + indent <= 98 or not isinstance(value, (dict, list)):
        return line
    room = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_readable(each, indent + 1)}" for key, each in value.items()]
    else:
        parts = [_readable(each, indent + 1) for each in value]
    start, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return start + "\n" + ",\n".join(room + part for part in parts) + "\n" + " " * indent + end


def stale(expected: dict[str, str]) -> list[str]:
    """Return the files that are missing, outdated, or of a command that does not exist."""
    existing = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).glob("*")
        if not path.name.startswith(".")
    } | {name for name in expected if (ROOT / name).exists()}
    wrong = {
        name
        for name, text in expected.items()
        if name not in existing or (ROOT / name).read_text(encoding="utf-8") != text
    }
    return sorted(wrong | (existing - expected.keys()))


def main() -> int:
    """Write the files, or only check them."""
    expected = pages()
    wrong = stale(expected)
    if "--check" in sys.argv[1:]:
        for name in wrong:
            print(f"{name} is not up to date: run make docs and commit it")
        return 1 if wrong else 0
    for name in wrong:
        path = ROOT / name
        if name in expected:
            path.parent.mkdir(exist_ok=True)
            path.write_text(expected[name], encoding="utf-8")
        else:
            path.unlink()
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
