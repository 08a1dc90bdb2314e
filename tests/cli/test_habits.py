"""What fingers type, without a broker: other names of commands and options, values left out.

Kind: a spelling that other tools have and kgtool refused, or took for something else. Siblings:
nouns before and behind the command, options before the noun, ``=`` and one dash.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.cli.app.argv import MAYBE, YES, scan, spell_out
from kgtool.cli.app.root import without_noun
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.output.output import Output
from kgtool.columns import parse_order, sort
from kgtool.columns.groups import BY_GROUP
from kgtool.errors import UsageError
from kgtool.model import GroupListing, Listing, TopicSpec
from kgtool.timespec import time_ms
from tests.cli.run import call


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("group list", "list"),
        ("groups", "list"),
        ("groups 'pay*'", "list 'pay*'"),
        ("group describe g", "describe g"),
        ("-b h:1 groups describe g -v", "--bootstrap-server h:1 describe g -v"),
        ("--context group group ls", "--context group ls"),
        ("group -b h:1 delete g", "--bootstrap-server h:1 delete g"),
        ("describe group g", "describe group g"),
        ("consumer-groups list", "list"),
        ("consumer-group describe g", "describe g"),
    ],
)
def test_a_noun_before_the_command(typed: str, meant: str) -> None:
    line = without_noun(scan(typed.split()))
    assert line.words == meant.split()


def test_a_slip_behind_the_noun_is_no_group() -> None:
    with pytest.raises(UsageError, match=r"did you mean describe\?"):
        without_noun(scan(["group", "descrbe", "g"]))


def _groups(selection: Selection, *existing: str) -> list[str]:
    rows = [GroupListing(name, "classic", "Empty", "consumer", 1) for name in existing]
    listing = Listing(rows, [])
    assert selection.needs_listing
    chosen, unmatched = selection.resolve_ambiguous(listing)
    assert unmatched == []
    return chosen.resolve(listing)


def test_a_noun_before_the_names_is_a_group_only_if_there_is_one() -> None:
    selection = Selection().with_arguments(("group", "g"))
    assert _groups(selection, "g", "h") == ["g"]
    assert _groups(selection, "g", "group") == ["g", "group"]
    assert Selection().with_arguments(("group",)).groups == ("group",)
    assert Selection(("group",)).with_arguments(("g",)).groups == ("g", "group")


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        (["-w"], ["--watch=5s"]),
        (["-w", "10"], ["--watch", "10"]),
        (["--watch", "1m", "g"], ["--watch", "1m", "g"]),
        (["-w", "billing"], ["--watch=5s", "billing"]),
        (["-w=2s"], ["--watch=2s"]),
        (["--all", "-A"], ["--all-groups", "--all-groups"]),
        (["--sort", "-lag"], ["--sort", "-lag"]),
        (["--committed"], ["--read-committed"]),
        (["--shift", "-10"], ["--shift-by", "-10"]),
        (["-shift-by", "-10"], ["--shift-by", "-10"]),
    ],
)
def test_values_left_out_and_other_names(typed: list[str], spelled: list[str]) -> None:
    known = {"watch": MAYBE, "all-groups": "no", "sort": YES, "read-committed": "no"}
    known |= {"shift-by": YES}
    assert spell_out(typed, known) == spelled


def test_kafkas_form_wants_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    refused = call(capsys, "-b", "h:1", "--describe", "--all-groups", "--watch")
    assert (refused.status, refused.err) == (2, "Error: Option watch requires an argument\n")


def test_a_duration_is_a_time_before_now() -> None:
    assert time_ms("2h", 7_200_000) == time_ms("now-2h", 7_200_000) == time_ms("PT2H", 7_200_000)
    assert time_ms("1d12h", 129_600_000) == 0
    for text in ("h", "2x", "now-", "2 h", ""):
        with pytest.raises(UsageError):
            time_ms(text, 0)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-v"], "-v is --verbose, an option of commands"),
        (["reset", "g", "-t", "t", "--to", "500"], "--to-offset 500 is an offset"),
        (["reset", "g", "-t", "t", "--to", "yesterday"], "Unparseable date: 'yesterday'"),
        (["reset", "g", "-t", "t", "--to", "latest", "--to-earliest"], "exclude each other"),
        (["reset", "g", "-t", "t", "--to", "LATEST", "--to-earliest"], "exclude each other"),
        (["reset", "g", "-t", "t", "--to", "earlist"], "'earlist' (did you mean earliest?)"),
        (["list", "--limit", "0"], "--limit takes a whole number from 1 on, not '0'"),
        (["list", "--sort", "group,state"], "--sort takes one column."),
        (["list", "--timeout", "5"], "a bare number is ms: --timeout 5s is 5 seconds."),
        (["list", "-w"], "No such option '-w': this command has no --watch."),
        (["list", "--topic", "t"], "have it."),
        (["list", "-l"], "(did you mean --limit?)"),
        (["list", "--sort", "lag:down"], "--sort takes COLUMN, -COLUMN, COLUMN:asc or"),
        (["reset", "g", "-10"], "'-10': a negative number is the value of --shift-by."),
        (["lag", "-t", "orders:2-0"], "Invalid partitions '2-0' in 'orders:2-0'"),
        (["lag", "-t", "orders:0-4294967295"], "Invalid partition"),
        (["restore", "f", "--as", "new"], "(did you mean --map-group OLD=NEW?)"),
        (["copy", "a", "b"], "(did you mean backup, then restore --map-group OLD=NEW?)"),
        (["redo"], "(did you mean undo last"),
        (["undo"], "kgtool undo --list shows the IDs."),
    ],
)
def test_what_is_said(
    argv: list[str], said: str, unreachable: None, capsys: pytest.CaptureFixture[str]
) -> None:
    result = call(capsys, *argv, "-b", "h:1") if argv != ["-v"] else call(capsys, *argv)
    assert result.status != 0 and said in result.err


LISTED = Listing(
    [GroupListing(name, "classic", "Stable", "consumer", 1) for name in ("a", "b", "group")], []
)


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (["list", "-q"], "a\nb\ngroup\n"),
        (["ls", "-o", "name", "--limit", "2"], "a\nb\n"),
        (["list", "--sort", "-group", "-q"], "group\nb\na\n"),
        (["list", "--no-headers", "--columns", "group,state"], None),
        (["list", "group", "-q"], "group\n"),
        (["--list", "--limit", "2"], "a\nb\n"),
        (["--list", "--state", "--no-headers", "--limit", "1"], None),
        (["list", "--no-headers", "-o", "csv", "--limit", "1"], "a,classic,Stable,consumer,1\n"),
    ],
)
def test_parts_of_a_table(
    argv: list[str], out: str | None, canned: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    canned(listing__list_groups=LISTED)
    result = call(capsys, "-b", "h:1", *argv)
    assert (result.status, result.err) == (0, "")
    assert "GROUP" not in result.out
    if out is not None:
        assert result.out == out
    else:
        assert result.out.split()[:2] == ["a", "Stable"] or result.out.split()[0] == "a"


@pytest.mark.parametrize(
    ("typed", "key", "is_largest_first"),
    [
        ("lag", "lag", True),
        ("-lag", "lag", False),
        ("lag:desc", "lag", True),
        ("LAG:ASC", "lag", False),
        ("group", "group", False),
        ("group:desc", "group", True),
    ],
)
def test_the_way_of_an_order(typed: str, key: str, is_largest_first: bool) -> None:
    order = parse_order(typed, BY_GROUP)
    rows = [{"group": "a", "lag": 1}, {"group": "b", "lag": 2}]
    found = [row[key] for row in sort(rows, order)]
    assert found == sorted(found, reverse=is_largest_first) and order.column.key == key


def test_a_range_of_partitions_is_kgtools_own(
    unreachable: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TopicSpec.parse("t:0-2,5,1").partitions == (0, 1, 2, 5)
    refused = call(
        capsys, "-b", "h:1", "--reset-offsets", "--group", "g", "--topic", "t:0-2", "--to-latest"
    )
    assert refused.status == 2 and "Invalid partition '0-2' specified in topic arg" in refused.err


def test_wide_hides_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Output, "is_terminal", True)
    assert Output("text").table_width is not None
    assert Output("wide").is_text and Output("wide").table_width is None


def test_help_of_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert "A policy (KGTOOL_POLICY" in call(capsys, "help", "policy").out
