"""The CSV files of --export and --from-file: every line is understood, or named."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.cli.reset import csv_file
from kgtool.errors import ConfigError
from kgtool.model import TopicPartition
from tests.cli.recorded import Run
from tests.cli.reset_recorded import errors_and_output, runs

P = TopicPartition


@pytest.mark.parametrize(
    "text",
    [
        "r1,0,3\nr1,1,4\n",
        "r1,0,3\r\nr1,1,4\r\n",
        "r1,0,3\nr1,1,4",
        "r1,0,3\nr1,1,4\n\n  \n",
        '"r1","0","3"\n"r1",1,4\n',
        "r1, 0, 3\n r1 ,1 , 4 \n",
        "\ufeffr1,0,3\nr1,1,4\n",
        "r0,r1,0,3\nother,r1,0,9\nr0,r1,1,4\n",
    ],
)
def test_accepted_for_one_group(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_bytes(text.encode())
    found = csv_file.read(str(path), "r0")
    assert found.offsets["r0"] == {P("r1", 0): 3, P("r1", 1): 4}
    assert found.replaced == []


def test_several_groups() -> None:
    text = 'a,t,0,1\n"b,c",t,0,2\na,u,7,9223372036854775807\n'
    assert csv_file.parse(text, "f", None).offsets == {
        "a": {P("t", 0): 1, P("u", 7): 2**63 - 1},
        "b,c": {P("t", 0): 2},
    }


def test_a_group_may_be_called_like_a_comment() -> None:
    assert csv_file.parse("#g,t,0,1\n", "f", None).offsets == {"#g": {P("t", 0): 1}}


def test_the_last_line_for_a_partition_wins_and_that_is_said() -> None:
    found = csv_file.parse("r1,0,3\nr1,1,4\nr1,0,5\n", "f", "g")
    assert found.offsets["g"] == {P("r1", 0): 5, P("r1", 1): 4}
    assert found.replaced == ["line 3 replaces line 1 (r1-0)"]


@pytest.mark.parametrize(
    ("text", "group", "line", "said"),
    [
        # F7: Kafka's tool takes a missing offset for 0 and resets to the start of the log.
        ("r1,0,3\nr1,0\n", "g", 2, "the offset is missing"),
        ("r1,0\n", "g", 1, "the offset is missing"),
        ("r1,0,\n", "g", 1, "the offset is missing"),
        ("g,r1,0,3\ng,r1,0\n", None, 2, "the offset is missing"),
        ("topic,partition,offset\nr1,0,3\n", "g", 1, "header"),
        ("group,topic,partition,offset\ng,r1,0,3\n", None, 1, "header"),
        ("# comment\nr1,0,3\n", "g", 1, "comment"),
        ("r1,0,3\n#r1,1,4\n# a, b\n", "g", 3, "comment"),
        ("r1,0,3\n\nr1,1,4\n", "g", 2, "blank"),
        ("r1,0,3\n   \nr1,1,4\n", "g", 2, "blank"),
        ("r1,0,-3\n", "g", 1, "Invalid negative offset"),
        ("r1,-1,3\n", "g", 1, "Invalid negative partition"),
        ("r1,x,3\n", "g", 1, "'x' is no partition"),
        ("r1,0,3x\n", "g", 1, "'3x' is no offset"),
        ("r1,0,1.5\n", "g", 1, "'1.5' is no offset"),
        ("r1,0,9223372036854775808\n", "g", 1, "is no offset"),
        ("r1,2147483648,3\n", "g", 1, "is no partition"),
        ("r1,0,\u0663\n", "g", 1, "is no offset"),
        (",0,3\n", "g", 1, "the topic is missing"),
        ("r1,,3\n", "g", 1, "the partition is missing"),
        ("r1,0,3\nr1,0,3,4,5\n", "g", 2, "5 fields"),
        ("r1,0,3\ng,r1,0,3\n", "g", 2, "4 fields"),
        ("garbage\n", "g", 1, "line 1: 1 field; "),
        ('r1,0,3\n"r1"x,1,4\n', "g", 2, ""),
        # Kafka's tool takes the topic for the group then.
        ("r1,0,3\n", None, 1, "3 fields are for a single --group"),
    ],
)
def test_refused_lines_are_named(text: str, group: str | None, line: int, said: str) -> None:
    with pytest.raises(ConfigError) as failure:
        csv_file.parse(text, "plan.csv", group)
    assert f"plan.csv, line {line}" in failure.value.message
    assert said in failure.value.message
    assert failure.value.exit_code == 2


@pytest.mark.parametrize("text", ["", "\n", " \n\n"])
def test_an_empty_file_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"plan\.csv is empty"):
        csv_file.parse(text, "plan.csv", "g")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Unable to read file .*nofile.csv: No such file"):
        csv_file.read(str(tmp_path / "nofile.csv"), "g")
    with pytest.raises(ConfigError, match="Unable to read file"):
        csv_file.read(str(tmp_path), "g")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        csv_file.read(str(binary), "g")


EXPORTS = [
    run for run in runs() if "--export" in run.argv and errors_and_output(run.stdout)[1].strip()
]


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in EXPORTS])
def test_kafkas_exports_are_read_and_written_again(run: Run) -> None:
    text = errors_and_output(run.stdout)[1]
    assert text.endswith("\n\n")
    is_single = run.argv.count("--group") == 1
    found = csv_file.parse(text, run.name, "g" if is_single else None)
    rows = [(g, at, offset) for g, parts in found.offsets.items() for at, offset in parts.items()]
    ours = csv_file.export(rows, with_group=not is_single)
    assert sorted(ours.splitlines()) == sorted(text.splitlines()[:-1])


_NAMES = st.text(min_size=1).filter(lambda name: name == name.lstrip(" ") and "\0" not in name)


@given(st.lists(st.tuples(_NAMES, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))))
def test_what_is_exported_is_read_again(rows: list[tuple[str, int, int]]) -> None:
    wanted = {(group, P("t", number)): offset for group, number, offset in rows}
    text = csv_file.export([(g, part, o) for (g, part), o in wanted.items()], with_group=True)
    assert len(list(csv.reader(io.StringIO(text, newline="")))) == len(wanted)
    if not wanted:
        return
    found = csv_file.parse(text, "f", None).offsets
    assert {(g, part): o for g, parts in found.items() for part, o in parts.items()} == wanted
