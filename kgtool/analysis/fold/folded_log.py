"""What the tables of one log partition are built from, each part computed once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data, schema
from kgtool.analysis.decode.blobs import Kinds
from kgtool.analysis.decode.job_progress import ReadCounters
from kgtool.analysis.decode.rows import DecodeOptions
from kgtool.analysis.fold import homes
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, arrow_ints, decode_texts
from kgtool.analysis.fold.group_life import GroupEvent
from kgtool.analysis.fold.group_states import GroupStates
from kgtool.analysis.fold.log import Loads, Log
from kgtool.analysis.fold.offset_history import OffsetHistory, build_history
from kgtool.analysis.fold.unknown import Listed, Unknown
from kgtool.analysis.input.broker_settings import Scenario
from kgtool.retention import rules as r
from kgtool.retention.doubts import Spans
from kgtool.retention.rules import RuleSet


class TableOptions(NamedTuple):
    """What the fold computes in addition to live and removals."""

    scenarios: tuple[Scenario, ...] = ()
    """For whatif, whatif_families and losses."""
    horizon_ms: int = 0
    """How far ahead to look for losses."""
    bucket_ms: int | None = None
    """For metrics."""
    counters: ReadCounters | None = None
    """Counts what workers read."""
    days: int = 7
    """How many days ahead get a row each."""
    gaps: bool = False
    """For gaps."""
    plan: bool = False
    """For a cleanup plan, ..."""
    idle_ms: int | None = None
    """... of groups that were idle this long."""

    def decode_options(self, interval_ms: int) -> DecodeOptions:
        """Which superseded commits the tables need, with that interval of the brokers' checks."""
        grids = {scenario.interval_ms for scenario in self.scenarios}
        grids |= {interval_ms} if self.gaps else set()
        return DecodeOptions(tuple(sorted(grids)), self.bucket_ms, self.counters)


class FoldPlan(NamedTuple):
    """Rules and options of the fold, the same for every partition."""

    rules: RuleSet
    wrote: rc.Wrote
    """The brokers' retention while the log was written."""
    interval_ms: int
    end_ms: int
    """The moment to which the log was read."""
    options: TableOptions
    overlapping: bool
    """Whether the same record may have been read more than once."""
    ends: dict[tuple[str, int], tuple[int | None, int | None]]
    """cluster.json's log start and end of topics' partitions."""
    topic_ids: dict[str, str]
    """cluster.json's ids of topics."""
    topics: frozenset[str] | None
    """All topics of cluster.json; None: unknown."""
    headless: frozenset[int] = frozenset()
    """Log partitions that begin before the inputs."""
    listed: dict[str, Listed] = {}
    """cluster.json's groups, where records can't tell the state of some."""
    older_until_ms: dict[int, int] = {}
    """Until when brokers with other rules are known to have written each log partition."""
    log_partitions: int = 0
    """cluster.json's number of log partitions; 0: unknown."""
    older_rules: tuple[tuple[int, RuleSet], ...] = ()
    """(until when, rules) of the brokers before those with ``rules``, in the order of time."""
    hold_ms: tuple[int, int] = (NONE, MAX)
    """From when until when ``rules`` hold."""
    checks_ms: Spans = ()
    """``doubts.certain_checks`` of all log partitions."""
    holes: frozenset[int] = frozenset()
    """Log partitions of which the middle is missing."""
    doubtful_ages_ms: tuple[int, ...] = ()
    """Ages at which so many offsets were removed before their time that the brokers' retention may
    have been that."""


class Verdicts(NamedTuple):
    """When stored offsets expire, and why; one array entry each."""

    rule: Ints
    """Number of the rule; -1 where nothing is stored."""
    due_ms: Ints
    """The rule's time; NONE: never."""
    expires_ms: Ints
    """The earliest time at which the broker may remove it: not before the rule's time, nor before
    the record that ended the offset's last protection."""


