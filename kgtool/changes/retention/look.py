"""Looking at the groups that a file of rules names: one listing, one look at those that match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kgtool.changes.cleanup.facts import SLACK_MS, GroupFacts, Survey, survey
from kgtool.changes.cleanup.plan import make_header
from kgtool.changes.cleanup.plan_file import CleanupPlan, PlanItem
from kgtool.changes.journal.kept import Clock, Memory, Place
from kgtool.changes.kinds.keep import clock_ms
from kgtool.changes.retention.decide import Matched, RetentionRow, decide, plan_item
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.config.retention import OTHER_TYPES, RetentionRules
from kgtool.errors import KgError
from kgtool.model import ItemError, Listing, Target
from kgtool.queries.cluster.broker_rules import BrokerRules, rules_of
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.expiry import Expiries, GroupExpiry
from kgtool.retention import rules as r

SHARE = 0.5
"""The part of the time that is left which the listing may take."""

Remember = Callable[[Mapping[Place, Clock]], Memory]
"""Returns from which times offsets counted before kgtool kept them."""


class LookedGroup(NamedTuple):
    """One group: its rule, what was read of it, and what is decided about each offset.

    ``error``: why nothing of it could be read.
    """

    group: str
    matched: Matched | None
    facts: GroupFacts | None
    rows: list[RetentionRow]
    error: ItemError | None = None

    def item(self, now_ms: int) -> PlanItem | None:
        """Return what is due, as the item of a plan."""
        if self.facts is None or self.matched is None:
            return None
        return plan_item(self.facts, self.matched, self.rows, now_ms)


class Looked(NamedTuple):
    """All groups, and what must be said of the cluster.

    ``others``: groups of types that the rules which match them do not take: they are left to the
    broker. ``counts``: whether a finite longer retention holds for any offset, and ``memory``, what
    the journal knew. ``kinds``: the types of all groups that rules may take.
    """

    groups: list[LookedGroup]
    others: list[str]
    brokers: list[BrokerRules]
    errors: list[ItemError]
    newest_ms: int | None
    counts: bool
    memory: Memory
    kinds: Mapping[str, str]

    @property
    def broker_ms(self) -> int | None:
        """The shortest retention of the brokers."""
        known = [broker.retention_ms for broker in self.brokers]
        return min((ms for ms in known if ms is not None), default=None)

    @property
    def needs_join(self) -> list[str]:
        """Groups that are kept only by joining and leaving them."""
        return [
            one.group
            for one in self.groups
            if one.facts is not None
            and any(row.action == "keep" for row in one.rows)
            and any(o.expiry.rule == r.RULE_EMPTY_SINCE for o in one.facts.offsets.values())
        ]


def look(
    cluster: Cluster, rules: RetentionRules, now_ms: int, remember: Remember
) -> Operation[Looked]:
    """Look at every group that a rule matches; the others are only listed."""
    listing: Listing = yield from list_groups(cluster, share=SHARE)
    consumers = listing.consumer_groups
    others = {row.group: row.type for row in listing.groups if row.group not in consumers}
    ruled = {g: k for g, k in others.items() if k in OTHER_TYPES and rules.of(g, k) is not None}
    kinds = {**consumers, **ruled}
    matched = {group: _match(rules, group, kinds[group]) for group in sorted(kinds)}
    names = [group for group, rule in matched.items() if rule is not None]
    known = yield from rules_of(cluster, cluster.brokers)
    brokers = [one for one in known.values() if isinstance(one, BrokerRules)]
    found = Survey([], Expiries({}, []), None)
    if names:
        since_ms = now_ms - _stretch_ms(rules, brokers) - SLACK_MS
        found = yield from survey(cluster, names, consumers, now_ms, since_ms)
    clocks = _clocks(found, matched)
    memory = remember(clocks) if clocks else Memory({}, False)
    groups = [
        _decided(found, facts, matched[facts.description.group], memory, now_ms)
        for facts in found.groups
    ]
    groups += [
        LookedGroup(group, None, None, [RetentionRow(group, None, None)])
        for group, rule in matched.items()
        if rule is None
    ]
    return Looked(
        sorted(groups, key=lambda one: one.group),
        [group for group in others if group not in ruled and rules.of(group, None) is not None],
        brokers,
        [*listing.errors, *found.expiries.errors],
        found.newest_ms,
        bool(clocks),
        memory,
        kinds,
    )


def _match(rules: RetentionRules, group: str, kind: str) -> Matched | None:
    found = rules.of(group, kind)
    return None if found is None else Matched(*found)


def _stretch_ms(rules: RetentionRules, brokers: Sequence[BrokerRules]) -> int:
    """Return how far back the log must be read for the retentions that are shorter."""
    longest = max((broker.retention_ms or 0 for broker in brokers), default=0)
    finite = [rule.retention_ms for rule in rules.rules if rule.retention_ms is not None]
    return max((ms for ms in finite if ms < longest), default=0)


def _clocks(found: Survey, matched: Mapping[str, Matched | None]) -> dict[Place, Clock]:
    """Return from when the offsets count that have a finite longer retention."""
    clocks: dict[Place, Clock] = {}
    for facts in found.groups:
        group = facts.description.group
        rule = matched[group]
        expiry = found.expiries.groups.get(group)
        broker_ms = _retention_ms(expiry)
        wanted_ms = None if rule is None else rule.rule.retention_ms
        if broker_ms is None or wanted_ms is None or wanted_ms <= broker_ms:
            continue
        for at, one in facts.offsets.items():
            counts_ms = clock_ms(one.expiry, broker_ms)
            if counts_ms is not None:
                clocks[group, at] = Clock(one.committed.offset, counts_ms)
    return clocks


def _retention_ms(expiry: GroupExpiry | None) -> int | None:
    known = expiry is not None and expiry.broker is not None
    return expiry.broker.retention_ms if known else None  # type: ignore[union-attr]


def _decided(
    found: Survey, facts: GroupFacts, matched: Matched | None, memory: Memory, now_ms: int
) -> LookedGroup:
    group = facts.description.group
    error = facts.error
    if isinstance(error, KgError):
        error = ItemError.of(error, Target(group=group))
    if error is not None or matched is None:
        return LookedGroup(group, matched, None, [], error)
    expiry = found.expiries.groups.get(group) or GroupExpiry(group, None, None, {})
    first_ms = {
        at: memory.first_ms[group, at] for at in facts.offsets if (group, at) in memory.first_ms
    }
    return LookedGroup(group, matched, facts, decide(facts, matched, expiry, first_ms, now_ms))


def make_plan(
    cluster_id: str | None, looked: Looked, rules: RetentionRules, now_ms: int, token: str
) -> CleanupPlan:
    """Make a plan of what is due."""
    items = (one.item(now_ms) for one in looked.groups)
    criteria = {
        "retention": [
            {"match": list(rule.globs), "retention_ms": rule.retention_ms, "type": list(rule.types)}
            for rule in rules.rules
        ]
    }
    header = make_header(cluster_id, "retention", criteria, now_ms, token, looked.newest_ms)
    return CleanupPlan(header, tuple(item for item in items if item is not None))
