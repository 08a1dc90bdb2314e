"""``kgtool configs``: the configs of single groups, and changes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kgtool.changes.groups import config_plan
from kgtool.changes.groups.config_plan import ConfigItem, Refused, compare
from kgtool.changes.groups.configs import Configs, describe_group_configs
from kgtool.cli.change import confirm
from kgtool.cli.change.canary import Course, not_reached
from kgtool.cli.change.journaled import Change
from kgtool.cli.options.declare import declare, flag, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import change_options, name_options, open_session, positions
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import preview, show_table
from kgtool.client.ops import READING_SHARE, within
from kgtool.columns import shown
from kgtool.columns.changes import CONFIGS, CONFIGS_ALTER
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.net.session import Session
from kgtool.queries.groups.describe import describe_with_type
from kgtool.text import counted, escape, listed

_TYPES = ("consumer", "share", "streams")
_COMMA = re.compile(r",(?=[^\]]*(?:\[|$))")
"""One that is not between brackets, as ``ConfigCommand.parseConfigsToBeAdded`` tells it."""


@declare(
    "configs",
    "kgtool configs --group billing",
    "kgtool configs --group billing --alter --add-config consumer.session.timeout.ms=60000",
    "kgtool configs --match 'team-a-*' --alter --delete-config consumer.session.timeout.ms "
    "--dry-run",
)
@name_options
@positions
@flag("--describe", "Show the configs (default).")
@flag("--all all_", "Also configs that apply to groups of other types.")
@flag("--alter", "Change configs: --add-config, --delete-config.")
@repeatable("--add-config add", "K=V,...",
            "Set configs; repeatable. [a,b] is a value with a comma.")  # fmt: skip
@repeatable("--delete-config delete", "K,...",
            "Unset configs, so that the broker's value applies; repeatable.")  # fmt: skip
@flag("--force", "Also configs that apply to groups of other types.")
@change_options()
def command(
    settings: Settings, output: Output, selection: Selection, all_: bool, alter: bool, force: bool,
    **given: Any,
) -> int:  # fmt: skip
    """Show and change the configs of single groups (KIP-848).

    VALUE is in effect, DEFAULT would be if nothing were set for the group, SOURCE is where the
    value comes from: group, or the broker. Classic groups have none: what is set there applies
    once they are converted. A group need not exist.

    Changes are checked by the controller before anything is changed, and kept in the journal:
    kgtool undo takes them back. They need Kafka ≥ 4.0, and the ACL operations DESCRIBE_CONFIGS
    and ALTER_CONFIGS on the group.
    """
    changes = _usage(selection, alter, given)
    with open_session(settings) as session:
        columns = CONFIGS_ALTER if alter else CONFIGS
        groups = choose(session, output, selection, columns).groups
        found = []
        if groups:
            configs = session.run(describe_group_configs(session.cluster, groups))
            # A coordinator that doesn't answer must leave time for the change.
            described = within(describe_with_type(session.cluster, groups), READING_SHARE)
            found = [Found(one, configs[one.group]) for one in session.run(described)]
        if alter:
            items = [
                _checked(one, compare(one.group, name, one.configs, value), force)
                for one in found
                for name, value in changes.items()
            ]
            _say_classic(output, found)
            work = Work(session, output, dry_run=given["dry_run"], yes=given["yes"])
            work.run(items, "Change {}?")
        else:
            _show(output, found, all_)
    return output.finish()


def _usage(selection: Selection, alter: bool, given: dict[str, Any]) -> dict[str, str | None]:
    """Return the changes that are asked for; nothing has been sent yet.

    :raises UsageError: options contradict each other, or nobody can be asked.
    """
    selection.check("configs")
    if given["describe"] and alter:
        raise UsageError("Give --describe or --alter, not both.")
    changes = _changes(given["add"], given["delete"])
    if not alter and (changes or given["dry_run"]):
        raise UsageError("--add-config, --delete-config and --dry-run go with --alter.")
    if alter and not changes:
        raise UsageError("--alter takes --add-config K=V or --delete-config K.")
    if alter:
        confirm.require(given["yes"], given["dry_run"])
    return changes


def _changes(add: Iterable[str], delete: Iterable[str]) -> dict[str, str | None]:
    """Read ``k=v,k2=[a,b]`` as ``kafka-configs.sh`` does; None stands for a deletion."""
    changes: dict[str, str | None] = {}
    for text in add:
        for part in filter(str.strip, _COMMA.split(text)):
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"--add-config takes NAME=VALUE, not '{part}'.")
            _take(changes, name.strip(), value.strip().removeprefix("[").removesuffix("]"))
    for text in delete:
        for name in filter(None, (part.strip() for part in text.split(","))):
            _take(changes, name, None)
    return changes


def _take(changes: dict[str, str | None], name: str, value: str | None) -> None:
    if name in changes:
        raise UsageError(f"{name} appears twice.")
    changes[name] = value


class Found(NamedTuple):
    """A group and its configs."""

    description: GroupDescription
    configs: Configs | KgError

    @property
    def group(self) -> str:
        """The group's name."""
        return self.description.group

    @property
    def type(self) -> str | None:
        """The group's type; None where there is no such group, or it can't be told."""
        return None if self.description.error is not None else self.description.type

    @property
    def is_missing(self) -> bool:
        """Whether its coordinator says that there is no such group."""
        error = self.description.error
        return error is not None and error.name == "GROUP_ID_NOT_FOUND"

    @property
    def counts(self) -> str | None:
        """The type of configs that counts for the group."""
        return "consumer" if self.type == "classic" else self.type

    def is_for_it(self, name: str) -> bool:
        """Whether a config counts for the group, or may."""
        kind = name.partition(".")[0]
        return self.type is None or kind not in _TYPES or kind == self.counts


