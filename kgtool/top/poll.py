"""What is asked of the cluster, and when: one cheap listing, and offsets of what is on the screen.

Groups that were never looked at, and then the ones whose look is the oldest, fill up a poll that
has room: so the order by lag is right soon, and stays so. A poll is followed by at least ``REST``
times its own length of nothing, so that a screen that nobody touches costs at most 5 % of a core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kgtool.client.ops import Operation
from kgtool.clock import now_ms
from kgtool.config import Settings
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, ItemError, OffsetRow
from kgtool.net.session import Session
from kgtool.queries.cluster.topics import refresh
from kgtool.queries.doctor.examine import judge
from kgtool.queries.doctor.facts import DoctorOptions, Facts, gather_facts
from kgtool.queries.groups.list import list_groups
from kgtool.queries.groups.share_and_streams import (
    OtherGroup,
    describe_other_groups,
    describe_other_offsets,
)
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.text import DAY_MS
from kgtool.top.groups import Finding, Group, look_of

T = TypeVar("T")
REST = 19
SWEPT = 400
"""Groups beside those on the screen that one poll looks at."""
FOUND_FOR_S = 300.0
"""How long doctor's findings of a group hold; it reads the log for them."""
OTHERS = ("share", "streams")


class Partition(NamedTuple):
    """A partition of one group, for its page."""

    row: OffsetRow
    committed_at_ms: int | None
    expires_at_ms: int | None


class Page(NamedTuple):
    """What the page of one group shows."""

    offsets: GroupOffsets
    partitions: list[Partition]
    findings: Sequence[Any]
    errors: Sequence[ItemError]


class Poller:
    """Looks at the cluster; every method may block and may be called from any thread.

    :param report: called with a sentence about brokers that don't answer, or "".
    """

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self.groups: dict[str, Group] = {}
        self.session = Session(settings)
        self.polled_at_s: float | None = None
        self._report = report
        self._lock = threading.Lock()
        self._found_at: dict[str, float] = {}

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self.session.loop.close()

    @contextmanager
    def exclusive(self) -> Iterator[Session]:
        """Yield the session with a new deadline, to this thread alone."""
        with self._lock:
            self.session.loop.renew()
            self.session.connect()
            yield self.session

    def run(self, operation: Operation[T]) -> T:
        """Run an operation with a deadline of its own.

        :raises KgError: it failed.
        """
        with self.exclusive() as session:
            return session.run(operation)

    def poll(self, shown: Sequence[str]) -> bool:
        """List the groups and look at some; return whether there are some never looked at."""
        try:
            self.run(refresh(self.session.cluster))
            self._list()
            self._look(shown)
        except KgError as error:
            self._report(error.message)
            return False
        self.polled_at_s = time.monotonic()
        return any(group.last is None for group in self.groups.values())

    def _list(self) -> None:
        found = self.run(list_groups(self.session.cluster, complete=True))
        silent = sorted({e.target.broker for e in found.errors if e.target.broker is not None})
        brokers = ", ".join(map(str, silent))
        self._report(
            f"No answer from broker {brokers}: its groups may be missing." if silent else ""
        )
        listed = {one.group: one for one in found.groups}
        if not found.errors:  # else a group may only be out of sight
            for name in self.groups.keys() - listed.keys():
                del self.groups[name]
        for name, listing in listed.items():
            group = self.groups.get(name)
            if group is None:
                self.groups[name] = Group(listing)
            else:
                group.listing = listing

    def _look(self, shown: Iterable[str]) -> None:
        at_s = time.monotonic()
        oldest = sorted(self.groups.values(), key=lambda one: one.last.at_s if one.last else 0.0)
        names = dict.fromkeys(name for name in shown if name in self.groups)
        names |= dict.fromkeys(group.name for group in islice(oldest, SWEPT))
        for offsets in self.run(_offsets(self.session, list(names), self.groups)):
            group = self.groups.get(offsets.description.group)
            if group is not None:
                group.looks.append(look_of(offsets, at_s))

    def find(self, shown: Iterable[str]) -> None:
        """Look for findings of groups that have none, or old ones: first those on the screen."""
        due = time.monotonic() - FOUND_FOR_S
        others = {n for n, one in self.groups.items() if one.listing.type in OTHERS}
        old = (n for n in (*shown, *self.groups) if self._found_at.get(n, due - 1) < due)
        wanted = dict.fromkeys(n for n in old if n in self.groups and n not in others)
        names = list(islice(wanted, SWEPT))
        if not names:
            return
        self._found_at.update(dict.fromkeys(names, time.monotonic()))
        try:
            facts = self._facts(names)
        except KgError as error:
            self._report(error.message)
            return
        by_group: dict[str, list[Finding]] = {name: [] for name in names}
        for found in judge(facts).findings:
            if found.group in by_group:
                by_group[found.group].append(Finding(found.kind, found.severity, found.detail))
        for name, findings in by_group.items():
            group = self.groups.get(name)
            if group is not None:
                group.findings = findings
                expiry = facts.expiries.groups.get(name)
                times = [e.expires_at_ms for e in expiry.offsets.values()] if expiry else []
                group.expires_at_ms = min((at for at in times if at is not None), default=None)
                risks = [risk.lost_at_ms for key, risk in facts.at_risk.items() if key[0] == name]
                group.lost_at_ms = min((at for at in risks if at is not None), default=None)

    def _facts(self, names: list[str]) -> Facts:
        kinds = {name: self.groups[name].listing.type or "" for name in names}
        options = DoctorOptions(now_ms(), 2 * DAY_MS, False, lambda _name: None)
        return self.run(gather_facts(self.session.cluster, names, kinds, options))

    def page(self, name: str) -> Page:
        """Look at one group closely.

        :raises KgError: it can't be looked at.
        """
        found = self.run(_offsets(self.session, [name], self.groups))
        if not found:
            raise KgError(f"Group {name} is gone.")
        offsets = found[0]
        if offsets.description.type in OTHERS:
            rows = [Partition(row, None, None) for row in offsets.rows]
            return Page(offsets, rows, (), offsets.errors)
        facts = self._facts([name])
        diagnosis = judge(facts)
        partitions = []
        for row in offsets.rows:
            at, goes = facts.commit_time(row), facts.expiry(row)
            times = (at.at_ms if at else None, goes.expires_at_ms if goes else None)
            partitions.append(Partition(row, *times))
        return Page(offsets, partitions, diagnosis.findings, diagnosis.errors)


def _offsets(
    session: Session, names: list[str], groups: dict[str, Group]
) -> Operation[list[GroupOffsets]]:
    """Describe the offsets of groups of any type."""
    cluster = session.cluster
    kinds = {n: (groups[n].listing.type or "") if n in groups else "" for n in names}
    plain = [name for name in names if kinds[name] not in OTHERS]
    found: list[GroupOffsets] = []
    if plain:
        found += yield from describe_offsets(cluster, plain, kinds=kinds)
    others = [name for name in names if kinds[name] in OTHERS]
    if others:
        described = yield from describe_other_groups(cluster, others)
        known = [one for one in described.values() if isinstance(one, OtherGroup)]
        found += yield from describe_other_offsets(cluster, known)
    return found
