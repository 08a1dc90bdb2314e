"""Changes of groups' configs: compare with the current values, check, apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from kgtool.changes.groups.configs import (
    Configs,
    ConfigValues,
    Outcomes,
    change_agreed_configs,
    check_group_configs,
)
from kgtool.changes.journal.change import Change
from kgtool.changes.journal.journal import ConfigChange
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation, grouped
from kgtool.errors import KgError
from kgtool.model import ItemError, Target

PENDING = "would-alter"


class Refused(KgError):
    """A config that kgtool itself refuses."""

    name = "INVALID_CONFIG"


class ConfigItem(NamedTuple):
    """One config of one group; the value None means "not set at the group".

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
        """Group and name."""
        return self.group, self.name

    @property
    def is_open(self) -> bool:
        """Whether it is to be changed."""
        return self.status == PENDING

    def failed(self, error: KgError) -> ConfigItem:
        """Return the item with its error."""
        failure = ItemError.of(error, Target(group=self.group))
        return self._replace(status=failure.status, error=failure)

    def done(self, outcomes: Outcomes, good: str) -> ConfigItem:
        """Return the item with its outcome, if there is one."""
        if not self.is_open or self.key not in outcomes:
            return self
        answer = outcomes[self.key]
        return self._replace(status=good) if answer is None else self.failed(answer)


def compare(group: str, name: str, configs: Configs | KgError, new: str | None) -> ConfigItem:
    """Compare a new value with the current one."""
    if isinstance(configs, KgError):
        return ConfigItem(group, name, None, new).failed(configs)
    old = configs[name].own if name in configs else None
    found = ConfigItem(group, name, old, new)
    if name not in configs:
        near = get_close_matches(name, configs, n=1)
        hint = f"Did you mean {near[0]}?" if near else "kgtool configs --all shows what there is."
        return found.failed(Refused(f"There is no group config '{name}'.", hint=hint))
    return found._replace(status="unchanged") if old == new else found


def check(cluster: Cluster, items: Sequence[ConfigItem]) -> Operation[list[ConfigItem]]:
    """Let the controller check the open items."""
    wanted = _wanted(items, "new")
    outcomes = (yield from check_group_configs(cluster, wanted)) if wanted else {}
    return [item.done(outcomes, PENDING) for item in items]


def apply(session: Any, change: Change, items: Sequence[ConfigItem]) -> list[ConfigItem]:
    """Change open items whose value has not changed since; ``change`` has locked the groups."""
    going = {item.key: item for item in items if item.is_open}
    if not going:
        return list(items)
    written: set[tuple[str, str]] = set()

    def before(sent: ConfigValues) -> None:
        keys = [(group, name) for group in sent for name in sent[group]]
        written.update(keys)
        change.before((), configs=[ConfigChange(*going[key][:4]) for key in keys])

    wanted, agreed = _wanted(items, "new"), _wanted(items, "old")
    outcomes = session.run(change_agreed_configs(session.cluster, wanted, agreed, before))
    done = [item.done(outcomes, "altered") for item in items]
    change.results(item for item in done if item.key in written)
    return done


def _wanted(items: Sequence[ConfigItem], field: str) -> Mapping[str, Mapping[str, str | None]]:
    values = grouped((i.group, (i.name, getattr(i, field))) for i in items if i.is_open)
    return {group: dict(some) for group, some in values.items()}