def _say_classic(output: Output, found: Iterable[Found]) -> None:
    names = [escape(one.group) for one in found if one.type == "classic"]
    if names:
        output.note(
            f"Note: {listed(names, 5, ' and more')} {'is' if len(names) == 1 else 'are'} classic: "
            "configs apply once the members speak the consumer protocol (KIP-848)."
        )
    missing = [escape(one.group) for one in found if one.is_missing]
    if missing:
        output.note(f"Note: there is no group {listed(missing, 5, '')} now.")


# -- describe ---------------------------------------------------------------------------------


def _show(output: Output, found: Sequence[Found], all_: bool) -> None:
    rows: list[dict[str, Any]] = []
    for one in found:
        if isinstance(one.configs, KgError):
            output.failed(ItemError.of(one.configs, Target(group=one.group)))
            continue
        if one.description.error is not None and not one.is_missing:
            # Its configs are known, and not which of them count for it.
            output.failed(one.description.error)
        output.done += 1
        configs = sorted(one.configs.values(), key=lambda config: config.name)
        some = [build_row(c, CONFIGS) for c in configs if all_ or one.is_for_it(c.name)]
        rows += some
        for row in some:
            output.row(row)
    _say_classic(output, [one for one in found if not isinstance(one.configs, KgError)])
    show_table(output, shown(CONFIGS), rows, page=True)


# -- alter ------------------------------------------------------------------------------------


def _checked(found: Found, item: ConfigItem, force: bool) -> ConfigItem:
    """Refuse what would never count for the group."""
    if item.error is not None or force or found.is_for_it(item.name):
        return item
    kind = item.name.partition(".")[0]
    return item.failed(
        Refused(
            f"It applies to {kind} groups, and '{found.group}' is a {found.type} group.",
            hint=f"Take {found.counts}.… configs, or --force to set it anyway.",
        )
    )


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
            preview(self._output, before, [_change_row(one) for one in open_])
            self._output.note(WAY_BACK)
            count = counted(len(open_), "config")
            confirm.ask(
                self._session, self._output, question.format(count), self._yes,
                groups={one.group for one in open_},
            )  # fmt: skip
            items = self._changed(items, open_)
        self._report(items)
        if self._dry_run:
            confirm.foretell(self._session, self._output, {one.group for one in open_})

    def _changed(
        self, items: Sequence[ConfigItem], open_: Sequence[ConfigItem]
    ) -> list[ConfigItem]:
        groups = list(dict.fromkeys(one.group for one in open_))
        course = Course(self._session, self._output, len(groups), yes=self._yes)
        with Change(self._session, self._output, undoes=self._undoes) as change:

            def work(part: list[str]) -> list[list[ConfigItem]]:
                """Change some groups; return the items of each."""
                going = [one for one in open_ if one.group in part]
                done = config_plan.apply(self._session, change, going)
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
        rows = [_change_row(one) for one in items]
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


def _change_row(one: ConfigItem) -> dict[str, Any]:
    return build_row(one, CONFIGS_ALTER, old_value=one.old, new_value=one.new)
