"""The HTML report of logs: of a real broker's, and of one with names that nobody would choose."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.report import facts, html_page
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.cli.analyze.summary import Page as Terminal
from kgtool.cli.analyze.summary import render
from kgtool.retention.rules import RULE_SETS
from tests.analysis.report_facts import HOSTILE
from tests.analysis.writer import Raw, batch, offset_key, offset_value, segment
from tests.retention.truth import DATA, INTERVAL_MS, RETENTION_MS, truth
from tests.spark.test_random_logs import RETENTION_MS as LOG_RETENTION_MS
from tests.spark.test_random_logs import write_log
from tests.support.browser import Page, browser
from tests.support.tables import Make

pytestmark = pytest.mark.spark
DAY_MS = 86_400_000
RUN = "4.3.1"
MANY = 12_300
"""Groups: more than a block of rows has."""
NOW_MS = 1_795_265_000_000
NAMES = [
    HOSTILE,
    "=cmd|' /C calc'!A0",
    "\u202e\u2066gnp.exe",
    "a" * 255,
    "b" * 20_000,
    "naïve\u0000\ttab",
    "<!--",
    "${x}`{{title}}",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Page]:
    with browser() as page:
        yield page


def written(
    engine: Make, folder: Path, as_of_ms: int | None, path: Path, **times: int
) -> dict[str, Any]:
    """Write a report; what it shows beside the rows."""
    basis = broker_settings.settings_from(None, "4.1", times["retention_ms"], times["interval_ms"])
    scenarios = tuple(
        Scenario(RULE_SETS[name], basis.retention_ms, basis.check_interval_ms)
        for name in ("4.1", "2.4")
    )
    options = TableOptions(scenarios, 3 * DAY_MS, times["bucket_ms"], days=3)
    analysis = Analysis(engine(), find_inputs([str(folder)]).files, basis, as_of_ms, options)
    data = facts.collect(analysis, "q40DS-_XRlyDdWH1nhdT2g")
    html_page.write(path, data, partial(facts.rows, analysis))
    return data


def test_the_report_of_a_real_broker(engine: Make, chromium: Page, tmp_path: Path) -> None:
    recorded = truth(RUN)
    path = tmp_path / "page.html"
    data = written(
        engine,
        DATA / "retention-truth" / RUN / "segments",
        recorded.stop_ms,
        path,
        retention_ms=RETENTION_MS,
        interval_ms=INTERVAL_MS,
        bucket_ms=10_000,
    )
    chromium.open(path.as_uri())
    assert chromium.complaints == [] and chromium.requests == [path.as_uri()]
    tiles = dict(zip(chromium.texts(".tile span"), chromium.texts(".tile b"), strict=True))
    live = [table for table in data["tables"] if table["name"] == "live"][0]["total"]
    assert tiles["Live offsets"] == str(live) == str(data["growth"][1][-1])
    expired = sum(row["cause"] == "expired" for row in recorded.tombstones)
    assert tiles["Expired so far"] == str(expired)
    assert tiles["Overdue"] == "0"
    # Buckets without anything are there, with nothing in them.
    at, commits, expirations, deletions, _ = data["metrics"]
    assert {after - before for before, after in zip(at, at[1:], strict=False)} == {10}
    assert (sum(expirations), sum(deletions)) == (expired, 1)
    assert sum(commits) == sum(
        not row["control"] and row["value"] is not None and row["decoded"]["keyVersion"] in (0, 1)
        for row in recorded.records
    )
    chromium.click("#tab-removals")
    chromium.type("input[type=search]", "expired stable-consumer")
    found = chromium.texts("#tables tbody tr td:first-child")
    assert found == [
        row["group"]
        for row in recorded.tombstones
        if row["group"] == "stable-consumer" and row["cause"] == "expired"
    ]
    rows = chromium.texts("#whatif tbody tr td:first-child")
    assert rows == ["4.1", "2.4"]


def test_a_partition_of_the_log_leads_to_its_groups(
    engine: Make, chromium: Page, tmp_path: Path
) -> None:
    recorded = truth(RUN)
    path = tmp_path / "page.html"
    written(
        engine,
        DATA / "retention-truth" / RUN / "segments",
        recorded.stop_ms,
        path,
        retention_ms=RETENTION_MS,
        interval_ms=INTERVAL_MS,
        bucket_ms=10_000,
    )
    chromium.open(f"{path.as_uri()}#partitions?sort=log_partition")
    assert chromium.texts("[aria-selected=true]")[0].startswith("Partitions ")
    head = chromium.texts("#tables th button")
    shown = [
        dict(zip(head, texts, strict=True))
        for texts in chromium.run(
            "[...document.querySelectorAll('#tables tbody tr')].map(row => [...row.cells]"
            ".map(cell => cell.textContent))"
        )
    ]
    assert len(shown) == len({row["log partition"] for row in shown}) >= 1
    assert sum(int(row["records"].replace(",", "")) for row in shown) == len(recorded.records)
    row = max(shown, key=lambda row: int(row["groups"]))
    chromium.run(f"location.hash = 'partitions?log_partition={row['log partition']}'")
    chromium.wait_for("document.querySelectorAll('#tables tbody tr').length === 1")
    chromium.click("#tables tbody td a")
    assert chromium.texts(".chip") == [f"log partition: {row['log partition']} ✕"]
    column = chromium.texts("#tables th button").index("live offsets") + 1
    live = chromium.texts(f"#tables tbody td:nth-child({column})")  # dead ones are there as well
    assert sum(offsets != "0" for offsets in live) == int(row["groups"]) > 0
    chromium.click("#tables tbody td:first-child a")
    assert chromium.texts("[aria-selected=true]")[0].startswith("Live offsets ")


def test_an_input_that_tells_little(engine: Make, chromium: Page, tmp_path: Path) -> None:
    """What the console consumer printed: no times, no groups. Nothing is made up for it."""
    path = tmp_path / "page.html"
    data = written(
        engine,
        DATA / "export-samples" / "4.3.1.offsets-formatter.txt",
        None,
        path,
        retention_ms=RETENTION_MS,
        interval_ms=INTERVAL_MS,
        bucket_ms=10_000,
    )
    summary = data["summary"]
    assert (summary["overdue"], summary["growth"], summary["whatif"]) == (None, [], [])
    assert summary["untold"] == summary["live_offsets"] > 15
    text = render(summary, Terminal())
    assert f"unknown {summary['untold']}\n" in text and "not told " in text
    assert "Growth" not in text and "Overdue" not in text
    chromium.open(path.as_uri())
    assert chromium.complaints == []
    assert "The input lacks the groups' records" in chromium.texts(".about")[0]
    assert "Overdue" not in chromium.texts(".tile span")
    shown = chromium.texts("main .card:not([hidden]) h2")
    assert shown == ["1 finding", "Largest families of groups", "Tables"]


def test_a_report_has_its_rows_in_one_order(spark: Any, tmp_path: Path) -> None:
    """Was: rows of as many commits, say, came in any order, another one in every run."""
    write_log(tmp_path, 5, kip_848=True, groups_in_all=60)
    basis = broker_settings.settings_from(None, "4.1", LOG_RETENTION_MS, INTERVAL_MS)
    scenarios = tuple(
        Scenario(RULE_SETS["4.1"], retention_ms, INTERVAL_MS)
        for retention_ms in (LOG_RETENTION_MS, LOG_RETENTION_MS // 2)
    )
    options = TableOptions(scenarios, 3 * DAY_MS, 60_000, days=3, gaps=True)
    files = find_inputs([str(tmp_path)]).files
    one, other = (
        Analysis(each, files, basis, None, options) for each in (LocalEngine(), SparkEngine(spark))
    )
    sizes = {}
    for name in facts.SHOWN.keys() - {"quality"}:
        rows, same = _rows(one, name), _rows(other, name)
        assert rows == same, name
        keys = [column for column, _ in facts.SHOWN[name].best]
        placed = defaultdict(set)
        for row in rows:
            placed[tuple(row[key] for key in keys)].add(repr(row))
        assert set(map(len, placed.values())) <= {1}, (name, keys)
        sizes[name] = len(placed)
    assert sizes.pop("orphans") == 0 and min(sizes.values()) > 1, sizes


def _rows(analysis: Analysis, name: str) -> list[dict[str, Any]]:
    def told(batches: Iterable[Any]) -> Iterator[bytes]:
        return (json.dumps(batch.to_pylist()).encode() for batch in batches)

    found = analysis.mapped(name, facts.SHOWN[name].best, told)
    return [row for block in found for row in json.loads(block)]


@pytest.fixture(scope="module")
def strange(engine: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A report of many groups, some of them with names of the worst kind."""
    folder = tmp_path_factory.mktemp("strange")
    keys = [offset_key(f"group-{number}x") for number in range(MANY)]
    # The oldest ones, which are shown in any case.
    keys += [offset_key(name, f"t{name[:200]}") for name in reversed(NAMES)]
    raws = [
        Raw(key, offset_value(2**63 - len(keys) + at, NOW_MS - at * 1000), NOW_MS - at * 1000)
        for at, key in enumerate(keys)
    ]
    segment(folder / "segments", batch(0, raws))
    path = folder / "page.html"
    data = written(
        engine, folder, NOW_MS, path, retention_ms=DAY_MS, interval_ms=60_000, bucket_ms=60_000
    )
    return data, path


