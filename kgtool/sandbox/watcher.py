"""How the sandbox tells what it is doing; the command line draws it, tests keep it quiet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Watcher(Protocol):
    """Receives what a person waiting in front of the terminal wants to know."""

    def say(self, text: str) -> None:
        """One line about what begins now."""

    def download(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """A download of ``total`` bytes begins; the function takes the bytes that are there."""


class Silent:
    """A watcher that tells nobody."""

    def say(self, text: str) -> None:
        """Drop the line."""

    def download(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Drop the numbers."""
        return nullcontext(lambda done: None)
