"""The screen of ``kgtool top`` against a real broker, key by key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from kgtool.config import Settings, parse_bootstrap
from kgtool.top.app import TopApp
from kgtool.top.screens import PageScreen
from tests.support.clients import commit, create_topic, produce, unique

pytestmark = pytest.mark.broker
SECONDS = 30
Steps = Callable[[TopApp, Pilot[None]], Awaitable[None]]


class World:
    """Three groups on a broker that others use too; their names begin alike."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = create_topic(bootstrap, unique("top"), 2)
        produce(bootstrap, self.topic, 10)
        self.prefix = unique("top")
        for name, offset in (("behind", 2), ("done", 10), ("lost", 99)):
            commit(bootstrap, f"{self.prefix}-{name}", {(self.topic, 0): offset})

    def run(self, steps: Steps, size: tuple[int, int] = (100, 24)) -> None:
        """Start the screen with only these groups on it, and do something."""
        app = TopApp(Settings(parse_bootstrap(self.bootstrap), 20_000), 0.2)

        async def main() -> None:
            async with app.run_test(size=size) as pilot:
                await pilot.press("slash", *self.prefix, "enter")
                await until(pilot, lambda: len(app.table.shown) == 3 and _are_seen(app))
                await steps(app, pilot)

        asyncio.run(main())


def _are_seen(app: TopApp) -> bool:
    groups = [app.poller.groups.get(name) for name in app.table.shown]
    return all(group is not None and group.last is not None for group in groups)


async def until(pilot: Pilot[None], condition: Callable[[], Any]) -> None:
    """Wait until something has come."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, lines(pilot.app)
        await pilot.pause(0.05)


def lines(app: Any) -> list[str]:
    """What stands on the screen."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    assert len(strips) == height, (width, height)
    return [strip.text.rstrip() for strip in strips]


@pytest.fixture(scope="module")
def world(bootstrap: str) -> World:
    return World(bootstrap)


def test_groups_with_their_lag_and_the_worst_first(world: World) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        short = [name.rpartition("-")[2] for name in app.table.shown]
        assert short == ["behind", "done", "lost"] or short[0] == "lost"
        await until(pilot, lambda: app.table.shown[0].endswith("lost"))
        page = lines(app)
        assert page[0].startswith(f"{world.bootstrap}  3 of ")
        assert page[1].split()[:6] == ["GROUP", "TYPE", "STATE", "MEM", "LAG", "TREND"]
        assert page[1].endswith("SEEN")
        (behind,) = (line for line in page if "behind" in line and "Empty" in line)
        assert behind.split()[2:5] == ["Empty", "0", "8"]
        assert page[-2] == f"$ kgtool describe {world.prefix}-lost"

    world.run(steps)


def test_a_group_opens_with_its_findings_first(world: World) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.table.shown[0].endswith("lost"))
        await pilot.press("home", "enter")
        await until(pilot, lambda: any("problem:" in line for line in lines(app)))
        page = lines(app)
        assert isinstance(app.screen, PageScreen)
        assert page[0].split()[0] == f"{world.prefix}-lost"
        at = next(n for n, line in enumerate(page) if "problem:" in line)
        assert "committed beyond the end of the log" in page[at]
        assert any(f"{world.topic}:0" in line and "beyond-end" in line for line in page[at:])
        await pilot.press("escape")
        assert not isinstance(app.screen, PageScreen)

    world.run(steps)


def test_what_comes_is_seen_and_dated(world: World, bootstrap: str) -> None:
    name = f"{world.prefix}-done"

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        produce(bootstrap, world.topic, 7, partition=0)
        await until(pilot, lambda: app.poller.groups[name].lag == 7)
        await until(pilot, lambda: app.poller.groups[name].trend()[-1:] == "█")
        commit(bootstrap, name, {(world.topic, 0): 17})
        await until(pilot, lambda: app.poller.groups[name].lag == 0)
        await until(pilot, lambda: any("-done" in x and "Empty" in x for x in lines(app)))
        (line,) = (line for line in lines(app) if "-done" in line and "Empty" in line)
        assert line.split()[-1].endswith("s"), "the age of what is shown"

    world.run(steps)


def test_keys_that_only_look(world: World) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen)
        await pilot.press("q")
        await pilot.press("t")
        assert isinstance(app.screen, PageScreen)
        await until(pilot, lambda: any(x.split()[:2] == [world.topic, "3"] for x in lines(app)))
        await pilot.press("escape")
        orders = []
        for _ in range(9):
            orders.append(str(app.query_one("#where", Static).content).split("  ")[2])
            await pilot.press("s")
        assert len(set(orders)) == 9, orders
        await pilot.press("home", "space")
        assert len(app.table.marked) == 1
        assert lines(app)[2].startswith("●")
        await pilot.press("up", "space")
        assert not app.table.marked
        await pilot.press("slash", "(", "enter")
        await pilot.press("escape")
        await until(pilot, lambda: len(app.table.shown) > 3 or len(app.poller.groups) == 3)

    world.run(steps)


def test_a_click_chooses_and_a_second_one_opens(world: World) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: app.table.shown[0].endswith("lost"))
        name = app.table.shown[2]
        await pilot.click(app.table, offset=(5, 10))
        assert (app.table.cursor, len(app.screen_stack)) == (0, 1), "below the last line"
        await pilot.click(app.table, offset=(5, 2))
        await pilot.pause()
        assert (app.table.current, len(app.screen_stack)) == (name, 1)
        assert lines(app)[-2] == f"$ kgtool describe {name}"
        await pilot.click(app.table, offset=(5, 1), times=2)
        await until(pilot, lambda: lines(app)[0].split()[0] == app.table.shown[1])
        assert isinstance(app.screen, PageScreen)

    world.run(steps)


def test_a_poll_that_is_under_way_at_the_end_finds_its_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread asked a screen without widgets for its table, and ``q`` ended in a traceback."""
    shown: list[list[str]] = []
    end = TopApp.on_unmount

    def on_unmount(app: TopApp) -> None:
        shown.append(app.table.shown)
        app._draw()
        app._tick()
        end(app)

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("q")

    monkeypatch.setattr(TopApp, "on_unmount", on_unmount)
    world.run(steps)
    assert shown[0][0].startswith(world.prefix)


def test_a_wrong_filter_is_said_and_changes_nothing(world: World) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *" /(/")
        await until(pilot, lambda: any("is not a regular expression" in x for x in lines(app)))
        app._problem = ""  # a poll that went well
        app._tick()
        await pilot.pause()
        assert any("is not a regular expression" in x for x in lines(app))
        assert len(app.table.shown) == 3

    world.run(steps)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
def test_the_screen_fits(world: World, size: tuple[int, int]) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        page = lines(app)
        assert page[1].lstrip().startswith("GROUP")
        assert page[1].rstrip().endswith("SEEN" if size[0] == 80 else "FINDINGS")
        assert len(page[1]) <= size[0]

    world.run(steps, size)