def test_names_are_never_more_than_text(
    chromium: Page, strange: tuple[dict[str, Any], Path]
) -> None:
    data, path = strange
    chromium.open(path.as_uri())
    assert chromium.complaints == [] and chromium.requests == [path.as_uri()]
    assert chromium.run("document.title").startswith("Committed offsets, 2026-11-21")
    assert chromium.run("document.querySelectorAll('img').length") == 0
    chromium.click("#tab-live")
    for words, shown in (
        ("</script>", HOSTILE),
        ("gnp.exe", "\\u202e\\u2066gnp.exe"),
        ("naïve", "naïve\\u0000\\u0009tab"),
        ("{{title}}", NAMES[-1]),
        ("bbbbbbbb", "b" * 299 + "…"),
    ):
        chromium.type("input[type=search]", words)
        assert chromium.texts("#tables tbody tr td:first-child") == [shown]
    # As it is, though no browser's numbers reach that far.
    chromium.type("input[type=search]", "</script>")
    assert "9,223,372,036,854,775,807" in chromium.texts("#tables tbody td.num")


def test_every_row_is_in_the_file(chromium: Page, strange: tuple[dict[str, Any], Path]) -> None:
    data, path = strange
    everybody = MANY + len(NAMES)
    totals = {table["name"]: table["total"] for table in data["tables"]}
    assert (totals["groups"], totals["live"]) == (everybody, everybody)
    assert path.stat().st_size < 1_000_000
    chromium.open(f"{path.as_uri()}#live?sort=expires_at_ms")
    assert f"{everybody:,} rows" in chromium.texts(".count")[0]
    # In the table's own order as well: the first to expire first.
    ordered = chromium.run(
        "data.tables.find(each => each.name === 'live').columns"
        ".find(each => each.name === 'expires_at_ms').cells"
    )
    assert ordered == sorted(ordered) and ordered[0] == NOW_MS + DAY_MS - (everybody - 1) * 1000
    for number in (0, MANY - 1):
        chromium.type("input[type=search]", f"group-{number}x")
        assert chromium.texts("#tables tbody tr td:first-child") == [f"group-{number}x"]
