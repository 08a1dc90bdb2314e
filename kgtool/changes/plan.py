"""Plans of changes, kept on disk: what was shown is what is done, and memory holds one batch."""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from kgtool.changes.plan_rows import open_rows, settle, skip
from kgtool.errors import KgError
from kgtool.model import has_failed

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

MEMORY_BYTES = 4 * 1024 * 1024
"""A list up to this size needs no file."""


class DiskFull(KgError):
    """The plan does not fit on the disk."""

    name = "SPOOL"


class DiskList(Generic[T]):
    """A list on disk: items are appended, and read in any order, as often as needed.

    A context manager. The file has no name, and no other process can read it.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - see __exit__
        self._places = array("Q")

    def __enter__(self) -> DiskList[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> T:
        self._file.seek(self._places[index])
        item: T = pickle.load(self._file)
        return item

    def append(self, item: T) -> None:
        """Write one item.

        :raises DiskFull: there is no room for it.
        """
        try:
            self._file.seek(0, 2)
            place = self._file.tell()
            pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise DiskFull(
                f"The plan can't be kept in {tempfile.gettempdir()} ({error.strerror}), so nothing "
                "was changed.",
                hint="Free some space, or choose another folder with TMPDIR.",
            ) from error
        self._places.append(place)

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))


class ChangePlan(DiskList[list[T]]):
    """The plan of a change of many groups: batches of groups, and their totals.

    A group has ``group``, ``rows`` and ``error``, or is a row itself (``changes.plan_rows``).
    """

    def __init__(self, *, all_or_nothing: bool = False) -> None:
        super().__init__()
        self.all_or_nothing = all_or_nothing
        self.groups: dict[str, None] = {}
        """Groups with anything to change, in their order."""
        self.offsets = 0
        self.is_off = False
        """Whether something fails, and all or nothing was asked for."""

    def __enter__(self) -> Self:
        return self

    def add(self, groups: Sequence[T]) -> list[T]:
        """Add a batch; return it as it stands: nothing is open in one that is off."""
        batch = settle(groups, self.all_or_nothing)
        self.append(batch)
        for row in open_rows(*batch):
            self.groups[row.group] = None
            self.offsets += getattr(row, "offsets", 1)
        self.is_off |= self.all_or_nothing and any(map(has_failed, batch))
        return batch

    def report(self, report: Callable[[list[T]], None]) -> None:
        """Report what would be changed, without changing it."""
        for batch in self:
            report(skip(batch) if self.is_off else batch)
