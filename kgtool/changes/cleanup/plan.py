"""Making a cleanup plan: look at groups, decide on each, and find what keeps it from being applied.

What ``cleanup plan`` does, in the command and in the Python API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool import __version__
from kgtool.changes.cleanup.criteria import Criteria, clock_skew, decide_all
from kgtool.changes.cleanup.facts import SLACK_MS, GroupFacts, TimesOf, obstacles, survey
from kgtool.changes.cleanup.plan_file import CleanupPlan, PlanHeader
from kgtool.changes.journal.change import make_id, who
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.protocol import codes
from kgtool.text import moment


class PlanResult(NamedTuple):
    """A plan, the groups that were looked at for it, and what is to be said of it.

    ``missing``: named groups that do not exist; ``failed``: groups that could not be read;
    ``skew``: how this machine's clock differs from the log's, None where it does not;
    ``obstacles``: why brokers can't carry it out.
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
    cluster: Cluster, groups: Sequence[str], kinds: dict[str, str], criteria: Criteria,
    selection: Mapping[str, Any], now_ms: int, token: str, told: TimesOf | None = None,
) -> Operation[PlanResult]:  # fmt: skip
    """Plan the cleanup of groups.

    :param kinds: the types of the groups, as far as a listing has told them.
    :param selection: how the groups were chosen, for the header.
    :param token: some letters that tell this plan from others of the same second.
    :param told: knows the times of commits; ``__consumer_offsets`` is not read for them then.
    """
    since_ms = now_ms - (criteria.idle_ms or 0) - SLACK_MS
    found = yield from survey(cluster, groups, kinds, now_ms, since_ms, told)
    items, left_out = decide_all(found.groups, criteria, now_ms)
    reasons = yield from obstacles(cluster, found, items)
    header = make_header(
        cluster.cluster_id, "cluster", {**selection, **criteria.given}, now_ms, token,
        found.newest_ms,
    )  # fmt: skip
    return PlanResult(
        CleanupPlan(header, items, left_out),
        found.groups,
        _missing(selection.get("groups") or (), found.groups),
        [_error(facts) for facts in found.groups if facts.error is not None],
        clock_skew(found.newest_ms, now_ms, idle=criteria.idle_ms is not None),
        [f"This plan can't be applied: {reason}" for reason in reasons],
    )


def _missing(named: Sequence[str], looked_at: Sequence[GroupFacts]) -> list[ItemError]:
    known = {facts.description.group for facts in looked_at}
    return [
        ItemError(
            Target(group=group), codes.GROUP_ID_NOT_FOUND, "GROUP_ID_NOT_FOUND",
            f"Group {group} not found, or it is a share or streams group.",
            "kgtool never cleans those up.",
        )
        for group in named
        if group not in known
    ]  # fmt: skip


def _error(facts: GroupFacts) -> ItemError:
    error = facts.error
    if isinstance(error, KgError):
        return ItemError.of(error, Target(facts.description.group))
    assert error is not None
    return error


def make_header(
    cluster_id: str | None, source: str, criteria: Mapping[str, Any], now_ms: int, token: str,
    as_of_ms: int | None = None,
) -> PlanHeader:  # fmt: skip
    """Say who makes a plan, when and of what; see ``make_plan`` for ``token``."""
    return PlanHeader(
        make_id(now_ms, token), cluster_id, now_ms, moment(now_ms), "{}@{}".format(*who()),
        source, criteria, __version__, as_of_ms,
    )  # fmt: skip
