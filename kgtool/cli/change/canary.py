"""``--canary N``: change N groups first, and the rest only if that went well."""

from __future__ import annotations

from typing import Protocol

from kgtool.changes.driver import NOT_REACHED
from kgtool.cli.change import confirm
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.model import ItemError, Target
from kgtool.net.session import Session
from kgtool.text import counted


def not_reached(group: str) -> ItemError:
    """Return the error of a group behind a canary that stopped the change."""
    return ItemError(
        Target(group=group), None, NOT_REACHED, "It was not touched: stopped after the canary."
    )


class GoOn(Protocol):
    """Called after the canary with the counts of its groups."""

    def __call__(self, done: int, failed: int, skipped: int = 0) -> bool:
        """Return whether to go on with the rest."""


def go_on_after(session: Session, output: Output, options: ChangeOptions, total: int) -> GoOn:
    """Return what asks after a canary, or stops if it failed and no one can be asked."""

    def go_on(done: int, failed: int, skipped: int = 0) -> bool:
        rest = counted(total - done, "group")
        finished = counted(done, "group")
        output.note(f"Canary: {finished} done, {skipped} of them left alone, {failed} failed.")
        try:
            if not options.yes:
                confirm.ask(session, output, options, f"Go on with the other {rest}?")
            elif failed:
                raise confirm.Declined("The canary failed.")
        except confirm.Declined:
            output.note(f"Stopped after the canary; {rest} not touched.")
            return False
        return True

    return go_on
