"""The pages above the table: one group, the topics, the keys."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from rich.console import Group, JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kgtool.clock import now_ms
from kgtool.errors import KgError, unexpected
from kgtool.model import Member, OffsetRow
from kgtool.queries.doctor.facts import Facts
from kgtool.queries.doctor.finding import KINDS
from kgtool.text import counted, escape, listed, moment, rough, shell_word
from kgtool.top.poll import Page, Poller

Line = Table | Text | str
SHOWN = 200
"""Partitions and members of a group; the rest is counted."""
COMMITS = 15
"""Of a group's latest commits, so many are shown."""
HELP = """\
arrows, page, home, end   move; a click does too
enter, double click       open the group: findings, partitions, members, commits
/       filter: name, glob*, /regex/, state:empty, type:share, topic:orders
esc     all groups again, or back           q       quit
s       sort by hurts, lag, name, state, members, in/s, out/s, loses, expires
t       lag by topic                        space   mark the group

Changes of the marked groups; each shows a preview and asks:
d       delete                    o       delete offsets
r       reset                     k       keep offsets for another retention
p       write a cleanup plan      u       undo the last change

SEEN is the age of what a line shows; old lines are dim. IN/S and OUT/S are
records written and read per second, ETA the time until the lag is gone at
these rates. They begin with the commits in __consumer_offsets.
The bottom line is the command that shows or does the same."""


