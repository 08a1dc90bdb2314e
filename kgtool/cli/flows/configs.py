"""Changes of groups' configs, on purpose or to take one back: checked, shown, journaled, done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.groups import configs as group_configs
from kgtool.changes.groups.configs import Configs, Wanted
from kgtool.changes.journal.history import changed_configs
from kgtool.changes.journal.journal import ConfigChange
from kgtool.changes.restore.from_journal import OtherValue, check_config
from kgtool.cli.confirm import consent
from kgtool.cli.flows.change import Change
from kgtool.cli.flows.course import Course, not_reached
from kgtool.cli.output import rows
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import preview, show_table
from kgtool.client.ops import grouped
from kgtool.columns import shown
from kgtool.columns.changes import CONFIGS_ALTER
from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.net.session import Session
from kgtool.text import counted

PENDING = "would-alter"
WAY_BACK = "The current values are saved in the journal: kgtool undo restores them."


class Refused(KgError):
    """A config that kgtool itself has something against."""

    name = "INVALID_CONFIG"


class Item(NamedTuple):
    """One config of one group; a value None is "not set at the group".

    ``status``: would-alter, altered, unchanged, changed-meanwhile, unknown or failed.
    """

    group: str
    name: str
    old: str | None
    new: str | None
    status: str = PENDING
    error: ItemError | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others."""
        return self.group, self.name

    def failed(self, error: KgError) -> Item:
        """Return it with the reason why it can't be."""
        failure = ItemError.of(error, Target(group=self.group))
        return self._replace(status=failure.status, error=failure)

    def row(self) -> dict[str, Any]:
        """Return the row of the machine formats."""
        return rows.of(self, CONFIGS_ALTER, old_value=self.old, new_value=self.new)


def item(group: str, name: str, configs: Configs | KgError, new: str | None) -> Item:
    """Compare a wish with what is set now."""
    if isinstance(configs, KgError):
        return Item(group, name, None, new).failed(configs)
    old = configs[name].own if name in configs else None
    found = Item(group, name, old, new)
    if name not in configs:
        near = group_configs.nearest(name, configs)
        hint = f"Did you mean {near}?" if near else "kgtool configs --all shows what there is."
        return found.failed(Refused(f"There is no group config '{name}'.", hint=hint))
    return found._replace(status="unchanged") if old == new else found


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

    def run(self, items: Sequence[Item], question: str) -> None:
        """Let the controller check, show, ask, change; ``{}`` in the question are the configs."""
        items = self._checked(items)
        open_ = [one for one in items if one.status == PENDING]
        if open_ and not self._dry_run:
            self._show(open_)
            count = counted(len(open_), "config")
            consent.ask(
                self._session, self._output, question.format(count), self._yes,
                groups={one.group for one in open_},
            )  # fmt: skip
            items = self._changed(items, open_)
        self._report(items)
        if self._dry_run:
            consent.foretell(self._session, self._output, {one.group for one in open_})

    def _checked(self, items: Sequence[Item]) -> list[Item]:
        wanted = _wanted(items)
        if not wanted:
            return list(items)
        answers = self._session.run(
            group_configs.check_group_configs(self._session.cluster, wanted)
        )
        return [_outcome(one, answers, PENDING) for one in items]

    def _show(self, items: Sequence[Item]) -> None:
        self._output.note("Configs to change:")
        rows = [one.row() for one in items]
        preview(self._output, shown(CONFIGS_ALTER, "group name old_value new_value"), rows)
        self._output.note(WAY_BACK)

    def _changed(self, items: Sequence[Item], open_: Sequence[Item]) -> list[Item]:
        shown = {one.key: ConfigChange(one.group, one.name, one.old, one.new) for one in open_}
        groups = list(dict.fromkeys(one.group for one in open_))
        course = Course(self._session, self._output, len(groups), yes=self._yes)
        with Change(self._session, self._output, undoes=self._undoes) as change:

            def work(part: list[str]) -> list[list[Item]]:
                """Change some groups; return the items of each."""
                going = [one for one in open_ if one.group in part]
                old = grouped((one.group, (one.name, one.old)) for one in going)
                agreed = {group: dict(values) for group, values in old.items()}
                written: set[tuple[str, str]] = set()

                def before(sent: Wanted) -> None:
                    keys = [(group, name) for group in sent for name in sent[group]]
                    written.update(keys)
                    change.before((), configs=[shown[key] for key in keys])

                answers = self._session.run(
                    group_configs.change_agreed_configs(
                        self._session.cluster, _wanted(going), agreed, before
                    )
                )
                done = [_outcome(one, answers, "altered") for one in going]
                change.results(one for one in done if one.key in written)
                return [[one for one in done if one.group == group] for group in part]

            def leave(group: str) -> list[Item]:
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

    def _report(self, items: Sequence[Item]) -> None:
        rows = [one.row() for one in items]
        show_table(self._output, shown(CONFIGS_ALTER), rows)
        if self._dry_run and any(one.status == PENDING for one in items):
            self._output.note("Dry run: nothing was changed.")
        for one, row in zip(items, rows, strict=True):
            error = one.error
            if error is not None:
                self.failed += 1
                said = f"{one.name} of group '{one.group}': {error.message}"
                error = error._replace(message=said)
            self._output.item(row, error)


def _wanted(items: Sequence[Item]) -> dict[str, dict[str, str | None]]:
    going = [one for one in items if one.status == PENDING]
    wanted = grouped((one.group, (one.name, one.new)) for one in going)
    return {group: dict(values) for group, values in wanted.items()}


def _outcome(one: Item, answers: Mapping[tuple[str, str], KgError | None], good: str) -> Item:
    if one.status != PENDING or one.key not in answers:
        return one
    answer = answers[one.key]
    return one._replace(status=good) if answer is None else one.failed(answer)


def undo_items(session: Session, path: Any, *, force: bool) -> list[Item]:
    """Say what it takes to undo a journal: each config as it was, where the change left it."""

    changes = changed_configs(path)
    found = session.run(
        group_configs.describe_group_configs(session.cluster, [change.group for change in changes])
    )
    items = []
    for change in changes:
        one = item(change.group, change.name, found[change.group], change.before)
        if one.status == PENDING and not force:
            try:
                check_config(change, one.old)
            except OtherValue as problem:
                one = one.failed(problem)
        items.append(one)
    return items
