"""The methods of ``GroupAdmin`` that give groups a retention of their own, by a file of rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgtool.api.connection import AdminConnection, warn
from kgtool.changes.policy import Guard
from kgtool.clock import now_ms, token

if TYPE_CHECKING:
    from kgtool.changes.cleanup.apply import ItemResult
    from kgtool.changes.kinds.keep import GroupKeep
    from kgtool.changes.retention.decide import RetentionRow
    from kgtool.changes.retention.look import Looked
    from kgtool.config.retention import RetentionRules
    from kgtool.net.session import Session


class RetentionMethods(AdminConnection):
    """The methods of ``kgtool retention``."""

    def retention_show(self, path: str | Path) -> list[RetentionRow]:
        """Return what the rules of a file do with each offset, and when (``retention show``).

        Nothing is changed. Groups or brokers that could not be read are warnings.

        :param path: the rules, in TOML.
        :raises ConfigError: they can't be read, or never apply.
        """
        with self._long_session() as session:
            looked = self._look(session, _read(path), now_ms())
            return [row for group in looked.groups for row in group.rows]

    def retention_apply(
        self,
        path: str | Path,
        *,
        join: bool = False,
        max_groups: int | None = None,
        dry_run: bool = False,
        allow_blind: bool = False,
    ) -> list[RetentionRow]:
        """Keep and remove what is due by the rules of a file (``retention apply FILE``).

        Returns what was due, with its outcome, and what is refused; ``undo`` reverts removals.

        :param path: the rules, in TOML.
        :param join: join and leave groups whose clock runs from when they became Empty.
        :param max_groups: change nothing if more groups are due than that.
        :param allow_blind: remove also where ``__consumer_offsets`` can't be read meanwhile.
        :raises ConfigError: the rules can't be read, or never apply.
        :raises TooMany: more than ``max_groups`` are due.
        """
        from kgtool.changes.cleanup.apply import PlanRun, size
        from kgtool.changes.cleanup.progress import PlanProgress
        from kgtool.changes.driver import Driver
        from kgtool.changes.journal.journal import KEEP
        from kgtool.changes.kinds.apply_plan import apply_items, foreseen
        from kgtool.changes.kinds.keep_planned import KeepPlanned
        from kgtool.changes.plan import ChangePlan
        from kgtool.changes.retention.apply import kept_row, refused_rows, removed_rows, split
        from kgtool.changes.retention.look import make_plan

        rules, at_ms = _read(path), now_ms()
        with self._long_session() as session, ChangePlan[Any]() as plan:
            looked = self._look(session, rules, at_ms)
            made = make_plan(session.cluster_id, looked, rules, at_ms, token())
            planned, rest = split(made)
            rows = refused_rows(looked, at_ms)

            def kept(groups: list[GroupKeep]) -> None:
                rows.extend(kept_row(rules, one, row, at_ms) for one in groups for row in one.rows)

            def removed(results: list[ItemResult]) -> None:
                rows.extend(r for one in results for r in removed_rows(rules, one, at_ms))

            kind = KeepPlanned(now_ms, planned, looked.memory.first_ms, join=join)
            driver = Driver(session, kind)
            driver.look(plan, list(planned))
            where = Path(f"plan {rest.header.id}")
            run = PlanRun(session, rest, where, warn, allow_blind=allow_blind)
            names, count = size(rest.items)
            limits = max_groups is not None
            said = self._origin(
                "retention_apply", join=join, allow_blind=allow_blind, max_groups=limits
            )
            guard = Guard(session, said._replace(max_delete=max_groups))
            guard.limit([*plan.groups, *names])
            run.check_log(rest.items)
            if dry_run:
                plan.report(kept)
                removed(foreseen(run, rest.items))
                return rows
            if plan.groups or names:
                guard.admit([*plan.groups, *names], plan.offsets + count)
            if plan.groups:
                with self._change(session, KEEP, join=join, max_groups=limits) as change:
                    driver.apply(change, plan, kept)
            else:
                plan.report(kept)
            if names:
                flags = {"allow_blind": allow_blind, "max_groups": limits}
                with (
                    self._change(session, "retention_apply", None, **flags) as change,
                    PlanProgress(self._journals, rest.header.id, session.cluster_id) as progress,
                ):
                    apply_items(run, rest.items, change, progress, removed)
            return rows

    def _look(self, session: Session, rules: RetentionRules, at_ms: int) -> Looked:
        from kgtool.changes.journal.kept import first_times
        from kgtool.changes.retention.look import look

        looked = session.run(
            look(
                session.cluster,
                rules,
                at_ms,
                lambda clocks: first_times(self._journals, session.cluster_id, clocks),
            )
        )
        for error in (*looked.errors, *(one.error for one in looked.groups if one.error)):
            warn(error.message)
        return looked


def _read(path: str | Path) -> RetentionRules:
    from kgtool.config.retention import read_rules
    from kgtool.held import hold

    return read_rules(hold(path))
