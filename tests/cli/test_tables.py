"""Tables are byte for byte those that kafka-consumer-groups.sh 4.3.1 printed."""

from __future__ import annotations

import pytest

from kgtool.cli.describe.view import _ROWS, _TABLES, View
from kgtool.cli.output import kafka_tables, rows
from kgtool.columns import keys
from kgtool.model import GroupDescription, GroupListing, Member, OffsetDeletion, OffsetRow
from kgtool.protocol.codes import CODES
from tests.cli import recorded
from tests.cli.recorded import Run

RUNS = [run for run in recorded.runs() if run.exit == 0]
BY_CLASS = {code.exception: (code.code, code.name) for code in CODES.values() if code.exception}


def _named(runs: list[Run]) -> list[object]:
    assert runs
    return [pytest.param(run, id=run.name) for run in runs]


def _describes(*views: str, without: tuple[str, ...] = ()) -> list[object]:
    return _named(
        [
            run
            for run in RUNS
            if "--describe" in run.argv
            and all(view in run.argv for view in views)
            and not any(view in run.argv for view in without)
            and run.stdout.startswith("\nGROUP")
        ]
    )


@pytest.mark.parametrize("run", _describes(without=("--members", "--state")))
def test_offsets(run: Run) -> None:
    tables = recorded.blocks(run.stdout)
    verbose = "--verbose" in run.argv
    assert tables
    shown = [kafka_tables.offsets(recorded.offset_rows(table), verbose) for table in tables]
    assert "".join(shown) == run.stdout


@pytest.mark.parametrize("run", _describes("--members"))
def test_members(run: Run) -> None:
    verbose = "--verbose" in run.argv
    shown = [
        _described(
            "members", recorded.described(table[0]["GROUP"] if table else "g", table), verbose
        )
        for table in recorded.blocks(run.stdout)
    ]
    assert "".join(shown) == run.stdout


@pytest.mark.parametrize("run", _describes("--state"))
def test_state(run: Run) -> None:
    verbose = "--verbose" in run.argv
    shown = [
        _described("state", recorded.state_of(table[0]), verbose)
        for table in recorded.blocks(run.stdout)
    ]
    assert "".join(shown) == run.stdout


@pytest.mark.parametrize(
    "run", _named([run for run in RUNS if "--list" in run.argv and "Error" not in run.stdout])
)
def test_list(run: Run) -> None:
    with_type = any(word.startswith("--type") for word in run.argv)
    with_state = any(word.startswith("--state") for word in run.argv)
    lines = [line.split() for line in run.stdout.splitlines()][with_type or with_state :]
    groups = [
        GroupListing(
            line[0], line[1].lower() if with_type else None, line[-1] if with_state else None, "", 1
        )
        for line in lines
    ]
    listed = [group._asdict() for group in groups]
    assert kafka_tables.listing(listed, with_type, with_state) == run.stdout


@pytest.mark.parametrize(
    "run",
    _named(
        [
            run
            for run in RUNS
            if "--delete-offsets" in run.argv
            # What Java says of a coordinator it can't find is no code's message.
            and not any(text in run.stdout for text in ("CoordinatorKey", "Timed out", "Invalid u"))
        ]
    ),
)
def test_delete_offsets(run: Run) -> None:
    rows = recorded.deletions(run.stdout, BY_CLASS)
    table = kafka_tables.offset_deletions(list(reversed(rows)))  # Kafka's order, not ours
    assert run.stdout.endswith(table)
    assert "TOPIC" not in run.stdout.removesuffix(table)


def test_widths_count_utf_16_units() -> None:
    """Java pads by UTF-16 units: a character outside the BMP takes two."""
    plain, astral = (
        kafka_tables.offsets([_row(topic=name)]).splitlines()[2] for name in ("ab", "\U0001f680")
    )
    assert plain.index("  7  ") - 2 == astral.index("  7  ") - 1


def test_a_group_without_rows_has_no_table() -> None:
    assert kafka_tables.offsets([]) == ""


def test_assignments_sort_as_the_text_they_become() -> None:
    assert rows.assignment((("t1", (1,)), ("t12", (0, 2, 10)))) == "t12:0,2,10;t1:1"


def test_unknown_partition_sorts_as_minus_one() -> None:
    rows = [OffsetDeletion("g", "t", 0, "deleted"), OffsetDeletion("g", "t", None, "deleted")]
    lines = kafka_tables.offset_deletions(rows).splitlines()
    assert [line.split()[1] for line in lines[2:]] == ["-", "0"]


@pytest.mark.parametrize("char", ["\x1b[31m", "\n", "\r", "\u202e", "\u2028", "\udc80", "\x9b"])
def test_no_cell_can_command_the_terminal(char: str) -> None:
    name = f"a{char}b"
    member = Member(name, name, name, name, ((name, (0,)),), None)
    group = GroupDescription(name, "classic", "Stable", "consumer", name, None, (member,))
    listed = GroupListing(name, "classic", "Empty", "", 1)
    shown = [
        kafka_tables.offsets([_row(topic=name, metadata=name)]),
        _described("members", group, verbose=True),
        _described("state", group),
        kafka_tables.listing([listed._asdict()], True, True),
        kafka_tables.offset_deletions([OffsetDeletion(name, name, 0, "deleted")]),
        kafka_tables.table(("X", [name], 0)),
        kafka_tables.group_note(group._replace(state="Empty")) or "",
    ]
    for text in shown:
        assert "a\\" in text
        for line in text.split("\n"):
            assert line.isprintable(), line


def _described(name: str, group: GroupDescription, verbose: bool = False) -> str:
    view = View(name, verbose=verbose, kafka_form=True)
    found = rows.member_rows(group) if name == "members" else [rows.state_row(group)]
    return kafka_tables.described(view.text_columns(found), found)


def _row(topic: str = "t", metadata: str = "") -> OffsetRow:
    return OffsetRow("g", topic, 7, 1, 0, 2, 1, None, metadata, None, None, None, None, "ok")


@pytest.mark.parametrize("table", _ROWS)
def test_every_key_of_a_row_can_be_chosen(table: str) -> None:
    """``OFFSETS_TEXT`` and the like have an order of their own: a new column is added there too."""
    assert set(keys(_ROWS[table])) <= set(keys(_TABLES[table])), "not in --columns"
