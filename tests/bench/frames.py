"""``python frames.py BOOTSTRAP SECONDS``: scroll in top, print each frame's seconds as JSON.

A frame is one call of textual's own timer that draws what has changed (``_on_timer_update``),
where it has drawn something; the polls go on meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import cycle

from textual.screen import Screen

from kgtool.config import Settings, parse_bootstrap
from kgtool.top.app import TopApp

KEYS = [*["pagedown"] * 40, *["down"] * 40, *["pageup"] * 40, *["up"] * 40, "end", "home"]
SIZE = (140, 40)
FIRST_LOOKS_S = 120
KEY_S = 1 / 30
"""As a keyboard repeats."""


class Frames:
    """What textual draws on the screen, in seconds each."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._is_drawn = False
        display, update = TopApp._display, Screen._on_timer_update

        def displayed(app: TopApp, *given: object) -> None:
            display(app, *given)
            self._is_drawn = True

        def updated(screen: Screen[object]) -> None:
            self._is_drawn, began = False, time.perf_counter()
            update(screen)
            if self._is_drawn:
                self.seconds.append(time.perf_counter() - began)

        TopApp._display, Screen._on_timer_update = displayed, updated


async def scroll(bootstrap: str, seconds: float) -> list[float]:
    """Press keys for so long, once every group has been looked at."""
    frames, app = Frames(), TopApp(Settings(parse_bootstrap(bootstrap), 30_000))
    async with app.run_test(size=SIZE) as pilot:
        latest = time.monotonic() + FIRST_LOOKS_S
        while app.poller.polled_at_s is None or _unseen(app):
            await asyncio.sleep(0.5)
            if time.monotonic() > latest:
                raise SystemExit(f"{_unseen(app)} groups were not looked at in {FIRST_LOOKS_S} s")
        frames.seconds.clear()
        end = time.monotonic() + seconds
        for key in cycle(KEYS):
            if time.monotonic() > end:
                break
            await pilot.press(key)
            await asyncio.sleep(KEY_S)
        found = list(frames.seconds)
        await pilot.press("q")
    return found


def _unseen(app: TopApp) -> int:
    return sum(group.last is None for group in list(app.poller.groups.values()))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(scroll(sys.argv[1], float(sys.argv[2])))))
