"""The HTML report in a real browser: it draws, sorts, searches, turns dark, prints; no network."""

from __future__ import annotations

import base64
import copy
import csv
import gzip
import json
import re
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest

from kgtool.analysis.report import blocks, facts, html_page
from kgtool.analysis.report.findings import findings
from kgtool.cli.app.root import root
from kgtool.errors import AnalysisError, UsageError
from tests.analysis import report_facts
from tests.analysis.report_facts import DAY_MS, HOSTILE, LONG, NAMES, NOW_MS, SHOWN
from tests.support.browser import Page, browser

ROOT = Path(__file__).parents[2]
LINES = 30
"""Of a picture that is only looked at for how bright it is."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "offsets page.html"
    html_page.write(path, report_facts.data(), report_facts.rows)
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def page(chromium: Page, file: Path) -> Page:
    chromium.open(file.as_uri())
    return chromium


def test_it_loads_nothing_and_complains_of_nothing(page: Page, file: Path) -> None:
    assert page.requests == [file.as_uri()]
    assert page.complaints == []
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)\s*=|url\(|@import""", without_scripts(text))


def test_names_are_text_wherever_they_stand(page: Page) -> None:
    assert page.run("document.title") == "Committed offsets, 2026-11-21T00:00:00Z"
    assert page.run("document.querySelectorAll('img, iframe, b b').length") == 0
    assert (
        page.run("document.scripts.length") == 3 + 1
    )  # data and two scripts; the rows not yet seen
    names = page.texts("#tables tbody tr td:first-child")
    assert names[: len(NAMES)] == SHOWN
    assert page.texts("#families .name") == SHOWN
    assert "q40DS-_XRlyDdWH1nhdT2g<b>" in page.texts(".about")[0]


def test_the_tiles_tell_it_without_any_script(file: Path) -> None:
    text = without_scripts(file.read_text(encoding="utf-8"))
    tiles = dict(re.findall(r"<b>([^<]+)</b><span>([^<]+)</span>", text))
    assert {tiles[number]: number for number in tiles} == {
        "Live offsets": "2,494",
        "Groups with live offsets": "318",
        "Expire within 24 h": "40",
        "Expire within 7 days": "455",
        "Not expiring": "39",
        "Expired so far": "8,400",
        "Longest expiry delay": "10m 12s",
        "Overdue": "5",
    }


def test_every_chart_is_drawn(page: Page) -> None:
    charts = page.run(
        "[...document.querySelectorAll('.card')].filter(c => c.querySelector('canvas'))"
        ".map(c => c.id)"
    )
    assert charts == ["growth", "days", "whatif", "loss", "commits", "events"]
    labels = page.texts("#whatif .u-legend .u-label")
    assert labels[1:] == ["7d (as it was)", "3d", "30d"]
    # Each has something on it besides its axes.
    inked = page.run(
        "[...document.querySelectorAll('canvas')].map(c => new Set(c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data).size)"
    )
    assert min(inked) > 20
    widths = page.run("[...document.querySelectorAll('.bars .fill')].map(f => f.style.width)")
    assert widths[:3] == ["100%", "50%", "33.3%"]


def test_all_rows_are_searched(page: Page) -> None:
    assert page.texts("[role=tab]") == ["Groups seen 12,345", "Live offsets 8", "Would have lost 0"]
    assert "12,008 rows (the first of 12,345; --out DIR writes all)" in page.texts(".count")[0]
    page.type("input[type=search]", "CONSUMER group-1199")
    found = page.texts("#tables tbody tr td:first-child")  # of the second block
    assert found == ["group-1199", *(f"group-1199{at}" for at in range(10))]
    page.type("input[type=search]", "11,999")
    assert page.texts("#tables tbody tr td:first-child") == ["group-11999"]
    page.type("input[type=search]", "<script>")
    assert page.texts("#tables tbody tr td:first-child") == [HOSTILE]
    page.type("input[type=search]", "no such group")
    assert page.texts("#tables .scroll") == ["Nothing here."]


