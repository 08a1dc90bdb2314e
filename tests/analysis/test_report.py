"""The HTML report in a real browser: it draws, sorts, searches, turns dark, prints; no network."""

from __future__ import annotations

import copy
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import report
from kgtool.errors import AnalysisError, UsageError
from tests.analysis import report_facts
from tests.analysis.report_facts import HOSTILE, LONG, NAMES, SHOWN
from tests.support.browser import Page, browser

ROOT = Path(__file__).parents[2]
LINES = 30
"""Of a picture that is only looked at for how bright it is."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "offsets report.html"
    report.write(path, report_facts.data())
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
    assert page.run("document.title") == "Committed offsets, 2026-11-21 00:00:00Z"
    assert page.run("document.querySelectorAll('img, iframe, b b').length") == 0
    assert page.run("document.scripts.length") == 3
    names = page.texts("#tables tbody tr td:first-child")
    assert names[: len(NAMES)] == SHOWN
    assert page.texts("#families .name") == SHOWN
    assert "q40DS-_XRlyDdWH1nhdT2g<b>" in page.texts(".about")[0]


def test_the_tiles_tell_it_without_any_script(file: Path) -> None:
    text = without_scripts(file.read_text(encoding="utf-8"))
    tiles = dict(re.findall(r"<b>([^<]+)</b><span>([^<]+)</span>", text))
    assert {tiles[number]: number for number in tiles} == {
        "Live offsets": "2,494", "Groups with offsets": "318", "Expire within 24 h": "40",
        "Expire within 7 days": "455", "Never, as things stand": "39", "Expired so far": "8,400",
        "Longest from due to gone": "10m 12s", "Overdue": "5",
    }  # fmt: skip


def test_every_chart_is_drawn(page: Page) -> None:
    charts = page.run(
        "[...document.querySelectorAll('.card')].filter(c => c.querySelector('canvas'))"
        ".map(c => c.id)"
    )
    assert charts == ["growth", "days", "whatif", "commits", "events"]
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


def test_tables_are_searched(page: Page) -> None:
    assert page.texts("nav button") == ["Groups 12,345", "Live offsets 8", "Losses 0"]
    assert "248 rows (the first of 12,345, see --out)" in page.texts(".count")[0]
    page.type("input[type=search]", "CONSUMER group-23")
    found = page.texts("#tables tbody tr td:first-child")
    assert found[0] == "group-23" and len(found) == 11  # group-23, group-230 to group-239
    page.type("input[type=search]", "<script>")
    assert page.texts("#tables tbody tr td:first-child") == [HOSTILE]
    page.type("input[type=search]", "no such group")
    assert page.texts("#tables .scroll") == ["Nothing here."]


def test_tables_are_sorted(page: Page) -> None:
    def column(at: int) -> list[str]:
        return page.texts(f"#tables tbody tr td:nth-child({at})")

    page.click("#tables th:nth-child(8) button")  # live offsets: the most first
    assert [int(cell) for cell in column(8)][:3] == [49, 42, 35]
    assert page.run("document.querySelector('#tables th:nth-child(8)').ariaSort") == "descending"
    page.click("#tables th:nth-child(8) button")
    assert [int(cell) for cell in column(8)][:2] == [0, 1]
    page.click("#tables th:nth-child(1) button")  # names with numbers in them, as people do
    numbered = [name for name in column(1) if name.startswith("group-")]
    assert numbered[:12] == [f"group-{at}" for at in range(12)]
    page.click("nav button:nth-child(2)")
    page.click("#tables th:nth-child(7) button")  # a moment, the earliest first
    assert column(1) == SHOWN
    assert column(7)[0] == "2026-11-21 00:00:00Z"
    page.click("nav button:nth-child(1)")
    for _ in range(2):  # what is not known comes last, up and down
        page.click("#tables th:nth-child(9) button")
        page.click("#tables .more")
        assert column(9)[-1] == "–" and column(9)[0] != "–"


def test_more_rows_come_when_asked_for(page: Page) -> None:
    assert len(page.texts("#tables tbody tr")) == 100
    page.click("#tables .more")
    assert len(page.texts("#tables tbody tr")) == 248
    assert page.run("document.querySelector('.more').hidden")


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


def test_it_can_be_printed(page: Page, tmp_path: Path) -> None:
    page.prefer(dark=True)
    raw = page.pdf(tmp_path / "report.pdf")
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
    data |= {"untold": ["transactions", "when <b>"], "growth": [[], [], []], "families": [],
             "whatif": [], "tables": [], "metrics": [[], [], [], [], []], "cluster_id": None,
             "days": [{"day": 1, "offsets": 0, "groups": 0}]}  # fmt: skip
    path = tmp_path / "small.html"
    report.write(path, data)
    chromium.open(path.as_uri())
    assert chromium.complaints == []
    assert "It can't tell transactions; when <b>: what" in chromium.texts(".about")[0]
    assert "Overdue" not in chromium.texts(".tile span")
    assert chromium.texts("main .card:not([hidden]) h2") == ["What expires in the days ahead"]
    assert chromium.texts("#days .empty") == ["Nothing expires within a day as things stand."]


def test_where_it_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        report.check_file(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        report.check_file(tmp_path / "nowhere" / "report.html")
    with pytest.raises(UsageError, match="no ordinary file"):
        report.check_file(Path("/dev/null"))
    report.check_file(tmp_path / "report.html")
    (tmp_path / "taken").mkdir()
    with pytest.raises(AnalysisError, match="could not be written"):
        report.write(tmp_path / "taken", report_facts.data())
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    (tmp_path / "link").symlink_to("taken/report.html")
    report.write(tmp_path / "link", report_facts.data())
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "taken" / "report.html").stat().st_size > 50_000


def test_the_data_can_not_end_its_element() -> None:
    text = report.page(report_facts.data())
    block = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(block)["tables"][0]["rows"][0][0] == HOSTILE


def test_all_of_it_is_in_the_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", "build", "--build-base", tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    source, built = (
        {path.name: path.read_bytes() for path in (root / "kgtool/analysis/html").iterdir()}
        for root in (ROOT, tmp_path / "lib")
    )
    assert source == built
    assert b"MIT" in built["uPlot.LICENSE"]
    # The licence goes with every copy of the library: it is in each report, too.
    assert "Leon Sorokin" in report.page(report_facts.data())


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
