"""Changes of groups' configs, on purpose or to take one back: checked, shown, journaled, done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.changes.groups import config_plan
from kgtool.changes.groups.config_plan import ConfigItem
from kgtool.cli.confirm import consent
from kgtool.cli.flows.change import Change
from kgtool.cli.flows.course import Course, not_reached
from kgtool.cli.output import rows
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import preview, show_table
from kgtool.columns import shown
from kgtool.columns.changes import CONFIGS_ALTER
from kgtool.net.session import Session
from kgtool.text import counted

WAY_BACK = "The current values are saved in the journal: kgtool undo restores them."


class Work:
    """One action that changes configs, from the check to the last row."""

    def __init__(
        self, session: Session, output: Output, *, dry_run: bool, yes: bool,
        undoes: str | None = None,
    ) -> None:  # fmt: skip
        self._session = session
        self._output = output
        self._dry_run = dry_run
        self._yes = yes
        self._undoes = undoes
        self.journal_id: str | None = None
        self.failed = 0

    def run(self, items: Sequence[ConfigItem], question: str) -> None:
        """Let the controller check, show, ask, change; ``{}`` in the question are the configs."""
        items = self._session.run(config_plan.check(self._session.cluster, items))
        open_ = [one for one in items if one.is_open]
        if open_ and not self._dry_run:
            self._output.note("Configs to change:")
            before = shown(CONFIGS_ALTER, "group name old_value new_value")
            preview(self._output, before, [_row(one) for one in open_])
            self._output.note(WAY_BACK)
            count = counted(len(open_), "config")
            consent.ask(
                self._session, self._output, question.format(count), self._yes,
                groups={one.group for one in open_},
            )  # fmt: skip
            items = self._changed(items, open_)
        self._report(items)
        if self._dry_run:
            consent.foretell(self._session, self._output, {one.group for one in open_})

    def _changed(
        self, items: Sequence[ConfigItem], open_: Sequence[ConfigItem]
    ) -> list[ConfigItem]:
        groups = list(dict.fromkeys(one.group for one in open_))
        course = Course(self._session, self._output, len(groups), yes=self._yes)
        with Change(self._session, self._output, undoes=self._undoes) as change:

            def work(part: list[str]) -> list[list[ConfigItem]]:
                """Change some groups; return the items of each."""
                going = [one for one in open_ if one.group in part]
                done = config_plan.make(self._session, change, going)
                return [[one for one in done if one.group == group] for group in part]

            def leave(group: str) -> list[ConfigItem]:
                error = not_reached(group)
                left = [one for one in open_ if one.group == group]
                return [one._replace(status="failed", error=error) for one in left]

            change.lock(groups)
            outcomes = course.run(
                groups, work, lambda rows: any(one.error for one in rows), leave,
                lambda done: self._report([one for rows in done for one in rows]),
            )  # fmt: skip
        outcome = {one.key: one for rows in outcomes for one in rows}
        done = [outcome.get(one.key, one) for one in items]
        self.journal_id = change.journal_id
        change.say()
        return done

    def _report(self, items: Sequence[ConfigItem]) -> None:
        rows = [_row(one) for one in items]
        show_table(self._output, shown(CONFIGS_ALTER), rows)
        if self._dry_run and any(one.is_open for one in items):
            self._output.note("Dry run: nothing was changed.")
        for one, row in zip(items, rows, strict=True):
            error = one.error
            if error is not None:
                self.failed += 1
                said = f"{one.name} of group '{one.group}': {error.message}"
                error = error._replace(message=said)
            self._output.item(row, error)


def _row(one: ConfigItem) -> dict[str, Any]:
    return rows.of(one, CONFIGS_ALTER, old_value=one.old, new_value=one.new)