def test_tables_are_sorted(page: Page) -> None:
    def column(at: int) -> list[str]:
        return page.texts(f"#tables tbody tr td:nth-child({at})")

    page.type("input[type=search]", "group-1 classic")  # none
    assert column(1) == []
    page.type("input[type=search]", "")
    page.click("#tables th:nth-child(8) button")  # live offsets: the most first
    assert [int(cell) for cell in column(8)][:3] == [49, 42, 35]
    assert page.run("document.querySelector('#tables th:nth-child(8)').ariaSort") == "descending"
    page.click("#tables th:nth-child(8) button")
    assert [int(cell) for cell in column(8)][:2] == [0, 1]
    page.click("#tables th:nth-child(1) button")  # names with numbers in them, as people do
    numbered = [name for name in column(1) if name.startswith("group-")]
    assert numbered[:12] == [f"group-{at}" for at in range(12)]
    page.click("#tab-live")
    page.click("#tables th:nth-child(7) button")  # a moment, the earliest first
    assert column(1) == SHOWN
    assert column(7)[0] == "2026-11-21T00:00:00Z"
    page.click("#tab-groups")
    page.type("input[type=search]", "classic")
    for _ in range(2):  # what is not known comes last, up and down
        page.click("#tables th:nth-child(9) button")
        assert column(9)[-1] == "–" and column(9)[0] != "–"


def test_more_rows_come_when_asked_for(page: Page) -> None:
    assert len(page.texts("#tables tbody tr")) == 100
    page.click("#tables .more")
    assert len(page.texts("#tables tbody tr")) == 600
    page.type("input[type=search]", "group-119")
    page.click("#tables .more")
    assert len(page.texts("#tables tbody tr")) == 111
    assert page.run("document.querySelector('.more').hidden")


def test_a_family_leads_to_its_groups_and_a_group_to_its_offsets(page: Page, file: Path) -> None:
    page.click("#families .name:nth-of-type(6)")
    assert page.texts("#tables tbody td:first-child") == ["billing"]
    assert page.texts(".chip") == ["family: billing ✕"]
    page.click("#tables tbody td:first-child a")
    assert page.texts("[aria-selected=true]") == ["Live offsets 8"]
    assert page.texts("#tables tbody td:nth-child(2)") == ["topic"]
    assert page.run("location.hash") == "#live?group=billing"
    page.run("history.back()")
    page.wait_for("document.querySelector('[aria-selected=true]').textContent.startsWith('Gr')")
    assert page.texts(".chip") == ["family: billing ✕"]
    page.click(".chip")
    assert page.texts(".chip") == [] and "12,008 rows" in page.texts(".count")[0]
    page.type("input[type=search]", "group-11999")
    page.click("#tables tbody td:nth-child(2) a")  # from a row as well
    assert page.texts(".chip") == ["family: group-* ✕"] and "12,000 of" in page.texts(".count")[0]
    for number in range(2, 6):  # names of the worst kind lead there as well
        page.click(f"#families .name:nth-of-type({number})")
        assert page.texts("#tables tbody td:first-child") == [SHOWN[number - 1]]


def test_what_is_shown_has_a_link(chromium: Page, file: Path) -> None:
    chromium.open(file.as_uri())
    chromium.type("input[type=search]", "stable")
    chromium.click("#tab-live")
    chromium.type("input[type=search]", "commit 0")
    chromium.click("#tables th:nth-child(3) button")
    link = chromium.run("location.href")
    rows = chromium.texts("#tables tbody tr")
    assert link.endswith("#live?q=commit+0&sort=-partition") and len(rows) == len(NAMES)
    chromium.click(".link")
    chromium.wait_for(f"document.getElementById('said').textContent === 'Copied: {link}'")
    chromium.open("about:blank", ready=False)
    chromium.open(link)
    assert chromium.texts("#tables tbody tr") == rows
    assert chromium.run("document.querySelector('input').value") == "commit 0"
    assert chromium.run("document.getElementById('tables').getBoundingClientRect().bottom") < 999
    hrefs = chromium.run("[...document.querySelectorAll('[role=tab]')].map(a => a.hash)")
    assert hrefs == ["#groups", "#live", "#losses"]


