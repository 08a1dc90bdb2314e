"""Plans of changes, kept on disk: what was shown is what is done, and memory holds one batch."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from kgtool.changes.plan_rows import open_rows, settle, skip
from kgtool.cli.change.canary import Canary, rows_not_reached
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.errors import KgError
from kgtool.model import has_failed
from kgtool.net.session import Session

T = TypeVar("T")
BatchStep = Callable[[list[Any]], list[Any]]

MEMORY_BYTES = 4 * 1024 * 1024
"""A list up to this size needs no file."""


class DiskFull(KgError):
    """The plan does not fit on the disk."""

    name = "SPOOL"


class DiskList(Generic[T]):
    """A list on disk: items are appended, and read in that order as often as needed.

    A context manager. The file has no name, and no other process can read it.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - see __exit__
        self._size = 0

    def __enter__(self) -> DiskList[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return self._size

    def append(self, item: T) -> None:
        """Write one item.

        :raises DiskFull: there is no room for it.
        """
        try:
            self._file.seek(0, 2)
            pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise DiskFull(
                f"The plan can't be kept in {tempfile.gettempdir()} ({error.strerror}), so nothing "
                "was changed.",
                hint="Free some space, or choose another folder with TMPDIR.",
            ) from error
        self._size += 1

    def __iter__(self) -> Iterator[T]:
        at = 0
        for _ in range(self._size):
            self._file.seek(at)
            item: T = pickle.load(self._file)
            at = self._file.tell()
            yield item


class ChangePlan(DiskList[list[T]]):
    """The plan of a change of many groups: batches of groups, and their totals.

    A group has ``group``, ``rows`` and ``error`` (see ``changes.plan_rows``).
    """

    def __init__(self, *, all_or_nothing: bool) -> None:
        super().__init__()
        self.all_or_nothing = all_or_nothing
        self.groups: set[str] = set()
        """Groups with anything to change."""
        self.offsets = 0
        self.is_off = False
        """Whether something fails, and all or nothing was asked for."""

    def add(self, groups: Sequence[T]) -> list[T]:
        """Add a batch; return it as it stands: nothing is open in one that is off."""
        batch = settle(groups, self.all_or_nothing)
        self.append(batch)
        rows = open_rows(*batch)
        self.groups.update(row.group for row in rows)
        self.offsets += len(rows)
        self.is_off |= self.all_or_nothing and any(map(has_failed, batch))
        return batch

    def report(self, report: Callable[[list[T]], None]) -> None:
        """Report what would be changed, without changing it."""
        for batch in self:
            report(skip(batch) if self.is_off else batch)

    def change(
        self,
        session: Session,
        output: Output,
        doing: str,
        look_again: BatchStep,
        execute: BatchStep,
        report: Callable[[list[Any]], None],
        *,
        yes: bool,
    ) -> None:
        """Change and report batch by batch, the canary first.

        :param doing: for the progress line.
        :param look_again: returns a batch as it is now.
        :param execute: changes some groups, and returns them.
        :param yes: do not ask after the canary.
        """
        looked = map(look_again, self)
        is_checked = self.all_or_nothing and len(self) > 1
        if is_checked and not can_all_be_done(looked, report):
            return
        canary = Canary(session, output, len(self.groups), yes=yes)
        with Meter(output, doing, len(self.groups)) as meter:
            for batch in self:
                groups: list[Any] = batch
                going = [group for group in groups if group.group in self.groups]
                done = canary.run(going, execute, rows_not_reached, report)
                changed = {group.group: group for group in done}
                report([changed.get(group.group, group) for group in groups])
                meter.add(len(going))


def can_all_be_done(looked: Iterable[list[T]], report: Callable[[list[T]], None]) -> bool:
    """Look at all batches before the first is changed (``--all-or-nothing``).

    If something fails, all of it is reported: what could have been done is skipped.

    :param looked: the groups of each batch, as they are now.
    """
    with DiskList[list[T]]() as seen:
        is_off = False
        for batch in looked:
            is_off |= any(map(has_failed, batch))
            seen.append(batch)
        for batch in seen if is_off else ():
            report(skip(batch))
    return not is_off
