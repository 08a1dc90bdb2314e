"""``make mutants``: does a test notice when one line of kgtool is wrong?

Changes one line at a time in a copy of the repository, and runs the tests that import the file,
the nearest first, without brokers and Spark unless ``--slow``. A change that no test notices is a
survivor: printed at the end, unless tests/mutants.toml says why it may live.

    make mutants MUTANTS="--files kgtool/retention --count 100"
    make mutants MUTANTS="--named"    the changes that tests/mutants.toml names, brokers and all
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.imports import FAST, Graph  # noqa: E402 - the path above makes it importable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOMS = ("changes", "retention", "protocol/channel.py", "client", "config")
LIST = ROOT / "tests" / "mutants.toml"
NOTHING_TO_RUN = 5
"""pytest's exit status where no test was selected."""
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SUMS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}


class Mutant(NamedTuple):
    """One change: ``old`` becomes ``new`` at a place of a file."""

    path: Path
    line: int
    begin: int
    end: int
    old: str
    new: str
    context: str
    """The line as it is, without blanks at its ends: what the list of the accepted names."""

    def __str__(self) -> str:
        shown = " ".join(self.old.split()), " ".join(self.new.split())
        return f"{self.path}:{self.line}: {shown[0]}  →  {shown[1]}"

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text[: self.begin] + self.new + text[self.end :]


def _others(node: ast.AST) -> Iterator[ast.AST]:
    """What else a node might have been."""
    match node:
        case ast.Compare(left, [op, *ops], right) if type(op) in COMPARISONS:
            yield ast.Compare(left, [COMPARISONS[type(op)](), *ops], right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield values[-1]
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in SUMS:
            yield ast.BinOp(left, SUMS[type(op)](), right)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(int(value)):
            yield ast.Constant(not value if isinstance(value, bool) else value + 1)
        case ast.Expr(ast.Call() | ast.YieldFrom()) | ast.AugAssign() | ast.Raise():
            yield ast.Pass()
        case ast.Break() | ast.Continue():
            yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but annotations and what only the type checker reads."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        """The AST counts bytes."""
        before = lines[line - 1].encode()[:column].decode()
        return starts[line - 1] + len(before)

    for node in _nodes(ast.parse(text)):
        for other in _others(node):
            begin = place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            new = ast.unparse(ast.fix_missing_locations(other))
            if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
                new = f"({new})"
            line = node.lineno  # type: ignore[attr-defined]
            yield Mutant(path, line, begin, end, text[begin:end], new, lines[line - 1].strip())


def files(wanted: list[str]) -> list[Path]:
    """The files that names of files and folders below kgtool stand for."""
    found: list[Path] = []
    for name in wanted:
        place = ROOT / name if (ROOT / name).exists() else ROOT / "kgtool" / name
        found += [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [path.relative_to(ROOT) for path in found]


class Copy:
    """A copy of the repository to break."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "repo"
        skipped = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, self.root, ignore=skipped)

    def is_noticed(self, mutant: Mutant, tests: list[str], extra: list[str], limit: float) -> bool:
        """Run the tests on it; a run that takes too long has noticed it as well."""
        target = self.root / mutant.path
        text = target.read_text(encoding="utf-8")
        target.write_text(mutant.apply(text), encoding="utf-8")
        try:
            status = self.run(tests, extra, limit)
        finally:
            target.write_text(text, encoding="utf-8")
        return status not in (0, NOTHING_TO_RUN)

    def run(self, tests: list[str], extra: list[str], limit: float) -> int:
        """Return pytest's exit status; 1 if it did not end in time."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--timeout=180",
            *extra,
            *tests,
        ]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                self.said, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                self.said = f"no end within {limit:g} s (--limit)"
                return 1
        return process.returncode


def named(options: argparse.Namespace) -> Iterator[tuple[Mutant, list[str], str]]:
    """The changes that tests/mutants.toml names, their tests, and what they mean."""
    only = options.means or ""
    for entry in tomllib.loads(LIST.read_text(encoding="utf-8")).get("named", []):
        if only not in entry["means"]:
            continue
        path, old, new = Path(entry["file"]), entry["old"], entry["new"]
        text = (ROOT / path).read_text(encoding="utf-8")
        if text.count(old) != 1:
            sys.exit(f"{LIST.name}: {path} has {text.count(old)} times {old!r}, not once")
        at = text.index(old)
        line = text.count("\n", 0, at) + 1
        context = text.splitlines()[line - 1].strip()
        mutant = Mutant(path, line, at, at + len(old), old, new, context)
        yield mutant, entry["tests"], entry["means"]


def accepted() -> set[tuple[str, str, str]]:
    """What may live: file, line and change."""
    found = tomllib.loads(LIST.read_text(encoding="utf-8")).get("accepted", [])
    return {(entry["file"], entry["line"], entry["new"]) for entry in found}


def drawn(options: argparse.Namespace) -> Iterator[tuple[Mutant, list[str], str]]:
    """A sample of all changes, and the tests that are near enough to each."""
    rng = random.Random(options.seed)
    every = [mutant for path in files(options.files) for mutant in mutants(path)]
    chosen = rng.sample(every, min(options.count, len(every)))
    print(f"{len(chosen)} of {len(every)} changes, --seed {options.seed}", flush=True)
    graph, near = Graph(), dict[Path, list[str]]()
    for mutant in sorted(chosen):
        if mutant.path not in near:
            tests = graph.tests([ROOT / mutant.path])[: options.tests]
            near[mutant.path] = [str(path.relative_to(ROOT)) for path in tests]
        yield mutant, near[mutant.path], ""


def main() -> int:
    """Return 1 if a change lived that has no reason to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", nargs="*", default=list(ROOMS))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--tests", type=int, default=25, help="at most so many files of tests")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one")
    parser.add_argument("--slow", action="store_true", help="with brokers and Spark")
    parser.add_argument("--named", action="store_true", help="only those that the list names")
    parser.add_argument("--means", help="of those, the ones with this in their meaning")
    options = parser.parse_args()
    marks = (
        "not soak" if options.slow or options.named else FAST
    )  # CI's own tests have to notice it
    extra = ["-m", marks]
    may_live, survivors, failed, count = accepted(), [], [], 0
    with tempfile.TemporaryDirectory(prefix="kgtool-mutants-") as folder:
        copy = Copy(Path(folder))
        sound: dict[tuple[str, ...], bool] = {}
        for mutant, tests, means in named(options) if options.named else drawn(options):
            if tuple(tests) not in sound:
                status = copy.run(tests, extra, options.limit)
                sound[tuple(tests)] = status == 0
                if status == NOTHING_TO_RUN:
                    print(f"{mutant.path} takes brokers: --slow")
                elif status:
                    failed.append(mutant.path)
                    print(f"unchanged, the tests of {mutant.path} fail:\n{copy.said[-2000:]}")
            if not sound[tuple(tests)]:
                continue
            count += 1
            began = time.monotonic()
            is_noticed = copy.is_noticed(mutant, tests, extra, options.limit)
            is_known = (str(mutant.path), mutant.context, mutant.new) in may_live
            said = "killed" if is_noticed else "accepted" if is_known else "LIVES"
            print(f"{said:8} {time.monotonic() - began:5.0f} s  {mutant}  {means}", flush=True)
            if said == "LIVES":
                survivors.append(mutant)
    print(f"{count} changes, {len(survivors)} not noticed")
    for mutant in survivors:
        print(f"  {mutant}\n      {mutant.context}")
    return 1 if survivors or failed else 0


if __name__ == "__main__":
    sys.exit(main())
