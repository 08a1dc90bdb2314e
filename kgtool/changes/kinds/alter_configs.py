"""Changing the configs of groups: the requests are ``kgtool.changes.groups.configs``'s."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.groups.configs import (
    Configs,
    ConfigValues,
    Outcomes,
    change_agreed_configs,
    changed_since,
    check_group_configs,
    describe_group_configs,
)
from kgtool.changes.journal.journal import ConfigChange
from kgtool.changes.plan import each_open, failed, open_rows
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import ItemError

PENDING = "would-alter"


class Refused(KgError):
    """A config that kgtool itself refuses."""

    name = "INVALID_CONFIG"


class ConfigItem(NamedTuple):
    """One config of one group; the value None means "not set at the group".

    ``status``: would-alter, altered, unchanged, changed-meanwhile, unknown, failed or skipped.
    """

    group: str
    name: str
    old: str | None
    new: str | None
    status: str = PENDING
    error: ItemError | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Group and name."""
        return self.group, self.name

    @property
    def is_open(self) -> bool:
        """Whether it is to be changed."""
        return self.status == PENDING


class GroupConfigs(NamedTuple):
    """One group, with the configs that are to change."""

    group: str
    rows: list[ConfigItem]
    error: ItemError | None = None


class AlterConfigs(NamedTuple):
    """Sets configs of groups to the ``wanted`` values, which the controller checks first.

    ``judge`` returns an item that would be changed, or refuses it.
    """

    wanted: ConfigValues
    judge: Callable[[ConfigItem], ConfigItem] = lambda item: item

    def weigh(self, group: GroupConfigs) -> int:
        """Return how many configs are to change."""
        return len(group.rows)

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[GroupConfigs]]:
        """Compare the values, and let the controller check them."""
        now = yield from describe_group_configs(cluster, groups)
        plan = []
        for group in groups:
            items = [
                _compare(group, n, now[group], value) for n, value in self.wanted[group].items()
            ]
            plan.append(each_open(GroupConfigs(group, items), self.judge))
        wanted = _values(plan, "new")
        outcomes = (yield from check_group_configs(cluster, wanted)) if wanted else {}
        return [_judged(group, outcomes, PENDING) for group in plan]

    def look_again(
        self, cluster: Cluster, plan: Sequence[GroupConfigs]
    ) -> Operation[list[GroupConfigs]]:
        """Find the values that have changed since."""
        agreed = _values(plan, "old")
        outcomes = (yield from changed_since(cluster, agreed)) if agreed else {}
        return [_judged(group, outcomes, PENDING) for group in plan]

    def before(self, cluster: Cluster, going: Sequence[GroupConfigs]) -> Operation[Before]:
        """Return the values before and after."""
        yield from ()
        return Before(configs=[ConfigChange(*item[:4]) for item in open_rows(*going)])

    def send(
        self, cluster: Cluster, going: Sequence[GroupConfigs]
    ) -> Operation[list[GroupConfigs]]:
        """Set the values, and wait until they are seen."""
        changing = change_agreed_configs(cluster, _values(going, "new"), _values(going, "old"))
        outcomes = yield from changing
        return [_judged(group, outcomes, "altered") for group in going]


def _compare(group: str, name: str, configs: Configs | KgError, new: str | None) -> ConfigItem:
    """Compare a new value with the current one."""
    if isinstance(configs, KgError):
        return failed(ConfigItem(group, name, None, new), configs)
    old = configs[name].own if name in configs else None
    found = ConfigItem(group, name, old, new)
    if name not in configs:
        near = get_close_matches(name, configs, n=1)
        hint = f"Did you mean {near[0]}?" if near else "kgtool configs --all shows what there is."
        return failed(found, Refused(f"There is no group config '{name}'.", hint=hint))
    return found._replace(status="unchanged") if old == new else found


def _judged(group: GroupConfigs, outcomes: Outcomes, good: str) -> GroupConfigs:
    """Return a group with the outcomes of its open items."""

    def judged(item: ConfigItem) -> ConfigItem:
        error = outcomes.get(item.key)
        return item._replace(status=good) if error is None else failed(item, error)

    return each_open(group, judged)


def _values(groups: Sequence[GroupConfigs], field: str) -> Mapping[str, Mapping[str, str | None]]:
    """Return a value of each open item, by group and name."""
    some = {g.group: {i.name: getattr(i, field) for i in open_rows(g)} for g in groups}
    return {group: values for group, values in some.items() if values}
