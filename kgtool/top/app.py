"""The screen of ``kgtool top``: the table, its keys, and what polls behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from kgtool.api.group_admin import GroupAdmin
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.text import addresses, counted, escape, shell_word
from kgtool.top import acting
from kgtool.top.acting import Act
from kgtool.top.change_screen import AskScreen, ChangeScreen, JobScreen
from kgtool.top.groups import ORDERS, Group, parse_filter
from kgtool.top.poll import REST, Poller
from kgtool.top.screens import GroupScreen, HelpScreen, TopicScreen
from kgtool.top.table import GroupTable

INTERVAL_S = 3.0
KEYS = "enter open  / filter  s sort  t topics  space mark  d o r k p change  u undo  ? keys"


class TopApp(App[None]):
    """All groups of a cluster.

    :param settings: of the cluster.
    :param admin: connects for undo and for cleanup plans.
    :param interval_s: the least time between two polls.
    :param words: the connection options of the command line, for the lines that are shown.
    """

    CSS = """
    #where { height: 1; text-style: bold; }
    #header { height: 1; text-style: underline; }
    #notes { height: auto; color: red; }
    #command, #keys { height: 1; color: $text-muted; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    #filter.is-open { display: block; }
    GroupTable { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit"),
        Binding("s", "sort"),
        Binding("slash", "filter"),
        Binding("escape", "unfilter", show=False),
        Binding("space", "mark"),
        Binding("t", "topics"),
        Binding("question_mark", "keys"),
        Binding("d", "delete"),
        Binding("o", "delete_offsets"),
        Binding("r", "reset"),
        Binding("k", "keep"),
        Binding("p", "plan"),
        Binding("u", "undo"),
    ]

    def __init__(
        self,
        settings: Settings,
        admin: Callable[[], GroupAdmin],
        interval_s: float = INTERVAL_S,
        words: str = "kgtool",
    ) -> None:
        super().__init__()
        self.settings = settings
        self.words = words
        self.last_journal_id: str | None = None
        self._admin = admin
        self.table = GroupTable()
        """Of all groups; the thread that polls reads it, until after the screen has ended."""
        self.poller = Poller(settings, self._report)
        self._interval_s = interval_s
        self._problem = ""
        self._order = "hurts"
        self._shown = 0
        self._filter: Callable[[Group], bool] = parse_filter("")
        self._filter_text = ""
        self._wake, self._stop = threading.Event(), threading.Event()

    def compose(self) -> ComposeResult:
        """Put the parts on the screen."""
        yield Static(id="where", markup=False)
        yield Static(id="header", markup=False)
        yield self.table
        yield Static(id="notes", markup=False)
        yield Input(
            id="filter",
            select_on_focus=False,
            placeholder="name, glob*, /regex/, state:empty, topic:orders",
        )
        yield Static(id="command", markup=False)
        yield Static(KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to poll."""
        self.table.focus()
        self.set_interval(1.0, self._tick)
        self._poll()

    def on_unmount(self) -> None:
        """End the thread that polls."""
        self._stop.set()
        self._wake.set()

    # -- polling ----------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        with closing(self.poller):
            while not self._stop.is_set():
                began = time.monotonic()
                has_more = self.poller.poll(self.table.shown)
                if not has_more:
                    self.poller.find(self.table.shown)
                if self._stop.is_set():
                    return
                self.call_from_thread(self._draw)
                if not has_more:
                    took = time.monotonic() - began
                    self._wake.wait(max(self._interval_s, took * REST))
                    self._wake.clear()

    def poll_now(self) -> None:
        """Poll without waiting for the next time."""
        self._wake.set()

    def _report(self, problem: str) -> None:
        self._problem = problem

    # -- drawing ----------------------------------------------------------------------------

    def _is_in_front(self) -> bool:
        """Whether the table is what is seen; not so behind a screen, and once the app ends."""
        return self.table.is_attached and len(self.screen_stack) == 1

    def _draw(self) -> None:
        if not self._is_in_front():
            return
        groups = [group for group in list(self.poller.groups.values()) if self._filter(group)]
        key = ORDERS[self._order]
        groups.sort(key=lambda group: group.name)
        groups.sort(key=key)
        self._shown = len(groups)
        self.table.show_rows(groups)
        self._tick()

    def _tick(self) -> None:
        """Draw what changes by itself: ages. To sort 10,000 groups takes seven times as long."""
        if not self._is_in_front():
            return
        self.table.refresh()
        self.query_one("#where", Static).update(self._where())
        self.query_one("#header", Static).update(" " + self.table.header())
        self.query_one("#notes", Static).update(escape(self._problem))
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
        self.query_one("#command", Static).update(f"$ {line}")

    def on_group_table_moved(self) -> None:
        """Show the command line of the group under the cursor."""
        self._say_command()

    # -- keys -------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """Take the next order."""
        names = list(ORDERS)
        self._order = names[(names.index(self._order) + 1) % len(names)]
        self._draw()

    def action_mark(self) -> None:
        """Mark the group under the cursor."""
        self.table.mark()

    def action_filter(self) -> None:
        """Open the line of the filter."""
        line = self.query_one("#filter", Input)
        line.add_class("is-open")
        line.focus()

    def action_unfilter(self) -> None:
        """Close the line of the filter, and show all groups again."""
        self.query_one("#filter", Input).value = ""
        self._close_filter()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).remove_class("is-open")
        self.table.focus()
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed; what can't be read yet is said."""
        if event.input.id != "filter":
            return
        try:
            self._filter, self._filter_text = parse_filter(event.value), event.value
            self._problem = ""
        except UsageError as error:
            self._problem = error.message
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the table."""
        if event.input.id == "filter":
            self._close_filter()

    def on_group_table_opened(self, event: GroupTable.Opened) -> None:
        """Open the page of a group."""
        self.push_screen(GroupScreen(self.poller, event.name, self.words))

    def action_topics(self) -> None:
        """Show the lag by topic."""
        self.push_screen(TopicScreen(self.poller))

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(HelpScreen())

    # -- changes ----------------------------------------------------------------------------

    def _chosen(self) -> list[str]:
        """Return the marked groups that still exist, else the one under the cursor."""
        marked = sorted(self.table.marked & self.poller.groups.keys())
        return marked or [name for name in (self.table.current,) if name is not None]

    def _show(self, make: Callable[[list[str]], Act]) -> None:
        groups = self._chosen()
        if not groups:
            return
        try:
            act = make(groups)
        except UsageError as error:
            self.notify(escape(error.message), severity="error")
            return
        self.push_screen(ChangeScreen(self.poller, act, self.words, self._on_changed))

    def _on_changed(self, journal_id: str | None) -> None:
        if journal_id is not None:
            self.last_journal_id = journal_id
            self.table.marked.clear()
        self.poll_now()

    def _ask(self, question: str, example: str, make: Callable[[list[str], str], Act]) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self._show(lambda groups: make(groups, text))

        if self._chosen():
            self.push_screen(AskScreen(question, example), answered)

    def action_delete(self) -> None:
        """Delete groups."""
        self._show(lambda groups: acting.deletion(groups, self._report))

    def action_delete_offsets(self) -> None:
        """Delete offsets of groups."""
        self._ask("Offsets of which topics?", "orders:0,1 audit", acting.offset_deletion)

    def action_reset(self) -> None:
        """Reset the offsets of groups."""
        example = "earliest, latest, 1200, +10, -10, now-2h, 2026-11-25T08:00"
        self._ask("To where?", example, acting.reset)

    def action_keep(self) -> None:
        """Keep the offsets of groups for another retention."""
        self._show(acting.keeping)

    def action_plan(self) -> None:
        """Write a cleanup plan instead of changing anything."""
        groups = self._chosen()
        if groups:
            title = f"A cleanup plan of {counted(len(groups), 'group')}"
            write = partial(acting.write_plan, self._admin, groups, self.words)
            self.push_screen(JobScreen(title, write))

    def action_undo(self) -> None:
        """Undo the last change that was made here."""
        journal_id = self.last_journal_id
        if journal_id is None:
            self.notify("Nothing was changed here. kgtool history has earlier changes.")
            return

        def undo() -> list[str]:
            lines = acting.undo(self._admin, journal_id)
            self.last_journal_id = None
            self.poll_now()
            return lines

        self.push_screen(JobScreen(f"Undo {journal_id}", undo))
