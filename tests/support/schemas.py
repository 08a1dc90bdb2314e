"""Holds every JSON document that a test reads to the published schema of its command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
ENVELOPE = {"command", "version", "cluster_id", "results", "errors"}
MOST = 40
"""So many rows of a document are looked at: the first ones, and others from all over it."""

_loads = json.loads


@cache
def validator(command: str) -> Draft202012Validator:
    path = FOLDER / f"{command}.json"
    assert path.is_file(), f"{command} has no schema: add it to kgtool/columns/schemas.py"
    return Draft202012Validator(_loads(path.read_text(encoding="utf-8")))


def problems(document: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a document, one line each."""
    rows = document["results"]
    if isinstance(rows, list) and len(rows) > MOST:
        some = rows[: MOST // 2] + rows[MOST // 2 :: len(rows) // (MOST // 2)]
        document = {**document, "results": some}
    for error in validator(str(document["command"])).iter_errors(document):
        causes = error.context or [error]
        best = max(causes, key=lambda each: len(each.schema_path))
        yield f"{error.json_path}: {best.message}"


def loads(text: str | bytes | bytearray, **options: Any) -> Any:
    """``json.loads``; a document of kgtool that departs from its schema is an AssertionError."""
    found = _loads(text, **options)
    if isinstance(found, dict) and found.keys() >= ENVELOPE - {"errors"} and found["command"]:
        wrong = list(problems(found))
        assert not wrong, f"kgtool {found['command']} -o json: " + "; ".join(wrong[:5])
    return found


def install() -> None:
    """Put it in the place of ``json.loads``, whoever calls it."""
    json.loads = loads