class PageScreen(ModalScreen[None]):
    """A page of text that scrolls; Escape, Enter or q closes it.

    :param job: returns the lines; may block. What it raises is shown.
    """

    CSS = """
    PageScreen { align: center middle; }
    PageScreen > VerticalScroll { width: 100%; height: 100%; background: $surface; padding: 0 1; }
    PageScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", show=False)]

    def __init__(self, heading: str, job: Callable[[], Iterable[Line]]) -> None:
        super().__init__()
        self.heading, self.footer = escape(heading), ""
        self._job = job

    def compose(self) -> ComposeResult:
        """Put the text on the screen."""
        with VerticalScroll():
            yield Static(id="page", markup=False)

    def on_mount(self) -> None:
        """Look."""
        self.show("Looking …")
        self._work()

    @work(thread=True)
    def _work(self) -> None:
        try:
            lines = list(self._job())
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            lines = [failure(error)]
        self.tell(*lines)

    def tell(self, *lines: Line) -> None:
        """Show lines of text, from another thread."""
        if self.is_attached:
            self.app.call_from_thread(self.show, *lines)

    def show(self, *lines: Line) -> None:
        """Show lines of text between heading and footer, and from when they are."""
        head = Text.assemble((self.heading, "bold"), (f"  {moment(now_ms())}", "dim"))
        foot = ("", Text(self.footer, "dim")) if self.footer else ()
        every = (head, "", *lines, *foot)
        made = (Text(line) if isinstance(line, str) else line for line in every)
        self.query_one("#page", Static).update(Group(*made))


def failure(error: Exception) -> Text:
    """Return the line of what went wrong."""
    known = error if isinstance(error, KgError) else unexpected(error)
    return Text(escape(f"{known.message} {known.hint or ''}".strip()), "red")


def topics_page(poller: Poller) -> Iterator[Line]:
    """Sum up lag by topic, as the last looks found it."""
    lags: dict[str, list[int]] = defaultdict(list)
    seen: dict[str, float] = {}
    for group in list(poller.groups.values()):
        for topic, lag in group.topics.items():
            lags[topic].append(lag)
            seen[topic] = min(seen.get(topic, math.inf), group.seen_at_s or 0.0)
    at_s = time.monotonic()
    rows = []
    for topic, each in sorted(lags.items(), key=lambda item: (-sum(item[1]), item[0])):
        figures = (f"{figure:,}" for figure in (len(each), sum(each), max(each)))
        rows.append((escape(topic), *figures, rough(1000 * (at_s - seen[topic]))))
    yield _table("TOPIC~ GROUPS+ LAG+ MAX-LAG+ SEEN+", rows)


def group_page(poller: Poller, name: str, words: str) -> Iterator[Line]:
    """Look at one group: findings first, then partitions, members and commits."""
    page = poller.page(name)
    described = page.offsets.description
    kind = " ".join(filter(None, (described.type, described.state)))
    yield from (f"{kind}, {counted(len(described.members), 'member')}", "")
    for found in page.findings:
        title, why = KINDS[found.kind]
        color = {"problem": "red", "warning": "dark_orange"}.get(found.severity, "")
        yield Text(f"{found.severity}: {title}", f"bold {color}".strip())
        yield f"  {escape(found.detail)}. {why}"
        if found.fix:
            fix = " ".join(map(shell_word, found.fix))
            yield f"  $ {words} {fix}" if not found.fix[0].startswith("kafka") else f"  $ {fix}"
        yield ""
    if not page.findings:
        yield from ("No findings.", "")
    yield from _rows(page)
    for error in page.errors:
        yield Text(escape(error.message), "red")
    yield Text(f"$ {words} explain {shell_word(name)}", "dim")


def _rows(page: Page) -> Iterator[Line]:
    """Draw the partitions, the members and the commits of a group."""
    now, members = now_ms(), page.offsets.description.members
    worst = sorted(page.offsets.rows, key=lambda row: -(row.lag or 0))[:SHOWN]
    worst.sort(key=lambda row: row.topic_partition)
    rows = [_partition(row, page.facts, now) for row in worst]
    yield _table("PARTITION~ OFFSET+ LOG-END+ LAG+ STATUS CLIENT~ COMMITTED+ EXPIRES+", rows)
    if len(page.offsets.rows) > SHOWN:
        yield f"… of {len(page.offsets.rows):,} partitions those with the largest lag."
    if members:
        rows = [_member(member) for member in members[:SHOWN]]
        yield from ("", _table("MEMBER~ HOST~ CLIENT~ PARTITIONS+ SUBSCRIBED~", rows))
    if page.commits:
        rows = [
            (f"{rough(now - at_ms)} ago", f"{count:,}", "-" if read is None else f"{read:+,}")
            for at_ms, count, read in page.commits[:COMMITS]
        ]
        yield from ("", _table("COMMITTED+ PARTITIONS+ READ+", rows))
    yield ""


def _partition(row: OffsetRow, facts: Facts | None, now: int) -> tuple[str, ...]:
    commit = facts.commit_time(row) if facts else None
    goes = facts.expiry(row) if facts else None
    expires_at_ms = goes.expires_at_ms if goes else None
    figures = (row.current_offset, row.log_end_offset, row.lag)
    return (
        escape(row.topic_partition.typed),
        *("-" if figure is None else f"{figure:,}" for figure in figures),
        row.status,
        escape(row.client_id or "-")[:16],
        "-" if commit is None or commit.at_ms is None else f"{rough(now - commit.at_ms)} ago",
        "-" if expires_at_ms is None else f"in {rough(expires_at_ms - now)}",
    )


def _member(member: Member) -> tuple[str, ...]:
    topics = listed([escape(topic) for topic in member.subscribed or ()], 3)
    return (
        escape(member.member_id)[:36],
        escape(member.host),
        escape(member.client_id)[:24],
        str(member.partition_count),
        escape(member.subscribed_regex or "") or topics or "-",
    )


def _table(headers: str, rows: Sequence[tuple[str, ...]]) -> Table:
    """Draw a table without the columns that have nothing.

    What is behind a header with ``+`` is right-aligned; only what is behind one with ``~`` breaks.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    names = headers.split()
    used = [n for n in range(len(names)) if not rows or any(row[n] != "-" for row in rows)]
    for name in (names[n] for n in used):
        side: JustifyMethod = "right" if name.endswith("+") else "left"
        breaks = name.endswith("~")
        how: OverflowMethod = "fold" if breaks else "ellipsis"
        least, name = 12 * breaks, name.strip("+~")
        table.add_column(name, justify=side, no_wrap=not breaks, overflow=how, min_width=least)
    for row in rows:
        table.add_row(*(Text(row[n]) for n in used))
    return table
