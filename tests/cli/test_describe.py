"""What ``describe`` and ``list`` show with kgtool's own options: rows, tables, files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool import columns
from kgtool.cli.describe.watch import Rates, compare_rows
from kgtool.cli.output import tables, terminal
from kgtool.columns import Column
from kgtool.columns.groups import GROUP, OFFSETS, RATES, TOPIC
from kgtool.errors import ConnectFailed
from kgtool.model import (
    Broker,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    ItemError,
    Listing,
    Member,
    OffsetRow,
    Target,
    TopicPartition,
)
from tests.cli.run import Result
from tests.cli.test_commands import MISSING, _emitting, _group, _row

Kgtool = Callable[..., Result]
Canned = Callable[..., None]

DENIED = ItemError(Target("a", "u"), 29, "TOPIC_AUTHORIZATION_FAILED", "Not allowed.", "READ.")


def _rows(group: str, *lags: int | None, topic: str = "t", **fields: Any) -> list[OffsetRow]:
    return [_row(group, n, lag, topic=topic, **fields) for n, lag in enumerate(lags)]


@pytest.fixture
def two(canned: Canned) -> list[dict[str, Any]]:
    """Two groups with offsets; collects the options that the operation was called with."""
    asked: list[dict[str, Any]] = []
    found = [
        GroupOffsets(
            _group("b"), [*_rows("b", 1, 7), *_rows("b", 3, topic="u", lag_ms=90_000)], []
        ),
        GroupOffsets(_group("a", "Stable"), _rows("a", 5, 0, None, -4, lag_ms=61_000), []),
    ]

    def describe_offsets(groups: Any, topics: Any = None, emit: Any = None, **options: Any) -> Any:
        asked.append(options)
        return _emitting(found)(groups, topics, emit, **options)

    canned(offsets__describe_offsets=describe_offsets)
    return asked


GROUPS = ["--group", "a", "--group", "b"]
FORMS = [["describe"], ["--describe"]]


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
class TestRows:
    @pytest.mark.usefixtures("two")
    @pytest.mark.parametrize("format_", ["json", "ndjson", "csv", "yaml", "text"])
    def test_columns_are_those_asked_for_in_every_format(
        self, kgtool: Kgtool, form: list[str], format_: str
    ) -> None:
        argv = [*form, *GROUPS, "--columns", "topic,GROUP,Log-End-Offset,lag", "-o", format_]
        result = kgtool(*argv)
        assert result.status == 0
        keys = ["topic", "group", "log_end_offset", "lag"]
        if format_ == "text":
            assert result.out.splitlines()[0].split() == ["TOPIC", "GROUP", "LOG-END-OFFSET", "LAG"]
            assert result.out.splitlines()[1].split() == ["t", "a", "15", "5"]
            return
        rows = _read(result.out, format_)
        assert [list(row) for row in rows] == [keys] * 7
        assert [row["group"] for row in rows] == ["a"] * 4 + ["b"] * 3 or format_ == "ndjson"

    @pytest.mark.usefixtures("two")
    def test_sort_is_over_all_groups(self, kgtool: Kgtool, form: list[str]) -> None:
        rows = kgtool(*form, *GROUPS, "--sort", "LAG", "-o", "json").json["results"]
        assert [row["lag"] for row in rows] == [7, 5, 3, 1, 0, -4, None]
        rows = kgtool(*form, *GROUPS, "--sort", "topic", "-o", "json").json["results"]
        assert [row["topic"] for row in rows] == ["t"] * 6 + ["u"]
        assert [row["group"] for row in rows[:4]] == ["a"] * 4  # else Kafka's order
        text = kgtool(*form, *GROUPS, "--sort", "lag").out.splitlines()
        assert len(text) == 8
        assert text[0].split()[:3] == ["GROUP", "TOPIC", "PARTITION"]
        assert [line.split()[5] for line in text[1:]] == ["7", "5", "3", "1", "0", "-4", "-"]

    @pytest.mark.usefixtures("two")
    def test_totals(self, kgtool: Kgtool, form: list[str]) -> None:
        rows = kgtool(*form, *GROUPS, "--totals", "-o", "json").json["results"]
        known = [
            (r["group"], r["topic"], r["partitions"], r["lagging"], r["unknown"], r["lag"])
            for r in rows
        ]
        assert known == [
            ("a", "t", 4, 1, 1, 5),  # a commit beyond the end takes nothing away
            ("b", "t", 2, 2, 0, 8),
            ("b", "u", 1, 1, 0, 3),
            ("b", None, 3, 3, 0, 11),
            (None, None, 7, 4, 1, 16),
        ]
        text = kgtool(*form, *GROUPS, "--totals", "--sort", "lag").out.splitlines()
        assert text[0].split() == ["GROUP", "TOPIC", "PARTITIONS", "LAGGING", "UNKNOWN", "LAG"]
        assert text[1].split() == ["(all)", "(all)", "7", "4", "1", "16"]
        aged = kgtool(*form, *GROUPS, "--totals", "--time-lag", "-o", "json").json["results"]
        assert [row["lag_ms"] for row in aged] == [61_000, None, 90_000, 90_000, 90_000]

    def test_what_is_asked_of_the_cluster(
        self, kgtool: Kgtool, form: list[str], two: list[dict[str, Any]]
    ) -> None:
        def asked(*argv: str) -> tuple[bool, bool]:
            kgtool(*form, *GROUPS, "-o", "csv", *argv)
            options = two.pop()
            return options["clock"] is not None, options["committed"]

        assert asked() == (False, False)
        assert asked("--time-lag") == (True, False)
        assert asked("--committed") == (False, True)
        assert asked("--columns", "group,lag_ms") == (True, False)
        assert asked("--sort", "time-lag") == (True, False)
        assert asked("--columns", "last-stable-offset") == (False, True)

    @pytest.mark.usefixtures("two")
    def test_committed_adds_its_column(self, kgtool: Kgtool, form: list[str]) -> None:
        plain = kgtool(*form, *GROUPS, "-o", "json").json["results"]
        assert "last_stable_offset" not in plain[0]
        rows = kgtool(*form, *GROUPS, "--committed", "-o", "json").json["results"]
        assert "last_stable_offset" in rows[0]
        assert "LAST-STABLE-OFFSET" in kgtool(*form, *GROUPS, "--committed").out

    @pytest.mark.usefixtures("two")
    def test_time_lag_is_readable(self, kgtool: Kgtool, form: list[str]) -> None:
        out = kgtool(*form, *GROUPS, "--time-lag").out
        assert "TIME-LAG" in out
        assert " 1m 1s " in out
        assert " 1m 30s " in out

    @pytest.mark.usefixtures("two")
    def test_lagging_leaves_groups_out_without_a_word(
        self, kgtool: Kgtool, canned: Canned, form: list[str]
    ) -> None:
        found = [
            GroupOffsets(_group("done"), _rows("done", 0), []),
            GroupOffsets(_group("late"), _rows("late", 0, 2), []),
        ]
        canned(offsets__describe_offsets=_emitting(found))
        result = kgtool(*form, "--group", "done", "--group", "late", "--lagging")
        assert result.status == 0
        assert "done" not in result.out + result.err
        assert "Consumer group 'late' has no active members." in result.err
        assert len(result.out.strip().splitlines()) == 2

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--columns", "grup"], "--columns: there is no column 'grup' here. There are: group"),
            (["--columns", ""], "--columns takes names of columns: group, topic"),
            (["--sort", "lag,topic"], "--sort takes one column."),
            (["--totals", "--sort", "host"], "--sort: there is no column 'host' here"),
            (["--members", "--sort", "lag"], "--sort: there is no column 'lag' here"),
            (["--members", "--totals"], "--totals is about offsets: leave out --members"),
            (
                ["--state", "--time-lag", "--committed"],
                "--time-lag, --read-committed are about offsets: leave out --state",
            ),
            (["--watch", "0"], "--watch 0: it must be longer than 0"),
            (["--watch=nan"], "--watch takes a duration such as 30s"),
            (["--watch", "1", "-o", "json"], "--watch never ends"),
            (["--prometheus", "/nonexistent/x.prom"], "--prometheus: /nonexistent/x.prom is not"),
            (["--prometheus", "/"], "--prometheus: / is not a file"),
        ],
    )
    def test_mistakes(
        self, kgtool: Kgtool, canned: Canned, form: list[str], argv: list[str], said: str
    ) -> None:
        canned(offsets__describe_offsets=ZeroDivisionError("nothing may be sent"))
        result = kgtool(*form, "--group", "g", *argv)
        assert result.status == 2
        assert said in result.err


def _read(out: str, format_: str) -> list[dict[str, Any]]:
    if format_ == "csv":
        return list(csv.DictReader(io.StringIO(out)))
    if format_ == "ndjson":
        return [json.loads(line) for line in out.splitlines()]
    if format_ == "yaml":
        import yaml

        found = yaml.safe_load(out)["results"]
    else:
        found = json.loads(out)["results"]
    assert isinstance(found, list)
    return found


class TestOtherViews:
    MEMBERS = tuple(
        Member(f"m-{n}", None, f"c{n}", "/h", (("t", tuple(range(n))),), ("t",)) for n in (1, 3, 2)
    )

    def _canned(self, canned: Canned) -> None:
        def group(name: str, members: Any, state: str) -> GroupDescription:
            return GroupDescription(
                name, "classic", state, "consumer", "range", Broker(1, "b1", 9092), members
            )

        canned(
            groups__describe_groups=[
                group("full", self.MEMBERS, "Stable"),
                group("none", (), "Empty"),
            ]
        )

    def test_members_are_one_table(self, kgtool: Kgtool, canned: Canned) -> None:
        self._canned(canned)
        result = kgtool("describe", *GROUPS, "--members")
        assert result.status == 0
        lines = result.out.splitlines()
        assert lines[0].split() == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        assert [line.split()[-1] for line in lines[1:]] == ["1", "3", "2"]
        assert "Consumer group 'none' has no active members." in result.err
        assert "full" not in result.err
        by_size = kgtool("describe", *GROUPS, "--members", "--sort", "#PARTITIONS")
        assert [line.split()[-1] for line in by_size.out.splitlines()[1:]] == ["3", "2", "1"]

    def test_states_are_one_table(self, kgtool: Kgtool, canned: Canned) -> None:
        self._canned(canned)
        result = kgtool("describe", *GROUPS, "--state")
        assert result.err == ""
        assert [re.split("  +", line) for line in result.out.splitlines()] == [
            ["GROUP", "TYPE", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
            ["full", "Classic", "b1:9092 (1)", "range", "Stable", "3"],
            ["none", "Classic", "b1:9092 (1)", "range", "Empty", "0"],
        ]
        rows = kgtool(
            "describe",
            *GROUPS,
            "--state",
            "--columns",
            "coordinator-id,state,#members",
            "-o",
            "json",
        ).json["results"]
        assert rows[0] == {"coordinator_id": 1, "state": "Stable", "members": 3}

    def test_list(self, kgtool: Kgtool, canned: Canned) -> None:
        listed = [
            GroupListing("a", "share", "Stable", "share", 2),
            GroupListing("b", "classic", "Empty", "consumer", 1),
        ]
        canned(listing__list_groups=Listing(listed, []))
        result = kgtool("list", "--columns", "coordinator,group", "--sort", "coordinator")
        assert [line.split() for line in result.out.splitlines()] == [
            ["COORDINATOR", "GROUP"],
            ["1", "b"],
            ["2", "a"],
        ]
        rows = kgtool("list", "--sort", "type", "--columns", "type", "-o", "json").json["results"]
        assert rows == [{"type": "classic"}, {"type": "share"}]
        assert kgtool("list", "--sort", "lag").status == 2
        assert kgtool("--list", "--columns", "GROUP,STATE").out == "GROUP  STATE\nb      Empty\n"


ODD = 'odd"group\\with\nall'


class TestPrometheus:
    def _canned(self, canned: Canned) -> None:
        found = [
            GroupOffsets(_group(ODD), _rows(ODD, 5, lag_ms=1500), []),
            GroupOffsets(_group("a", "Stable"), _rows("a", 0, None), [DENIED]),
        ]
        canned(offsets__describe_offsets=_emitting(found))

    def test_the_file(self, kgtool: Kgtool, canned: Canned, tmp_path: Path) -> None:
        self._canned(canned)
        path = tmp_path / "kgtool.prom"
        path.write_text("old")
        argv = ["--time-lag", "--lagging", "--prometheus", str(path)]
        assert kgtool("describe", "--group", ODD, "--group", "a", *argv).status == 3
        metrics = _parse_metrics(path.read_text())
        common = {"cluster_id": "cluster-1"}
        where = {**common, "group": ODD, "topic": "t", "partition": "0"}
        assert metrics["kgtool_group_lag_seconds"] == [(where, 1.5)]
        lags = metrics["kgtool_group_lag"]  # --lagging is for the table
        assert lags == [({**where, "group": "a"}, 0), (where, 5)]
        assert [value for _, value in metrics["kgtool_group_committed_offset"]] == [10, 10, 10]
        assert metrics["kgtool_log_end_offset"][0] == (
            {**common, "topic": "t", "partition": "0"},
            15,
        )
        assert ({**common, "group": "a", "state": "Stable", "type": "classic"}, 1) in metrics[
            "kgtool_group_state"
        ]
        assert [value for _, value in metrics["kgtool_group_members"]] == [0, 0]
        assert metrics["kgtool_errors"] == [(common, 1)]
        assert "kgtool_group_offset_expires_timestamp_seconds" not in metrics
        assert [entry.name for entry in tmp_path.iterdir()] == ["kgtool.prom"]

    def test_offsets_that_expire(
        self, kgtool: Kgtool, canned: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._canned(canned)
        known = {("a", TopicPartition("t", 1)): "at 1700000300500"}
        monkeypatch.setattr("kgtool.cli.describe.expiry.of_groups", lambda *_: known)
        monkeypatch.setattr(
            "kgtool.cli.describe.expiry.as_row",
            lambda at: {"expires_at_ms": int(at.split()[1]) if at else None},
        )
        path = tmp_path / "kgtool.prom"
        argv = ["--expiry", "--lagging", "--prometheus", str(path)]
        kgtool("describe", "--group", ODD, "--group", "a", *argv)
        metrics = _parse_metrics(path.read_text())
        ((labels, when),) = metrics["kgtool_group_offset_expires_timestamp_seconds"]
        assert (labels["group"], labels["partition"], when) == ("a", "1", 1_700_000_300.5)

    def test_it_is_replaced_in_one_step(
        self, kgtool: Kgtool, canned: Canned, tmp_path: Path
    ) -> None:
        """Whoever has the old file open goes on reading the old one."""
        self._canned(canned)
        path = tmp_path / "kgtool.prom"
        path.write_text("old")
        with path.open() as before:
            kgtool("--describe", "--group", "a", "--prometheus", str(path))
            assert before.read() == "old"
        assert path.read_text().startswith("# HELP kgtool_group_lag ")
        assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()

    @pytest.mark.usefixtures("unreachable")
    def test_it_is_left_alone_when_nothing_is_known(self, kgtool: Kgtool, tmp_path: Path) -> None:
        path = tmp_path / "kgtool.prom"
        path.write_text("old")
        assert kgtool("describe", "--group", "a", "--prometheus", str(path)).status == 4
        assert path.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 1


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_SAMPLE = re.compile(r'^(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} (\S+)$')
_PLAIN = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def _parse_metrics(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Read the text format by its own grammar, not by how kgtool writes it."""
    metrics: dict[str, list[tuple[dict[str, str], float]]] = {}
    typed = set()
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind == "gauge"
            assert name not in typed
            typed.add(name)
        elif not line.startswith("# HELP "):
            match = _SAMPLE.match(line)
            assert match, line
            assert match[1] in typed
            labels = {
                key: re.sub(r"\\.", lambda found: _PLAIN[found[0]], value)
                for key, value in _LABEL.findall(match[2])
            }
            metrics.setdefault(match[1], []).append((labels, float(match[3])))
    return metrics


