"""The screen of ``kgtool top``: the table, its keys, and what polls behind it."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from operator import attrgetter
from typing import ClassVar

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.text import addresses, counted, escape, shell_word
from kgtool.top import acting
from kgtool.top.acting import Act, Preview, Say
from kgtool.top.change_screen import AskScreen, ChangeScreen, TypedLine
from kgtool.top.groups import ORDERS, Group, parse_filter
from kgtool.top.poll import REST, Poller
from kgtool.top.screens import HELP, Line, PageScreen, group_page, topics_page
from kgtool.top.table import GroupTable

Make = Callable[[list[str], str, Say], Act]
TARGETS = "earliest, latest, 1200, +10, -10, now-2h, 2026-11-25T08:00"
CHANGES: dict[str, tuple[Make, str, str]] = {
    "delete": (acting.deletion, "", ""),
    "delete-offsets": (acting.offset_deletion, "Offsets of which topics?", "orders:0,1 audit"),
    "reset-offsets": (acting.reset, "To where?", TARGETS),
    "keep": (acting.keeping, "", ""),
}
"""How each change is made, the question that it needs, and an example of an answer."""
ACTIONS = "q quit, enter open, s sort, slash filter, escape unfilter, t topics, "
ACTIONS += "question_mark keys, p plan, u undo"
INTERVAL_S, TICK_S = 3.0, 2.0
CLEANED_S, CALM_S = 60.0, 2.0
KEYS = "enter open  / filter  s sort  t topics  space mark  dorkp change  u undo  ? keys"


class TopApp(App[None]):
    """All groups of a cluster.

    :param interval_s: the least time between two polls.
    :param words: the connection options of the command line, for the lines that are shown.
    """

    CSS = """
    #where { height: 1; text-style: bold; }
    #header { height: 1; text-style: underline; }
    #notes { height: auto; color: red; }
    #command, #keys { height: 1; color: $text-muted; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    GroupTable { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, action) for key, action in map(str.split, ACTIONS.split(", "))),
        *(Binding(key, f"change({name!r})") for key, name in zip("dork", CHANGES, strict=True)),
    ]

    def __init__(
        self, settings: Settings, interval_s: float = INTERVAL_S, words: str = "kgtool"
    ) -> None:
        super().__init__(ansi_color="NO_COLOR" in os.environ or None)
        self.settings = settings
        self.words = words
        self.journal_ids: list[str] = []
        """Of the changes that were made here and not undone."""
        self.table = GroupTable()
        """Of all groups; the thread that polls reads it, until after the screen has ended."""
        # Threads and timers may still draw once the app ends, and these leave it one by one.
        names = ("where", "header", "notes", "command", "keys")
        self._parts = {name: Static(id=name, markup=False) for name in names}
        example = "name, glob*, /regex/, state:empty, topic:orders"
        self._line = TypedLine(example, self._close_filter, id="filter")
        self.poller = Poller(settings, partial(setattr, self, "_problem"))
        self._interval_s = interval_s
        self._problem = self._wrong_filter = ""
        self._order = "hurts"
        self._sorted: tuple[str, list[Group]] = ("", [])  # by which order, and all groups
        self._shown = 0
        self._touched_at_s = self._cleaned_at_s = 0.0
        self._filter: Callable[[Group], bool] = parse_filter("")
        self._filter_text = ""
        self._wake, self._stop = threading.Event(), threading.Event()

    def compose(self) -> ComposeResult:
        """Put the parts on the screen."""
        where, header, notes, command, keys = self._parts.values()
        yield from (where, header, self.table, notes, self._line, command, keys)

    def on_mount(self) -> None:
        """Begin to poll."""
        young, middle, _ = self._thresholds = gc.get_threshold()
        gc.set_threshold(young, middle, 10_000)  # _clean does the rest
        self.table.focus()
        self._parts["keys"].update(KEYS)
        self.call_after_refresh(self._tick)
        self.set_interval(TICK_S, self._tick)
        self.watch(self.table, "cursor", self._say_command)
        self._poll()

    def on_unmount(self) -> None:
        """End the thread that polls."""
        gc.set_threshold(*self._thresholds)
        self._stop.set()
        self._wake.set()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        with closing(self.poller):
            while not self._stop.is_set():
                began = time.thread_time()
                has_more = self.poller.poll(self.table.shown)
                self._draw_later()
                has_learnt = self.poller.begin(self.table.shown)
                has_learnt |= not has_more and self.poller.find(self.table.shown)
                if has_learnt:
                    self._draw_later()
                self._clean()
                if not has_more:
                    took = time.thread_time() - began
                    self._wake.wait(max(self._interval_s, took * REST))
                    self._wake.clear()

    def _clean(self) -> None:
        """Collect garbage; it stops all threads for longer than a frame: rarely while one types."""
        now = time.monotonic()
        every_s = CLEANED_S if now - self._touched_at_s > CALM_S else 5 * CLEANED_S
        if now - self._cleaned_at_s > every_s:
            self._cleaned_at_s = now
            gc.collect()

    async def on_event(self, event: events.Event) -> None:
        """Carry out each key before the next is looked at: over a slow line they come together.

        Textual hands a key from widget to widget, each with a queue of its own, and one that
        finds these short overtakes those before it.
        """
        if isinstance(event, events.InputEvent):
            self._touched_at_s = time.monotonic()
        if not isinstance(event, events.Key | events.Paste):
            await super().on_event(event)
            return
        self.app_focus = True
        is_taken = isinstance(self.focused, TypedLine) and self.focused.take(event)
        if is_taken or isinstance(event, events.Paste):
            return
        if not await self._check_bindings(event.key, priority=True):
            await self._check_bindings(event.key)

    def _draw_later(self) -> None:
        self._sort()  # here: for 10,000 groups it takes longer than a frame
        if not self._stop.is_set():
            self.call_from_thread(self._draw)

    def _sort(self) -> None:
        groups, order = sorted(self.poller.groups.values(), key=attrgetter("name")), self._order
        groups.sort(key=ORDERS[order])
        self._sorted = order, groups

    def _draw(self) -> None:
        if not self.table.is_attached or len(self.screen_stack) > 1:
            return  # the app ends, or a page is in front
        if self._sorted[0] != self._order:
            self._sort()
        groups = list(filter(self._filter, self._sorted[1]))
        self._shown = len(groups)
        self.table.show_rows(groups)
        self._tick()

    def _tick(self) -> None:
        """Draw what changes by itself: ages. Behind a page too: it may close at any time."""
        if not self.table.is_attached:
            return
        self.table.refresh()
        self._parts["where"].update(self._where(), layout=False)
        self._parts["header"].update(" " + self.table.header(), layout=False)
        notes = escape(self._wrong_filter or self._problem)
        self._parts["notes"].update(notes, layout=notes != self._parts["notes"].content)
        self._say_command()

    def _where(self) -> str:
        name = self.settings.context.name if self.settings.context else ""
        where = f"{name} {addresses(self.settings.bootstrap)}".strip()
        polled = self.poller.polled_at_s
        count = counted(len(self.poller.groups), "group")
        if self._filter_text:
            count = f"{self._shown:,} of {count} ({escape(self._filter_text)})"
        age = "connecting …" if polled is None else f"{time.monotonic() - polled:.0f} s ago"
        return f"{where}  {count}  by {self._order}  {age}"

    def _say_command(self) -> None:
        name = self.table.current
        line = f"{self.words} describe {shell_word(name)}" if name else f"{self.words} list"
        self._parts["command"].update(f"$ {line}", layout=False)

    def action_sort(self) -> None:
        """Take the next order."""
        names = list(ORDERS)
        self._order = names[(names.index(self._order) + 1) % len(names)]
        self._draw()

    def action_filter(self) -> None:
        """Open the line of the filter."""
        self._line.display = True
        self.screen.set_focus(self._line)  # at once: what is typed next are no keys of the table

    def action_unfilter(self) -> None:
        """Close the line of the filter, and show all groups again."""
        self._line.value = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self._take_filter()
        self._line.display = False
        self.screen.set_focus(self.table)
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed; what can't be read yet is said."""
        if event.input is self._line:
            self._take_filter()
            self._draw()

    def _take_filter(self) -> None:
        text = self._line.value
        try:
            self._filter, self._filter_text, self._wrong_filter = parse_filter(text), text, ""
        except UsageError as error:
            self._wrong_filter = error.message

    def _page(self, title: str, job: Callable[[], Iterable[Line]]) -> None:
        self.push_screen(PageScreen(title, job))

    def action_open(self) -> None:
        """Open the page of the group under the cursor."""
        if name := self.table.current:
            self._page(name, lambda: group_page(self.poller, name, self.words))

    def action_topics(self) -> None:
        """Show the lag by topic."""
        self._page("Lag by topic", lambda: topics_page(self.poller))

    def action_keys(self) -> None:
        """Show all keys."""
        self._page("Keys", lambda: [HELP])

    def _chosen(self) -> list[str]:
        """Return the marked groups that still exist, else the one under the cursor."""
        marked = sorted(self.table.marked & self.poller.groups.keys())
        return marked or [name for name in (self.table.current,) if name is not None]

    def action_change(self, name: str) -> None:
        """Show the preview of a change of the chosen groups, after what it needs was asked."""
        make, question, example = CHANGES[name]
        groups = self._chosen()

        def answered(text: str | None) -> None:
            if text is not None:
                self._preview(name, lambda say: make(groups, text, say))

        if groups and question:
            question = f"{counted(len(groups), 'group')}: {question}"
            self.push_screen(AskScreen(question, example), answered)
        elif groups:
            answered("")

    def _preview(self, title: str, make: Callable[[Say], Act]) -> None:
        self.push_screen(ChangeScreen(self.poller, title, make, self.words, self._on_changed))

    def _on_changed(self, preview: Preview) -> None:
        """Remember what ``u`` undoes: the last change, then the one before."""
        if preview.act.undoes is None and preview.journal_id is not None:
            self.journal_ids.append(preview.journal_id)
            self.table.marked.clear()
        elif preview.act.undoes is not None and preview.is_whole:
            self.journal_ids.remove(preview.act.undoes.id)
        self._wake.set()

    def action_plan(self) -> None:
        """Write a cleanup plan instead of changing anything."""
        if groups := self._chosen():
            write = partial(acting.write_plan, self.poller, groups, self.words)
            self._page(f"A cleanup plan of {counted(len(groups), 'group')}", write)

    def action_undo(self) -> None:
        """Show the preview of undoing the last change that was made here."""
        if not self.journal_ids:
            self.notify("Nothing was changed here. kgtool history has earlier changes.")
            return
        journal_id, cluster_id = self.journal_ids[-1], self.poller.session.cluster_id
        self._preview("undo", lambda say: acting.undoing(journal_id, cluster_id, say))
