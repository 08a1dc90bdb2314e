"""What is asked of the cluster, and when: one cheap listing, and offsets of what is on the screen.

Groups that were never looked at, and then the ones whose look is the oldest, fill up a poll that
has room: so the order by lag is right soon, and stays so. A pause of at least ``REST`` times its
processor time follows each poll: an idle screen costs at most 5 % of a core, ages included.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from kgtool.clock import now_ms
from kgtool.config import Settings
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, ItemError
from kgtool.net.session import Session
from kgtool.queries.cluster.topics import refresh
from kgtool.queries.doctor.examine import judge
from kgtool.queries.doctor.facts import DoctorOptions, Facts, gather_facts
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.groups.list import list_groups
from kgtool.queries.offsets.describe_listed import OTHERS, describe_listed
from kgtool.queries.offsets.past import CommitTime, past_lags, recent_commits
from kgtool.text import DAY_MS
from kgtool.top.groups import FOUND_FOR_S, TREND, WINDOW_S, Group, look_of

REST = 29
SWEPT = 400
"""Groups beside those on the screen that one poll looks at; a quarter once all were looked at."""
HISTORY_MS = 3_600_000
"""How far back the page of a group shows its commits."""


class Page(NamedTuple):
    """What the page of one group shows."""

    offsets: GroupOffsets
    facts: Facts | None
    findings: Sequence[Finding]
    errors: Sequence[ItemError]
    commits: Sequence[CommitTime] = ()


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
        self._looked: list[GroupOffsets] = []  # by the last poll

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

    def run(self, operation: Any) -> Any:
        """Run an operation with a deadline of its own; raise KgError where it fails."""
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
        at_s = time.monotonic()
        found = self.run(list_groups(self.session.cluster, complete=True))
        silent = {e.target.broker for e in found.errors if e.target.broker is not None}
        brokers = ", ".join(map(str, sorted(silent)))
        said = f"No answer from broker {brokers}: its groups may be missing."
        self._report(said if silent else "")
        listed = {one.group: one for one in found.groups}
        if not found.errors:  # else a group may only be out of sight
            for name in self.groups.keys() - listed.keys():
                del self.groups[name]
        for name, listing in listed.items():
            if name not in self.groups:
                self.groups[name] = Group(listing)
            self.groups[name].listing, self.groups[name].listed_at_s = listing, at_s

    def _look(self, shown: Iterable[str]) -> None:
        at_s = time.monotonic()
        oldest = sorted(self.groups.values(), key=lambda one: one.last.at_s if one.last else 0.0)
        front = [name for name in shown if name in self.groups]
        count = SWEPT if oldest and oldest[0].last is None else SWEPT // 4
        names = dict.fromkeys([*front, *(group.name for group in oldest[:count])])
        found = self.run(describe_listed(self.session.cluster, self.kinds(names)))
        for offsets in found:
            group = self.groups.get(offsets.description.group)
            if group is not None:
                group.see(look_of(offsets, at_s))
        self._looked = found

    def begin(self, shown: Iterable[str]) -> bool:
        """Read of the log how the lag of groups on the screen came to be, once for each.

        :return: whether something was learnt. Where the log can't be read, looks tell it in time.
        """
        due, front = {}, set(shown)
        for found in self._looked:
            group = self.groups.get(found.description.group)
            if group is None or group.name not in front or group.has_past:
                continue
            if group.lag is not None and group.listing.type != "share":  # which have another log
                group.has_past = True
                due[group.name] = found
        if not due:
            return False
        at_s, over_ms, new = time.monotonic(), int(WINDOW_S * 1000), [*due.values()]
        try:
            past = self.run(past_lags(self.session.cluster, new, now_ms(), over_ms, TREND))
        except KgError:
            return False
        for name in past.keys() & self.groups.keys():
            self.groups[name].begin(past[name], at_s)
        return bool(past)

    def find(self, shown: Iterable[str]) -> bool:
        """Look for findings of groups that have none, or old ones: first those on the screen.

        :return: whether it was time for some.
        """
        at_s = time.monotonic()

        def is_due(name: str) -> bool:
            group = self.groups.get(name)
            if group is None or group.listing.type in OTHERS:
                return False
            return group.found_at_s is None or group.findings_age_s(at_s) > FOUND_FOR_S

        names = list(islice(dict.fromkeys(filter(is_due, (*shown, *self.groups))), SWEPT))
        if not names:
            return False
        try:
            facts = self._facts(names)
        except KgError as error:
            self._report(error.message)
            return False
        by_group = defaultdict(list)
        for found in judge(facts).findings:
            by_group[found.group].append(found)
        for name in self.groups.keys() & names:
            group = self.groups[name]
            group.findings, group.found_at_s = by_group[name], at_s
            expiry = facts.expiries.groups.get(name)
            times = [e.expires_at_ms for e in expiry.offsets.values()] if expiry else []
            group.expires_at_ms = min((at for at in times if at is not None), default=None)
            risks = [risk.lost_at_ms for key, risk in facts.at_risk.items() if key[0] == name]
            group.lost_at_ms = min((at for at in risks if at is not None), default=None)
        return True

    def kinds(self, names: Iterable[str]) -> dict[str, str]:
        """Return the types of groups, "" where unknown."""
        listed = {name: self.groups.get(name) for name in names}
        return {name: (one and one.listing.type) or "" for name, one in listed.items()}

    def _facts(self, names: list[str]) -> Facts:
        options = DoctorOptions(now_ms(), 2 * DAY_MS, False, lambda _name: None)
        search = gather_facts(self.session.cluster, names, self.kinds(names), options)
        facts: Facts = self.run(search)
        return facts

    def page(self, name: str) -> Page:
        """Look at one group closely.

        :raises KgError: it can't be looked at.
        """
        found = self.run(describe_listed(self.session.cluster, self.kinds([name])))
        if not found:
            raise KgError(f"Group {name} is gone.")
        offsets = found[0]
        if offsets.description.type in OTHERS:
            return Page(offsets, None, (), offsets.errors)
        facts = self._facts([name])
        diagnosis = judge(facts)
        since_ms = facts.options.now_ms - HISTORY_MS
        commits = self.run(recent_commits(self.session.cluster, offsets, since_ms))
        return Page(offsets, facts, diagnosis.findings, diagnosis.errors, commits)
