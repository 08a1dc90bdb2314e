"""The pages above the table: one group, the topics, the keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kgtool.clock import now_ms
from kgtool.errors import KgError
from kgtool.model import Member
from kgtool.queries.doctor.finding import KINDS
from kgtool.text import counted, escape, listed, shell_word
from kgtool.top.groups import rough
from kgtool.top.poll import Page, Partition, Poller

KEYS = """\
up down pgup pgdn home end   move            enter   open the group: partitions, members, findings
space   mark the group                       s       sort by: hurts, lag, name, state, members,
/       filter: name, glob*, /regex/,                in/s, out/s, loses, expires
        state:empty type:share topic:orders  t       lag by topic
esc     all groups again, or back            q       quit

Changes are shown first, ask, and can be undone as far as the preview says:
d       delete the marked groups             o       delete offsets of the marked groups
r       reset the marked groups              k       keep offsets for another retention
p       write a cleanup plan instead         u       undo the last change

SEEN is the age of what a line shows. IN/S and OUT/S are records written and read per second, ETA
the time until the lag is gone at these rates. Lines dim when their last look is old.
The bottom line is the command that shows or does the same."""


class PageScreen(ModalScreen[None]):
    """A page of text that scrolls; Escape, Enter or q closes it."""

    CSS = """
    PageScreen { align: center middle; }
    PageScreen > VerticalScroll { width: 100%; height: 100%; background: $surface; padding: 0 1; }
    PageScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """Put the text on the screen."""
        with VerticalScroll():
            yield Static(id="page", markup=False)

    def show(self, *lines: Text | str) -> None:
        """Show lines of text."""
        made = Text("\n").join(Text(line) if isinstance(line, str) else line for line in lines)
        made.no_wrap = False
        self.query_one("#page", Static).update(made)


class HelpScreen(PageScreen):
    """All keys."""

    def on_mount(self) -> None:
        """Show them."""
        self.show(KEYS)


class TopicScreen(PageScreen):
    """Lag by topic, as the last looks found it."""

    def __init__(self, poller: Poller) -> None:
        super().__init__()
        self._poller = poller

    def on_mount(self) -> None:
        """Sum up and show."""
        lags: dict[str, list[int]] = defaultdict(list)
        for group in list(self._poller.groups.values()):
            for topic, lag in (group.last.topics if group.last else {}).items():
                lags[topic].append(lag)
        worst = sorted(lags, key=lambda topic: (-sum(lags[topic]), topic))
        rows = [
            (escape(t), f"{len(lags[t]):,}", f"{sum(lags[t]):,}", f"{max(lags[t]):,}")
            for t in worst
        ]
        self.show(*_table(("TOPIC", "GROUPS", "LAG", "MAX-LAG"), rows, "lrrr"))


class GroupScreen(PageScreen):
    """One group: findings first, then partitions and members."""

    def __init__(self, poller: Poller, name: str, words: str) -> None:
        super().__init__()
        self._poller, self._group, self._words = poller, name, words

    def on_mount(self) -> None:
        """Look at the group."""
        self.show(Text(escape(self._group), "bold"), "Looking …")
        self._look()

    @work(thread=True)
    def _look(self) -> None:
        try:
            lines = list(_page(self._poller.page(self._group), self._words))
        except KgError as error:
            lines = [Text(escape(self._group), "bold"), Text(escape(error.message), "red")]
        if self.is_attached:
            self.app.call_from_thread(self.show, *lines)


def _page(page: Page, words: str) -> Iterator[Text | str]:
    described = page.offsets.description
    name = shell_word(described.group)
    yield Text(escape(described.group), "bold")
    kind = " ".join(filter(None, (described.type, described.state)))
    yield f"{kind}, {counted(len(described.members), 'member')}"
    yield ""
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
        yield "No findings."
        yield ""
    now = now_ms()
    rows = [_partition(partition, now) for partition in page.partitions]
    headers = "PARTITION OFFSET LOG-END LAG STATUS CLIENT COMMITTED EXPIRES"
    yield from _table(tuple(headers.split()), rows, "lrrrllrr")
    yield ""
    if described.members:
        yield from _table(
            ("MEMBER", "HOST", "CLIENT", "PARTITIONS", "SUBSCRIBED"),
            [_member(member) for member in described.members],
            "lllrl",
        )
        yield ""
    for error in page.errors:
        yield Text(escape(error.message), "red")
    yield Text(f"$ {words} explain {name}", "dim")


def _partition(partition: Partition, now: int) -> tuple[str, ...]:
    row, committed_at_ms, expires_at_ms = partition
    figures = (row.current_offset, row.log_end_offset, row.lag)
    return (
        f"{escape(row.topic)}:{row.partition}",
        *("-" if figure is None else f"{figure:,}" for figure in figures),
        row.status,
        escape(row.client_id or "-")[:16],
        "-" if committed_at_ms is None else f"{rough(now - committed_at_ms)} ago",
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


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]], sides: str) -> Iterator[Text]:
    """Draw a table: ``sides`` has an l or r for each column."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

    def line(cells: tuple[str, ...]) -> str:
        return "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(cells, widths, sides, strict=True)
        ).rstrip()

    yield Text(line(headers), "underline")
    for row in rows:
        yield Text(line(row))
