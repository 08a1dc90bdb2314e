"""What ``GroupAdmin`` can clean up: a plan of what is dead, and carrying it out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.api import targets
from kgtool.api.connection import Connected, journal_folder, warn
from kgtool.client.ops import cut
from kgtool.clock import now_ms, token
from kgtool.model import Listing

if TYPE_CHECKING:
    from kgtool.changes.cleanup.apply import Result
    from kgtool.changes.cleanup.plan_file import Plan


class Cleaning(Connected):
    """The methods that find dead groups and offsets, and remove them by a plan."""

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
    ) -> Plan:
        """Find groups without members, or offsets, that may go (``kgtool cleanup plan``).

        Each item says why it is in the plan; ``left_out`` names groups of which nobody can tell,
        and ``errors`` the brokers and groups that could not be read.
        Nothing is changed. Needs READ on ``__consumer_offsets`` for the times of commits.

        :param groups: only these (default: all consumer groups).
        :param idle_ms: only groups with no commit and no change of members for so many ms.
        :param no_lag: only what has nothing left to read.
        :param generated: only names that tools make up.
        :param unsubscribed: offsets that no member subscribes to, instead of whole groups.
        :param orphaned: offsets that nobody can read on from, instead of whole groups.
        :param rebuild: delete and restore a group for offsets of topics that are gone.
        :param path: write the plan there, for people to read and ``kgtool cleanup apply``. An
            existing file is kept if no group could be read.
        """
        from kgtool.changes.cleanup.criteria import Criteria
        from kgtool.changes.cleanup.plan import make_plan
        from kgtool.changes.cleanup.plan_file import write
        from kgtool.queries.groups.list import list_groups

        criteria = Criteria(idle_ms, no_lag, generated, unsubscribed, orphaned, rebuild)
        named = None if groups is None else targets.names(groups)
        with self._long_session() as session:
            listing = Listing([], [])
            if named is None:
                listing = session.run(list_groups(session.cluster))
            kinds = listing.consumer_groups
            making = make_plan(
                session.cluster, list(kinds) if named is None else named, kinds, criteria,
                {"groups": named or []}, now_ms(), token(),
            )  # fmt: skip
            made = session.run(making)
        for said in (made.skew, *made.obstacles):
            if said is not None:
                warn(said)
        plan = made.plan._replace(errors=(*listing.errors, *made.missing, *made.failed))
        if path is not None and (made.read or not plan.errors):
            write(plan, Path(path))
        return plan

    def cleanup_apply(
        self, plan: Plan | str | Path, *, max_delete: int | None = None, dry_run: bool = False,
        allow_blind: bool = False,
    ) -> list[Result]:  # fmt: skip
        """Carry out a plan (``kgtool cleanup apply``); ``undo`` takes it back.

        Each group is looked at again just before it is touched: what has changed since is
        ``skipped``. A run that was interrupted is taken up by calling it again with the same plan.
        Needs DELETE on the groups, and READ on the topics for single offsets (KIP-229, KIP-496).

        :param plan: as ``cleanup_plan`` returned it, or its file.
        :param max_delete: change nothing if the plan has more groups than that.
        :param allow_blind: go on where ``__consumer_offsets`` can't be read, so that nothing tells
            whether a group was used since the plan was made.
        :raises TooMany: it has.
        :raises ConfigError: the plan can't be read, or does not say which cluster it is about.
        :raises Blind: it can't be read for any of the groups, and that was not allowed.
        :raises OtherCluster: the plan is about another cluster.
        """
        from kgtool.changes.cleanup.apply import GROUPS_AT_ONCE, Run, size
        from kgtool.changes.cleanup.plan_reader import read
        from kgtool.changes.cleanup.progress import Progress
        from kgtool.changes.policy import Guard, Origin

        wanted = read(Path(plan)) if isinstance(plan, (str, Path)) else plan
        where = Path(plan) if isinstance(plan, (str, Path)) else Path(f"plan {wanted.header.id}")
        with self._long_session() as session:
            run = Run(session, wanted, where, warn, allow_blind=allow_blind)
            limits = Guard(session, Origin("cleanup_apply", max_delete=max_delete))
            limits.limit(item.group for item in wanted.items if item.changes)
            if dry_run:
                left, results = run.settle({})
                run.look_ahead(left)
                for items in cut(left, GROUPS_AT_ONCE):
                    results += run.look(items)
                return results
            folder = journal_folder(self._journal)
            with (
                self._change(session, "cleanup_apply", allow_blind=allow_blind) as change,
                Progress(folder, wanted.header.id, session.cluster_id) as progress,
            ):
                left, results = run.settle(progress.results)
                run.look_ahead(left)
                change.foresee(lambda: size(left))
                for items in cut(left, GROUPS_AT_ONCE):
                    results += run.apply(items, change, progress)
            return results