class FoldedLog:
    """One partition of the log, folded by a plan."""

    def __init__(self, partition: int, kinds: Kinds | Log, plan: FoldPlan) -> None:
        self.partition, self.plan = partition, plan
        lost = missing_data.HOLE if partition in plan.holes else 0
        overlapping = plan.overlapping
        self.log = kinds if isinstance(kinds, Log) else Log(kinds, lost, overlapping=overlapping)
        self.states = GroupStates(self.log, plan.rules)

    @cached_property
    def loads(self) -> Loads:
        """The loads of the partition that change groups."""
        return self.log.loads(of_empty=self.plan.rules.forgets_date_on_load is True)

    def group_events(self, rows: Ints) -> list[GroupEvent]:
        """Of the groups' own records, with the loads behind them, those at these places."""
        records = self.log.group_records
        count = len(records.group)
        is_load = rows >= count
        found = iter(records.events(rows[~is_load]))
        loads = iter(Loads(*(column[rows[is_load] - count] for column in self.loads)).events())
        return [next(loads if each else found) for each in is_load.tolist()]

    @cached_property
    def older_until_ms(self) -> int:
        """Until when brokers with other rules may have led this partition; NONE: never.

        A new version of a broker is a new leader epoch.
        """
        known = self.plan.older_until_ms
        own, anywhere = known.get(self.partition, NONE), max(known.values(), default=NONE)
        if own == NONE:
            return anywhere
        _, moved_ms = self.log.moves
        later = moved_ms[moved_ms > own]
        return int(later.min()) if later.size else anywhere

    @cached_property
    def families(self) -> Any:
        """The family of each group's name, an Arrow array."""
        return pa.array([fold(name) for name in self.log.groups.to_pylist()], pa.string())

    @cached_property
    def history(self) -> OffsetHistory:
        """The history of every offset."""
        return build_history(self.log, self.plan.rules)

    @cached_property
    def unknown(self) -> Unknown:
        """What can't be known."""
        headless = self.partition in self.plan.headless
        plan, shared = self.plan, (self.log, self.states)
        return Unknown(
            *shared,
            plan.rules,
            plan.listed,
            end_ms=plan.end_ms,
            is_headless=headless,
            misplaced=self.misplaced,
        )

    @cached_property
    def misplaced(self) -> Bools:
        """Groups that belong to another log partition."""
        return homes.misplaced(self.log.groups, self.partition, self.plan.log_partitions)

    def phases(self) -> Iterator[FoldedLog]:
        """The same log by the rules of each time, the newest first; this is the first of them."""
        older, plan = self.plan.older_rules, self.plan
        starts = [NONE, *(until for until, _ in older)]
        yield self
        for start, (until, rules) in reversed([*zip(starts, older, strict=False)]):
            yield FoldedLog(
                self.partition, self.log, plan._replace(rules=rules, hold_ms=(start, until))
            )

    def verdicts(self, rows: Ints, state: Ints, *, loaded: bool = False) -> Verdicts:
        """The verdicts on what is stored at rows of ``history``, in these group states.

        :param loaded: what they are if a load came that the log does not show
            (``unseen_loads.after_load``).
        """
        plan, past, states = self.plan, self.history, self.states
        stored, commits = past.stored[rows], self.log.offsets
        topics, group = self.log.keys.topic[past.key[rows]], states.groups.at(state)
        topic = states.topic_protection(state, topics)
        subscribed = topic.subscribed
        if loaded:  # as ``unseen_loads.after_load``
            decides = self.by_load(state, topics)
            subscribed = (subscribed | (decides & ~group.reads)) ^ decides
            group = group._replace(reads=group.reads | decides)
            if plan.rules.may_forget_date:
                group = group._replace(since_ms=np.full_like(group.since_ms, NONE))
        times = commits.commit_ms[stored], commits.expire_ms[stored]
        offset = rc.Offset(*times, subscribed, past.pending[rows])
        due, rule = plan.wrote.verdict(plan.rules, group, offset)
        expires = np.maximum(due, past.stored_ms[rows])
        if not plan.rules.fixed_at_commit:
            dated = states.ints("dated_before_ms")[state]
            redated = (rule != rc.RULE[r.RULE_EXPLICIT]) & (dated != NONE)
            redated &= offset.commit_ms < dated
            until = np.where(redated, states.ints("dated_until_ms")[state], NONE)
            expires = np.maximum(expires, np.maximum(topic.released_ms, until))
            if plan.rules.pending_protects_offset:
                expires = np.maximum(expires, past.pending_ended_ms[rows])
        has, never = stored >= 0, due == NONE
        return Verdicts(
            np.where(has, rule, -1), np.where(has, due, NONE), np.where(has & ~never, expires, NONE)
        )

    def by_load(self, state: Ints, topic: Ints) -> Bools:
        """Whether a load that the log does not show decides who subscribes to each topic."""
        found = self.states.by_load(state, topic)
        return np.zeros_like(found) if self.plan.rules.shows_loads else found

    def table(self, name: str, columns: dict[str, Any], extra: schema.Schema = ()) -> pa.Table:
        """An Arrow table of ``schema.TABLES``, with extra columns."""
        kinds = (*schema.TABLES[name].columns, *extra)
        target = schema.arrow(kinds)
        arrays = [_column(columns[field.name], field.type) for field in target]
        return pa.Table.from_arrays(arrays, schema=target)

    def key_columns(self, key: Ints) -> dict[str, Any]:
        """group, topic and partition of keys; null for -1."""
        keys, log = self.log.keys, self.log
        return {
            "group": decode_texts(keys.group[key], log.groups),
            "topic": decode_texts(keys.topic[key], log.topics),
            "partition": keys.partition[key],
        }


def _column(values: Any, kind: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind)
    if values.dtype == np.int64:
        return arrow_ints(values, kind)
    return pa.array(values, kind)


# ---------------------------------------------------------------------------------------------
# Groups with generated names, folded together: console-consumer-*.
#
# UUIDs, dates and times, hexadecimal and decimal numbers become *. A name that is alone in its
# family keeps its own: nothing says then that its digits are generated.


_UUID = r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{12}"
_DAY = r"(19|20)\d\d[-_./]?(0[1-9]|1[0-2])[-_./]?(0[1-9]|[12]\d|3[01])"
_TIME = r"([T_ -]?([01]\d|2[0-3])[:.h-]?[0-5]\d([:.m-]?[0-5]\d)?([.,]\d+)?Z?)?"
PATTERNS: Final = (
    rf"(?<![0-9A-Za-z]){_UUID}(?![0-9A-Za-z])",
    rf"(?<!\d){_DAY}{_TIME}(?!\d)",
    # A word of hexadecimal digits: both letters and digits, or it may be a real word or a number.
    r"(?<![0-9A-Za-z])(0x)?(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{6,}(?![0-9A-Za-z])",
    r"(?<![0-9A-Za-z])\d+(?![0-9A-Za-z])",
    # Digits right behind letters are often a version (v2); three and more are a counter.
    r"(?<=[A-Za-z])\d{3,}(?![0-9A-Za-z])",
    r"\*([-_.:]*\*)+",
)
"""In this order."""
_COMPILED = [re.compile(pattern, re.ASCII) for pattern in PATTERNS]


def fold(name: str) -> str:
    """The family that a name would be in.

    >>> fold("console-consumer-12345"), fold("job-2026-11-21T15:00-7f3a9c21")
    ('console-consumer-*', 'job-*')
    """
    for pattern in _COMPILED:
        name = pattern.sub("*", name)
    return name
