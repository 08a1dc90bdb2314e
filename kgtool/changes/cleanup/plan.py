"""Making a cleanup plan, for the command and the Python API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool import __version__
from kgtool.changes.cleanup.criteria import Criteria, decide_all
from kgtool.changes.cleanup.facts import SLACK_MS, GroupFacts, TimesOf, obstacles, survey
from kgtool.changes.cleanup.plan_file import CleanupPlan, PlanHeader
from kgtool.changes.journal.change import make_id, user_and_host
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.queries.groups.describe import describe_with_type
from kgtool.text import moment, span

_AHEAD_MS, _QUIET_MS = 60_000, 3_600_000


class PlanResult(NamedTuple):
    """A plan, the groups that were read for it, and its warnings.

    ``missing``: named groups that do not exist, or can't be judged; ``failed``: groups that could
    not be read; ``skew``: a difference of this machine's clock from the log's, if there is one;
    ``obstacles``: why brokers can't apply it.
    """

    plan: CleanupPlan
    looked_at: list[GroupFacts]
    missing: list[ItemError]
    failed: list[ItemError]
    skew: str | None
    obstacles: list[str]

    @property
    def read(self) -> int:
        """How many groups could be read; an older plan is kept if none could."""
        return len(self.looked_at) - len(self.failed)


def make_plan(
    cluster: Cluster,
    groups: Sequence[str],
    kinds: dict[str, str],
    criteria: Criteria,
    selection: Mapping[str, Any],
    now_ms: int,
    token: str,
    times_of: TimesOf | None = None,
) -> Operation[PlanResult]:
    """Plan the cleanup of groups.

    :param kinds: the types of the groups, as far as a listing has them.
    :param selection: how the groups were chosen, for the header.
    :param token: distinguishes this plan from others of the same second.
    :param times_of: the times of commits, so that ``__consumer_offsets`` is not read for them.
    """
    since_ms = now_ms - (criteria.idle_ms or 0) - SLACK_MS
    found = yield from survey(cluster, groups, kinds, now_ms, since_ms, times_of)
    items, left_out = decide_all(found.groups, criteria, now_ms)
    reasons = yield from obstacles(cluster, found, items)
    missing = yield from _missing(cluster, selection.get("groups") or (), found.groups)
    given = {**selection, **criteria.given}
    header = make_header(cluster.cluster_id, "cluster", given, now_ms, token, found.newest_ms)
    return PlanResult(
        CleanupPlan(header, items, left_out),
        found.groups,
        missing,
        _failed(found.groups),
        _clock_skew(found.newest_ms, now_ms, idle=criteria.idle_ms is not None),
        [f"This plan can't be applied: {reason}" for reason in reasons],
    )


def _missing(
    cluster: Cluster, named: Sequence[str], looked_at: Sequence[GroupFacts]
) -> Operation[list[ItemError]]:
    known = {facts.description.group for facts in looked_at}
    absent = [group for group in named if group not in known]
    described = (yield from describe_with_type(cluster, absent)) if absent else []
    return [one.error or _not_judged(one) for one in described]


def _not_judged(description: GroupDescription) -> ItemError:
    return ItemError(
        Target(group=description.group),
        None,
        "NO_MATCH",
        f"Group '{description.group}' does not meet the other conditions.",
        "kgtool delete takes Empty groups of every type.",
    )


def _failed(groups: Sequence[GroupFacts]) -> list[ItemError]:
    failed = [(facts.description.group, facts.error) for facts in groups if facts.error is not None]
    return [
        ItemError.of(error, Target(group)) if isinstance(error, KgError) else error
        for group, error in failed
    ]


def make_header(
    cluster_id: str | None,
    source: str,
    criteria: Mapping[str, Any],
    now_ms: int,
    token: str,
    as_of_ms: int | None = None,
) -> PlanHeader:
    """Make a plan's header; see ``make_plan`` for ``token``."""
    made_by = "@".join(user_and_host())
    return PlanHeader(
        make_id(now_ms, token),
        cluster_id,
        now_ms,
        moment(now_ms),
        made_by,
        source,
        criteria,
        __version__,
        as_of_ms,
    )


def _clock_skew(newest_ms: int | None, now_ms: int, *, idle: bool) -> str | None:
    """Compare this machine's clock with the newest record of the log; return a warning or None.

    :param idle: whether a clock that is ahead would make groups look idle.
    """
    if newest_ms is None:
        return None
    if newest_ms - now_ms > _AHEAD_MS:
        return (
            "Warning: clocks differ: the newest record of __consumer_offsets is "
            f"{span(newest_ms - now_ms)} ahead of this machine's clock."
        )
    if idle and now_ms - newest_ms > _QUIET_MS:
        return (
            f"Warning: the newest record of __consumer_offsets is {span(now_ms - newest_ms)} old "
            "by this machine's clock. If groups have committed since, this clock is ahead and they "
            "look idle for too long."
        )
    return None
