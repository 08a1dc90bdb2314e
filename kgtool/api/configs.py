"""Changes of groups' configs: checked by the controller, written down, made, or taken back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.api import targets
from kgtool.api.connection import Recorder
from kgtool.changes.journal.history import changed_configs
from kgtool.changes.restore.from_journal import check_config
from kgtool.errors import KgError
from kgtool.model import ItemError, Target

if TYPE_CHECKING:
    from kgtool.net.session import Session


def alter(
    session: Session, recorder: Recorder, group: str, changes: Mapping[str, str | None],
    dry_run: bool,
) -> dict[str, ItemError | None]:  # fmt: skip
    """Change configs of one group; None where it is done.

    :raises KgError: the configs that are there can't be read.
    """
    if not dry_run:
        recorder.lock([group])
    before = None if dry_run else recorder.before_configs
    done = session.run(targets.alter(session.cluster, group, changes, before))
    errors = {name: _failed(group, error) for name, error in done.items()}
    recorder.config_results(
        (group, name, "failed" if failed else "altered", failed) for name, failed in errors.items()
    )
    return errors


def undo(
    session: Session, recorder: Recorder, journal: Path, force: bool, dry_run: bool
) -> dict[tuple[str, str], ItemError | None]:
    """Set configs as they were before a change; what somebody has changed since is left alone."""
    from kgtool.changes.groups.configs import describe_group_configs

    changes = changed_configs(journal)
    groups = list({change.group for change in changes})
    if not dry_run:
        recorder.lock(groups)  # what is compared now is what is changed
    there = session.run(describe_group_configs(session.cluster, groups))
    answers: dict[tuple[str, str], ItemError | None] = {}
    wanted: dict[str, dict[str, str | None]] = {}
    for change in changes:
        now = there[change.group]
        own = None
        try:
            if isinstance(now, KgError):
                raise now
            if change.name not in now:
                raise KgError(f"There is no config '{change.name}' of groups.")
            own = now[change.name].own
            if not force:
                check_config(change, own, "force=True")
        except KgError as error:
            answers[change.group, change.name] = _failed(change.group, error)
            continue
        answers[change.group, change.name] = None
        if own != change.before:
            wanted.setdefault(change.group, {})[change.name] = change.before
    for group, values in wanted.items():
        done = alter(session, recorder, group, values, dry_run)
        answers.update({(group, name): error for name, error in done.items()})
    return answers


def _failed(group: str, error: KgError | None) -> ItemError | None:
    return None if error is None else ItemError.of(error, Target(group=group))
