"""How the sandbox reports what it is doing; the command line shows it, tests do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class Reporter:
    """Receives what a person in front of the terminal wants to know; this one drops it."""

    def say(self, text: str) -> None:
        """Take one line about the step that begins."""

    def download(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begin a download of ``total`` bytes; the function takes the bytes that have arrived."""
        return nullcontext(lambda done: None)


QUIET = Reporter()
