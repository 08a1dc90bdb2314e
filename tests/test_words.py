"""What the program says is said as ``docs/style.rst`` wants it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AVOIDED = re.compile(
    r"\b(nobody|anew|all in all|for good|besides|whoever|so many|made again|made anew|all the same|"
    r"once more|there twice|put back|puts it back|"
    r"(?<!there )is no (plan|journal|backup|json|text|list|object|number|whole|valid|utf-8|id|root)"
    r")\b",
    re.I,
)
"""The list in ``docs/style.rst``: words of a literal translation."""


def _old_sentences() -> list[str]:
    """Return the left column of the list in ``docs/style.rst``."""
    text = (ROOT / "docs/style.rst").read_text(encoding="utf-8")
    table = re.findall(r'(?m)^   "(.*?)", "', text)
    assert len(table) > 60
    return table[1:]


def _plain(text: str) -> str:
    """Return a text in one line, without the marks of man pages and reStructuredText."""
    text = text.replace(r"\(aq", "'").replace(r"\-", "-")
    return re.sub(r"``|\s+", lambda found: "" if found[0] == "``" else " ", text)


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file that can reach a user: strings that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        # What a decorated function in commands/ says of itself is its help.
        and not ("commands" in path.parts and getattr(node, "decorator_list", ()))
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):  # whole, so that no value hides a sentence
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield node.lineno, "".join(map(str, parts))
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in silent:
            yield node.lineno, node.value


def test_words_that_a_native_would_not_choose() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip()[:90]}"
        for path in sorted((ROOT / "kgtool").rglob("*.py"))
        for line, text in _sentences(path)
        if AVOIDED.search(text)
    ]
    assert found == []


def _shown_to_users() -> Iterator[tuple[str, str]]:
    """Yield every text that a user can see: messages, helps, columns, schemas, pages, report."""
    for path in sorted((ROOT / "kgtool").rglob("*.py")):
        for line, text in _sentences(path):
            yield f"{path.relative_to(ROOT)}:{line}", text
    others = [
        *(page for page in PAGES if page.stem != "style"),
        *REPORT,
        *sorted((ROOT / "man").glob("*.1")),
        *sorted((ROOT / "completions").iterdir()),
        *sorted((ROOT / "docs").rglob("*.*ml")),
        *sorted((ROOT / "docs").rglob("*.json")),
    ]
    for path in others:
        text = path.read_text(encoding="utf-8")
        if path.name == "CHANGES.rst":  # what it was called is history
            text = ""
        yield str(path.relative_to(ROOT)), text


def test_no_sentence_of_the_list_is_used_any_more() -> None:
    """Kind: an old sentence of docs/style.rst. Siblings: f-strings, helps, man pages, report."""
    old = [(sentence, sentence.lower()) for sentence in _old_sentences()]
    found = [
        f"{place}: {sentence}"
        for place, text in _shown_to_users()
        for plain in [_plain(text).lower()]
        for sentence, lower in old
        if lower in plain
    ]
    assert found == []


PAGES = [ROOT / "README.rst", ROOT / "CHANGES.rst", *sorted((ROOT / "docs").glob("*.rst"))]
REPORT = sorted((ROOT / "kgtool/analysis/report/html").glob("[!u]*.[hj]*"))
"""The report's page and scripts; not uPlot."""


@pytest.mark.parametrize(
    "path", [page for page in PAGES if page.stem != "style"] + REPORT, ids=lambda path: path.name
)
def test_the_pages_and_the_report_too(path: Path) -> None:
    text = re.sub(r"\s+", " ", re.sub(r"(?m)//.*$", "", path.read_text(encoding="utf-8")))
    assert [found.group() for found in AVOIDED.finditer(text)] == []


def test_the_page_on_style_names_these_words() -> None:
    text = (ROOT / "docs/style.rst").read_text(encoding="utf-8")
    (words,) = re.findall(r"(?s)Words to avoid in what a user reads: (.*?);", text)
    assert [word for word in re.split(r",\s+", words) if not AVOIDED.fullmatch(word)] == []


def test_the_walk_sees_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text('"""Nobody."""\nX = f"so {1} nobody"\n')
    assert {line for line, text in _sentences(file) if AVOIDED.search(text)} == {2}


def test_names_in_docstrings_exist() -> None:
    """A module with a name in it, or a name with an underscore; not those of Java's packages."""
    files = [path for room in ("kgtool", "tests", "tools") for path in (ROOT / room).rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    known = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    for text in texts.values():
        known.update(re.findall(r"\w+", re.sub(r'(?s)""".*?"""|``.*?``', "", text)))
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        for name in re.findall(r"``([a-z]\w*(?:\.\w+)+|[a-z]+_\w+)(?:\(\))?``", text)
        if not name.startswith(("java.", "sun.")) and not known.issuperset(name.split("."))
    ]
    assert missing == []
