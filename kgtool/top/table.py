"""The table of groups: draws only the lines on the screen, whatever the number of groups."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kgtool.clock import now_ms
from kgtool.columns import Column
from kgtool.queries.doctor.finding import PROBLEM
from kgtool.text import escape
from kgtool.top.groups import FOUND_FOR_S, Group, cells, fitting

RED, ORANGE, DIM = Style(color="red"), Style(color="dark_orange"), Style(dim=True)
BOLD, PLAIN = Style(bold=True), Style()
CURSOR = Style(reverse=True)
MOVES = {"up": -1, "down": 1, "home": -(10**7), "end": 10**7}
STALE_S = 30.0
"""A look that is older is dim."""


class GroupTable(ScrollView, can_focus=True):
    """A line for each group. Colour marks only what is wrong, and what is marked."""

    DEFAULT_CSS = "GroupTable { overflow-x: hidden; overflow-y: scroll; scrollbar-size: 1 1; }"

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"move({by})") for key, by in MOVES.items()),
        *(Binding(f"page{where}", f"page({by})") for where, by in (("up", -1), ("down", 1))),
        Binding("space", "mark"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    """The line that is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: set[str] = set()
        self._rows: Sequence[Group] = ()
        self._columns: dict[Column, int] = {}

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two lines that differ."""
        self.refresh_line(old)
        self.refresh_line(new)

    @property
    def current(self) -> str | None:
        """The name of the group that the cursor is on."""
        return self._rows[self.cursor].name if self._rows else None

    @property
    def shown(self) -> list[str]:
        """The names of the groups on the screen."""
        top = int(self.scroll_offset.y)
        return [group.name for group in self._rows[top : top + max(self.size.height, 1)]]

    def show_rows(self, rows: Sequence[Group]) -> None:
        """Show other rows; the cursor stays on its group, or at the top if it stands there."""
        name = self.current
        self._rows = rows
        if self.cursor and (self.cursor >= len(rows) or rows[self.cursor].name != name):
            at = next((n for n, group in enumerate(rows) if group.name == name), self.cursor)
            self.cursor = max(0, min(at, len(rows) - 1))
        self.virtual_size = Size(0, len(rows))
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by so many lines."""
        if self._rows:
            self.cursor = max(0, min(self.cursor + by, len(self._rows) - 1))
            self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False)

    def action_page(self, by: int) -> None:
        """Move the cursor by a screen."""
        self.action_move(by * max(self.size.height - 1, 1))

    def action_mark(self) -> None:
        """Mark the group under the cursor, or take its mark off; go to the next."""
        if self.current is not None:
            self.marked ^= {self.current}
            self.action_move(1)

    async def on_click(self, event: events.Click) -> None:
        """Put the cursor on a line; a second click opens it."""
        at = int(self.scroll_offset.y) + event.y
        if at < len(self._rows):
            self.action_move(at - self.cursor)
            if event.chain == 2:
                await self.run_action("app.open")

    def on_resize(self) -> None:
        """Choose the columns that fit beside the scroll bar."""
        self._columns = fitting(self.size.width - self.styles.scrollbar_size_vertical)

    def header(self) -> str:
        """Return the line of headers, as wide as the lines below it."""
        headers = (_fit(column.header, width, column) for column, width in self._columns.items())
        return "".join(f" {header}" for header in headers).rstrip()

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        at = y + int(self.scroll_offset.y)
        if at >= len(self._rows):
            return Strip.blank(self.size.width)
        group = self._rows[at]
        seconds = time.monotonic()
        text = cells(group, seconds, now_ms())
        is_old = group.seen_at_s is None or seconds - group.seen_at_s > STALE_S
        is_wrong = any(found.severity == PROBLEM for found in group.findings)
        has_old = group.findings_age_s(seconds) > FOUND_FOR_S
        segments = [Segment("●" if group.name in self.marked else " ", ORANGE)]
        for column, width in self._columns.items():
            is_dim = is_old or (has_old and column.key in ("loses", "expires"))
            style = _style(column.key, group, DIM if is_dim else PLAIN, is_wrong=is_wrong)
            segments.append(Segment(f" {_fit(escape(text[column.key]), width, column)}", style))
        # Textual handles each segment several times: fewer of them make a quicker frame.
        strip = Strip(segments).simplify().adjust_cell_length(self.size.width)
        return strip.apply_style(CURSOR) if at == self.cursor else strip


def _style(key: str, group: Group, otherwise: Style, *, is_wrong: bool) -> Style:
    if key == "findings" and (is_wrong or (group.last and group.last.error)):
        return RED
    if key == "group" and is_wrong and otherwise is PLAIN:  # findings may have no room
        return RED + BOLD
    if key == "loses" and group.lost_at_ms is not None and otherwise is PLAIN:
        return ORANGE
    return BOLD if key == "group" and otherwise is PLAIN else otherwise


def _fit(text: str, width: int, column: Column) -> str:
    if len(text) > width:
        half = (width - 1) // 2
        is_name = column.key == "group"
        text = f"{text[: width - 1 - half]}…{text[-half:]}" if is_name else f"{text[: width - 1]}…"
    return text.rjust(width) if column.is_number else text.ljust(width)
