"""``kgtool configs``: show and change the configs of single groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from kgtool.changes.groups.configs import (
    Configs,
    config_type,
    describe_group_configs,
    find_configured_groups,
)
from kgtool.changes.kinds.alter_configs import AlterConfigs, ConfigItem, GroupConfigs, Refused
from kgtool.changes.plan import failed, open_rows
from kgtool.cli.change import confirm
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, flag, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import name_options, open_session, positions
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import preview, show_table
from kgtool.client.ops import READING_SHARE, within
from kgtool.columns import Row, shown
from kgtool.columns.changes import CONFIGS, CONFIGS_ALTER
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.net.session import Session
from kgtool.queries.groups.describe import describe_with_type
from kgtool.text import counted, escape, listed, shell_word

UNDO_NOTE_CONFIGS = "The current values are saved in the journal first: kgtool undo restores them."
_COMMA = re.compile(r",(?=[^\]]*(?:\[|$))")
"""A comma outside of brackets, as in ``ConfigCommand.parseConfigsToBeAdded``."""

_VERBS = ("set", "unset", "get", "describe", "show", "alter", "delete")
_SETTING = re.compile(r"[a-z]+(\.[a-z]+)+=")


def _check_words(words: Sequence[str]) -> None:
    """Raise UsageError for ``set GROUP K=V``: a group need not exist, so these would be groups."""
    verb = words[0] if words and words[0] in _VERBS else None
    settings = [word for word in words if _SETTING.match(word)]
    if verb is None and not settings:
        return
    groups = [word for word in words if word != verb and word not in settings] or ["GROUP"]
    line = ["kgtool", "configs", *groups]
    for setting in settings:
        line += ["--alter", "--add-config", setting]
    what, spelled = verb or settings[0], " ".join(map(shell_word, line))
    raise UsageError(f"'{what}' is not a group (or is it --group {shell_word(what)}?): {spelled}")


@declare(
    "configs",
    "kgtool configs --group billing",
    "kgtool configs --group billing --alter --add-config consumer.session.timeout.ms=60000",
    "kgtool configs --match 'team-a-*' --alter --delete-config consumer.session.timeout.ms "
    "--dry-run",
)
@name_options
@partial(positions, check=_check_words)
@flag("--describe", "Show the configs (default).")
@flag("--all all_", "Also configs that apply to groups of other types.")
@flag("--alter", "Change configs: --add-config, --delete-config.")
@repeatable(
    "--add-config add", "K=V,...", "Set configs; repeatable. [a,b] is a value with a comma."
)
@repeatable(
    "--delete-config delete",
    "K,...",
    "Unset configs, so that the broker's value applies; repeatable.",
)
@flag("--force", "Also configs that apply to groups of other types.")
@change_options()
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    all_: bool,
    alter: bool,
    force: bool,
    change: ChangeOptions,
    describe: bool,
    add: Sequence[str],
    delete: Sequence[str],
) -> None:
    """Show and change the configs of single groups (KIP-848).

    VALUE is in effect, DEFAULT would be if nothing were set for the group, SOURCE is where the
    value comes from: group, or the broker. Classic groups have none: what is set there applies
    once they are converted. A group need not exist: --all-groups, --match and --regex show those
    that have configs too (KIP-1142, Kafka 4.1).

    Changes are checked by the controller before anything is changed, and kept in the journal:
    kgtool undo takes them back. They need Kafka ≥ 4.0, and the ACL operations DESCRIBE_CONFIGS
    and ALTER_CONFIGS on the group.
    """
    selection.check("configs")
    if describe and alter:
        raise UsageError("Give --describe or --alter, not both.")
    changes = _changes(add, delete)
    _check(changes, change, alter=alter)
    with open_session(settings) as session:
        columns = CONFIGS_ALTER if alter else CONFIGS
        groups = choose(session, output, selection, columns).groups
        if not alter:
            groups += _others(session, output, selection, groups)
        found = []
        if groups:
            configs = session.run(describe_group_configs(session.cluster, groups))
            # A coordinator that doesn't answer must leave time for the change.
            described = within(describe_with_type(session.cluster, groups), READING_SHARE)
            found = [_GroupConfigs(one, configs[one.group]) for one in session.run(described)]
        if alter:
            _say_classic(output, found)
            types = {one.group: one for one in found}
            kind = AlterConfigs(
                dict.fromkeys(groups, changes),
                lambda item: _checked(types[item.group], item, force),
            )
            ConfigRun(session, output, kind, groups, change).run()
        else:
            _show(output, found, all_)


def _others(
    session: Session, output: Output, selection: Selection, groups: Sequence[str]
) -> list[str]:
    """Return the groups that have configs and were not listed: of other types, or not there."""
    if not (selection.all_groups or selection.match or selection.regex is not None):
        return []
    found = session.run(find_configured_groups(session.cluster))
    if isinstance(found, KgError):
        output.note(f"Note: groups that do not exist are not shown. {found.message} {found.hint}")
        return []
    test = selection.predicate()
    return [name for name in found if name not in groups and test(name)]


def _check(changes: dict[str, str | None], change: ChangeOptions, *, alter: bool) -> None:
    """Raise UsageError: options contradict each other, or there is no terminal to ask on."""
    if not alter and (changes or change.dry_run):
        raise UsageError("--add-config, --delete-config and --dry-run go with --alter.")
    if alter and not changes:
        raise UsageError("--alter takes --add-config K=V or --delete-config K.")
    if alter:
        confirm.require(change)


def _changes(add: Iterable[str], delete: Iterable[str]) -> dict[str, str | None]:
    """Read ``k=v,k2=[a,b]`` as ``kafka-configs.sh`` does; None deletes a config."""
    changes: dict[str, str | None] = {}

    def put(name: str, value: str | None) -> None:
        if name in changes:
            raise UsageError(f"{name} appears twice.")
        changes[name] = value

    for part in filter(str.strip, (part for text in add for part in _COMMA.split(text))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--add-config takes NAME=VALUE, not '{part}'.")
        put(name.strip(), value.strip().removeprefix("[").removesuffix("]"))
    for name in filter(None, (part.strip() for text in delete for part in text.split(","))):
        put(name, None)
    return changes


class _GroupConfigs(NamedTuple):
    """A group and its configs."""

    description: GroupDescription
    configs: Configs | KgError

    @property
    def group(self) -> str:
        return self.description.group

    @property
    def type(self) -> str | None:
        """The group's type; None if there is no such group, or it is unknown."""
        return None if self.description.error is not None else self.description.type

    @property
    def is_missing(self) -> bool:
        """Whether its coordinator says that there is no such group."""
        error = self.description.error
        return error is not None and error.name == "GROUP_ID_NOT_FOUND"

    @property
    def config_type(self) -> str | None:
        """The type of group whose configs apply to it."""
        return "consumer" if self.type == "classic" else self.type

    def applies(self, name: str) -> bool:
        """Whether a config applies to the group, or may."""
        kind = config_type(name)
        return self.type is None or kind is None or kind == self.config_type