def test_what_is_found_is_a_csv_file(page: Page, file: Path, tmp_path: Path) -> None:
    def downloaded(name: str, rows: int) -> list[list[str]]:
        path = tmp_path / name
        page.click(".csv")
        deadline = time.monotonic() + 60
        # The name is reserved by an empty file, which the whole one replaces.
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < deadline, "no file came"
            time.sleep(0.05)
        found = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        assert len(found) == rows + 1
        return found

    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    found = downloaded("groups.csv", len(report_facts.ROWS["groups"]))
    assert found[0] == report_facts.COLUMNS["groups"]
    assert [row[0] for row in found[1:9]] == ["'=1+1" if name == "=1+1" else name for name in SHOWN]
    assert found[12_008][5] == "11999"
    assert [row[8] for row in found[3:6]] == [
        str(NOW_MS + 2 * DAY_MS),
        "",
        str(NOW_MS + 4 * DAY_MS),
    ]
    page.click("#tab-live")
    page.type("input[type=search]", "ggg")
    assert downloaded("live.csv", 1)[1] == [
        LONG,
        "topic",
        "1",
        str(2**62),
        "false",
        "commit",
        str(NOW_MS + 1),
    ]
    assert page.texts("#tables tbody td:nth-child(4)") == ["4,611,686,018,427,387,904"]


def test_each_row_has_a_command_to_copy(page: Page) -> None:
    commands = page.run("[...document.querySelectorAll('.run button')].map(b => b.title)")
    assert commands[5] == "kgtool explain --group billing"
    # A shell makes the names of it again, and nothing else happens.
    for name, command in zip(NAMES, commands, strict=False):
        shell = ["bash", "-c", f"kgtool() {{ printf '%s\\0' \"$@\"; }}; {command}"]
        done = subprocess.run(
            shell, capture_output=True, text=True, check=True, env={"LC_ALL": "C.UTF-8"}
        )
        assert done.stdout.split("\0")[:3] == ["explain", "--group", name]
        assert command.isprintable()
    page.click("#tab-live")
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    page.click("#tables tbody tr:nth-child(7) .run button")
    page.wait_for("document.getElementById('said').textContent.startsWith('Copied: ')")
    assert page.run("navigator.clipboard.readText()") == (
        "kgtool describe --group orders --topic topic:6 --expiry"
    )


def test_its_commands_are_kgtools() -> None:
    commands = [words for shown in facts.SHOWN.values() for words in shown.commands]
    for program, name, *words in commands:
        command = root.get_command(click.Context(root), name)
        assert program == "kgtool" and command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known
        assert {word for word in words if "{" in word} <= {
            "{group}",
            "{topic}:{partition}",
            "{path}",
            "{family}",
        }


def test_lists_are_text() -> None:
    table = pa.table({"topics": pa.array([["a", "b"], None, []], pa.list_(pa.string()))})
    (block,) = blocks.blocks(["topics"], [table])
    assert json.loads(gzip.decompress(base64.b64decode(block))) == [[["a, b", ""], [0, None, 1]]]


def test_the_keyboard_is_enough(page: Page) -> None:
    page.run("document.querySelector('[role=tab]').focus()")
    for key, at in (
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowRight", 0),
        ("End", 2),
        ("ArrowLeft", 1),
        ("Home", 0),
        ("ArrowLeft", 2),
    ):
        page.press(key)
        shown = "[...document.querySelectorAll('[role=tab]')].indexOf(document."
        assert page.run(f"{shown}activeElement)") == at
        assert page.run(f"{shown}querySelector('[aria-selected=true]'))") == at
    tabs = page.run("[...document.querySelectorAll('[role=tab]')].map(tab => tab.tabIndex)")
    assert tabs == [-1, -1, 0]
    panel = page.run("document.getElementById('panel').getAttribute('aria-labelledby')")
    assert panel == "tab-losses"
    page.press("Tab")
    assert page.run("document.activeElement.type") == "search"
    page.run("document.querySelector('[role=tab]').click()")
    # Sorting leaves the keyboard where it is.
    page.run("document.querySelector('#tables th:nth-child(6) button').focus()")
    for first in ("11,999", "0"):
        page.press("Enter")
        assert page.run("document.activeElement.textContent") == "commits"
        assert page.texts("#tables tbody td:nth-child(6)")[0] == first