ROW: dict[str, Any] = {
    "group": "console-consumer-12345",
    "topic": "orders",
    "partition": 0,
    "current_offset": 5,
    "log_end_offset": 9,
    "lag": 4,
    "member_id": "m" * 40,
    "host": "/10.20.30.40",
    "client_id": "client-1",
    "status": "ok",
}
SHOWN = [column for column in OFFSETS if column.key in ROW]


class TestTables:
    def _lines(self, width: int | None, *rows: dict[str, Any]) -> tuple[list[str], tables.Fit]:
        fitting = tables.fit(SHOWN, rows or (ROW,), width)
        return tables.draw(SHOWN, rows or (ROW,), sizes=fitting.sizes).splitlines(), fitting

    def test_nothing_is_cut_where_nobody_looks(self) -> None:
        lines, fitting = self._lines(None)
        assert fitting.hidden == []
        assert lines[1].split() == [str(ROW[column.key]) for column in SHOWN]

    @pytest.mark.parametrize("width", [170, 150, 130, 120, 100, 90, 80, 75])
    def test_it_fits(self, width: int) -> None:
        lines, fitting = self._lines(width)
        assert max(len(line) for line in lines) <= width
        assert lines[1].split()[:3] == ["console-consumer-12345", "orders", "0"]
        if width >= 90:
            assert lines[1].split()[2:6] == ["0", "5", "9", "4"]
        if width >= 150:
            assert fitting.hidden == []
        if width <= 80:
            hidden = ["CLIENT-ID", "HOST", "CONSUMER-ID", "LOG-END-OFFSET"]
            assert fitting.hidden == hidden

    def test_names_are_readable_at_80_columns(self) -> None:
        names = {"group": "payments-reconciliation-eu-west-1", "topic": "payments.settled.v2"}
        row = {**ROW, **names, "current_offset": 81_234_567, "log_end_offset": 81_234_999}
        fitting = tables.fit(SHOWN, [row | {"lag": 432}], 80)
        assert {fitting.sizes[column] for column in (GROUP, TOPIC)} == {33, 19}
        assert {"LAG", "STATUS", "PARTITION"} <= {column.header for column in fitting.sizes}

    def test_names_that_are_cut_can_be_told_apart(self) -> None:
        names = [f"console-consumer-of-payments-{i}" for i in (10007, 10011)]
        rows = [{**ROW, "group": name, "topic": "t" * 60} for name in names]
        drawn = tables.draw(SHOWN, rows, sizes=tables.fit(SHOWN, rows, 80).sizes)
        shown = [line.split()[0] for line in drawn.splitlines()[1:]]
        assert shown[0].endswith("10007") and shown[1].endswith("10011") and "…" in shown[0]
        status = next(column for column in SHOWN if column.key == "status")
        said = tables.draw([status], [{"status": "Error: GONE: moved"}], sizes={status: 12})
        assert said.splitlines()[1] == "Error: GONE…"

    def test_columns_that_say_nothing_go_first(self) -> None:
        idle = {**ROW, "member_id": None, "host": None, "client_id": None}
        lines, fitting = self._lines(100, idle)
        assert fitting.hidden == []
        assert "CLIENT-ID" not in lines[0]
        assert "console-consumer-12345" in lines[1]

    def test_columns_asked_for_are_never_left_out(self) -> None:
        asked = columns.parse("client_id,host,consumer-id,group", OFFSETS, "--columns")
        assert list(tables.fit(asked, [ROW], 20).sizes) == list(asked)

    def test_wide_characters_take_two_columns(self) -> None:
        rows = [{"group": "日本語", "lag": 1}, {"group": "plain", "lag": 22}]
        shown = [column for column in OFFSETS if column.key in ("group", "lag")]
        assert tables.draw(shown, rows).splitlines() == [
            "GROUP   LAG",
            "日本語    1",
            "plain    22",
        ]
        assert terminal.shorten("日本語", 5) == "日本…"
        assert terminal.shorten("日本語", 4) == "日…"

    def test_escape_sequences_do_nothing(self) -> None:
        rows = [{"group": "red \x1b[31m\r\n\u202e", "lag": 1}]
        shown = [column for column in OFFSETS if column.key in ("group", "lag")]
        text = tables.draw(shown, rows, colored=True)
        assert "\x1b[31m" not in text
        assert "red \\x1b[31m\\r\\n\\u202e    1\n" in text

    def test_colours_are_around_the_word_only(self) -> None:
        shown = [Column("status", "STATUS", columns.STATUS), Column("lag", "LAG")]
        rows = [{"status": "ok", "lag": 1}, {"status": "beyond-end", "lag": 2}]
        plain = tables.draw(shown, rows)
        colored = tables.draw(shown, rows, colored=True)
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
        assert "\nok          1" in colored  # colour marks what is wrong
        assert "\x1b[31mbeyond-end\x1b[0m  2" in colored

    @pytest.mark.parametrize("color", [terminal.GREEN, terminal.ORANGE, terminal.RED])
    @pytest.mark.parametrize("ground", [(255, 255, 255), (0, 0, 0)], ids=["light", "dark"])
    def test_a_colour_is_readable_on_light_and_dark(
        self, color: str, ground: tuple[int, int, int]
    ) -> None:
        light, dark = sorted((luminance(ground), luminance(rgb(color))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.5


def rgb(sgr: str) -> tuple[int, int, int]:
    """What xterm shows: of its 16 colours, or of the cube of 216."""
    *_, number = map(int, sgr.split(";"))
    if number < 40:
        red, green, blue = (205 * (number - 30 >> bit & 1) for bit in range(3))
    else:
        levels = (0, 95, 135, 175, 215, 255)
        red, green, blue = (levels[(number - 16) // 6**power % 6] for power in (2, 1, 0))
    return red, green, blue


def luminance(color: tuple[int, int, int]) -> float:
    """As WCAG 2 defines it, 0 to 1."""
    linear = (c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color)
    return sum(part * each for part, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


class TestWatch:
    def _looks(self, canned: Canned, *looks: Any) -> None:
        """Each look finds what is given, or fails with it; Ctrl-C after the last."""
        left = iter(looks)

        def describe_offsets(groups: Any, topics: Any = None, emit: Any = None, **_: Any) -> Any:
            found = next(left, KeyboardInterrupt())
            if isinstance(found, BaseException):
                raise found
            if not isinstance(found, GroupOffsets):
                found = GroupOffsets(_group("g"), found, [])
            return _emitting([found])(groups, topics, emit)

        canned(offsets__describe_offsets=describe_offsets, topics__refresh=None)

    def test_a_look_that_fails_is_not_the_end(self, kgtool: Kgtool, canned: Canned) -> None:
        gone = ConnectFailed("Nothing listens on b:1.")
        self._looks(canned, _rows("g", 5), gone, gone, _rows("g", 3))
        result = kgtool("describe", "--group", "g", "--watch", "0.01")
        assert result.status == 130
        assert result.err == "Error: Nothing listens on b:1.\n" * 2
        lags = [line.split()[5] for line in result.out.splitlines() if line.startswith("g ")]
        assert lags == ["5", "5", "5", "3"]
        assert result.out.rstrip().endswith("lag -2")

    def test_a_year_between_looks_is_slept_in_parts(
        self, kgtool: Kgtool, canned: Canned, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            raise KeyboardInterrupt

        self._looks(canned, _rows("g", 5))
        # Of this module alone: threads that other tests have left sleep too.
        clock = SimpleNamespace(**{**vars(time), "sleep": sleep})
        monkeypatch.setattr("kgtool.cli.describe.screen.time", clock)
        assert kgtool("describe", "--group", "g", "--watch", "999999999d").status == 130
        assert slept == [2_000_000]

    def test_a_first_look_that_fails_is(self, kgtool: Kgtool, canned: Canned) -> None:
        self._looks(canned, ConnectFailed("Nothing listens on b:1."), _rows("g", 3))
        result = kgtool("describe", "--group", "g", "--watch", "0.01")
        assert (result.status, result.out) == (4, "")

    def test_rows_of_programs(self, kgtool: Kgtool, canned: Canned) -> None:
        self._looks(canned, _rows("g", 5, 1), _rows("g", 5), _rows("g", 4, 1))
        result = kgtool("describe", "--group", "g", "--watch", "0.01", "-o", "ndjson")
        rows = [json.loads(line) for line in result.out.splitlines()]
        assert [(row["partition"], row["change"]) for row in rows] == [
            (0, None),
            (1, None),
            (0, None),
            (1, "gone"),
            (0, "lag -1"),
            (1, "new"),
        ]
        assert all(abs(row["looked_at_ms"] - rows[0]["looked_at_ms"]) < 60_000 for row in rows)

    def test_what_failed_is_a_row_too(self, kgtool: Kgtool, canned: Canned) -> None:
        missing = GroupOffsets(_group("nosuch", "Dead", error=MISSING), [], [])
        self._looks(canned, missing)
        result = kgtool("describe", "--group", "nosuch", "--watch", "0.01", "-o", "ndjson")
        assert result.status == 130
        (row,) = [json.loads(line) for line in result.out.splitlines()]
        assert row["error"]["name"] == "GROUP_ID_NOT_FOUND"


class TestChanges:
    KEYS = ("group", "partition")

    def _changes(self, *pairs: tuple[dict[str, Any], dict[str, Any]]) -> dict[int, str]:
        where = [{"group": "g", "partition": n} for n in range(len(pairs))]
        before = [{**key, **was} for key, (was, _) in zip(where, pairs, strict=True)]
        after = [{**key, **now} for key, (_, now) in zip(where, pairs, strict=True)]
        rows = compare_rows(before, after, self.KEYS)
        return {at: row["change"] for at, row in enumerate(rows) if row["change"] is not None}

    def test_nothing_is_said_of_the_first_look(self) -> None:
        (row,) = compare_rows(None, [{"group": "g", "partition": 0, "lag": 1}], self.KEYS)
        assert row["change"] is None

    def test_what_is_gone_comes_last(self) -> None:
        rows = [{"group": "g", "partition": n, "lag": 1} for n in range(2)]
        assert [row["change"] for row in compare_rows(rows, rows[1:], self.KEYS)] == [None, "gone"]

    def test_numbers_and_words(self) -> None:
        base = {"current_offset": 10, "log_end_offset": 20, "lag": 10, "status": "ok"}
        said = self._changes(
            (base, base),
            (base, {**base, "current_offset": 15, "lag": 5}),
            (base, {**base, "log_end_offset": 25, "lag": 15}),
            (base, {**base, "current_offset": None, "lag": None, "status": "no-commit"}),
            ({**base, "member_id": "a"}, {**base, "member_id": "b"}),
            ({"state": "Empty", "members": 0}, {"state": "Stable", "members": 2}),
        )
        assert said == {
            1: "lag -5, offset +5",
            2: "lag +5",
            3: "lag 10 -> -, offset 10 -> -, status ok -> no-commit",
            4: "other owner",
            5: "state Empty -> Stable, members 0 -> 2",
        }

    def test_age_alone_is_no_change(self) -> None:
        assert self._changes(({"lag_ms": 5}, {"lag_ms": 6})) == {}


def test_topics_that_a_group_has_nothing_in_are_named(kgtool: Kgtool, canned: Canned) -> None:
    found = [
        GroupOffsets(_group("none"), [], []),
        GroupOffsets(_group("some"), _rows("some", 0), []),
    ]
    canned(offsets__describe_offsets=_emitting(found))
    groups = ["--group", "none", "--group", "some"]
    topics = ["--topic", "t:0,7", "--topic", "u"]
    result = kgtool("describe", *groups, *topics)
    assert result.status == 0
    assert "Group 'none' has no offset in t:0,7, u, and is not subscribed to it." in result.err
    assert "Group 'some' has no" not in result.err
    assert "has no offset" not in kgtool("describe", *groups).err


class TestRates:
    def _row(self, offset: int | None, end: int) -> dict[str, Any]:
        lag = None if offset is None else end - offset
        return {"p": 0, "current_offset": offset, "log_end_offset": end, "lag": lag}

    @pytest.mark.parametrize(
        ("old", "new", "came", "went", "left_ms", "cell"),
        [
            ((0, 100), (50, 110), 1.0, 5.0, 15_000, "15s"),
            ((0, 100), (10, 200), 10.0, 1.0, None, "falling behind"),
            ((0, 100), (0, 100), 0.0, 0.0, None, "never"),
            ((90, 100), (120, 120), 2.0, 3.0, 0, "-"),
            ((None, 100), (90, 100), 0.0, None, None, "-"),
        ],
    )
    def test_two_looks(
        self, old: Any, new: Any, came: Any, went: Any, left_ms: Any, cell: str
    ) -> None:
        rates = Rates(["p"])
        (first,) = rates.add([self._row(*old)], at=100.0)
        assert (first["in_per_s"], first["out_per_s"], first["eta_ms"]) == (None, None, None)
        (row,) = rates.add([self._row(*new)], at=110.0)
        assert (row["in_per_s"], row["out_per_s"], row["eta_ms"]) == (came, went, left_ms)
        assert RATES[2].cell(row) == cell

    def test_they_are_of_the_last_half_minute(self) -> None:
        rates = Rates(["p"])
        for second in range(0, 200, 5):
            fast = max(0, second - 150)  # it stood still until then
            (row,) = rates.add([self._row(fast * 10, 1000)], at=float(second))
        assert row["out_per_s"] == 10.0