def _say_classic(output: Output, found: Iterable[_GroupConfigs]) -> None:
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


def _show(output: Output, found: Sequence[_GroupConfigs], all_: bool) -> None:
    rows: list[Row] = []
    for one in found:
        if isinstance(one.configs, KgError):
            output.failed(ItemError.of(one.configs, Target(group=one.group)))
            continue
        if one.description.error is not None and not one.is_missing:
            # Its configs are known, but not which of them apply to it.
            output.failed(one.description.error)
        output.done += 1
        configs = sorted(one.configs.values(), key=lambda config: config.name)
        some = [build_row(c, CONFIGS) for c in configs if all_ or one.applies(c.name)]
        rows += some
        for row in some:
            output.row(row)
    _say_classic(output, [one for one in found if not isinstance(one.configs, KgError)])
    show_table(output, shown(CONFIGS), rows, page=True)


# -- alter ------------------------------------------------------------------------------------


def _checked(found: _GroupConfigs, item: ConfigItem, force: bool) -> ConfigItem:
    """Refuse a config that would never apply to the group."""
    if item.error is not None or force or found.applies(item.name):
        return item
    return failed(
        item,
        Refused(
            f"It applies to {config_type(item.name)} groups, and '{found.group}' is a "
            f"{found.type} group.",
            hint=f"Take {found.config_type}.… configs, or --force to set it anyway.",
        ),
    )


class ConfigRun(ChangeRun[GroupConfigs]):
    """A change of configs: what it shows of the plan, and its rows."""

    doing = "Changing"
    has_failed = False

    def show(self, wave: list[GroupConfigs]) -> None:
        """Show the configs that would be changed."""
        rows = list(map(_change_row, open_rows(*wave)))
        if rows and not self.options.dry_run:
            self.output.note_once("Configs to change:")
            columns = shown(CONFIGS_ALTER, "group name old_value new_value")
            preview(self.output, columns, rows)

    def show_plan(self) -> None:
        """Say that undo takes it back."""
        self.output.note(UNDO_NOTE_CONFIGS)

    def question(self) -> str:
        """Return the question."""
        verb = "Change" if self.undoes is None else "Restore"
        return f"{verb} {counted(self.plan.offsets, 'config')}?"

    def report(self, wave: list[GroupConfigs]) -> None:
        """Report the outcome of a wave."""
        items = [item for group in wave for item in group.rows]
        rows = [_change_row(item) for item in items]
        show_table(self.output, shown(CONFIGS_ALTER), rows)
        for item, row in zip(items, rows, strict=True):
            error = item.error
            if error is not None:
                self.has_failed = True
                said = f"{item.name} of group '{item.group}': {error.message}"
                error = error._replace(message=said)
            self.output.item(row, error)

    def finish(self, *, is_whole: bool = True) -> None:
        """Say that a dry run is one."""
        if self.options.dry_run and self.plan.groups:
            self.output.note("Dry run: nothing was changed.")


def _change_row(item: ConfigItem) -> Row:
    return build_row(item, CONFIGS_ALTER, old_value=item.old, new_value=item.new)
