"""Tables that come in parts keep their columns where they were."""

from __future__ import annotations

import io

import pytest

from kgtool.cli.output import tables, terminal
from kgtool.cli.output.output import Output
from kgtool.columns import Column
from kgtool.columns.groups import GROUP, TOPIC

COLUMNS = (GROUP, TOPIC, Column("status", "STATUS"))


def _row(group: str, topic: str) -> dict[str, str]:
    return {"group": group, "topic": topic, "status": "restored"}


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def _starts(text: str) -> list[tuple[int, ...]]:
    """Where the words of each line begin."""
    return [
        tuple(at for at, char in enumerate(line) if char != " " and line[at - 1 : at] in ("", " "))
        for line in text.splitlines()
    ]


def test_groups_of_different_lengths_are_one_table(out: io.StringIO) -> None:
    with tables.TableStream(Output(stdout=out), COLUMNS) as table:
        for size in (1, 30, 2):
            table.add([_row("g" * size, "t" * size)])
    assert len(set(_starts(out.getvalue()))) == 1
    assert out.getvalue().splitlines()[0].split() == ["GROUP", "TOPIC", "STATUS"]


def test_later_parts_only_widen_it(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables.TableStream, "HELD", 2)
    with tables.TableStream(Output(stdout=out), COLUMNS) as table:
        table.add([_row("g" * 9, "t"), _row("g", "t")])
        assert len(out.getvalue().splitlines()) == 3  # it is not held until the end
        table.add([_row("g", "t"), _row("g" * 20, "t")])
        table.add([_row("g", "t")])
    starts = _starts(out.getvalue())
    assert len(starts) == 6  # one header
    assert len(set(starts[:3])) == 1
    assert len(set(starts[3:])) == 1
    assert "g" * 20 in out.getvalue()


def test_what_is_held_is_shown_when_the_rest_fails(out: io.StringIO) -> None:
    with pytest.raises(KeyboardInterrupt), tables.TableStream(Output(stdout=out), COLUMNS) as table:
        table.add([_row("g", "t")])
        raise KeyboardInterrupt
    assert "restored" in out.getvalue()
    machine = Output("json", stdout=io.StringIO())
    with tables.TableStream(machine, COLUMNS) as table:
        table.add([_row("g", "t")])


def test_remarks_break_between_words_on_a_terminal() -> None:
    long = "Warning: " + "these groups were not looked at, " * 4
    assert all(len(line) <= 80 for line in terminal.fold(long, 80).splitlines())
    assert terminal.fold(long, 80).split() == long.split()
    path, command = f"Wrote /{'a' * 90}", "kgtool undo last --wait-empty 60s"
    assert terminal.fold(path, 80) == path
    folded = terminal.fold(f"{long} ({command}) {long}", 80).splitlines()
    assert max(map(len, folded)) <= 80 and sum(command in line for line in folded) == 1
    assert terminal.fold(long, None) == long
