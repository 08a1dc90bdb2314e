"""Formats: documents that are valid with any name, complete also when a run fails."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml

from kgtool.cli.app import exits
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.errors import BrokerError, ConnectFailed, KgError, UsageError, unexpected
from kgtool.model import ItemError, Target
from kgtool.text import cell, escape

NASTY = [
    '"',
    "\\",
    "\x00",
    "\x1b[2J",
    "\n",
    "\u202e",
    "\udc80",
    "\u2028",
    "日本",
    "\U0001f680",
    "=1+1",
    "-x",
    "@x",
    "+x",
    "'",
    "a,b",
    "null",
    "- x: y",
    "{}",
]
NOT_FOUND = ItemError(Target(group="g"), 69, "GROUP_ID_NOT_FOUND", "Group g not found.", "Look.")
DOWN = ItemError(Target(broker=2), None, "TIMEOUT", "No answer.", unreachable=True)


def _output(format_: str) -> tuple[Output, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Output(format_, "list", out, err), out, err


def _documents(format_: str, text: str) -> Any:
    # Not json.loads: these rows have columns that no command has, and no schema.
    return yaml.safe_load(text) if format_ == "yaml" else json.JSONDecoder().decode(text)


@pytest.mark.parametrize("format_", ["json", "yaml"])
def test_a_document_holds_any_name(format_: str) -> None:
    output, out, _ = _output(format_)
    output.begin(("group", "metadata"), "cluster")
    for name in NASTY:
        output.row({"group": name, "metadata": name})
    output.done = 1
    output.failed(NOT_FOUND._replace(target=Target(group="\x1b\udc80")))
    assert output.finish() == exits.PARTLY_DONE
    assert out.getvalue().isascii()
    document = _documents(format_, out.getvalue())
    assert document["results"] == [{"group": name, "metadata": name} for name in NASTY]
    assert document["errors"] == [
        {
            "target": {"group": "\x1b\udc80", "topic": None, "partition": None, "broker": None},
            "code": 69,
            "name": "GROUP_ID_NOT_FOUND",
            "message": "Group g not found.",
            "hint": "Look.",
        }
    ]
    assert (document["command"], document["version"], document["cluster_id"]) == (
        "list",
        1,
        "cluster",
    )


@pytest.mark.parametrize("format_", ["json", "yaml"])
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_an_error_in_the_middle_leaves_one_whole_document(format_: str, rows: int) -> None:
    output, out, err = _output(format_)
    output.begin(("group",), "cluster")
    for number in range(rows):
        output.row({"group": str(number)})
        output.done += 1
    status = output.abort(ConnectFailed("Gone.", hint="Look."))
    document = _documents(format_, out.getvalue())
    assert len(document["results"]) == rows
    assert document["errors"][0]["name"] == "UNREACHABLE"
    assert document["errors"][0]["code"] is None
    assert status == (exits.PARTLY_DONE if rows else exits.UNREACHABLE)
    assert err.getvalue() == "Error: Gone. Look.\n"


def test_every_ndjson_line_is_a_result_or_a_failure() -> None:
    output, out, _ = _output("ndjson")
    output.begin(("group", "lag"), "cluster")
    output.row({"group": "a\n"})
    output.failed(NOT_FOUND)
    output.failed(DOWN)
    output.finish()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0] == {"group": "a\n", "lag": None}
    assert lines[1]["group"] == "g"
    assert lines[1]["error"]["code"] == 69
    assert lines[2]["group"] is None
    assert lines[2]["error"]["target"]["broker"] == 2


def test_a_failed_partition_is_named_in_its_line() -> None:
    output, out, _ = _output("ndjson")
    output.begin(("group", "topic", "partition"), "cluster")
    output.failed(NOT_FOUND._replace(target=Target("g", "t", 0)))
    line = json.loads(out.getvalue())
    assert (line["group"], line["topic"], line["partition"]) == ("g", "t", 0)


def test_csv_has_a_header_and_no_formula() -> None:
    output, out, err = _output("csv")
    output.begin(("group", "lag", "subscribed"), "cluster")
    for name in NASTY:
        output.row({"group": name, "lag": -5, "subscribed": True})
    output.failed(NOT_FOUND)
    output.finish()
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert rows[0] == ["group", "lag", "subscribed"]
    assert len(rows) == len(NASTY) + 1
    assert len(out.getvalue().splitlines()) == len(rows)
    for row in rows[1:]:
        assert row[0][0] not in "=+-@"
        assert row[0].isprintable()
        assert row[1:] == ["-5", "true"]
    assert err.getvalue() == "Error: Group g does not exist. Look.\n"


def test_csv_without_results_still_has_its_header() -> None:
    output, out, _ = _output("csv")
    output.begin(("group", "lag"), "cluster")
    output.finish()
    assert out.getvalue() == "group,lag\n"


def test_rows_are_no_text() -> None:
    output, out, _ = _output("text")
    output.row({"group": "g"})
    output.text("shown")
    assert output.finish() == 0
    assert out.getvalue() == "shown\n"


def test_text_is_no_json() -> None:
    output, out, _ = _output("json")
    output.text("hidden")
    output.finish()
    assert json.loads(out.getvalue())["results"] == []


@pytest.mark.parametrize(
    ("done", "errors", "expected"),
    [
        (0, [], 0),
        (3, [], 0),
        (0, [NOT_FOUND], 1),
        (1, [NOT_FOUND], 3),
        (0, [DOWN, DOWN], 4),
        (0, [DOWN, NOT_FOUND], 1),
        (1, [DOWN], 3),
    ],
)
def test_status(done: int, errors: list[ItemError], expected: int) -> None:
    assert exits.status(done, errors) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KgError("It broke."), "Error: It broke."),
        (UsageError("Bad", hint="Say x."), "Error: Bad. Say x."),
        (KgError("No group 'a\nb\x1b[1m'."), "Error: No group 'a\\nb\\x1b[1m'."),
        (
            unexpected(ValueError("two\nlines")),
            "Error: Unexpected ValueError: two lines. This is "
            "a bug in kgtool; --debug shows where.",
        ),
        (
            ItemError.of(BrokerError(3, "X", "This server does not host."), Target("g", "t", 1)),
            "Error: group g, t:1: This server does not host.",
        ),
        (NOT_FOUND._replace(hint=None), "Error: Group g not found."),
        (DOWN, "Error: broker 2: No answer."),
    ],
)
def test_an_error_is_one_line_that_says_where(error: KgError | ItemError, expected: str) -> None:
    assert sentence(error) == expected


def test_a_remark_is_said_once_and_its_names_are_escaped() -> None:
    output, _, err = _output("text")
    for _ in range(2):
        output.note_once("Group 'a\nb' is left alone.")
    assert err.getvalue() == "Group 'a\\nb' is left alone.\n"


def test_escape_keeps_ordinary_names() -> None:
    for name in ("orders", "a b", "C:\\x", "é日本", "\U0001f680", "отчёты"):
        assert escape(name) == name


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), (False, "false"), (-3, "-3"), ("-", "'-"), ("\tx", "'\\tx"), ("", "")],
)
def test_cell(value: object, expected: str) -> None:
    assert cell(value) == expected


@pytest.mark.parametrize("is_terminal", [True, False])
def test_of_many_errors_alike_a_terminal_shows_ten(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or a pipe gets each of them, and so does the document."""
    output, out, err = _output("json")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(err, "isatty", lambda: is_terminal)
    output.begin(("group",))
    for number in range(13):
        target = Target(group=f"g{number}")
        output.failed(NOT_FOUND._replace(target=target, message=f"Group g{number} not found."))
    output.failed(DOWN)
    output.finish()
    told = err.getvalue().splitlines()
    assert told[:10] == [f"Error: Group g{number} does not exist. Look." for number in range(10)]
    if is_terminal:
        more = "Error: GROUP_ID_NOT_FOUND 3 times more: -o json names each."
        assert told[10:] == ["Error: broker 2: No answer.", more]
    else:
        assert len(told) == 14
    assert len(_documents("json", out.getvalue())["errors"]) == 14


def test_errors_left_out_are_counted_by_name_and_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    output, _, err = _output("text")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(err, "isatty", lambda: True)
    for hint, count in (("Look.", 12), ("Wait.", 11)):
        for number in range(count):
            output.failed(NOT_FOUND._replace(target=Target(group=f"g{number}"), hint=hint))
    output.finish()
    assert [line.split()[2] for line in err.getvalue().splitlines()[-2:]] == ["2", "1"]
