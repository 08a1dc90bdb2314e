"""The methods of ``GroupAdmin`` that clean up: a plan of unused groups, and its application."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.api import arguments
from kgtool.api.connection import AdminConnection, warn
from kgtool.changes.policy import Guard, Origin
from kgtool.clock import now_ms, token
from kgtool.model import Listing

if TYPE_CHECKING:
    from kgtool.changes.cleanup.apply import ItemResult
    from kgtool.changes.cleanup.plan_file import CleanupPlan


class CleanupMethods(AdminConnection):
    """The methods that find unused groups and offsets, and remove them by a plan."""

    def cleanup_plan(
        self,
        groups: Iterable[str] | None = None,
        *,
        idle_ms: int | None = None,
        no_lag: bool = False,
        generated: bool = False,
        unsubscribed: bool = False,
        orphaned: bool = False,
        rebuild: bool = True,
        path: str | Path | None = None,
    ) -> CleanupPlan:
        """Find groups without members, or offsets, that can be removed (``kgtool cleanup plan``).

        Each item says why it is in the plan; ``left_out`` names groups that can't be judged, and
        ``errors`` the brokers and groups that could not be read.
        Nothing is changed. Needs READ on ``__consumer_offsets`` for the times of commits.

        :param groups: only these (default: all consumer groups).
        :param idle_ms: only groups without a commit or a change of members for so many ms.
        :param no_lag: only groups and offsets without lag.
        :param generated: only names that tools generate.
        :param unsubscribed: offsets that no member subscribes to, instead of whole groups.
        :param orphaned: offsets of deleted, re-created or truncated topics, instead of whole
            groups.
        :param rebuild: delete and restore a group for offsets of deleted topics.
        :param path: the file to write, for review and ``kgtool cleanup apply``. An existing file
            is kept if no group could be read.
        """
        from kgtool.changes.cleanup.criteria import Criteria
        from kgtool.changes.cleanup.plan import make_plan
        from kgtool.changes.cleanup.plan_file import write
        from kgtool.queries.groups.list import list_groups

        criteria = Criteria(idle_ms, no_lag, generated, unsubscribed, orphaned, rebuild)
        named = None if groups is None else arguments.names(groups)
        with self._long_session() as session:
            listing = Listing([], [])
            if named is None:
                listing = session.run(list_groups(session.cluster))
            kinds = listing.consumer_groups
            names, selection = list(kinds) if named is None else named, {"groups": named or []}
            making = make_plan(
                session.cluster, names, kinds, criteria, selection, now_ms(), token()
            )
            made = session.run(making)
        for warning in filter(None, (made.skew, *made.obstacles)):
            warn(warning)
        plan = made.plan._replace(errors=(*listing.errors, *made.missing, *made.failed))
        if path is not None and (made.read or not plan.errors):
            write(plan, Path(path))
        return plan

    def cleanup_apply(
        self,
        plan: CleanupPlan | str | Path,
        *,
        max_delete: int | None = None,
        dry_run: bool = False,
        allow_blind: bool = False,
    ) -> list[ItemResult]:
        """Apply a plan (``kgtool cleanup apply``); ``undo`` reverts it.

        Each group is read again just before it is changed: what has changed since is ``skipped``.
        An interrupted run is resumed by calling it again with the same plan.
        Needs DELETE on the groups, and READ on the topics for single offsets (KIP-229, KIP-496).

        :param plan: as ``cleanup_plan`` returned it, or its file.
        :param max_delete: change nothing if the plan has more groups than that.
        :param allow_blind: go on where ``__consumer_offsets`` can't be read, so that use of a
            group since the plan was made goes unnoticed.
        :raises TooMany: the plan has more than ``max_delete`` groups.
        :raises ConfigError: the plan can't be read, or does not say which cluster it is about.
        :raises Blind: ``__consumer_offsets`` can't be read for any group, without ``allow_blind``.
        :raises OtherCluster: the plan is about another cluster.
        """
        from kgtool.changes.cleanup.apply import PlanRun
        from kgtool.changes.cleanup.plan_reader import read
        from kgtool.changes.cleanup.progress import PlanProgress
        from kgtool.changes.kinds.apply_plan import apply_items, foreseen

        wanted = read(Path(plan)) if isinstance(plan, (str, Path)) else plan
        where = Path(plan) if isinstance(plan, (str, Path)) else Path(f"plan {wanted.header.id}")
        with self._long_session() as session:
            run = PlanRun(session, wanted, where, warn, allow_blind=allow_blind)
            limits = Guard(session, Origin("cleanup_apply", max_delete=max_delete))
            limits.limit(item.group for item in wanted.items if item.changes)
            if dry_run:
                left, results = run.open_items({})
                run.check_log(left)
                return results + foreseen(run, left)
            with (
                self._change(
                    session,
                    "cleanup_apply",
                    allow_blind=allow_blind,
                    max_delete=max_delete is not None,
                ) as change,
                PlanProgress(self._journals, wanted.header.id, session.cluster_id) as progress,
            ):
                left, results = run.open_items(progress.results)
                run.check_log(left)
                apply_items(run, left, change, progress, results.extend)
            return results
