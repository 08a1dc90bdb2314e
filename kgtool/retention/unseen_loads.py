"""What can be told of an offset although its coordinator may have restarted without a trace.

A log shows by a new leader epoch that a coordinator has loaded the partition. With some brokers a
restart leaves the epoch as it is (``RuleSet.shows_loads``). It decides which topics of a static
member that came back protect (``groups.Group.by_load``), and some brokers then forget since when a
group is Empty (``RuleSet.forgets_date_on_load``): of two verdicts either may hold, and what is told
is where they agree.
"""

from __future__ import annotations

from kgtool.retention import rules as r
from kgtool.retention.doubts import slack_ms
from kgtool.retention.rules import GroupSnapshot, RuleSet, Verdict


def after_load(rules: RuleSet, group: GroupSnapshot, topic: str) -> GroupSnapshot:
    """The group, as far as it is about one topic, as its coordinator has it if it has loaded the
    partition: the same if equal."""
    if not rules.shows_loads and (group.by_load is None or topic in group.by_load):
        known = group.subscribed_topics
        is_kept = known is None or topic in known
        group = group._replace(subscribed_topics=frozenset(() if is_kept else (topic,)))
    dated = group.state == r.STATE_EMPTY and group.state_since_ms is not None
    forgets = dated and rules.may_forget_date
    return group._replace(state_since_ms=None) if forgets else group


def one_date(a: Verdict, b: Verdict, now_ms: int, interval_ms: int) -> Verdict | None:
    """What can be told if either of two verdicts holds; None: too far apart.

    The earlier of two dates that a check may take for one; of two that are past, the later: what
    is due by both is due.
    """
    at_a, at_b = a.expires_at_ms, b.expires_at_ms
    if at_a is None or at_b is None:
        return a if at_a == at_b else None
    if max(at_a, at_b) <= now_ms:
        return a if at_a >= at_b else b
    earlier = a if at_a <= at_b else b
    return earlier if abs(at_a - at_b) <= slack_ms(interval_ms) else None
