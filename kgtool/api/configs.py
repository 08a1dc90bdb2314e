"""Changes of groups' configs: checked by the controller, written down, made, or taken back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.changes.journal.history import changed_configs
from kgtool.changes.journal.journal import ConfigChange, ConfigResult
from kgtool.changes.restore.from_journal import check_config
from kgtool.errors import KgError, UsageError
from kgtool.model import ItemError, Target

if TYPE_CHECKING:
    from kgtool.changes.journal.change import Change
    from kgtool.net.session import Session


def alter(
    session: Session, change: Change, group: str, wanted: Mapping[str, str | None],
    dry_run: bool,
) -> dict[str, ItemError | None]:  # fmt: skip
    """Change configs of one group; None where it is done.

    :raises KgError: the configs that are there can't be read.
    """
    from kgtool.changes.groups.configs import (
        alter_group_configs,
        check_group_configs,
        describe_group_configs,
    )

    cluster = session.cluster
    if not dry_run:
        change.lock([group])
    there = session.run(describe_group_configs(cluster, [group]))[group]
    if isinstance(there, KgError):
        raise there
    unknown = [name for name in wanted if name not in there]
    if unknown:
        raise UsageError(f"There is no config '{unknown[0]}' of groups.")
    done = session.run(check_group_configs(cluster, {group: wanted}))
    if wanted and not (dry_run or any(done[group, name] for name in wanted)):
        images = [ConfigChange(group, name, there[name].own, new) for name, new in wanted.items()]
        had = {name: there[name].own for name in wanted}
        done = session.run(
            alter_group_configs(
                cluster, {group: wanted}, {group: had}, lambda: change.before((), configs=images)
            )
        )
    errors = {name: _failed(group, done[group, name]) for name in wanted}
    change.results(
        ConfigResult(group, name, "failed" if failed else "altered", failed)
        for name, failed in errors.items()
    )
    return errors


def undo(
    session: Session, change: Change, journal: Path, force: bool, dry_run: bool
) -> dict[tuple[str, str], ItemError | None]:
    """Set configs as they were before a change; what somebody has changed since is left alone."""
    from kgtool.changes.groups.configs import describe_group_configs

    changes = changed_configs(journal)
    groups = list({one.group for one in changes})
    if not dry_run:
        change.lock(groups)  # what is compared now is what is changed
    there = session.run(describe_group_configs(session.cluster, groups))
    answers: dict[tuple[str, str], ItemError | None] = {}
    wanted: dict[str, dict[str, str | None]] = {}
    for one in changes:
        now = there[one.group]
        own = None
        try:
            if isinstance(now, KgError):
                raise now
            if one.name not in now:
                raise KgError(f"There is no config '{one.name}' of groups.")
            own = now[one.name].own
            if not force:
                check_config(one, own, "force=True")
        except KgError as error:
            answers[one.group, one.name] = _failed(one.group, error)
            continue
        answers[one.group, one.name] = None
        if own != one.before:
            wanted.setdefault(one.group, {})[one.name] = one.before
    for group, values in wanted.items():
        done = alter(session, change, group, values, dry_run)
        answers.update({(group, name): error for name, error in done.items()})
    return answers


def _failed(group: str, error: KgError | None) -> ItemError | None:
    return None if error is None else ItemError.of(error, Target(group=group))