def test_behind_each_chart_is_a_table(page: Page) -> None:
    rows = {
        "growth": 400,
        "days": 30,
        "families": len(NAMES),
        "whatif": 60,
        "loss": 3,
        "commits": 400,
        "events": 400,
    }
    for card, count in rows.items():
        page.run(f"document.querySelectorAll('#{card} details').forEach(d => {{d.open = true}})")
        count_of = "document.querySelectorAll('#{} {}').length".format
        page.wait_for(f"{count_of(card, 'details')} === {count_of(card, 'details table')}")
        charts = 2 if card in ("growth", "loss") else 1
        assert len(page.texts(f"#{card} details tbody tr")) == charts * count, card
    # Two figures of different size have a chart each, not two axes.
    told = page.texts("#loss details tbody tr:nth-child(2) td")
    assert told == ["7d", "10", "7d", "1,285"]
    # What is drawn on top of each other is told one by one.
    assert page.texts("#events details tbody tr:nth-child(18) td")[1:] == ["2", "0", "0"]
    assert page.texts("#events details tbody tr:nth-child(17) td")[1:] == ["1", "0", "16"]


def test_nothing_is_in_the_way_of_a_screen_reader(chromium: Page, file: Path) -> None:
    for dark in (False, True):
        chromium.open(f"{file.as_uri()}#groups?family=billing", dark=dark)
        for details in range(9):
            chromium.run(f"document.querySelectorAll('details')[{details}].open = true")
        chromium.wait_for("document.querySelectorAll('details table').length === 9")
        assert chromium.barriers() == []
        assert chromium.complaints == []


def test_one_bucket_of_time_is_a_bar(chromium: Page, tmp_path: Path) -> None:
    hour = report_facts.NOW_MS / 1000 - 3600
    data = report_facts.data() | {"metrics": [[hour], [7], [1], [0], [2]]}
    data["whatif"] = data["whatif"][:1]
    html_page.write(tmp_path / "one.html", data, report_facts.rows)
    chromium.open((tmp_path / "one.html").as_uri())
    ends = "charts.slice(-2).flatMap(draw => [draw.plot.scales.x.min, draw.plot.scales.x.max])"
    for least, most in [chromium.run(ends)[:2], chromium.run(ends)[2:]]:
        assert hour - 6 * 3600 <= least <= hour and hour + 3600 <= most <= hour + 7 * 3600
    colours = chromium.run(  # at half the height of the one bar, in its middle
        "(({plot: p}) => [...p.ctx.getImageData(p.valToPos(data.metrics[0][0] + 1800, 'x', true),"
        "p.valToPos(3.5, 'y', true), 1, 1).data])(charts.at(-2))"
    )
    assert colours[3] > 0
    assert chromium.texts("#commits details") == ["As a table"]
    # One retention makes no curve: the card is left out.
    assert chromium.texts("#loss:not([hidden])") == []
    # A bar is as wide as its hour: no border makes it wider.
    assert chromium.run("charts.at(-2).plot.series[1].width") == 0


def test_it_follows_the_system_and_the_button(page: Page, tmp_path: Path) -> None:
    light = page.screenshot(tmp_path / "light.png", height=LINES)
    page.prefer(dark=True)
    page.wait_for("document.getElementById('theme').textContent === 'Light'")
    dark = page.screenshot(tmp_path / "dark.png", height=LINES)
    assert brightness(light) > 200 and brightness(dark) < 70
    page.click("#theme")
    assert brightness(page.screenshot(tmp_path / "again.png", height=LINES)) > 200
    page.prefer(dark=False)
    page.click("#theme")
    assert brightness(page.screenshot(tmp_path / "chosen.png", height=LINES)) < 70


