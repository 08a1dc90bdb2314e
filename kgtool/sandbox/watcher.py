"""How the sandbox tells what it is doing; the command line draws it, tests keep it quiet."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Receives what a person waiting in front of the terminal wants to know."""

    def say(self, text: str) -> None:
        """One line about what begins now."""

    def progress(self, done: int, total: int) -> None:
        """Bytes of the running download; ``done == total`` ends it."""


class Silent:
    """A watcher that tells nobody."""

    def say(self, text: str) -> None:
        """Drop the line."""

    def progress(self, done: int, total: int) -> None:
        """Drop the numbers."""
