"""On a terminal: colour, tables that fit, the pager, and --watch. A real broker, a real less."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool.cli.output import terminal
from tests.cli import run
from tests.cli.pseudo import Terminal
from tests.support import clients

pytestmark = [pytest.mark.broker, pytest.mark.timed]

SGR = re.compile(r"\x1b\[[\d;]*m")
PLAIN = {"KGTOOL_PAGER": "cat"}


@pytest.fixture
def group(bootstrap: str) -> Iterator[tuple[str, str]]:
    topic = clients.create_topic(bootstrap, clients.unique("term"), 3)
    name = clients.unique("term")
    for partition in range(3):
        clients.produce(bootstrap, topic, 10, partition=partition)
    clients.commit(bootstrap, name, {(topic, 0): 4, (topic, 1): 10, (topic, 2): 15})
    yield name, topic


def shown(argv: list[str], **options: object) -> tuple[str, int]:
    """Everything that a command writes to a terminal, and its status."""
    with Terminal(run.command_line(*argv), **options) as terminal:  # type: ignore[arg-type]
        status = terminal.read_all()
        return terminal.output, status


class TestColour:
    def test_statuses(self, bootstrap: str, group: tuple[str, str]) -> None:
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", group[0]]
        text, status = shown(argv, columns=200, env=PLAIN)
        assert status == 0
        assert "\x1b[38;5;64m" not in text
        assert "\x1b[31mbeyond-end\x1b[0m" in text
        piped = run.kgtool(*argv)
        assert "\x1b" not in piped.out
        assert SGR.sub("", text).replace("\r\n", "\n").endswith(piped.out)

    @pytest.mark.parametrize(
        ("extra", "env"),
        [
            (["--no-color"], {}),
            ([], {"NO_COLOR": "1"}),
            ([], {"TERM": "dumb"}),
            (["-o", "csv"], {}),
        ],
    )
    def test_none_where_none_is_wanted(
        self, bootstrap: str, group: tuple[str, str], extra: list[str], env: dict[str, str]
    ) -> None:
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", group[0], *extra]
        text, status = shown(argv, columns=200, env=PLAIN | env)
        assert status == 0
        assert "beyond-end" in text
        assert "\x1b" not in text

    def test_kafkas_form_is_kafkas_on_a_terminal_too(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        argv = ["--describe", "--bootstrap-server", bootstrap, "--group", group[0]]
        text, _ = shown(argv, columns=40)
        piped = run.kgtool(*argv)
        assert text.replace("\r\n", "\n").endswith(piped.out)
        assert "\x1b" not in text


class TestWidth:
    @pytest.mark.parametrize("columns", [60, 80, 100, 132])
    def test_lines_fit(self, bootstrap: str, group: tuple[str, str], columns: int) -> None:
        name, topic = group
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", name]
        text, _ = shown(argv, columns=columns, env=PLAIN)
        lines = [SGR.sub("", line) for line in text.splitlines()]
        table = [line for line in lines if line.startswith(("GROUP", name[:5]))]
        assert len(table) == 4
        if columns >= 80:
            assert max(map(len, table)) <= columns
        head, *rows = (line.split() for line in table)
        cells = [dict(zip(head, row, strict=False)) for row in rows]
        assert [(row["PARTITION"], row["LAG"]) for row in cells] == [
            ("0", "6"),
            ("1", "0"),
            ("2", "-5"),
        ]
        if columns >= 132:
            ends = [(row["CURRENT-OFFSET"], row["LOG-END-OFFSET"]) for row in cells]
            assert ends == [("4", "10"), ("10", "10"), ("15", "10")]

    def test_a_program_gets_whole_names(self, bootstrap: str, group: tuple[str, str]) -> None:
        name, topic = group
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", name]
        result = run.kgtool(*argv, env={"COLUMNS": "20"})
        assert result.out.count(name) == 3
        assert result.out.count(topic) == 3
        assert "CLIENT-ID" in result.out


@pytest.fixture
def less() -> None:
    assert shutil.which("less"), "install less: apt-get install less"


class TestPager:
    def _list(self, bootstrap: str) -> list[str]:
        return ["list", "--bootstrap-server", bootstrap]

    @pytest.fixture
    def many(self, bootstrap: str) -> list[str]:
        topic = clients.create_topic(bootstrap, clients.unique("pager"), 1)
        prefix = clients.unique("pager")
        names = [f"{prefix}-{number:02}" for number in range(30)]
        for name in names:
            clients.commit(bootstrap, name, {(topic, 0): 0})
        return names

    @pytest.mark.usefixtures("less")
    def test_long_text_is_shown_page_by_page(self, bootstrap: str, many: list[str]) -> None:
        argv = [*self._list(bootstrap), "--match", f"{many[0][:-3]}-*"]
        with Terminal(run.command_line(*argv), lines=10) as terminal:
            terminal.read_until(":\x1b\\[K|:$")
            assert terminal.screen[0].startswith("GROUP")
            assert terminal.screen[8].startswith(many[7])
            # Ctrl-C is for the pager, which forgets the keys that came with it.
            terminal.type("\x03")
            terminal.type_until("G", many[-1])
            terminal.type("q")
            assert terminal.read_all() == 0
        assert "Traceback" not in terminal.output
        assert "Interrupted" not in terminal.output

    @pytest.mark.usefixtures("less")
    def test_leaving_early_is_no_failure(self, bootstrap: str, many: list[str]) -> None:
        argv = ["describe", "--bootstrap-server", bootstrap, "--match", f"{many[0][:-3]}-*"]
        with Terminal(run.command_line(*argv), lines=10) as terminal:
            terminal.read_until(":\x1b\\[K|:$")
            terminal.type("q")
            assert terminal.read_all() == 0
        assert "Broken" not in terminal.output

    @pytest.mark.usefixtures("less")
    def test_short_text_needs_no_key(self, bootstrap: str, group: tuple[str, str]) -> None:
        name, _ = group
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", name]
        text, status = shown(argv, columns=120, lines=30)
        assert status == 0
        # What is said on stderr keeps its place before the table.
        assert text.index(f"Consumer group '{name}' has no active members.") < text.index("GROUP")

    def test_notes_in_it_break_between_words(self, bootstrap: str, group: tuple[str, str]) -> None:
        argv = ["describe", "-b", bootstrap, "-g", group[0]]
        text, _ = shown(argv, columns=60, lines=30, env={"KGTOOL_PAGER": "sed 's/^/paged /'"})
        assert "LOG-END-OFFSET,\r\npaged CURRENT-OFFSET" in text

    def test_the_users_own(self, bootstrap: str, group: tuple[str, str]) -> None:
        argv = [*self._list(bootstrap), "--match", group[0]]
        text, _ = shown(argv, env={"PAGER": "sed 's/^/p1 /'"})
        assert f"p1 {group[0]}" in text
        text, _ = shown(argv, env={"PAGER": "sed 's/^/p1 /'", "KGTOOL_PAGER": "sed 's/^/p2 /'"})
        assert f"p2 {group[0]}" in text
        for none in ("cat", ""):
            text, _ = shown(argv, env={"KGTOOL_PAGER": none, "PAGER": "sed 's/^/p1 /'"})
            assert f"\n{group[0]}" in text
        text, status = shown(argv, env={"KGTOOL_PAGER": "no-such-pager-anywhere"})
        assert status == 0

    @pytest.mark.parametrize("extra", [["-o", "json"], ["-o", "csv"]])
    def test_only_for_tables(
        self, bootstrap: str, group: tuple[str, str], extra: list[str]
    ) -> None:
        argv = [*self._list(bootstrap), "--match", group[0], *extra]
        text, _ = shown(argv, env={"KGTOOL_PAGER": "sed 's/^/paged /'"})
        assert group[0] in text
        assert "paged" not in text

    def test_never_in_kafkas_form_nor_in_a_pipe(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        pager = {"KGTOOL_PAGER": "sed 's/^/paged /'"}
        text, _ = shown(["--list", "--bootstrap-server", bootstrap], env=pager)
        assert group[0] in text
        assert "paged" not in text
        assert "paged" not in run.kgtool(*self._list(bootstrap), env=pager).out


class TestWatch:
    def _argv(self, bootstrap: str, group: str, *extra: str) -> list[str]:
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", group, "--watch", "0.3"]
        return run.command_line(*argv, *extra)

    def test_it_redraws_in_place_and_leaves_the_last_table(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        name, topic = group
        shell = ["/bin/sh", "-c", f"echo before; exec {' '.join(self._argv(bootstrap, name))}"]
        with Terminal(shell, columns=170, lines=20) as terminal:
            terminal.read_until(r"0 changed(?s:.)*\x1b\[J")
            clients.commit(bootstrap, name, {(topic, 0): 9})
            terminal.read_until(r"lag -5, offset \+5(?s:.)*\x1b\[J")
            terminal.read_until(r"0 changed(?s:.)*\x1b\[J")
            time.sleep(0.1)  # a table that is being drawn when Ctrl-C comes is drawn again
            terminal.type("\x03")
            assert terminal.read_all() == 130
            screen = terminal.screen
        assert screen[0] == "before"
        assert "| every 0.3 s | 1 group | 0 changed" in screen[1]
        assert screen[2].split()[:2] == ["GROUP", "TOPIC"]
        rows = [line.split() for line in screen[3:6]]
        assert [row[2:6] for row in rows] == [
            ["0", "9", "10", "1"],
            ["1", "10", "10", "0"],
            ["2", "15", "10", "-5"],
        ]
        assert screen[6] in ("^C", "")
        assert [line for line in screen[7:] if line] == []
        assert terminal.output.count("\x1b[2J") == 0
        assert "Traceback" not in terminal.output
        assert "Interrupted" not in terminal.output

    def test_columns_that_do_not_fit_are_named(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        """Kind: figures that go with the width, unannounced. Siblings: rates of the second look."""
        with Terminal(self._argv(bootstrap, group[0]), columns=60, lines=20) as terminal:
            terminal.read_until(r"Hidden columns: .*LOG-END-OFFSET(?s:.)*\x1b\[J")
            terminal.type("q")
            assert terminal.read_all() == 0
            screen = terminal.screen
        assert screen[1].startswith("Hidden columns: ") and len(screen[1]) < 60
        shown = screen[2].split()
        assert {"GROUP", "LAG", "STATUS"} <= {*shown}
        assert not {*shown} & {*screen[1].removeprefix("Hidden columns: ").split(", ")}

    def test_new_groups_and_gone_ones(self, bootstrap: str, group: tuple[str, str]) -> None:
        name, topic = group
        other = f"{name}-b"
        argv = [
            "describe",
            "--bootstrap-server",
            bootstrap,
            "--match",
            f"{name}*",
            "--totals",
            "--watch",
            "0.3",
        ]
        with Terminal(run.command_line(*argv), columns=120, lines=20) as terminal:
            terminal.read_until("1 group ")
            clients.commit(bootstrap, other, {(topic, 0): 1})
            terminal.read_until(rf"{other} +{topic} .*new")
            client = clients.admin(bootstrap)
            client.delete_consumer_groups([other])[other].result(30)
            terminal.read_until(rf"{other} +{topic} .*gone")
            terminal.read_until("1 group .*0 changed")
            terminal.type("\x03")
            assert terminal.read_all() == 130

    def test_keys_move_a_table_higher_than_the_screen(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        with Terminal(self._argv(bootstrap, group[0]), columns=100, lines=5) as terminal:
            screens = []
            for key, said in (
                ("", "2 more below"),
                ("j", "1 more above, 1 more below"),
                ("\x1b[F", "2 more above"),
                ("\x1b[A", "1 more above, 1 more below"),
                ("g", "2 more below"),
            ):
                terminal.type(key)
                terminal.read_until(rf"… {said}; arrow keys move, q ends it(?s:.)*\x1b\[J")
                screens.append(terminal.screen)
            terminal.type("q")
            assert terminal.read_all() == 0
        assert all("every 0.3 s" in screen[0] for screen in screens)
        assert all(screen[1].split()[:2] == ["GROUP", "TOPIC"] for screen in screens)
        assert [screen[2].split()[2] for screen in screens] == ["0", "1", "2", "1", "0"]

    def test_the_terminal_is_as_it_was(self, bootstrap: str, group: tuple[str, str]) -> None:
        for key in ("q", "\x03"):
            argv = " ".join(self._argv(bootstrap, group[0]))
            shell = ["/bin/sh", "-c", f"trap : INT; stty -g; {argv}; stty -g"]
            with Terminal(shell, columns=100, lines=20) as terminal:
                terminal.read_until(r"changed(?s:.)*\x1b\[J")
                terminal.type(key)
                terminal.read_all()
            before, after = re.findall(r"[0-9a-f]+(?::[0-9a-f]+){9,}", terminal.output)
            assert before == after

    def test_resizing(self, bootstrap: str, group: tuple[str, str]) -> None:
        with Terminal(self._argv(bootstrap, group[0]), columns=130, lines=20) as terminal:
            terminal.read_until(r"changed(?s:.)*\x1b\[J")
            terminal.resize(90, 15)
            terminal.read_until(r"\x1b\[2J(?s:.)*\x1b\[J")
            lines = SGR.sub("", terminal.output.split("\x1b[2J")[-1]).splitlines()
            assert max(len(line.replace("\x1b[K", "")) for line in lines) < 90
            terminal.type("\x03")
            assert terminal.read_all() == 130

    def test_without_a_terminal_looks_follow_each_other(
        self, bootstrap: str, group: tuple[str, str]
    ) -> None:
        name, _ = group
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", name, "--watch", "0.2"]
        for extra, check in (
            (["-o", "ndjson"], _check_ndjson),
            (["-o", "csv"], _check_csv),
            ([], _check_text),
        ):
            with run.start(*argv, *extra) as process:
                assert process.stdout is not None
                lines = [process.stdout.readline() for _ in range(12)]
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30)
            assert process.returncode == 130
            assert "Traceback" not in err
            assert "\x1b" not in "".join(lines)
            check(name, lines)

    def test_a_reader_that_leaves_ends_it(self, bootstrap: str, group: tuple[str, str]) -> None:
        argv = ["describe", "--bootstrap-server", bootstrap, "--group", group[0], "--watch", "0.1"]
        line = " ".join(run.command_line(*argv, "-o", "ndjson"))
        done = subprocess.run(
            ["/bin/bash", "-c", f"{line} | head -n 4; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=run.ROOT,
            check=False,
        )
        assert done.stdout.splitlines()[-1] == "0"
        assert done.stderr == ""

    def test_a_first_look_that_fails_ends_it(self) -> None:
        result = run.kgtool(
            "describe",
            "--bootstrap-server",
            "127.0.0.1:1",
            "--group",
            "g",
            "--watch",
            "0.1",
            "--timeout",
            "300",
        )
        assert result.status == 4
        assert result.err.count("Error: ") == 1

    def test_looks_have_their_own_time(self, bootstrap: str, group: tuple[str, str]) -> None:
        """--timeout is for each look: watching goes on for longer than that."""
        argv = [
            "describe",
            "--bootstrap-server",
            bootstrap,
            "--group",
            group[0],
            "--watch",
            "0.8",
            "--timeout",
            "2000",
            "-o",
            "ndjson",
        ]
        with run.start(*argv) as process:
            assert process.stdout is not None
            rows = [json.loads(process.stdout.readline()) for _ in range(15)]
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 130
        assert rows[-1]["looked_at_ms"] - rows[0]["looked_at_ms"] > 2500
        assert not any("error" in row for row in rows)

    def test_prometheus_follows(
        self, bootstrap: str, group: tuple[str, str], tmp_path: Path
    ) -> None:
        name, topic = group
        path = tmp_path / "lag.prom"
        with Terminal(self._argv(bootstrap, name, "--prometheus", str(path))) as terminal:
            terminal.read_until("0 changed")
            line = f'group="{name}",topic="{topic}",partition="0"}} '
            assert f"{line}6\n" in path.read_text()
            clients.commit(bootstrap, name, {(topic, 0): 8})
            terminal.read_until("1 changed")
            assert f"{line}2\n" in path.read_text()
            terminal.type("\x03")
            assert terminal.read_all() == 130
        assert [entry.name for entry in tmp_path.iterdir()] == ["lag.prom"]


def _check_ndjson(name: str, lines: list[str]) -> None:
    rows = [json.loads(line) for line in lines]
    assert [row["partition"] for row in rows] == [0, 1, 2] * 4
    assert {row["group"] for row in rows} == {name}
    assert len({row["looked_at_ms"] for row in rows}) == 4
    assert {row["change"] for row in rows} == {None}


def _check_csv(name: str, lines: list[str]) -> None:
    assert lines[0].startswith("looked_at_ms,group,topic,partition,")
    assert all(line.split(",")[1] == name for line in lines[1:])


def _check_text(name: str, lines: list[str]) -> None:
    assert "| every 0.2 s | 1 group | 0 changed" in lines[0]
    assert [line.split()[2] for line in lines[2:5]] == ["0", "1", "2"]
    assert "every 0.2 s" in lines[6]


@pytest.mark.parametrize("term", ["dumb", "", None])
def test_a_terminal_that_can_do_nothing_has_no_pager(
    term: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands for: less waits for a key on it. Siblings: unset, and a pager that was asked for."""
    monkeypatch.setenv("PAGER", "less")
    monkeypatch.delenv("KGTOOL_PAGER", raising=False)
    monkeypatch.setenv("TERM", term) if term is not None else monkeypatch.delenv("TERM")
    assert terminal.start_pager() is None
    monkeypatch.setenv("KGTOOL_PAGER", "cat >/dev/null")
    process = terminal.start_pager()
    assert process is not None
    terminal.close_pager(process)
