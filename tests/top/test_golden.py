"""Whole screens as text: tests/data/top holds each to the letter, ages and dates included.

After a change that is wanted: ``KGTOOL_GOLDEN=write pytest tests/top/test_golden.py``, and read
what git diff shows.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual import events
from textual.screen import Screen

from kgtool.config import Settings, parse_bootstrap
from kgtool.model import GroupDescription, GroupListing, GroupOffsets, Member, OffsetRow
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.offsets.past import CommitTime
from kgtool.top import app as app_module
from kgtool.top import screens, table
from kgtool.top.app import TopApp
from kgtool.top.change_screen import AskScreen, TypedLine
from kgtool.top.groups import Group, look_of
from kgtool.top.poll import Page, Poller
from tests.top.test_screen import lines, until

GOLDEN = Path(__file__).parents[1] / "data" / "top"
NOW_S, NOW_MS = 1000.0, 1_700_000_000_000
MEMBER = Member("app-1-5f2c", None, "app-1", "/10.0.0.1", (("orders", (0, 1)),), ("orders",))
BEYOND = Finding("beyond-end", "problem", "stock-sync is 90 beyond the end of inventory:0", {})


def _rows(group: str, offsets: Sequence[tuple[int, int]], topic: str) -> list[OffsetRow]:
    more = (3, "", None, None, "app-1" if group == "billing" else None, True)
    return [
        OffsetRow(
            *(group, topic, number, offset, 0, end, end - offset),
            *more,
            "ok" if offset <= end else "beyond-end",
        )
        for number, (offset, end) in enumerate(offsets)
    ]


def _offsets(
    name: str, state: str, offsets: Sequence[tuple[int, int]], topic: str = "orders"
) -> GroupOffsets:
    members = (MEMBER,) if state == "Stable" else ()
    description = GroupDescription(name, "classic", state, "consumer", "range", None, members)
    return GroupOffsets(description, _rows(name, offsets, topic), [])


def _group(*looks: tuple[float, GroupOffsets]) -> Group:
    last = looks[-1][1].description
    group = Group(GroupListing(last.group, "classic", last.state, "consumer", 1), NOW_S - 1)
    for at_s, found in looks:
        group.see(look_of(found, at_s))
    return group


def _world() -> dict[str, Group]:
    ends = (1000, 1180, 1450, 1600, 1900, 2100, 2350)
    billing = [
        (NOW_S - 60 + 10 * n, _offsets("billing", "Stable", [(900 + 170 * n, end), (40, 40)]))
        for n, end in enumerate(ends)
    ]
    billing[-1] = (NOW_S - 2, billing[-1][1])
    found = [
        _group(*billing),
        _group((NOW_S - 2, _offsets("stock-sync", "Empty", [(100, 10)], "inventory"))),
        _group((NOW_S - 75, _offsets("reporting", "Empty", [(500, 60_500), (7, 8)]))),
        Group(GroupListing("not-looked-at-yet", "consumer", "Stable", "consumer", 2), NOW_S),
        _group((NOW_S - 2, _offsets("group-\x07-with-a-bell-and-a-very-long-name", "Empty", []))),
    ]
    found[1].findings, found[1].found_at_s = [BEYOND], NOW_S - 400
    found[2].lost_at_ms, found[2].expires_at_ms = NOW_MS + 3 * 3_600_000, NOW_MS + 5 * 86_400_000
    found[2].found_at_s = NOW_S - 20
    return {group.name: group for group in found}


def _page(_poller: Poller, name: str) -> Page:
    offsets = _offsets(name, "Stable", [(1920, 2350), (40, 40)])
    commits = [CommitTime(NOW_MS - 1000 * ago, 2, read) for ago, read in ((2, 170), (12, None))]
    return Page(offsets, None, [BEYOND._replace(group=name)], (), commits)


KEYS = {
    "table": (),
    "filtered": ("slash", *"state:empty", "enter"),
    "typing": ("slash", *"/(/"),
    "marked": ("down", "space", "space"),
    "keys": ("question_mark",),
    "group": ("down", "enter"),
    "topics": ("t",),
    "reset": ("r",),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("size", [(80, 24), (140, 40)], ids=str)
def test_whole_screens(size: tuple[int, int], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = TopApp(Settings(parse_bootstrap("b:9092"), 20_000), 3600.0)
    for module in (table, screens, app_module):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: NOW_S, thread_time=float)
        )
    for module in (table, screens):
        monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(Poller, "poll", lambda *_: False)
    monkeypatch.setattr(Poller, "begin", lambda *_: False)
    monkeypatch.setattr(Poller, "find", lambda *_: False)
    monkeypatch.setattr(Poller, "page", _page)
    app.poller.groups = _world()
    app.poller.polled_at_s = NOW_S - 2

    async def main() -> list[str]:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            app._draw()
            await pilot.press(*KEYS[name])
            await until(pilot, lambda: not any("Looking …" in line for line in lines(app)))
            await pilot.pause()
            return lines(app)

    shown = "\n".join(asyncio.run(main())).rstrip() + "\n"
    golden = GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("KGTOOL_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8"), "wanted? KGTOOL_GOLDEN=write, git diff"


def test_the_first_line_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was empty until the first answer, or for two seconds."""
    monkeypatch.setattr(TopApp, "_poll", lambda _: None)
    monkeypatch.setattr(app_module, "TICK_S", 3600.0)

    async def main() -> list[str]:
        async with TopApp(Settings(parse_bootstrap("b:9092"), 20_000)).run_test() as pilot:
            await pilot.pause()
            return lines(pilot.app)

    shown = asyncio.run(main())
    assert shown[0] == "b:9092  0 groups  by hurts  connecting …"
    assert shown[1].split()[0] == "GROUP"


