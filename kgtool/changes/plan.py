"""Plans of changes, kept on disk: what was shown is what is done, and memory holds one batch."""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from kgtool.changes.offsets.verify import changed_meanwhile
from kgtool.errors import KgError, other_folder
from kgtool.model import CommittedOffset, ItemError, Target, has_failed, same_commit

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
RowT = TypeVar("RowT")
RowsT = TypeVar("RowsT", covariant=True)

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
                hint=other_folder(error, "TMPDIR"),
            ) from error
        self._places.append(place)

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))


class Group(Protocol):
    """A group of a plan, with ``rows``, or a row itself (see below)."""

    @property
    def group(self) -> str:
        """The group's name."""

    @property
    def error(self) -> ItemError | None:
        """Why nothing of it can be done."""


class HasRows(Protocol[RowsT]):
    """A group of a plan that has parts."""

    @property
    def rows(self) -> Sequence[RowsT]:
        """One for each part."""


GroupT = TypeVar("GroupT", bound=Group)


class ChangePlan(DiskList[list[GroupT]]):
    """The plan of a change of many groups: batches of groups, and their totals."""

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

    def add(self, groups: Sequence[GroupT]) -> list[GroupT]:
        """Add a batch; return it as it stands: nothing is open in one that is off."""
        batch = settle(groups, self.all_or_nothing)
        self.append(batch)
        for row in open_rows(*batch):
            self.groups[row.group] = None
            self.offsets += getattr(row, "offsets", 1)
        self.is_off |= self.all_or_nothing and any(map(has_failed, batch))
        return batch

    def report(self, report: Callable[[list[GroupT]], None]) -> None:
        """Report what would be changed, without changing it."""
        for batch in self:
            report(skip(batch) if self.is_off else batch)


# ---------------------------------------------------------------------------------------------
# The rows of any plan: which are open, and which have failed.
#
# A row is a named tuple with group, topic, partition, status, error and
# is_open; a group has its rows. Where a group has no parts, it is a row itself.


def failed(row: RowT, error: KgError | ItemError) -> RowT:
    """Return a row with an error, and the status that follows from it."""
    known: Any = row
    if isinstance(error, KgError):
        names = (getattr(known, name, None) for name in ("group", "topic", "partition"))
        error = ItemError.of(error, Target(*names))
    done: RowT = known._replace(status=error.status, error=error)
    return done


@overload
def open_rows(*groups: HasRows[RowT]) -> list[RowT]: ...
@overload
def open_rows(*groups: GroupT) -> list[GroupT]: ...
def open_rows(*groups: Any) -> list[Any]:
    """Return the open rows."""
    return [row for group in groups for row in getattr(group, "rows", (group,)) if row.is_open]


def each_open(group: GroupT, change: Callable[[Any], Any]) -> GroupT:
    """Return a group with each open row changed."""

    def changed(row: Any) -> Any:
        return change(row) if row.is_open else row

    known: Any = group
    if not hasattr(known, "rows"):
        alone: GroupT = changed(known)
        return alone
    done: GroupT = known._replace(rows=list(map(changed, known.rows)))
    return done


def settle(groups: Sequence[GroupT], all_or_nothing: bool) -> list[GroupT]:
    """Return the groups; with ``all_or_nothing`` and a failure, with every open row skipped."""
    return skip(groups) if all_or_nothing and any(map(has_failed, groups)) else list(groups)


def skip(groups: Iterable[GroupT]) -> list[GroupT]:
    """Return groups with every open row skipped."""
    return [each_open(group, lambda row: row._replace(status="skipped")) for group in groups]


def compared(
    row: RowT,
    old: CommittedOffset | None,
    now: CommittedOffset | KgError | None,
    pending: KgError | None,
) -> RowT:
    """Return a row unchanged if the current offset is the one of the plan, else failed.

    :param pending: the error where a transaction is about to change the offset, if that matters.
    """
    if isinstance(now, KgError):
        return failed(row, now)
    if pending is not None and now is not None and now.is_pending:
        return failed(row, pending)
    return row if same_commit(now, old) else failed(row, changed_meanwhile(old, now))
