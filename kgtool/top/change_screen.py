"""The pages of a change: what it needs to know, its preview and question, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kgtool.text import counted, escape, shell_word
from kgtool.top.acting import WAY_BACK, Act, Preview, Say
from kgtool.top.poll import Poller
from kgtool.top.screens import Line, PageScreen, failure


class TypedLine(Input):
    """A line to type in, which the app does for it; at Enter it calls ``close``."""

    def __init__(self, example: str, close: Callable[[], None], id: str | None = None) -> None:
        super().__init__(id=id, select_on_focus=False, placeholder=example)
        self._close = close

    def take(self, event: events.Key | events.Paste) -> bool:
        """Type what came into the line; return whether it was for the line."""
        if isinstance(event, events.Paste):
            text = event.text.partition("\n")[0].rstrip("\r")
        elif event.key == "enter":
            self._close()
            return True
        else:
            text = (event.character or "") if event.is_printable else ""
        if text:
            self.replace(text, *self.selection)
        return text != ""


class AskScreen(ModalScreen[str | None]):
    """Asks for one line; Escape answers None."""

    CSS = """
    AskScreen { align: center middle; }
    AskScreen > Vertical { width: 76; max-width: 100%; height: auto; }
    AskScreen > Vertical { background: $surface; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, question: str, example: str) -> None:
        super().__init__()
        self._question = question
        self._line = TypedLine(example, self._answer)

    def compose(self) -> ComposeResult:
        """Put the question on the screen."""
        with Vertical():
            yield Static(self._question, markup=False)
            yield self._line

    def _answer(self) -> None:
        self.dismiss(self._line.value.strip())


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
        self.footer = f"$ {self._words} {' '.join(map(shell_word, act.words))}"
        preview = self._preview = Preview(self._poller, act, self._notes.append)
        preview.look()
        lines: list[Line] = [*preview.lines(), ""]
        lines += [Text(escape(note), "dark_orange") for note in self._notes]
        if not preview.count:
            return [*lines, Text("There is nothing to change. Escape goes back.", "bold")]
        self._is_open = self.is_attached
        question = f"Change {counted(preview.count, 'group')}? y: yes   Escape: no"
        return [*lines, f"Undo: {WAY_BACK[act.words[0]]}", Text(question, "bold")]

    @work
    async def action_agree(self) -> None:
        """Make the change, after its reason and its cluster's name were typed where asked for."""
        preview = self._preview
        if not self._is_open or preview is None:
            return
        self._is_open = False
        confirm = reason = None
        why = f"A policy wants a reason for each change: {preview.policy}."
        name = f"This cluster is protected. Type {preview.key} to go on."
        if preview.policy and not (reason := await self._ask(why, "Why?")):
            self.show("Nothing changed: there is no reason. Escape goes back.")
        elif preview.key and preview.key != (confirm := await self._ask(name, preview.key)):
            self.show("Nothing changed: that is not its name. Escape goes back.")
        else:
            given = (("--reason", reason), ("--confirm", confirm))
            self.footer += "".join(f" {name} {shell_word(word)}" for name, word in given if word)
            self._run(preview, confirm, reason)

    async def _ask(self, question: str, example: str) -> str | None:
        return await self.app.push_screen_wait(AskScreen(escape(question), example))

    @work(thread=True)
    def _run(self, preview: Preview, confirm: str | None, reason: str | None) -> None:
        self._is_running = True
        total = counted(preview.count, "group")
        self.tell("Changing …")
        before = len(self._notes)
        lines: list[Line] = []
        try:
            lines += preview.apply(
                confirm, reason, lambda done: self.tell(f"Changed {done:,} of {total} …")
            )
        except Exception as error:  # noqa: BLE001 - a line on the screen, not its end
            lines.append(failure(error))
        lines += ["", *(escape(note) for note in self._notes[before:])]
        way = f"Undo: {'' if preview.act.undoes else 'u, or '}kgtool undo {preview.journal_id}"
        lines.append(way if preview.journal_id else "Nothing changed.")
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
