"""What ``GroupAdmin`` can find out: nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgtool.api import targets
from kgtool.api.connection import Connected, now_ms
from kgtool.api.targets import Topics
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, GroupDescription, GroupOffsets, Listing, TopicPartition

if TYPE_CHECKING:
    from kgtool.changes.groups.configs import GroupConfig
    from kgtool.queries.cluster.coordinators import Placement
    from kgtool.queries.log.expiry import Expiry
    from kgtool.queries.log.export import Exported


class Looking(Connected):
    """The methods that only look."""

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Listing:
        """Return the groups of all brokers, sorted by name, and the brokers that failed.

        Needs DESCRIBE on the cluster or on the groups (ListGroups; KIP-518, KIP-848).

        :param states: only groups in these states (``"Empty"``, ``"Stable"``, …), in any case.
        :param types: only groups of these types: classic, consumer, share, streams.
        """
        from kgtool.queries.groups.list import list_groups

        wanted = targets.names(states, "states"), targets.names(types, "types")
        return self._run(list_groups(self._cluster, *wanted, complete=True))

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Return type, state, epochs and members of groups of any type, each with its ``error``.

        A group that does not exist has error code 69 (GROUP_ID_NOT_FOUND). Members of share and
        streams groups are there too; a streams member's assignment are its active tasks. Needs
        DESCRIBE on the groups (KIP-848, KIP-932, KIP-1071).
        """
        return self._run(targets.describe(self._cluster, targets.names(groups)))

    def describe_offsets(
        self,
        groups: Iterable[str],
        topics: Topics | None = None,
        *,
        time_lag: bool = False,
        committed: bool = False,
    ) -> dict[str, GroupOffsets]:
        """Return each group's partitions with committed offset, ends of the log and lag.

        The lag is in records, ``lag_ms`` in milliseconds. In share groups the offset is the start
        offset. A group that does not exist has it in ``description.error``.

        :param topics: only these.
        :param time_lag: find the age of the first unread record too (reads one record each).
        :param committed: lag against the last stable offset, which read_committed reads (KIP-98).
        """
        specs = None if topics is None else targets.specs(topics)
        clock = now_ms if time_lag else None
        names = targets.names(groups)
        return self._run(
            targets.offsets(self._cluster, names, specs, committed=committed, clock=clock)
        )

    def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset | KgError]:
        """Return all committed offsets of a group with leader epochs and metadata (KIP-88).

        A group that does not exist has none: Kafka does not tell the two apart. A partition that
        can't be read has its error. Needs DESCRIBE on the group and its topics.

        :raises KgError: the group's offsets can't be read.
        """
        from kgtool.queries.offsets.fetch import fetch_committed

        found = self._run(fetch_committed(self._cluster, [group]))[group]
        if isinstance(found, KgError):
            raise found
        return found

    def expiry(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Expiry]]:
        """Say when each committed offset was written, and when and why it expires (KIP-211).

        ``expires_at_ms`` is the earliest moment at which the broker may remove it; None: never as
        things stand, or unknown where ``rule`` is None too. Groups that do not exist are left out.
        Needs DESCRIBE_CONFIGS on the cluster, and READ on ``__consumer_offsets``.

        :raises KgError: nothing could be found out.
        """
        return self._run(targets.expiries(self._cluster, targets.names(groups), now_ms()))

    def coordinators(self, groups: Iterable[str]) -> dict[str, Placement]:
        """Say where groups live: partition of ``__consumer_offsets``, leader, ISR, coordinator."""
        from kgtool.queries.cluster.coordinators import locate_groups

        found = self._run(locate_groups(self._cluster, targets.names(groups)))
        return {placement.group: placement for placement in found.placements}

    def configs(self, groups: Iterable[str]) -> dict[str, dict[str, GroupConfig] | KgError]:
        """Return the configs of groups with value, default and source (KIP-848).

        Needs DESCRIBE_CONFIGS on the groups, and Kafka ≥ 4.0.
        """
        from kgtool.changes.groups.configs import describe_group_configs

        return self._run(describe_group_configs(self._cluster, targets.names(groups)))

    def export(self, folder: str | Path) -> Exported:
        """Copy ``__consumer_offsets``, byte for byte, into a folder (``kgtool analyze`` reads it).

        ``timeout_ms`` is the longest time without progress. An export that was interrupted is
        finished. Needs READ on ``__consumer_offsets``.

        :raises ConfigError: the folder holds something else.
        """
        from kgtool.queries.log.export import ExportDirectory, export

        directory = ExportDirectory(Path(folder))
        with self._long_session() as session:
            return session.run(export(session.cluster, directory, now_ms()))
