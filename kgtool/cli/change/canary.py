"""``--canary N``: change N groups first, and the rest only if that went well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from kgtool.changes.plan_rows import each_open
from kgtool.cli.change import confirm
from kgtool.cli.output.output import Output
from kgtool.model import ItemError, Target, has_failed
from kgtool.net.session import Session
from kgtool.text import counted

T = TypeVar("T")
R = TypeVar("R")


class Canary:
    """The first groups of a change; without ``--canary`` there are none.

    :param total: how many groups the change has.
    :param yes: do not ask after the canary; a failure stops the rest.
    """

    def __init__(self, session: Session, output: Output, total: int, *, yes: bool) -> None:
        self._session = session
        self._output = output
        self._total = total
        self._yes = yes
        size = output.canary
        self._size = size if size is not None and size < total else 0
        self._left = self._size
        self._done = 0
        self._failed = 0
        self._is_stopped = False

    def split(self, batches: Iterable[Sequence[T]]) -> Iterator[list[T]]:
        """Split the batch that has the canary's last group behind that group."""
        for batch in batches:
            left, self._left = self._left, max(self._left - len(batch), 0)
            if 0 < left < len(batch):
                yield list(batch[:left])
                yield list(batch[left:])
            else:
                yield list(batch)

    def run(
        self,
        groups: Sequence[T],
        change: Callable[[list[T]], Sequence[R]],
        skip: Callable[[T], R],
        report: Callable[[list[R]], None] | None = None,
        failed: Callable[[R], bool] = has_failed,
    ) -> list[R]:
        """Change the canary and then the rest; return an outcome for each group.

        May be called for one batch of groups after another.

        :param skip: returns the outcome of a group that is not reached.
        :param report: reports what is done if an error (a full disk, Ctrl-C) ends all of it.
        :param failed: whether something failed in a group.
        """
        done: list[R] = []
        at = 0
        for part in self.split([groups]):
            if self._is_stopped:
                break
            try:
                changed = change(part)
            except BaseException:
                if done and report is not None:
                    report(done)
                raise
            done += changed
            at += len(part)
            self._done += len(part)
            self._failed += sum(map(failed, changed))
            self._is_stopped = not self.may_continue(self._done, failed=self._failed)
        return done + [skip(group) for group in groups[at:]]

    def may_continue(self, done: int, *, failed: int, skipped: int = 0) -> bool:
        """Ask after the canary, or stop if it failed and no one can be asked.

        :param done: how many groups are finished, the ``failed`` and ``skipped`` ones included.
        """
        if not self._size or done != self._size:
            return True
        go_on = go_on_after(self._session, self._output, self._total, yes=self._yes)
        return go_on(done, failed, skipped)


def not_reached(group: str) -> ItemError:
    """Return the error of a group behind a canary that stopped the change."""
    return ItemError(
        Target(group=group), None, "NOT_REACHED", "It was not touched: stopped after the canary."
    )


def rows_not_reached(group: Any) -> Any:
    """Return a group behind the canary: what was still open in its rows has failed."""
    error = not_reached(group.group)
    return each_open(group, lambda row: row._replace(status="failed", error=error))


class GoOn(Protocol):
    """Called after the canary with the counts of its groups."""

    def __call__(self, done: int, failed: int, skipped: int = 0) -> bool:
        """Return whether to go on with the rest."""


def go_on_after(session: Session, output: Output, total: int, *, yes: bool) -> GoOn:
    """Return what asks after a canary, or stops if it failed and no one can be asked."""

    def go_on(done: int, failed: int, skipped: int = 0) -> bool:
        rest = counted(total - done, "group")
        finished = counted(done, "group")
        output.note(f"Canary: {finished} done, {skipped} of them left alone, {failed} failed.")
        try:
            if not yes:
                confirm.ask(session, output, f"Go on with the other {rest}?", False)
            elif failed:
                raise confirm.Declined("The canary failed.")
        except confirm.Declined:
            output.note(f"Stopped after the canary; {rest} not touched.")
            return False
        return True

    return go_on
