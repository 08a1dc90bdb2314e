"""The course of a change of many groups: the canary first, and the rest if that went well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kgtool.changes.plan_rows import skip
from kgtool.cli.change import confirm
from kgtool.cli.change.disk_list import Spool
from kgtool.cli.output.output import Output
from kgtool.model import ItemError, Target, has_failed
from kgtool.net.session import Session
from kgtool.text import counted

T = TypeVar("T")
R = TypeVar("R")


class Course:
    """What ``--canary N`` asks for.

    :param total: how many groups there are in all.
    :param yes: nobody is asked after the canary: a failure stops the rest.
    """

    def __init__(self, session: Session, output: Output, total: int, *, yes: bool) -> None:
        self._session = session
        self._output = output
        self._total = total
        self._yes = yes
        canary = output.canary
        self._canary = canary if canary is not None and canary < total else 0
        self._left = self._canary
        self._done = 0
        self._failed = 0
        self._is_stopped = False

    def parts(self, parts: Iterable[Sequence[T]]) -> Iterator[list[T]]:
        """Cut parts so that one of them ends with the canary's last group."""
        for part in parts:
            left, self._left = self._left, max(self._left - len(part), 0)
            if 0 < left < len(part):
                yield list(part[:left])
                yield list(part[left:])
            else:
                yield list(part)

    def run(
        self, items: Sequence[T], work: Callable[[list[T]], Sequence[R]],
        failed: Callable[[R], bool], leave: Callable[[T], R],
        tell: Callable[[list[R]], None] | None = None,
    ) -> list[R]:  # fmt: skip
        """Work on the canary and then on the rest, an item for each group; wave by wave.

        :param failed: whether something failed in a group.
        :param leave: makes the outcome of a group that is not reached.
        :param tell: puts out what is done where something ends all of it: a full disk, Ctrl-C.
        """
        done: list[R] = []
        at = 0
        for part in self.parts([items]):
            if self._is_stopped:
                break
            try:
                found = work(part)
            except BaseException:
                if done and tell is not None:
                    tell(done)
                raise
            done += found
            at += len(part)
            self._done += len(part)
            self._failed += sum(map(failed, found))
            if not self.goes_on(self._done, failed=self._failed):
                self._is_stopped = True
        return done + [leave(item) for item in items[at:]]

    def goes_on(self, done: int, *, failed: int, skipped: int = 0) -> bool:
        """After the canary: ask, or stop where it met with trouble and nobody can be asked.

        :param done: how many groups are finished, with so many of them ``failed`` or left alone.
        """
        if not self._canary or done != self._canary:
            return True
        rest = counted(self._total - done, "group")
        self._output.note(
            f"Canary: {counted(done, 'group')} done, {skipped} of them left alone, {failed} failed."
        )
        try:
            if not self._yes:
                confirm.ask(self._session, self._output, f"Go on with the other {rest}?", False)
            elif failed:
                raise confirm.Declined("The canary failed.")
        except confirm.Declined:
            self._output.note(f"Stopped after the canary; {rest} not touched.")
            return False
        return True


def can_all_be_done(looked: Iterable[list[T]], report: Callable[[list[T]], None]) -> bool:
    """Look at all waves before the first is written (``--all-or-nothing``).

    If something fails, all of it is reported: what could have been done is skipped.

    :param looked: the groups of each wave, as they are now.
    """
    with Spool["list[T]"]() as seen:
        is_off = False
        for wave in looked:
            is_off |= any(map(has_failed, wave))
            seen.add(wave)
        for wave in seen if is_off else ():
            report(skip(wave))
    return not is_off


def not_reached(group: str) -> ItemError:
    """Say why nothing was done for a group behind the canary."""
    return ItemError(
        Target(group=group), None, "NOT_REACHED", "It was not touched: stopped after the canary."
    )


def leave(group: Any, name: str) -> Any:
    """Return a group behind the canary: what was still to be done in its rows has failed."""
    error = not_reached(name)
    rows = [
        row._replace(status="failed", error=error) if row.is_open else row for row in group.rows
    ]
    return group._replace(rows=rows)