@pytest.mark.parametrize("width", [1280, 700, 380])
def test_nothing_sticks_out_at_the_side(chromium: Page, file: Path, width: int) -> None:
    chromium.open(file.as_uri(), width=width)
    assert chromium.run("document.documentElement.scrollWidth") <= width
    # A long name is cut, but it is all there for whoever points at it.
    assert chromium.run("document.querySelector('#tables tbody tr:nth-child(2) td').title") == LONG


def test_a_row_is_written_before_the_next_one_is_made() -> None:
    made: list[int] = []

    def blocks(name: str) -> Iterator[bytes]:
        for number in range(3):
            made.append(number)
            yield f"{name}{number}".encode()

    written = b""
    for piece in html_page.page(report_facts.data(), blocks):
        written += piece
        assert len(made) <= written.count(b"</script>\n<") + 1 or b"{{" not in written
        if piece == b"live1":
            assert made == [0, 1, 2, 0, 1]
    assert written.count(b'data-rows="live"') == 3


def test_a_table_has_room_for_so_much() -> None:
    asked: list[int] = []

    def found() -> Iterator[bytes]:
        for number in range(9):
            asked.append(number)
            yield b"x" * 10

    assert len(list(blocks.bounded(found(), 35))) == 3 and len(asked) == 4
    assert list(blocks.bounded(iter([b"x" * 40, b""]), 35)) == [b"x" * 40]


def test_it_can_be_printed(page: Page, tmp_path: Path) -> None:
    page.prefer(dark=True)
    raw = page.pdf(tmp_path / "page.pdf")
    assert raw.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", raw)) <= 12
    # Back on the screen it is as before.
    assert page.run("document.documentElement.dataset.theme") is None
    assert len(page.texts("#tables tbody tr")) == 100


def test_nothing_is_cut_off_on_paper(chromium: Page, file: Path) -> None:
    chromium.open(file.as_uri(), width=720)  # of A4, without its margins
    chromium.call("Emulation.setEmulatedMedia", media="print")
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    for box in ("#whatif .small", "#tables .scroll"):
        wide = f"document.querySelector('{box}')"
        assert chromium.run(f"{wide}.scrollWidth") <= chromium.run(f"{wide}.clientWidth"), box
    assert chromium.run("document.documentElement.scrollWidth") <= 720
    assert len(chromium.texts("#tables tbody tr")) == 60
    chromium.run("dispatchEvent(new Event('afterprint'))")
    chromium.call("Emulation.setEmulatedMedia", media="")


def test_little_is_enough_for_a_report(chromium: Page, tmp_path: Path) -> None:
    data = copy.deepcopy(report_facts.data())
    data["summary"]["overdue"] = None
    data |= {
        "untold": ["transactions", "when <b>"],
        "growth": [[], [], []],
        "families": [],
        "whatif": [],
        "tables": [],
        "metrics": [[], [], [], [], []],
        "cluster_id": None,
        "days": [{"day": 1, "offsets": 0, "groups": 0}],
    }
    path = tmp_path / "small.html"
    html_page.write(path, data, report_facts.rows)
    chromium.open(path.as_uri())
    assert chromium.complaints == []
    assert "The input lacks transactions; when <b>: what" in chromium.texts(".about")[0]
    assert "Overdue" not in chromium.texts(".tile span")
    # No empty cards: what is left is the verdict.
    assert chromium.texts("main .card:not([hidden]) h2") == ["2 findings, the worst first"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ["5 offsets should have", "7 records of 3,204,112", "40 offsets of 2,494 may"]),
        ({"overdue": 0, "next_24h": 0, "quality": {"skipped": 0, "records": 1}}, ["Nothing is"]),
        ({"untold": 9, "overdue": None}, ["7 records", "40 offsets", "When 9 offsets expire"]),
    ],
)
def test_the_verdict_is_first_worst_first(changes: dict[str, Any], said: list[str]) -> None:
    found = findings(report_facts.data()["summary"] | changes, [])
    assert [one["text"][: len(start)] for one, start in zip(found, said, strict=True)] == said
    assert all(one["command"].startswith("kgtool ") for one in found if one["level"] != "good")


