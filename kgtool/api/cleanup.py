"""What ``GroupAdmin`` can clean up: a plan of what is dead, and carrying it out."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.api import targets
from kgtool.api.connection import Connected, journal_folder, warn
from kgtool.client.ops import cut
from kgtool.clock import now_ms
from kgtool.errors import UsageError
from kgtool.model import Listing

if TYPE_CHECKING:
    from kgtool.changes.cleanup.apply import Result, Sight
    from kgtool.changes.cleanup.plan_file import Plan, PlanItem
    from kgtool.changes.journal.change import Change
    from kgtool.net.session import Session


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
        and ``errors`` the brokers whose groups were not looked at.
        Nothing is changed. Needs READ on ``__consumer_offsets`` for the times of commits.

        :param groups: only these (default: all consumer groups).
        :param idle_ms: only groups with no commit and no change of members for so many ms.
        :param no_lag: only what has nothing left to read.
        :param generated: only names that tools make up.
        :param unsubscribed: offsets that no member subscribes to, instead of whole groups.
        :param orphaned: offsets that nobody can read on from, instead of whole groups.
        :param rebuild: delete and restore a group for offsets of topics that are gone.
        :param path: write the plan there, for people to read and ``kgtool cleanup apply``.
        """
        from kgtool.changes.cleanup.criteria import Criteria
        from kgtool.changes.cleanup.plan import make_plan
        from kgtool.changes.cleanup.plan_file import write
        from kgtool.queries.groups.list import list_groups

        criteria = Criteria(idle_ms, no_lag, generated, unsubscribed, orphaned, rebuild)
        named = None if groups is None else targets.names(groups)
        with self._long_session() as session:
            session.connect()
            listing = Listing([], [])
            if named is None:
                listing = session.run(list_groups(session.cluster))
            kinds = listing.consumer_groups
            making = make_plan(
                session.cluster, list(kinds) if named is None else named, kinds, criteria,
                {"groups": named or []}, now_ms(), secrets.token_hex(4),
            )  # fmt: skip
            plan, _, skew, obstacles = session.run(making)
        for said in (skew, *obstacles):
            if said is not None:
                warn(said)
        plan = plan._replace(errors=tuple(listing.errors))
        if path is not None:
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
        :raises UsageError: it has.
        :raises Blind: it can't be read for any of the groups, and that was not allowed.
        :raises OtherCluster: the plan is about another cluster.
        """
        from kgtool.changes.cleanup.apply import sight_for
        from kgtool.changes.cleanup.plan_reader import read
        from kgtool.changes.restore.from_journal import check_cluster

        wanted = read(Path(plan)) if isinstance(plan, (str, Path)) else plan
        where = Path(plan) if isinstance(plan, (str, Path)) else Path(f"plan {wanted.header.id}")
        with self._long_session() as session:
            session.connect()
            check_cluster(where, wanted.header.cluster_id, session.cluster_id, "a plan made here")
            going = [item for item in wanted.items if item.changes]
            if max_delete is not None and len(going) > max_delete:
                raise UsageError(
                    f"{len(going)} groups are to be changed, and max_delete allows {max_delete}."
                )
            sight = sight_for(wanted, warn, allow_blind=allow_blind)
            with self._change(session, "cleanup_apply", allow_blind=allow_blind) as change:
                if dry_run:
                    return list(_foreseen(session, sight, wanted, going))
                folder = journal_folder(self._journal)
                return list(_carried_out(session, change, sight, wanted, folder))


def _foreseen(
    session: Session, sight: Sight, plan: Plan, going: list[PlanItem]
) -> Iterator[Result]:
    from kgtool.changes.cleanup.apply import GROUPS_AT_ONCE, Part, Result, look_ahead

    yield from (Result(item, "waiting") for item in plan.items if not item.changes)
    look_ahead(session, sight, going)
    for items in cut(going, GROUPS_AT_ONCE):
        yield from Part(session, sight, items).look()


def _carried_out(
    session: Session, change: Change, sight: Sight, plan: Plan, folder: Path
) -> Iterator[Result]:
    from kgtool.changes.cleanup.apply import (
        GROUPS_AT_ONCE,
        Part,
        groups_back,
        look_ahead,
        places,
        settled,
    )
    from kgtool.changes.cleanup.progress import Progress

    with Progress(folder, plan.header.id, session.cluster_id) as progress:
        back = groups_back(session, plan, progress)
        left = []
        for item in plan.items:
            result = settled(item, progress, back)
            if result is None:
                left.append(item)
            else:
                yield result
        look_ahead(session, sight, left)
        change.foresee(lambda: ([i.group for i in left], sum(len(places(i)) for i in left)))
        for items in cut(left, GROUPS_AT_ONCE):
            with change.locked(item.group for item in items):
                results = Part(session, sight, items, progress).apply(change, progress)
            progress.finish({result.item.key: result.status for result in results})
            yield from results
