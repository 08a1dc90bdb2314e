"""Every table at 80, 100 and 140 columns, with names of 249 letters and with what is empty.

Kind: a screen that hides or crushes what decides. Siblings: all tables that ``kgtool.columns``
declares, each with all columns known, and each with the optional ones empty.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kgtool.cli.commands import sandbox
from kgtool.cli.output import tables, terminal
from kgtool.cli.output.output import Output
from kgtool.columns import COUNT, LAG, NAME, STATUS, TEXT, Column, changes, groups, shown, tools

LONG = "payments-" + "x" * 230 + "-consumer7"
SENTENCE = "no members; generated name; idle for 3mo 12d 14h; no lag; another reason"
WIDTHS = (80, 100, 140)


def _tables() -> Iterator[Any]:
    for module in (groups, changes, tools):
        for name, value in vars(module).items():
            is_table = isinstance(value, tuple) and value and not isinstance(value, Column)
            if is_table and all(isinstance(each, Column) for each in value):
                columns = shown(value)
                is_raw = name in ("PEEK", "FIELDS")  # bytes, and trees of fields
                if len(columns) > 1 and name[0] != "_" and "TEXT" not in name and not is_raw:
                    yield pytest.param(columns, id=f"{module.__name__.rpartition('.')[2]}.{name}")


class Row(dict[str, Any]):
    """What a table does not have is unknown."""

    def __missing__(self, key: str) -> None:
        return None


def _value(column: Column, at: int) -> Any:
    kind = column.json.rstrip("?")
    if column.words:
        return column.words[at % len(column.words)]
    if column.key == "group_epoch" or kind in ("integer", "number"):
        return 1_764_099_868_000 if column.key.endswith("_ms") else 1_234_567
    if kind == "boolean":
        return bool(at % 2)
    if kind == "strings":
        return SENTENCE.split("; ")
    if kind == "integers":
        return [1, 2]
    if kind in ("rows", "object", "error", "any"):
        return None
    return SENTENCE if column.kind == TEXT else LONG if column.kind == NAME else "some"


def _rows(columns: Sequence[Column], *, sparse: bool) -> list[Row]:
    """Return three rows; ``sparse``: all that may be null is."""
    return [
        Row(
            (column.key, None if sparse and column.json.endswith("?") else _value(column, at))
            for column in columns
        )
        for at in range(3)
    ]


def _drawn(
    columns: Sequence[Column], rows: Sequence[Row], width: int
) -> tuple[tables.Fit, list[str]]:
    fitting = tables.fit(columns, rows, width)
    return fitting, tables.draw(columns, rows, sizes=fitting.sizes).splitlines()


@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", list(_tables()))
def test_what_decides_is_never_hidden(columns: Sequence[Column], width: int, sparse: bool) -> None:
    rows = _rows(columns, sparse=sparse)
    fitting, lines = _drawn(columns, rows, width)
    kept = {column.key for column in fitting.sizes}
    decides = {column.key for column in columns if column.kind in (STATUS, LAG, TEXT)}
    decides |= {"records_skipped", "records_replayed"} & {column.key for column in columns}
    if not sparse:
        assert decides <= kept
    else:
        assert {c.key for c in columns if c.kind in (STATUS, LAG, TEXT)} <= kept
    assert max(map(terminal.columns_of, lines)) <= max(width, fitting.width)
    # A name is capped where not everything fits, and stays readable at its end.
    whole = tables.fit(columns, rows).width
    for column, size in fitting.sizes.items():
        if column.kind == NAME and not sparse:
            assert size <= 40 and whole >= size


@pytest.mark.parametrize("width", WIDTHS)
def test_a_sentence_is_whole_and_its_group_readable(width: int) -> None:
    """Kind: why something goes can't be read. Siblings: a plan's WHY, apply's REASON."""
    for columns in (changes.CLEANUP_PLAN, changes.CLEANUP_APPLY):
        rows = _rows(columns, sparse=False)
        fitting, lines = _drawn(shown(columns), rows, width)
        (text,) = (column for column in fitting.sizes if column.kind == TEXT)
        start = min(line.index(text.header) for line in lines if text.header in line)
        seen = " ".join(line[start : start + fitting.sizes[text]].strip() for line in lines[1:])
        assert " ".join(seen.split()) == " ".join([text.cell(rows[0])] * 3)
        names = [fitting.sizes[column] for column in fitting.sizes if column.kind == NAME]
        assert min(names) >= 20


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", list(_tables()))
def test_empty_columns_go_first(columns: Sequence[Column], width: int) -> None:
    rows = _rows(columns, sparse=True)
    fitting, _ = _drawn(columns, rows, width)
    if not fitting.hidden:
        return
    for column in fitting.sizes:
        assert column.decides or any(column.cell(row) != "-" for row in rows), column.header


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", list(_tables()))
def test_numbers_are_right_aligned(columns: Sequence[Column], width: int) -> None:
    rows = [
        Row({**row, **{c.key: 7 for c in columns if c.is_number and c.text is None}})
        for row in _rows(columns, sparse=False)
    ]
    fitting, lines = _drawn(columns, rows, width)
    start = 0
    for column, size in fitting.sizes.items():
        end = start + size
        if column.is_number and column.text is None:
            firsts = [line for line in lines if line[0] != " "]  # a sentence goes on below
            assert [line[:end].rstrip()[-1:] for line in firsts[1:]] == ["7"] * 3, column.header
            assert all(len(line[:end].rstrip()) == end for line in firsts), column.header
        start = end + 2


