"""The pages of a change: what it needs to know, its preview and question, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kgtool.errors import KgError, unexpected
from kgtool.text import counted, escape
from kgtool.top.acting import Act, Preview, command_line
from kgtool.top.poll import Poller
from kgtool.top.screens import PageScreen

T = TypeVar("T")


class AskScreen(ModalScreen[str | None]):
    """Asks for one line; Escape answers None."""

    CSS = """
    AskScreen { align: center middle; }
    AskScreen > Vertical { width: 76; height: auto; background: $surface; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self, question: str, example: str) -> None:
        super().__init__()
        self._question, self._example = question, example

    def compose(self) -> ComposeResult:
        """Put the question on the screen."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(placeholder=self._example)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Answer nothing."""
        self.dismiss(None)


class ChangeScreen(PageScreen):
    """The preview of a change; y makes it, Escape forgets it.

    :param changed: called with the journal's id once something was changed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", show=False),
        Binding("n,q,escape", "leave", show=False),
        Binding("enter", "nothing", show=False),  # a key pressed too often agrees to nothing
    ]

    def __init__(
        self, poller: Poller, act: Act, words: str, changed: Callable[[str | None], None]
    ) -> None:
        super().__init__()
        self._poller, self._act, self._changed = poller, act, changed
        self._command = Text(f"$ {command_line(words, act)}", "dim")
        self._notes: list[str] = []
        self._preview: Preview | None = None
        self._is_open = False
        """Whether the question is on the screen."""
        self._is_running = False

    def on_mount(self) -> None:
        """Look."""
        self._say("Looking …")
        self._look()

    def _say(self, *lines: Text | str) -> None:
        self.show(Text(self._act.title, "bold"), "", *lines, "", self._command)

    @work(thread=True)
    def _look(self) -> None:
        try:
            self._preview = Preview(self._poller, self._act, self._notes.append)
            self._preview.look()
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            self._tell(Text(escape(_message(error)), "red"))
            return
        lines: list[Text | str] = [*self._preview.lines(), ""]
        lines += [Text(escape(note), "dark_orange") for note in self._notes]
        count = self._preview.count
        if count:
            lines += [f"Undo: {self._act.way_back}"]
            question = f"Change {counted(count, 'group')}? y: yes   Escape: no"
            lines += [Text(question, "bold")]
        else:
            lines += [Text("There is nothing to change. Escape goes back.", "bold")]
        self._is_open = bool(count)
        self._tell(*lines)

    def _tell(self, *lines: Text | str) -> None:
        if self.is_attached:
            self.app.call_from_thread(self._say, *lines)

    def action_agree(self) -> None:
        """Make the change, after its cluster's name was typed where that is protected."""
        if not self._is_open or self._preview is None:
            return
        self._is_open = False
        if self._preview.key is None:
            self._run(None)
            return
        asked = f"This cluster is protected. Type {escape(self._preview.key)} to go on."
        self.app.push_screen(AskScreen(asked, self._preview.key), self._confirmed)

    def _confirmed(self, typed: str | None) -> None:
        if self._preview is not None and typed == self._preview.key:
            self._run(typed)
        else:
            self._say("Nothing changed: that is not its name. Escape goes back.")

    @work(thread=True)
    def _run(self, confirm: str | None) -> None:
        assert self._preview is not None
        self._is_running = True
        self._tell("Changing …")
        before = len(self._notes)
        lines: list[Text | str] = []
        try:
            lines += self._preview.apply(confirm)
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            lines.append(Text(escape(_message(error)), "red"))
        journal_id = self._preview.journal_id
        lines += ["", *(escape(note) for note in self._notes[before:])]
        if journal_id is not None:
            lines.append(f"Undo: u, or kgtool undo {journal_id}")
        else:
            lines.append("Nothing changed.")
        self._is_running = False
        self._changed(journal_id)
        self._tell(*lines, "Escape goes back.")

    def action_leave(self) -> None:
        """Go back; a change that runs is not left."""
        if self._is_running:
            return
        self.dismiss()

    def on_unmount(self) -> None:
        """Forget the plan."""
        if self._preview is not None:
            self._preview.close()

    def action_nothing(self) -> None:
        """Do nothing."""


class JobScreen(PageScreen):
    """Runs something in the background, and shows the lines that it returns.

    :param job: may block; what it raises is shown.
    """

    def __init__(self, title: str, job: Callable[[], list[str]]) -> None:
        super().__init__()
        self._title, self._job = title, job

    def on_mount(self) -> None:
        """Begin."""
        self.show(Text(self._title, "bold"), "", "Working …")
        self._run()

    @work(thread=True)
    def _run(self) -> None:
        try:
            lines: list[Text | str] = list(self._job())
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            lines = [Text(escape(_message(error)), "red")]
        if self.is_attached:
            self.app.call_from_thread(self.show, Text(self._title, "bold"), "", *lines)


def _message(error: Exception) -> str:
    known = error if isinstance(error, KgError) else unexpected(error)
    return f"{known.message} {known.hint or ''}".strip()
