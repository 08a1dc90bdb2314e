"""Looks at the cluster in the background, again and again; what it found last is kept as text."""

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
from kgtool.queries.doctor.examine import Diagnosis, judge
from kgtool.queries.doctor.facts import DoctorOptions, Facts, gather_facts
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.commit_times import CommitTimes
from kgtool.retention.generated_names import family

KEPT_LOOKS = 5
"""What was found is told for so many intervals where no later look succeeds; then it is left out,
so that alerts about absent metrics fire."""
_KEYS = (
    "group", "topic", "partition", "current_offset", "log_end_offset", "lag", "lag_ms",
    "subscribed",
)  # fmt: skip


class Wanted(NamedTuple):
    """What to collect. Times in ms; ``test``: which groups, by name.

    ``within_ms``: doctor's horizon for offsets that expire.
    """

    interval_ms: int
    within_ms: int
    time_lag: bool
    test: Callable[[str], bool]


class Look(NamedTuple):
    """One look at the cluster: when it began (ms since the epoch), and its metrics as text."""

    at_ms: int
    text: str


class Collector:
    """Collects in a thread of its own; ``text`` never waits for it.

    :param say: told in a sentence why a look failed, each reason once until one succeeds.
    """

    def __init__(self, settings: Settings, wanted: Wanted, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._wanted = wanted
        self._say = say
        self._look: Look | None = None
        self._failed: str | None = None
        self._took_s = 0.0
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin; the thread ends with the process, or after ``stop``."""
        threading.Thread(target=self._run, name="collector", daemon=True).start()

    def stop(self) -> None:
        """Begin no further look."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self.collect()
            self._took_s = time.monotonic() - began
            self._stop.wait(max(self._wanted.interval_ms / 1000 - self._took_s, 1.0))

    def collect(self) -> None:
        """Look once. What fails is said and counted, and leaves what was found before."""
        try:
            self._look = collect(self._settings, self._wanted)
            self._failed = None
        except Exception as caught:  # noqa: BLE001 - a look that fails must not be the last
            error = caught if isinstance(caught, KgError) else unexpected(caught)
            if error.message != self._failed:
                self._say(str(error))
            self._failed = error.message

    def text(self) -> str:
        """Return what was found last, with how old it is and whether the last look succeeded."""
        look, kept_ms = self._look, KEPT_LOOKS * self._wanted.interval_ms
        is_fresh = look is not None and now_ms() - look.at_ms <= kept_ms
        # A look that does not end, or a thread that has, is no success either.
        is_up = self._failed is None and is_fresh
        own = [
            Metric("kgtool_up", "Whether the last look at the cluster succeeded.", [({}, is_up)]),
            Metric("kgtool_look_seconds", "How long the last look at the cluster took.",
                   [({}, self._took_s)]),
        ]  # fmt: skip
        return (look.text if look is not None and is_fresh else "") + metrics.render(own, {})


def collect(settings: Settings, wanted: Wanted) -> Look:
    """Look at all groups that Kafka's own tool lists.

    :raises KgError: the cluster can't be reached, or refuses the login.
    """
    at_ms = now_ms()
    with Session(settings, progress=True) as session:
        listed = session.run(list_groups(session.cluster, complete=True))
        kinds = {n: kind for n, kind in listed.consumer_groups.items() if wanted.test(n)}
        clock = now_ms if wanted.time_lag else None
        options = DoctorOptions(at_ms, wanted.within_ms, True, family, clock=clock)
        facts = session.run(gather_facts(session.cluster, list(kinds), kinds, options))
        found = session.run(judge(session.cluster, facts))
        errors = [error.name for error in dict.fromkeys([*listed.errors, *found.errors])]
        common = {"cluster_id": session.cluster_id or ""}
    return Look(at_ms, metrics.render(_metrics(facts, found, errors, at_ms), common))


def _metrics(facts: Facts, found: Diagnosis, errors: Sequence[str], at_ms: int) -> Iterator[Metric]:
    groups = [(one.description, list(_rows(facts, one))) for one in facts.groups
              if one.description.error is None]  # fmt: skip
    yield from metrics.of_groups(groups)
    yield metrics.of_ghosts(groups)
    yield metrics.counted(
        "kgtool_findings", "Findings of kgtool doctor.", ("finding", "severity"),
        ((one.kind, one.severity) for one in found.findings),
    )  # fmt: skip
    yield metrics.counted(
        "kgtool_unseen", "What could not be looked at, by reason.", ("error",),
        ((name,) for name in errors),
    )  # fmt: skip
    yield from metrics.of_looking(len(errors), at_ms)


def _rows(facts: Facts, found: GroupOffsets) -> Iterable[Mapping[str, Any]]:
    """Make rows of one group; commit times and expiry only as far as the log tells them."""
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
