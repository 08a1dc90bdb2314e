"""What an undo restores of a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kgtool.changes.journal.history import (
    JournalEntry,
    changed_groups,
    deleted_topics,
    failed_items,
    hidden_offsets,
    readable_extent,
)
from kgtool.changes.journal.journal import NO_UNDO, RUNNING, SUFFIX, UNDONE, ConfigChange, mark
from kgtool.changes.journal.jsonl import Source
from kgtool.changes.kinds.alter_configs import AlterConfigs, ConfigItem
from kgtool.changes.plan import failed
from kgtool.changes.restore.decide import DesiredGroup, DesiredOffset
from kgtool.errors import KgError, NotDone
from kgtool.model import ItemError, Target
from kgtool.text import counted, listed


class OtherCluster(KgError):
    """The file is about another cluster than the one that is connected."""

    name = "OTHER_CLUSTER"


class OtherValue(KgError):
    """A config has another value than the change to be undone has set."""

    name = "CHANGED_SINCE"


def check(entry: JournalEntry, cluster_id: str | None, *, force: bool = False) -> None:
    """Check that a journal can be undone.

    :raises KgError: it is still being written, was undone already, or is another cluster's.
    """
    if entry.state == RUNNING:
        raise KgError(
            f"The journal {entry.id} is still being written: process "
            f"{entry.header.get('pid')} is at work.",
            hint="Wait until it has ended.",
        )
    no_undo = NO_UNDO.get(entry.command)
    if no_undo is not None and no_undo.refused:
        raise KgError(f"The journal {entry.id} {no_undo.refused}", hint=no_undo.hint)
    if force:
        return
    if entry.state == UNDONE:
        raise KgError(
            f"The journal {entry.id} was undone already.", hint="--force repeats the undo."
        )
    check_cluster(entry.path, entry.cluster_id, cluster_id)


def check_cluster(
    path: Source, then: str | None, now: str | None, way_on: str = "--force goes on anyway"
) -> None:
    """Check the cluster of a file.

    :param way_on: the hint if this is the right cluster after all.
    :raises OtherCluster: the file is about another cluster.
    """
    if then != now:
        raise OtherCluster(
            f"{path} is about the cluster {then}, but this is the cluster {now}.",
            hint=f"Check --bootstrap-server; {way_on}.",
        )


def desired_groups(path: Source) -> Iterator[DesiredGroup]:
    """Read the offsets before the change; what the broker refused was never changed."""
    answers = failed_items(path)
    for recorded in changed_groups(path):
        image = recorded.image
        if image.group in answers.groups:
            continue
        yield DesiredGroup(
            image.group,
            {
                partition: DesiredOffset(
                    image.offsets[partition], after, or_nothing=recorded.deletes_group
                )
                for partition, after in recorded.after.items()
                if (image.group, *partition) not in answers.offsets
            },
            image,
        )


def not_covered(path: Source) -> tuple[list[str], ItemError | None]:
    """Return warnings of what undo can't restore: hidden offsets, a damaged journal.

    The error: changes are lost with the rest of the journal.
    """
    found = list(hidden_offsets(path))
    said = [
        f"Warning: group '{group}' also had {counted(count, 'offset')} of topic {topic} that the "
        "login could not see: not in the journal."
        for group, topics in found
        for topic, count in (topics or {}).items()
    ]
    blind = [group for group, topics in found if topics is None]
    if blind:
        more = f" and {counted(len(blind) - 1, 'more group')}" if blind[1:] else ""
        said.append(
            f"Warning: '{blind[0]}'{more} may have had offsets that the login could not see: "
            "those would not be in the journal."
        )
    if topics := deleted_topics(path):
        names = listed(topics, 5, " and {} more")
        said.append(f"Warning: the internal topics {names} were deleted: they do not come back.")
    torn = readable_extent(path)
    if torn.damage is not None and torn.is_lost:
        return said, ItemError.of(torn.damage, Target())
    if torn.damage is not None:
        said.append(f"Warning: {torn.damage.message} {torn.damage.hint}")
    return said, None


def earlier_configs(
    changes: Sequence[ConfigChange],
    *,
    force: bool,
    option: str = "--force",
    only: Mapping[tuple[Any, ...], tuple[Any, Any]] | None = None,
) -> AlterConfigs:
    """Return the change to the configs of before, unless they were changed since.

    :param option: the name of ``force`` in the hint.
    :param only: change these only, from the value and to the value that are given.
    """
    known = {(change.group, change.name): change for change in changes}

    def judge(item: ConfigItem) -> ConfigItem:
        change = known[item.key]
        if only is not None and only.get(item.key) != (item.old, item.new):
            return failed(item, NotDone())
        if force or item.old in (change.before, change.after):
            return item
        now = "nothing is set" if item.old is None else f"it is {item.old}"
        hint = f"{option} sets it anyway."
        return failed(item, OtherValue(f"Another client has changed it since: {now}.", hint=hint))

    wanted: dict[str, dict[str, str | None]] = {}
    for change in changes:
        wanted.setdefault(change.group, {})[change.name] = change.before
    return AlterConfigs(wanted, judge)


def mark_undone(
    entry: JournalEntry, by: str | None, at_ms: int, say: Callable[[str], None]
) -> None:
    """Mark a journal as undone; and the one that it had undone itself as redone.

    :param say: called with a note if the journal can't be written.
    """
    try:
        mark(entry.path, "undone", by, at_ms)
        if entry.undoes is not None:
            original = entry.path.with_name(f"{entry.undoes}{SUFFIX}")
            if original.exists():
                mark(original, "redone", by, at_ms)
    except OSError as error:
        say(f"Note: {entry.path} can't be marked as undone: {error.strerror}.")