def test_a_large_family_is_a_finding_with_its_command() -> None:
    summary = report_facts.data()["summary"] | {"overdue": 0, "next_24h": 0}
    family = {"family": "console-consumer-*", "groups": 200, "live_offsets": 2_400}
    (_, one) = findings(summary, [family])
    assert one["text"] == "console-consumer-* holds 96% of the live offsets, in 200 groups."
    assert "cleanup plan --match 'console-consumer-*'" in one["command"]
    assert len(findings(summary, [family | {"live_offsets": 100}])) == 1


def test_where_it_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        html_page.check_file(tmp_path, overwrite=True)
    with pytest.raises(UsageError, match="does not exist"):
        html_page.check_file(tmp_path / "nowhere" / "page.html", overwrite=True)
    with pytest.raises(UsageError, match="not a regular file"):
        html_page.check_file(Path("/dev/null"), overwrite=True)
    html_page.check_file(tmp_path / "page.html", overwrite=False)
    (tmp_path / "taken").mkdir()
    with pytest.raises(AnalysisError, match="could not be written"):
        html_page.write(tmp_path / "taken", report_facts.data(), report_facts.rows)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    (tmp_path / "link").symlink_to("taken/page.html")
    html_page.write(tmp_path / "link", report_facts.data(), report_facts.rows)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "taken" / "page.html").stat().st_size > 50_000
    with pytest.raises(UsageError, match="link exists: give --overwrite, or name another file"):
        html_page.check_file(tmp_path / "link", overwrite=False)
    html_page.check_file(tmp_path / "link", overwrite=True)


def test_the_data_can_not_end_its_element(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    block = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(block)["families"][0]["family"] == HOSTILE
    for rows in re.findall(r'<script type="text/plain" data-rows="\w+">(.*)', text):
        assert re.fullmatch("[A-Za-z0-9+/=]+</script>", rows)


def test_the_licence_goes_with_every_copy_of_the_library() -> None:
    assert b"MIT" in (ROOT / "kgtool/analysis/report/html/uPlot.LICENSE").read_bytes()
    page = b"".join(html_page.page(report_facts.data(), report_facts.rows))
    assert b"Leon Sorokin" in page


def without_scripts(text: str) -> str:
    return re.sub(r"<script.*?</script>", "", text, flags=re.S)


def brightness(png: bytes) -> float:
    """The mean of the middle line of a picture: PNG as Chromium writes it, 8 bits a channel."""
    width, _, _, color = struct.unpack(">IIBB", png[16:26])
    channels = {2: 3, 6: 4}[color]
    raw, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            raw += png[at + 8 : at + 8 + size]
        at += 12 + size
    lines = unfiltered(zlib.decompress(raw), width * channels, channels)
    line = lines[len(lines) // 2]
    shades = [value for at, value in enumerate(line) if channels == 3 or at % 4 != 3]
    return sum(shades) / len(shades)


def unfiltered(data: bytes, size: int, channels: int) -> list[bytes]:
    """Undo the filters of a PNG's lines (RFC 2083, section 6)."""
    lines: list[bytes] = []
    before = bytes(size)
    for start in range(0, len(data), size + 1):
        line = bytearray(data[start + 1 : start + 1 + size])
        unfilter(data[start], line, before, channels)
        lines.append(before := bytes(line))
    return lines


def unfilter(kind: int, line: bytearray, before: bytes, channels: int) -> None:
    for at in range(len(line)):
        left = line[at - channels] if at >= channels else 0
        corner = before[at - channels] if at >= channels else 0
        guesses: list[Any] = [0, left, before[at], (left + before[at]) // 2]
        guesses.append(paeth(left, before[at], corner))
        line[at] = (line[at] + guesses[kind]) & 255


def paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda each: abs(guess - each))
