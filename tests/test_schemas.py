"""The published JSON Schemas, and the hook that holds every document in the tests to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from kgtool.cli.app.root import root
from kgtool.cli.commands import COMMANDS
from kgtool.columns.schemas import RESULTS
from tests.support import schemas

ROW = {"group": "g", "status": "deleted", "error": None}


def _document(**changed: Any) -> dict[str, Any]:
    found = {"command": "delete", "version": 1, "cluster_id": None, "results": [ROW], "errors": []}
    return {**found, **changed}


def test_every_command_with_an_output_has_one() -> None:
    with_output = set()
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        inner = getattr(command, "commands", {"": command}).values()
        if any(param.name == "output" for each in inner for param in each.params):
            with_output.add(name)
    assert with_output - {"top"} == RESULTS.keys(), "a screen has no document"


@pytest.mark.parametrize("command", RESULTS)
def test_it_is_a_schema(command: str) -> None:
    Draft202012Validator.check_schema(schemas.validator(command).schema)


def test_a_document_that_keeps_the_contract_passes() -> None:
    assert json.loads(json.dumps(_document())) == _document()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d: d["results"][0].pop("error"), "'error' is a required property"),
        (lambda d: d["results"][0].update(more=1), "'more' was unexpected"),
        (lambda d: d["results"][0].update(status="gone"), "'gone' is not one of"),
        (lambda d: d["results"][0].update(group=3), "3 is not of type 'string'"),
        (lambda d: d.update(version=2), "1 was expected"),
        (lambda d: d.pop("errors"), "'errors' is a required property"),
        (lambda d: d["errors"].append({"message": "no"}), "'target' is a required property"),
        (lambda d: d.update(command="nonsense"), "nonsense has no schema"),
    ],
)
def test_one_that_departs_from_it_fails_its_test(
    spoil: Callable[[dict[str, Any]], Any], said: str
) -> None:
    document = json.loads(json.dumps(_document()))
    spoil(document)
    with pytest.raises(AssertionError, match=said):
        json.loads(json.dumps(document))


def test_late_rows_of_a_long_document_are_looked_at() -> None:
    rows = [dict(ROW) for _ in range(10_000)]
    json.loads(json.dumps(_document(results=rows)))
    with pytest.raises(AssertionError, match="required"):
        json.loads(json.dumps(_document(results=[*rows[:5000], *[{}] * 5000])))
