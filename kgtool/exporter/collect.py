"""Polls the cluster in the background, and keeps the latest metrics as text."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool import metrics
from kgtool.clock import now_ms
from kgtool.config import Settings
from kgtool.errors import KgError, unexpected
from kgtool.metrics import Metric
from kgtool.model import GroupOffsets, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.doctor.denied import is_denied
from kgtool.queries.doctor.examine import Diagnosis, judge
from kgtool.queries.doctor.facts import DoctorOptions, Facts, gather_facts
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.commit_times import CommitTimes
from kgtool.queries.log.expiry import GroupExpiry
from kgtool.queries.log.tail import LogTail
from kgtool.retention.generated_names import family

KEPT_INTERVALS = 5
"""Metrics are served for so many intervals if no later poll succeeds; then they are left out, so
that alerts about absent metrics fire."""
_KEYS = (
    "group",
    "topic",
    "partition",
    "current_offset",
    "log_end_offset",
    "lag",
    "lag_ms",
    "subscribed",
)


class Options(NamedTuple):
    """What to collect and how often; ``test`` selects groups by name.

    ``within_ms``: findings are made of offsets that expire within that time.
    """

    interval_ms: int
    within_ms: int
    time_lag: bool
    test: Callable[[str], bool]


class Collected(NamedTuple):
    """The metrics of one poll, and when it began (ms since the epoch).

    ``body`` is rendered once and shared by all scrapes: there may be 50 MB of it.
    """

    at_ms: int
    body: bytes


class Past:
    """What one poll leaves to the next: how far the log was read, and when offsets were due."""

    def __init__(self) -> None:
        self.tail = LogTail()
        self.expiries: Mapping[str, GroupExpiry] = {}

    def expires_at(self, group: str, at: TopicPartition) -> int | None:
        """Return when an offset was going to expire, as of the last poll."""
        known = self.expiries.get(group)
        found = known.offsets.get(at) if known is not None else None
        return found.expires_at_ms if found is not None else None


class Collector:
    """Collects in a thread of its own; ``parts`` never waits for it.

    :param report: called with the reason why a poll failed, if it was not the last one's.
    """

    def __init__(self, settings: Settings, options: Options, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._options = options
        self._report = report
        self._last: Collected | None = None
        self._failure: str | None = None
        self._past = Past()
        self._took_s = 0.0
        self._stop = threading.Event()

    def start(self) -> None:
        """Start the thread, which ends with the process, or after ``stop``."""
        threading.Thread(target=self._run, name="collector", daemon=True).start()

    def stop(self) -> None:
        """Begin no further poll."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.collect()
            self._took_s = time.monotonic() - began
            self._stop.wait(max(self._options.interval_ms / 1000 - self._took_s, 1.0))

    def collect(self) -> None:
        """Poll once. A failure is reported, and keeps the metrics of the last poll."""
        try:
            self._last = collect(self._settings, self._options, self._past)
            self._failure = None
        except Exception as caught:  # noqa: BLE001 - the next poll may succeed
            error = caught if isinstance(caught, KgError) else unexpected(caught)
            if error.message != self._failure:
                self._report(str(error))
            self._failure = error.message

    def parts(self) -> list[bytes]:
        """Return the latest metrics, and whether the last poll succeeded."""
        last, kept_ms = self._last, KEPT_INTERVALS * self._options.interval_ms
        is_fresh = last is not None and now_ms() - last.at_ms <= kept_ms
        # Neither if a poll does not end, or the thread has ended.
        is_up = self._failure is None and is_fresh
        own = [
            Metric("kgtool_up", "Whether the last look at the cluster succeeded.", [({}, is_up)]),
            Metric(
                "kgtool_look_seconds",
                "How long the last look at the cluster took.",
                [({}, self._took_s)],
            ),
        ]
        body = [last.body] if last is not None and is_fresh else []
        return [*body, metrics.render(own, {}).encode()]


def collect(settings: Settings, options: Options, past: Past) -> Collected:
    """Collect the metrics of the groups that Kafka's tool lists.

    :raises KgError: the cluster can't be reached, or refuses the login.
    """
    at_ms = now_ms()
    with Session(settings, progress=True) as session:
        listed = session.run(list_groups(session.cluster, complete=True))
        kinds = {n: kind for n, kind in listed.consumer_groups.items() if options.test(n)}
        clock = now_ms if options.time_lag else None
        unread = session.run(past.tail.advance(session.cluster, past.expires_at))
        doctor = DoctorOptions(at_ms, options.within_ms, True, family, clock=clock)
        facts = session.run(gather_facts(session.cluster, list(kinds), kinds, doctor))
        past.expiries = facts.expiries.groups
        found = judge(facts)
        seen = [*listed.errors, *found.errors, *(e for e in unread if not is_denied(e))]
        errors = [error.name for error in dict.fromkeys(seen)]
        common = {"cluster_id": session.cluster_id or ""}
    told = list(_metrics(facts, found, errors, at_ms))
    if not any(is_denied(error) for error in unread):
        told += metrics.of_log(past.tail.counts)
    text = metrics.render(told, common)
    return Collected(at_ms, text.encode())


def _metrics(facts: Facts, found: Diagnosis, errors: Sequence[str], at_ms: int) -> Iterator[Metric]:
    groups = [
        (one.description, list(_rows(facts, one)))
        for one in facts.groups
        if one.description.error is None
    ]
    yield from metrics.of_groups(groups)
    yield metrics.of_ghost_topics(groups)
    yield metrics.counted(
        "kgtool_findings",
        "Findings of kgtool doctor.",
        ("finding", "severity"),
        ((one.kind, one.severity) for one in found.findings),
    )
    yield metrics.counted(
        "kgtool_unreadable",
        "What could not be looked at, by reason.",
        ("error",),
        ((name,) for name in errors),
    )
    yield from metrics.of_poll(len(errors), at_ms)


def _rows(facts: Facts, found: GroupOffsets) -> Iterable[Mapping[str, Any]]:
    """Return the rows of a group, with commit times and expiry as far as the log has them."""
    name = found.description.group
    times = facts.times.get(name)
    expiry = facts.expiries.groups.get(name)
    for row in found.rows:
        at = TopicPartition(row.topic, row.partition)
        fields = {key: getattr(row, key) for key in _KEYS}
        committed = times.at.get(at) if isinstance(times, CommitTimes) else None
        fields["committed_at_ms"] = None if committed is None else committed.at_ms
        becomes = None if expiry is None else expiry.offsets.get(at)
        fields["expires_at_ms"] = None if becomes is None else becomes.expires_at_ms
        yield fields
