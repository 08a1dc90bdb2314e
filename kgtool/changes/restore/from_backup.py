"""What a restore takes from a backup: which offsets, under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kgtool.changes.restore.backup import Backup
from kgtool.changes.restore.decide import DesiredGroup, DesiredOffset
from kgtool.errors import UsageError
from kgtool.model import TopicPartition


class BackupSelection(NamedTuple):
    """The groups and partitions of a backup to restore, by their names in the file.

    :param group_names: new names of groups; the others keep theirs.
    :param topic_names: new names of topics.
    :param is_other_cluster: topic ids of one cluster mean nothing on another.
    """

    group: Callable[[str], bool]
    partition: Callable[[TopicPartition], bool]
    group_names: Mapping[str, str] = {}
    topic_names: Mapping[str, str] = {}
    is_other_cluster: bool = False


def desired_groups(backup: Backup, selecting: BackupSelection) -> Iterator[DesiredGroup]:
    """Read the groups to restore.

    :raises UsageError: two topics of a group would get the same name.
    """
    for recorded in backup.groups():
        image = recorded.image
        if not selecting.group(image.group):
            continue
        found: dict[TopicPartition, DesiredOffset] = {}
        for partition, then in image.offsets.items():
            if then.committed is None or not selecting.partition(partition):
                continue
            name = selecting.topic_names.get(partition.topic, partition.topic)
            target = TopicPartition(name, partition.partition)
            if target in found:
                raise UsageError(
                    f"Group '{image.group}' has offsets of two topics that would both be "
                    f"'{name}' (--map-topic)."
                )
            if name != partition.topic or selecting.is_other_cluster:
                # Leader epochs mean something in their own topic only.
                committed = then.committed._replace(leader_epoch=None)
                then = then._replace(topic_id=None, committed=committed)
            found[target] = DesiredOffset(then, any_left=True)
        yield DesiredGroup(selecting.group_names.get(image.group, image.group), found, image)


def mapping(pairs: Collection[str], option: str) -> dict[str, str]:
    """Parse ``OLD=NEW`` arguments; an old name can't have ``=`` in it.

    :raises UsageError: something else, or an old name that appears twice.
    """
    names: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old or not new:
            raise UsageError(f"--{option} takes OLD=NEW, not '{pair}'.")
        if old in names:
            raise UsageError(f"--{option} has two new names for '{old}'.")
        names[old] = new
    return names