def test_the_cursor_stays_in_the_table_and_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopApp, "_poll", lambda _: None)
    names = [f"g{number:03}" for number in range(60)]

    async def main() -> None:
        app = TopApp(Settings(parse_bootstrap("b:9092"), 20_000))
        app.poller.groups = {n: Group(GroupListing(n, "classic", "Empty", "", 1)) for n in names}
        async with app.run_test(size=(80, 24)) as pilot:
            app._draw()
            await pilot.press("end", "down", "pagedown")
            await pilot.pause()
            assert (app.table.current, app.table.shown[-1]) == (names[-1], names[-1])
            height = len(app.table.shown)
            await pilot.press("pageup")
            assert app.table.current == names[60 - height]
            await pilot.press("home", "up")
            assert (app.table.current, app.table.shown[0]) == (names[0], names[0])
            await pilot.press("slash", *"g01", "enter")
            assert app.table.shown == names[10:20]
            for below in (10, 12):
                await pilot.click(app.table, offset=(5, below))
                assert app.table.current == names[10], "below the last line"
            await pilot.click(app.table, offset=(5, 9))
            assert app.table.current == names[19]

    asyncio.run(main())


def test_a_key_overtakes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the table is slow, what was typed before the filter's line was open came after Enter.

    On a busy machine two letters of a name were lost so, and the filter found nothing.
    """
    monkeypatch.setattr(TopApp, "_poll", lambda _: None)
    for widget in (table.GroupTable, Screen):
        monkeypatch.setattr(widget, "on_key", lambda *_: asyncio.sleep(0.1), raising=False)

    async def main() -> None:
        app = TopApp(Settings(parse_bootstrap("b:9092"), 20_000))
        app.poller.groups = _world()
        async with app.run_test(size=(80, 24)) as pilot:
            line = app.query_one(TypedLine)

            def send(*keys: str) -> None:
                for key in keys:
                    app.post_message(events.Key(key, key if len(key) == 1 else None))

            send("slash", *"orders-2")
            await until(pilot, lambda: app.focused is line)
            send(*"6*", "enter", "t")
            await until(pilot, lambda: app.focused is not line)
            await until(pilot, lambda: any("Lag by topic" in line for line in lines(app)))
            assert line.value == "orders-26*"
            send("escape", "slash")
            app.post_message(events.Paste("!/x/\n"))
            send("enter", "slash")
            await until(pilot, lambda: app.focused is line)
            assert line.value == "orders-26*!/x/"
            send("escape", "r", *"now-2h")
            await until(pilot, lambda: isinstance(app.screen, AskScreen))
            assert app.screen.query_one(TypedLine).value == "now-2h"

    asyncio.run(main())


def test_behind_a_page_lines_grow_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page was closed, and the lines behind it had the ages of when it was opened."""
    seconds = NOW_S
    monkeypatch.setattr(TopApp, "_poll", lambda _: None)
    for module in (table, app_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(app_module, "TICK_S", 3600.0)

    async def main() -> tuple[list[str], list[str]]:
        nonlocal seconds
        app = TopApp(Settings(parse_bootstrap("b:9092"), 20_000))
        app.poller.groups, app.poller.polled_at_s = _world(), NOW_S - 2
        async with app.run_test(size=(80, 24)) as pilot:
            app._draw()
            await pilot.pause()
            before = lines(app)
            await pilot.press("question_mark")
            seconds += 60
            app._tick()
            await pilot.press("escape")
            return before, lines(app)

    before, after = asyncio.run(main())
    assert before[0].endswith("2 s ago")
    assert after[0].endswith("62 s ago")
    (old,) = (line for line in before if "stock-sync  " in line)
    (new,) = (line for line in after if "stock-sync  " in line)
    assert (old.split()[-1], new.split()[-1]) == ("2s", "1m")


def test_garbage_is_collected_while_nobody_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 groups that takes longer than a frame; at the end Python does it as before."""
    monkeypatch.setattr(TopApp, "_poll", lambda _: None)
    before, seconds, collected = gc.get_threshold(), 1000.0, []
    monkeypatch.setattr(app_module, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(gc, "collect", lambda: collected.append(seconds))

    async def main() -> None:
        nonlocal seconds
        app = TopApp(Settings(parse_bootstrap("b:9092"), 20_000))
        async with app.run_test() as pilot:
            assert gc.get_threshold()[2] > 100 * before[2], "not by itself"
            app._clean()
            await pilot.press("down")
            for at_s in (1001.0, 1059.0, 1061.0, 1062.0, 1122.0):
                seconds = at_s
                app._clean()
            await pilot.press("down")
            seconds = 1123.0
            app._clean()
            while seconds < 1500:
                seconds += 30
                await pilot.click()
                app._clean()

    asyncio.run(main())
    assert collected == [1000.0, 1061.0, 1122.0, 1423.0]
    assert gc.get_threshold() == before