@pytest.mark.parametrize("columns", list(_tables()))
def test_colour_marks_only_what_is_wrong(columns: Sequence[Column]) -> None:
    rows = _rows(columns, sparse=False)
    lines = tables.draw(columns, rows, colored=True).splitlines()
    wrong = set(tables._COLORS) | {"failed", "unknown", "changed-meanwhile", "not-reached"}
    for line in lines[1:]:
        for found in re.findall(r"\x1b\[[\d;]+m(.*?)\x1b\[0m", line):
            assert found in wrong, found
    assert not wrong & {"ok", "Stable", "deleted", "restored", "reset", "0", "100"}


def test_one_long_name_does_not_move_the_others_in_a_pipe() -> None:
    rows = [Row(group=name, state="Empty", members=0) for name in ("a", LONG)]
    lines = tables.draw(groups.BY_GROUP[:3], rows).splitlines()
    assert lines[1].index("Empty") == 42
    assert LONG in lines[2]
    assert groups.BY_GROUP[2].kind == COUNT


@pytest.mark.parametrize(
    ("count", "is_terminal", "verbose"),
    [(20, True, False), (21, True, False), (21, True, True), (21, False, False)],
)
def test_many_results_are_failures_and_one_total_on_a_terminal(
    count: int, is_terminal: bool, verbose: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind: 2,400 rows after a change. Siblings: at the limit, a pipe, ``-v``, dry runs."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: is_terminal)
    output = Output("text", "undo", out, io.StringIO())
    output.verbose = verbose
    columns = shown(changes.RESTORE)
    rows = [
        Row(group=f"g{at}", topic="t", partition=0, status="restored", error=None)
        for at in range(count - 1)
    ]
    rows.append(Row(group="bad", topic="t", partition=0, status="failed", error={"name": "GONE"}))
    with tables.TableStream(output, columns, folds=True) as table:
        for row in rows:
            table.add([row])
    lines = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()).splitlines()
    if count > 20 and is_terminal and not verbose:
        assert [line.split()[0] for line in lines] == ["GROUP", "bad", "20"]
        assert lines[-1] == "20 restored, 1 failed (-v shows all)."
    else:
        assert len(lines) == count + 1
    out.truncate(0)
    with tables.TableStream(output, columns, folds=True) as table:
        table.add([Row(row, status="would-restore", error=None) for row in rows])
    assert out.getvalue().count("would-restore") == count  # a preview is read row by row


def test_members_keep_who_has_what() -> None:
    row = {
        "group": "billing",
        "consumer_id": "billing-1-9152f4ce-2c72-4a9a-95a6-eda4d06a31d3",
        "host": "/127.0.0.1",
        "client_id": "billing-1",
        "partitions": 3,
        "current_assignment": "orders:0,1,2",
        "subscribed_topics": ["orders"],
        "assignor": "range",
    }
    kept = [column.header for column in tables.fit(groups.MEMBERS, [row], 80).sizes]
    assert {"CONSUMER-ID", "CLIENT-ID", "CURRENT-ASSIGNMENT"} <= set(kept)


def test_each_config_has_its_whole_name() -> None:
    """Kind: two rows that look the same, ``consumer.…al.ms``. Siblings: group, value and width."""
    rows = [
        Row(group=group, name=name, value=value, default=value, source="static broker", type="x")
        for group in ("orders", LONG)
        for name in ("streams.initial.rebalance.delay.ms", "consumer.heartbeat.interval.ms")
        for value in ("1000", "read_uncommitted")
    ]
    for columns in (changes.CONFIGS, changes.CONFIGS_ALTER):
        change = [Row(**row, old_value="1", new_value="2", status="would-alter") for row in rows]
        fitting, lines = _drawn(shown(columns), change, 80)
        assert all(row["name"] in line for row, line in zip(rows, lines[1:], strict=True))
        assert max(map(len, lines)) <= 80
        assert columns is changes.CONFIGS_ALTER or fitting.hidden == ["DEFAULT"]


@pytest.mark.parametrize("address", ["h:1", "h:2"])
def test_the_sandbox_says_what_comes_next(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kind: seed ended without a word. Siblings: the address is exported already, a pipe."""
    monkeypatch.setenv("KGTOOL_BOOTSTRAP_SERVER", "h:1")
    monkeypatch.setattr(sandbox, "_facts", lambda *_: {"cluster_id": "c"})
    cluster: Any = SimpleNamespace(name="default", bootstrap=address)
    for is_terminal in (True, False):
        monkeypatch.setattr(Output, "is_terminal", is_terminal)
        sandbox._report(Output("text", "sandbox seed"), cluster, "kgtool doctor")
        export = "" if address == "h:1" else f"export KGTOOL_BOOTSTRAP_SERVER={address}; "
        said = f"Next: {export}kgtool doctor\n" if is_terminal else ""
        assert capsys.readouterr() == (f"{address}\n", said)


def test_ids_of_java_members_are_aligned_in_a_pipe() -> None:
    """The client sends ``CLIENT-ID-UUID``, which is longer than most names."""
    ids = [f"consumer-{group}-1-{UUID(int=1)}" for group in ("pay", "shipping")]
    rows = [Row(group="g", consumer_id=id, host="/h", client_id="c", partitions=1) for id in ids]
    head, *lines = tables.draw(shown(groups.MEMBERS), rows).splitlines()
    assert {line.index("/h") for line in lines} == {head.index("HOST")}
