"""The pages of a change: what it needs to know, its preview and question, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kgtool.text import counted, escape
from kgtool.top.acting import WAY_BACK, Act, Preview, Say, command_line
from kgtool.top.poll import Poller
from kgtool.top.screens import Line, PageScreen, failure


class AskScreen(ModalScreen[str | None]):
    """Asks for one line; Escape answers None."""

    CSS = """
    AskScreen { align: center middle; }
    AskScreen > Vertical {
        width: 76; max-width: 100%; height: auto; background: $surface; padding: 1 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

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


class ChangeScreen(PageScreen):
    """The preview of a change; y makes it, Escape forgets it.

    :param make: returns the change, or says why there is none; may block.
    :param changed: called with the preview once it was carried out.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", show=False),
        Binding("n,q,escape", "leave", show=False),
        Binding("enter", "nothing", show=False),  # a key pressed too often agrees to nothing
    ]

    def __init__(
        self,
        poller: Poller,
        title: str,
        make: Callable[[Say], Act],
        words: str,
        changed: Callable[[Preview], None],
    ) -> None:
        super().__init__(title, self._look)
        self._poller, self._make, self._words, self._changed = poller, make, words, changed
        self._notes: list[str] = []
        self._preview: Preview | None = None
        self._is_open = False
        """Whether the question is on the screen."""
        self._is_running = False

    def _look(self) -> list[Line]:
        act = self._make(self._notes.append)
        self.heading = act.title
        self.footer = f"$ {command_line(self._words, act)}"
        preview = self._preview = Preview(self._poller, act, self._notes.append)
        preview.look()
        lines: list[Line] = [*preview.lines(), ""]
        lines += [Text(escape(note), "dark_orange") for note in self._notes]
        if not preview.count:
            return [*lines, Text("There is nothing to change. Escape goes back.", "bold")]
        self._is_open = self.is_attached
        question = f"Change {counted(preview.count, 'group')}? y: yes   Escape: no"
        return [*lines, f"Undo: {WAY_BACK[act.words[0]]}", Text(question, "bold")]

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
            self.show("Nothing changed: that is not its name. Escape goes back.")

    @work(thread=True)
    def _run(self, confirm: str | None) -> None:
        preview = self._preview
        assert preview is not None
        self._is_running = True
        total = counted(preview.count, "group")
        self.tell("Changing …")
        before = len(self._notes)
        lines: list[Line] = []
        try:
            lines += preview.apply(
                confirm, lambda done: self.tell(f"Changed {done:,} of {total} …")
            )
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            lines.append(failure(error))
        lines += ["", *(escape(note) for note in self._notes[before:])]
        if preview.journal_id is None:
            lines.append("Nothing changed.")
        elif preview.act.undoes is None:
            lines.append(f"Undo: u, or kgtool undo {preview.journal_id}")
        else:
            lines.append(f"Undo: kgtool undo {preview.journal_id}")
        self._is_running = False
        self._changed(preview)
        self.tell(*lines, "Escape goes back.")
        if not self.is_attached:
            preview.close()

    def action_leave(self) -> None:
        """Go back; a change that runs is not left."""
        if not self._is_running:
            self.dismiss()

    def on_unmount(self) -> None:
        """Forget the plan; the thread of a change that runs does so in the end."""
        if self._preview is not None and not self._is_running:
            self._preview.close()

    def action_nothing(self) -> None:
        """Do nothing."""
